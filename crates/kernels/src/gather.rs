//! Rows that lie anywhere, brought to shared memory by threads, 16 bytes each.
//!
//! A tensor copy brings one run of neighbouring rows, and takes its thread as long for one row as for a
//! hundred, behind the load that says where the run is. Where runs are short (pages of few rows, lists of keys)
//! warps copy instead: eight threads per row and panel, four rows per instruction. A lane looks up every 32nd
//! row of its warp's share and hands its place to the lanes that copy it, so that all rows of a tile are looked
//! up at the same time.
//!
//! The copies write through the generic proxy: who multiplies with the rows fences behind the wait for them.

use crate::arguments::Arguments;
use crate::marks::Marks;
use crate::rows::Block;
use crate::sequence::element;
use crate::task::{Keys, OpenTile, Params, Source};
use crate::tensors::{self, CHUNK};
use problem::{Segment, View};
use program::BufferId;
use ptx::build::{
    Builder, Cmp, Cursor, GlobalPtr, Mbarrier, Pipeline, Producer, Reg, SharedTile, SharedTiles,
    UNIT_BYTES,
};
use std::ops::Range;

/// Warps that bring the same tiles together.
pub const WARPS: u32 = 2;
/// Arrivals that make a gathered tile full: each thread's, when its copies are done.
pub const ARRIVALS: u32 = WARPS * LANES;

const LANES: u32 = 32;
/// Threads that copy a row of a panel of 128 bytes.
const LANES_PER_ROW: u32 = 8;
/// Rows that one instruction of a warp copies.
const ROWS: u32 = LANES / LANES_PER_ROW;
/// Bytes that come to L2 at a time.
const LINE_BYTES: u32 = 128;
/// A place that holds no row.
const NOWHERE: u32 = u32::MAX;

/// Whether tiles of `tile` keys of `segment` are gathered: they are listed one by one, or runs of rows are no
/// longer than `short_run` bytes.
pub fn suits(segment: &Segment, tile: u32, short_run: u64) -> bool {
    let rows = tensors::rows_per_copy(segment, tile);
    let run = u64::from(rows) * segment.k.dim() * segment.k.dtype.bytes();
    segment.indices.is_some() || (rows < tile && run <= short_run && reaches(segment))
}

/// Whether all rows of a segment have places: units of 16 bytes, counted in 32 bits.
pub fn reaches(segment: &Segment) -> bool {
    let units = |view: &View| {
        let last = (0..3).try_fold(view.dim(), |sum, d| {
            let last = view.shape[d].saturating_sub(1).checked_mul(view.strides[d])?;
            sum.checked_add(last)
        });
        Some(last?.checked_mul(view.dtype.bytes())? / u64::from(UNIT_BYTES))
    };
    let short = |view| units(view).is_some_and(|units| units < u64::from(NOWHERE));
    [segment.k, segment.value_view()].iter().all(short)
}

/// A tensor whose rows are gathered.
#[derive(Clone, Copy, Debug)]
pub struct Scattered {
    /// First element.
    base: GlobalPtr,
    /// Units of 16 bytes between batches or pages, heads, and tokens.
    strides: [Reg<u32>; 3],
    /// Columns of a row.
    columns: u32,
}

impl Scattered {
    /// Declares the parameters of a tensor.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        name: &str,
        view: &View,
        buffer: BufferId,
    ) -> Self {
        let base = args.pointer(b, name, buffer);
        let strides = [0, 1, 2].map(|d| {
            // The stride of a dimension of extent 1 is never used and may be anything.
            let stride = if view.shape[d] > 1 { view.strides[d] * view.dtype.bytes() } else { 0 };
            args.u32(b, &format!("{name}_stride{d}"), (stride / u64::from(UNIT_BYTES)) as u32)
        });
        Scattered { base, strides, columns: view.dim() as u32 }
    }

    /// Bytes of a row.
    fn row_bytes(&self) -> u32 {
        self.columns * 2
    }
}

/// The keys or the values of all segments, which warps bring together.
pub struct Stream<'p> {
    params: &'p Params,
    gatherers: Vec<Gatherer<'p>>,
    ring: SharedTiles,
    /// The units of a tile: panels and their ring.
    units: Vec<(Range<u32>, Cursor<Producer>)>,
    /// Where it is written which keys exist.
    marks: Option<&'p Marks>,
    /// Whether the next tile comes to L2 ahead of time.
    prefetches: bool,
}

impl<'p> Stream<'p> {
    /// Warp `warp`'s share of `sources`, which goes to the tiles of `ring` in units of so many panels that
    /// have pipelines of their own.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'p Params,
        sources: impl Iterator<Item = (&'p Keys, Source)>,
        ring: SharedTiles,
        units: impl Iterator<Item = (u32, Pipeline)>,
        warp: Reg<u32>,
    ) -> Self {
        let (tile, lane) = (ring.layout().lines() as u32, b.special("%laneid"));
        let gatherers = sources.map(|(keys, source)| {
            let rows = source.scattered();
            Gatherer { params, keys, rows, tile, warp, lane }
        });
        let mut panel = 0;
        let units = units.map(|(panels, pipeline)| {
            let first = panel;
            panel += panels;
            (first..panel, pipeline.producer(b))
        });
        let (gatherers, units) = (gatherers.collect(), units.collect());
        Stream { params, gatherers, ring, units, marks: None, prefetches: false }
    }

