//! Where the rows of a block go: places, LSEs, output rows.

use crate::call::index::{QueryHead, TensorToken};
use crate::call::rows::Block;
use crate::call::sequence::element;
use crate::call::task::{OpenTile, Params};
use crate::math::softmax::RowResult;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedTile};

/// Rows a warp writes at a time: eight lanes of 16 bytes per line.
const ROWS_AT_ONCE: u32 = 4;

/// One row's place.
pub struct RowPlace {
    /// Whether the row is a query.
    pub live: Reg<bool>,
    /// Token in the view.
    pub token: TensorToken,
    /// Query head.
    pub head: QueryHead,
}

/// Writes the results of one row block.
pub struct BlockOutput<'a> {
    pub params: &'a Params,
    pub open: &'a OpenTile,
    pub block: &'a Block,
}

impl BlockOutput<'_> {
    /// Columns of a whole value row.
    pub fn value_dim(&self) -> u32 {
        self.params.value_dim
    }

    /// The place of row `row` of the block.
    #[track_caller]
    pub fn place(&self, b: &mut Builder, row: Reg<u32>) -> RowPlace {
        let tiling = &self.params.tiling;
        let (token, head) = self.block.query(b, row);
        let used = b.setp(Cmp::Lt, row, tiling.packing.used());
        let within = b.setp(Cmp::Lt, token.reg(), self.open.sequence.q_len);
        let live = b.and(used, within);
        let token = TensorToken::new(b.eval(token.reg() + self.open.sequence.q_start));
        let head = QueryHead::of(b, self.open.tile.kv_head, tiling.group, head);
        RowPlace { live, token, head }
    }

    /// Loads the sink of a row, where there are sinks.
    #[track_caller]
    pub fn sink(&self, b: &mut Builder, place: &RowPlace) -> Option<Reg<f32>> {
        self.params.sinks.map(|sinks| {
            let logit = b.value::<f32>(0.0);
            b.if_(place.live, |b| {
                let at = element(b, sinks, place.head.reg());
                let loaded = b.ld_global::<f32>(at);
                b.assign(logit, loaded);
            });
            logit
        })
    }

    /// Denominator and LSE of a row whose sum is complete; what the sum is relative to instead of the LSE where both
    /// are handed on.
    #[track_caller]
    pub fn finish_row(
        &self,
        b: &mut Builder,
        place: &RowPlace,
        max: Reg<f32>,
        sum: Reg<f32>,
    ) -> RowResult {
        let sink = self.sink(b, place);
        self.finish_with(b, max, sum, sink)
    }

    /// The same with a sink that was loaded before.
    #[track_caller]
    pub fn finish_with(
        &self,
        b: &mut Builder,
        max: Reg<f32>,
        sum: Reg<f32>,
        sink: Option<Reg<f32>>,
    ) -> RowResult {
        let softmax = &self.params.softmax;
        let result = softmax.finish(b, max, sum, sink);
        match self.params.output.sums {
            None => result,
            Some(_) => RowResult { lse: softmax.reference(b, max), ..result },
        }
    }

    /// A row's factor, times that on the values of its keys where there is one. A row without keys stays 0.
    #[track_caller]
    pub fn descaled(&self, b: &mut Builder, inverse: Reg<f32>) -> Reg<f32> {
        let [_, Some(factors)] = self.params.keys().descales else { return inverse };
        let factor = factors.load(b, self.open.tile.sequence, self.open.tile.kv_head);
        let product = b.mul(inverse, factor);
        let empty = b.setp(Cmp::Eq, inverse, 0.0);
        b.select::<f32>(empty, 0.0, product)
    }

    /// The row's number in `[part, batch, head, token]`.
    #[track_caller]
    fn row_number(&self, b: &mut Builder, place: &RowPlace) -> Reg<u32> {
        let output = &self.params.output;
        let batch = self.open.sequence.q_batch.reg();
        let head = batch * output.heads + place.head.reg();
        let row = b.eval(head * output.tokens + place.token.reg());
        match output.rows_per_part {
            Some(rows) => b.eval(self.open.tile.split.reg() * rows + row),
            None => row,
        }
    }

    /// Writes a row's LSE, in threads where `writes` holds and the row is a query.
    #[track_caller]
    pub fn write_lse(
        &self,
        b: &mut Builder,
        place: &RowPlace,
        result: &RowResult,
        writes: Option<Reg<bool>>,
    ) {
        let Some(lse) = self.params.output.lse else { return };
        let mut writes = writes.map_or(place.live, |p| b.and(p, place.live));
        if let Some(slice) = self.open.slice {
            let first = b.setp(Cmp::Eq, slice.reg(), 0);
            writes = b.and(writes, first);
        }
        b.if_(writes, |b| {
            let row = self.row_number(b, place);
            let at = element(b, lse, row);
            b.st_global(at, result.lse);
            if let Some(sums) = self.params.output.sums {
                let at = element(b, sums, row);
                b.st_global(at, result.sum);
            }
        });
    }

    /// Address of a row of partial results, `column` bytes in.
    #[track_caller]
    pub fn partial_row(
        &self,
        b: &mut Builder,
        place: &RowPlace,
        partial: GlobalPtr,
        column: Reg<u64>,
    ) -> GlobalPtr {
        let row = self.row_number(b, place);
        b.global_add(partial, row.widening_mul(self.value_dim() * 4) + column)
    }

    /// Address of a row of the output, `column` bytes in.
    #[track_caller]
    pub fn output_row(&self, b: &mut Builder, place: &RowPlace, column: Reg<u64>) -> GlobalPtr {
        let (out, [batch, head, token]) =
            self.params.output.rows.expect("an output that is not partial");
        let mut at = column;
        let place = [self.open.sequence.q_batch.reg(), place.head.reg(), place.token.reg()];
        for (index, stride) in place.into_iter().zip([batch, head, token]) {
            let index = b.widen(index);
            at = b.eval(index * stride + at);
        }
        b.global_add(out, at)
    }

    /// Writes `columns` columns (a multiple of 8, 64 at most) of a warp's `rows` rows that it staged
    /// in a panel with the 128-byte swizzle: 16 bytes per lane, whole lines. `first` is the warp's
    /// first row, `column` the byte in the output row of the first staged column.
    #[track_caller]
    pub fn write_staged(
        &self,
        b: &mut Builder,
        staging: SharedTile,
        first: Reg<u32>,
        rows: u32,
        columns: u32,
        column: Reg<u32>,
    ) {
        let lane = b.special("%laneid");
        let vector = b.eval(lane % 8);
        let first = b.eval(first + lane / 8);
        let column = b.eval(vector * 16 + column);
        let covered = (columns < 64).then(|| b.setp(Cmp::Lt, vector, columns / 8));
        for step in 0..rows / ROWS_AT_ONCE {
            let row = b.eval(first + step * ROWS_AT_ONCE);
            let place = self.place(b, row);
            let from = staging.row(b, row).from_vector(b, vector).vector(b, 0);
            let copies = covered.map_or(place.live, |covered| b.and(place.live, covered));
            b.if_(copies, |b| {
                let column = b.widen(column);
                let to = self.output_row(b, &place, column);
                let values = b.ld_shared_vector::<u32>(from, 4);
                b.st_global_vector(to, &values);
            });
        }
    }
}
