//! The end of a row block: normalise, write LSE and output.
//!
//! A thread holds a whole row, so neighbouring lanes write different rows. Output goes through shared
//! memory, 64 columns at a time: each warp stores its 32 rows with the swizzle, reads them back 16
//! bytes per lane, and writes whole 128-byte lines. Only the warp itself touches these rows, so no
//! barrier is needed. Partial results are f32 and go straight to memory. Rows that are not finite but should be
//! are computed again at the end of the kernel ([`crate::math::exact`]).

use super::config::{ELEMENT_BITS, ROWS};
use super::operand::VECTOR;
use super::rows::RowThread;
use crate::math::exact::{Again, Finite};
use crate::math::softmax::{RowResult, RowState};
use crate::moves::output::{BlockOutput, RowPlace};
use layout::hw::{Major, SmemSwizzle, SmemTile};
use ptx::build::{Builder, GlobalPtr, Reg, RowVectors, SharedTile, SmemPtr, TmemPtr};
use std::ops::Range;

/// Columns staged at a time.
const PANEL: u32 = 64;
/// Rows of a warp.
const WARP_ROWS: u32 = 32;

/// A run of columns of a row of `O`.
#[derive(Clone, Copy)]
pub struct Run {
    /// The first one in tensor memory, `None` in a tile without keys: zeros.
    pub accumulated: Option<TmemPtr>,
    /// The first one in the output row.
    pub column: Reg<u32>,
    /// How many there are.
    pub columns: u32,
    /// How many of them a thread reads at a time, a divisor of [`PANEL`].
    pub at_once: u32,
    /// Where the rows of the block may be staged, a panel of 64 columns at a time.
    pub staging: SmemPtr,
}

impl Run {
    /// First column and number of columns of each load of `columns` columns.
    fn loads(&self, columns: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let at_once = self.at_once;
        debug_assert!(PANEL.is_multiple_of(at_once), "a panel is whole loads");
        (0..columns)
            .step_by(at_once as usize)
            .map(move |first| (first, at_once.min(columns - first)))
    }
}

/// Completes a row and writes its LSE, in threads where `writes` holds.
pub fn finish(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    state: &RowState,
    writes: Option<Reg<bool>>,
) -> (RowPlace, RowResult) {
    let place = output.place(b, thread.row);
    let result = output.finish_row(b, &place, state.max, state.sum);
    output.write_lse(b, &place, &result, writes);
    (place, result)
}

/// Writes a run of columns of a finished row. Before the staging memory is used again the warp must
/// be synchronised.
pub fn write(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    (place, result): &(RowPlace, RowResult),
    run: &Run,
) {
    let Some(at) = run.accumulated else {
        return write_zeros(b, output, place, run);
    };
    let finite = thread.watch.finite(b);
    match output.params.output.partial {
        Some(rows) => write_partial(b, thread, output, place, (result, &finite), run, at, rows),
        None => {
            for panel in (0..run.columns).step_by(PANEL as usize) {
                let columns = (run.columns - panel).min(PANEL);
                if panel > 0 {
                    b.warp_sync();
                }
                stage(b, thread, (result, &finite), at, run, panel..panel + columns);
                b.warp_sync();
                let byte = b.eval((run.column + panel) << 1);
                let first = thread.first_row;
                let staged = SharedTile::new(run.staging, staging_tile());
                output.write_staged(b, staged, first, WARP_ROWS, columns, byte);
            }
        }
    }
    thread.watch.note(b, &finite);
}

/// Computes the warp's rows again that were written and are not finite but should be: `columns` columns from `column`
/// on.
pub fn write_again(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    column: Reg<u32>,
    columns: u32,
) {
    Again { output, column, columns }.rows(b, thread.first_row, WARP_ROWS);
}

/// `columns` columns of the row from `at` on, normalised.
fn load_some(
    b: &mut Builder,
    thread: &RowThread<'_>,
    (result, finite): (&RowResult, &Finite),
    at: TmemPtr,
    columns: u32,
) -> Vec<Reg<f32>> {
    let mut values = thread.load(b, at, columns.next_multiple_of(16));
    values.truncate(columns as usize);
    for &value in &values {
        b.scale(value, result.inverse);
    }
    finite.look(b, &values);
    values
}

/// Stores `columns` of the run, up to a panel of them, in the staging memory.
fn stage(
    b: &mut Builder,
    thread: &RowThread<'_>,
    finished: (&RowResult, &Finite),
    at: TmemPtr,
    run: &Run,
    columns: Range<u32>,
) {
    let vectors = RowVectors::new(b, staging_tile(), run.staging, thread.row);
    let at = at.columns(columns.start);
    for (first, some) in run.loads(columns.end - columns.start) {
        let values = load_some(b, thread, finished, at.columns(first), some);
        for (i, vector) in values.chunks(VECTOR as usize).enumerate() {
            let packed = thread.round(b, vector);
            let to = vectors.vector(b, first + i as u32 * VECTOR);
            b.st_shared_vector(to, &packed);
        }
    }
}

/// Writes the run of a row that is a query as f32.
fn write_partial(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    place: &RowPlace,
    finished: (&RowResult, &Finite),
    run: &Run,
    at: TmemPtr,
    rows: GlobalPtr,
) {
    let byte = b.eval(run.column.widening_mul(4));
    let row = output.partial_row(b, place, rows, byte);
    for (first, some) in run.loads(run.columns) {
        let values = load_some(b, thread, finished, at.columns(first), some);
        b.if_(place.live, |b| {
            for (i, four) in values.chunks(4).enumerate() {
                b.st_global_vector(row.plus((first as i64 + 4 * i as i64) * 4), four);
            }
        });
    }
}

fn write_zeros(b: &mut Builder, output: &BlockOutput<'_>, place: &RowPlace, run: &Run) {
    let partial = output.params.output.partial;
    b.if_(place.live, |b| {
        let zero = b.value::<u32>(0);
        let bytes = if partial.is_some() { 4 } else { 2 };
        let column = b.eval(run.column.widening_mul(bytes));
        let row = match partial {
            Some(rows) => output.partial_row(b, place, rows, column),
            None => output.output_row(b, place, column),
        };
        for at in (0..run.columns * bytes).step_by(16) {
            b.st_global_vector(row.plus(at.into()), &[zero; 4]);
        }
    });
}

/// A panel of finished rows on its way out; the swizzle spreads it over the banks.
pub fn staging_tile() -> SmemTile {
    SmemTile::new(ROWS.into(), PANEL.into(), ELEMENT_BITS, Major::K, SmemSwizzle::B128)
        .expect("one panel of 64 columns")
}