    /// The same, which also writes which keys exist.
    pub fn marking(self, marks: Option<&'p Marks>) -> Self {
        Stream { marks, ..self }
    }

    /// The same, which brings the next tile to L2 ahead of time if it `prefetches`.
    pub fn prefetching(self, prefetches: bool) -> Self {
        Stream { prefetches, ..self }
    }

    /// Brings what a tile of work asks for, last keys first. Rows are looked up two tiles ahead.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        self.params.for_each_segment(b, open, |b, segment, open| {
            let gatherer = &self.gatherers[segment];
            let last = b.sub(open.range.end, 1);
            let rows = gatherer.look_up(b, open, last);
            let places = gatherer.places(b, open, &rows);
            let next = b.sub(last, 1);
            let ahead = gatherer.look_up(b, open, next);
            open.range.for_each_down(b, |b, n| {
                self.bring_tile(b, gatherer, &places);
                let next = gatherer.places(b, open, &ahead);
                assign(b, &places, &next);
                if self.prefetches {
                    gatherer.prefetch(b, &places);
                }
                let after = b.sub(n, 2);
                for (row, next) in ahead.iter().zip(gatherer.look_up(b, open, after)) {
                    assign(b, &[row.outer, row.token], &[next.outer, next.token]);
                }
            });
        });
    }

    fn bring_tile(&self, b: &mut Builder, gatherer: &Gatherer<'_>, places: &[Reg<u32>]) {
        for (unit, (panels, cursor)) in self.units.iter().enumerate() {
            let slot = cursor.take(b);
            slot.wait(b);
            let to = slot.tile(b, self.ring).blocks(panels.clone());
            let full = slot.full(b);
            gatherer.copy(b, places, panels.start * CHUNK, to, full);
            if let (0, Some(marks)) = (unit, self.marks) {
                let exist: Vec<_> =
                    places.iter().map(|place| b.setp(Cmp::Ne, *place, NOWHERE)).collect();
                let lead = b.setp(Cmp::Eq, gatherer.lane, 0);
                marks.write(b, gatherer.warp, slot.stage(), &exist, lead);
                full.arrive_if(b, lead);
            }
        }
    }
}

#[track_caller]
fn assign(b: &mut Builder, registers: &[Reg<u32>], values: &[Reg<u32>]) {
    registers.iter().zip(values).for_each(|(register, value)| b.assign(*register, *value));
}

/// One warp of those that gather a segment's tiles.
struct Gatherer<'p> {
    params: &'p Params,
    keys: &'p Keys,
    rows: Scattered,
    /// Rows of a tile.
    tile: u32,
    /// Number among the warps.
    warp: Reg<u32>,
    lane: Reg<u32>,
}

/// A row that was looked up.
struct Row {
    /// Batch or page; not known yet where it is an entry of a list.
    outer: Reg<u32>,
    /// Row of it, or entry of a list: negative if there is none.
    token: Reg<u32>,
}

impl Gatherer<'_> {
    /// Asks where this warp's rows of tile `n` are: runs of [`ROWS`], warps in turn. Tiles below those that
    /// are visited have none.
    #[track_caller]
    fn look_up(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) -> Vec<Row> {
        let first = b.mul(n, self.tile as i32).reinterpret::<u32>();
        let (run, within) = (b.div(self.lane, ROWS), b.rem(self.lane, ROWS));
        let row = b.mad(run, WARPS, self.warp);
        let row = b.mad(row, ROWS, within);
        let key = b.add(first, row);
        let visited = b.setp(Cmp::Ge, n, open.range.begin);
        let end = b.select::<u32>(visited, open.sequence.k_len, 0);
        let per_lane = (self.tile / WARPS).div_ceil(LANES);
        let keys: Vec<_> = (0..per_lane).map(|i| b.add(key, i * LANES * WARPS)).collect();
        keys.into_iter().map(|key| self.look_up_key(b, open, key, end)).collect()
    }

    /// Asks where key `key` of the sequence is, if it is one of those before `end`.
    #[track_caller]
    fn look_up_key(&self, b: &mut Builder, open: &OpenTile, key: Reg<u32>, end: Reg<u32>) -> Row {
        let (sequence, tile) = (&open.sequence, &open.tile);
        let exists = b.setp(Cmp::Lt, key, end);
        if self.keys.lists.is_some() {
            let list = self.list(b, open);
            let entry = load_if(b, exists, list, key);
            return Row { outer: b.value(sequence.k_batch), token: entry };
        }
        let (outer, token) = match self.keys.page_table {
            None => (b.value(sequence.k_batch), b.add(key, sequence.k_start)),
            Some(pages) => {
                let (entry, token) = pages.page_rows.divide(b, key);
                let entry = b.mad(tile.batch, pages.pages_per_sequence, entry);
                (load_if(b, exists, pages.table, entry), token)
            }
        };
        Row { outer, token: b.select::<u32>(exists, token, NOWHERE) }
    }

    /// The places of rows that were looked up.
    #[track_caller]
    fn places(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]) -> Vec<Reg<u32>> {
        let head = b.mul(open.tile.kv_head, self.rows.strides[1]);
        let place = |row: &Row| {
            let exists = b.setp(Cmp::Ge, row.token.reinterpret::<i32>(), 0);
            let (outer, token) = match self.keys.lists.and_then(|lists| lists.page_rows) {
                None => (row.outer, row.token),
                Some(page_rows) => page_rows.divide(b, row.token),
            };
            let place = b.mad(outer, self.rows.strides[0], head);
            let place = b.mad(token, self.rows.strides[2], place);
            b.select::<u32>(exists, place, NOWHERE)
        };
        rows.iter().map(place).collect()
    }

    /// The list of the token whose rows a tile holds.
    #[track_caller]
    fn list(&self, b: &mut Builder, open: &OpenTile) -> GlobalPtr {
        let tiling = &self.params.tiling;
        assert!(tiling.blocks == 1 && tiling.packing.tokens == 1, "a list is one token's");
        let lists = self.keys.lists.expect("lists");
        let block = Block::at(b, tiling.packing, tiling.group, open.first_block);
        let token = b.add(open.sequence.q_start, block.token);
        let number = b.mad(open.sequence.q_batch, lists.tokens, token);
        let offset = b.mul_wide(number, lists.bytes);
        b.global_add(lists.entries, offset)
    }

    /// Brings the rows of `places` to L2, a lane those it looked up: the wait for room in shared memory hides
    /// the rest of their way.
    #[track_caller]
    fn prefetch(&self, b: &mut Builder, places: &[Reg<u32>]) {
        for &place in places {
            let exists = b.setp(Cmp::Ne, place, NOWHERE);
            b.if_(exists, |b| {
                let offset = b.mul_wide(place, UNIT_BYTES);
                let row = b.global_add(self.rows.base, offset);
                for line in 0..self.rows.row_bytes().div_ceil(LINE_BYTES) {
                    b.prefetch_to_l2(row.plus(i64::from(line * LINE_BYTES)));
                }
            });
        }
    }

    /// Copies columns from `column` on of this warp's rows to `to`, and arrives on `full` when they have
    /// come. Rows and columns that do not exist become zeros.
    #[track_caller]
    fn copy(
        &self,
        b: &mut Builder,
        places: &[Reg<u32>],
        column: u32,
        to: SharedTile,
        full: Mbarrier,
    ) {
        let (row, unit) = (b.div(self.lane, LANES_PER_ROW), b.rem(self.lane, LANES_PER_ROW));
        let line = b.mad(self.warp, ROWS, row);
        let at = to.row(b, line).from_unit(b, unit).unit(b, 0);
        let layout = to.layout();
        // All warps' rows of a run are whole atoms of the swizzle: it is the same in every run.
        let stride = ROWS * WARPS * layout.swizzle().span_bytes() as u32;
        let first = b.mul_wide(unit, UNIT_BYTES);
        let first = b.global_add(self.rows.base, first).plus(i64::from(column * 2));
        for run in 0..self.tile / WARPS / ROWS {
            let lane = b.add(row, run * ROWS % LANES);
            let place = b.lane_value(places[(run * ROWS / LANES) as usize], lane);
            let exists = b.setp(Cmp::Ne, place, NOWHERE);
            let place = b.select::<u32>(exists, place, 0);
            let offset = b.mul_wide(place, UNIT_BYTES);
            let from = b.global_add(first, offset);
            let whole = b.select::<u32>(exists, UNIT_BYTES, 0);
            for panel in 0..layout.blocks() as u32 {
                let valid = self.within_row(b, column + panel * CHUNK, unit, whole);
                let to = at.plus(panel * layout.block_bytes() as u32 + run * stride);
                let from = from.plus(i64::from(panel * LANES_PER_ROW * UNIT_BYTES));
                b.cp_async16(to, from, Some(valid));
            }
        }
        full.arrive_when_copied(b);
    }

    /// `bytes`, or none where unit `unit` of the panel at `column` is past the end of a row.
    #[track_caller]
    fn within_row(
        &self,
        b: &mut Builder,
        column: u32,
        unit: Reg<u32>,
        bytes: Reg<u32>,
    ) -> Reg<u32> {
        let left = self.rows.columns.saturating_sub(column);
        if left >= CHUNK {
            return bytes;
        }
        let inside = b.setp(Cmp::Lt, unit, left * 2 / UNIT_BYTES);
        b.select::<u32>(inside, bytes, 0)
    }
}

/// Element `index` of a table of 32-bit numbers, negative where `p` does not hold.
#[track_caller]
fn load_if(b: &mut Builder, p: Reg<bool>, table: GlobalPtr, index: Reg<u32>) -> Reg<u32> {
    let (value, at) = (b.value(NOWHERE), element(b, table, index));
    b.ld_global_if(p, at, &[value]);
    value
}
