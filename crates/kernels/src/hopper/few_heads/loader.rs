//! The warps that load: a row per lane, 32 rows of a tile per warp.
//!
//! A lane looks its row up two tiles ahead ([`Lookup`]). When a stage is free, the warp copies its rows and their
//! scales (`cp.async`). Nothing waits for them: scales are made factors, and the tile is published, when two more
//! tiles have been asked for. A row that does not exist becomes zeros, so that nothing multiplies what lay there.

use super::config::{ROW_BYTES, SCALED, TILE};
use super::kernel::Frame;
use super::{order, unpack};
use crate::call::index::KvTile;
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::call::visible::RowWindow;
use crate::moves::gather::{Lookup, Packed, Row, Rows};
use ptx::build::{Builder, Cmp, Cursor, Producer, Reg, VECTOR_BYTES};

/// Warps that load.
pub const WARPS: u32 = crate::moves::gather::WARPS;
/// Arrivals that make a stage full: each warp's, when its rows and factors are there.
pub const ARRIVALS: u32 = WARPS;
/// Tiles that are asked for before the first of them is published.
const AHEAD: u32 = 2;
/// Bytes that eight lanes copy.
const LINE_BYTES: u32 = LANES_PER_ROW * VECTOR_BYTES;
/// Lanes that copy a row.
const LANES_PER_ROW: u32 = 8;
/// Rows that a warp copies together.
const ROWS_PER_RUN: u32 = 32 / LANES_PER_ROW;
/// How often it does for a tile.
const RUNS: u32 = TILE / WARPS / ROWS_PER_RUN;
/// Bytes of a row's scales.
const SCALE_BYTES: u32 = 8;

/// One of the warps.
pub struct Loader<'f> {
    frame: &'f Frame,
    sources: Vec<(Lookup<'f>, Packed)>,
    warp: Reg<u32>,
    /// True in one lane.
    lead: Reg<bool>,
    /// The lane's row of a tile.
    row: Reg<u32>,
    /// Its place in the order of columns.
    column: Reg<u32>,
    /// The stage that is asked for next.
    asks: Cursor<Producer>,
    /// The stage that is published next.
    publishes: Cursor<Producer>,
    /// Stages that were asked for and are not published.
    pending: Reg<u32>,
}

/// The rows of one segment that a work tile sees.
struct Source<'a> {
    lookup: &'a Lookup<'a>,
    rows: &'a Packed,
    /// Keys that the token sees, where a mask hides some.
    window: Option<RowWindow>,
}

impl<'f> Loader<'f> {
    /// Warp `warp` of those that load.
    #[track_caller]
    pub fn new(b: &mut Builder, frame: &'f Frame, warp: Reg<u32>) -> Self {
        let (params, ring) = (&frame.params, &frame.shared.ring);
        let share = Rows::Runs(warp);
        let sources = params.segments.iter().map(|keys| {
            let rows = *keys.k.scattered().packed();
            (Lookup::new(b, &params.tiling, keys, TILE, share), rows)
        });
        let sources = sources.collect();
        let lane = b.special("%laneid");
        let row = share.first(b, lane);
        Loader {
            frame,
            sources,
            warp,
            lead: b.setp(Cmp::Eq, lane, 0),
            row,
            column: order::column_of(b, row),
            asks: ring.producer(b),
            publishes: ring.producer(b),
            pending: b.value(0),
        }
    }

    /// Brings what a work tile asks for, segment after segment, last keys first.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        self.frame.params.for_each_segment(b, open, |b, segment, open| {
            let source = self.source(b, segment, open);
            let lookup = source.lookup;
            lookup.prefetch_list(b, open);
            // Registers that are loaded are not moved: that would wait for them.
            let ahead = [1, 2].map(|tiles| {
                let n = open.range.end.before(b, tiles);
                let rows = lookup.look_up(b, open, n);
                <[Row; 1]>::try_from(rows).unwrap_or_else(|_| panic!("a row per lane"))
            });
            // What was asked for comes while these rows are looked up.
            self.finish(b);
            let n = open.range.end.before(b, 1);
            b.while_(
                |b| open.range.reaches(b, n),
                |b| {
                    for rows in &ahead {
                        let any = open.range.reaches(b, n);
                        b.if_(any, |b| self.next(b, &source, open, n, rows));
                        let next = n.before(b, 1);
                        n.assign(b, next);
                    }
                },
            );
        });
    }

    /// Asks for tile `n`, whose rows were looked up, looks those of the next but one up, and publishes the oldest tile if
    /// enough are asked for.
    #[track_caller]
    fn next(
        &self,
        b: &mut Builder,
        source: &Source<'_>,
        open: &OpenTile,
        n: KvTile,
        rows: &[Row; 1],
    ) {
        self.ask(b, source, n, &rows[0]);
        let after = n.before(b, 2);
        source.lookup.look_up_into(b, open, after, rows);
        let enough = b.setp(Cmp::Gt, self.pending, AHEAD);
        b.if_(enough, |b| {
            b.cp_async_wait(AHEAD);
            self.publish(b);
        });
    }

    /// Publishes all tiles that were asked for. No loop: the assembler would wait for what is being looked up before it.
    #[track_caller]
    pub fn finish(&self, b: &mut Builder) {
        b.cp_async_wait(0);
        for _ in 0..AHEAD {
            let any = b.setp(Cmp::Gt, self.pending, 0);
            b.if_(any, |b| self.publish(b));
        }
    }

    #[track_caller]
    fn source(&self, b: &mut Builder, segment: usize, open: &OpenTile) -> Source<'_> {
        let (lookup, rows) = &self.sources[segment];
        let keys = &self.frame.params.segments[segment];
        let window = keys.lists.is_none().then(|| {
            let config = &self.frame.config;
            let block = Block::at(b, config.packing, config.group, open.first_block);
            RowWindow::of(b, &open.bounds, block.token)
        });
        Source { lookup, rows, window }
    }

    /// Asks for this warp's rows of tile `n`, of which this lane looked one up, and for their scales.
    #[track_caller]
    fn ask(&self, b: &mut Builder, source: &Source<'_>, n: KvTile, row: &Row) {
        let exists = self.exists(b, source, n, row);
        let (page, number) = source.lookup.row_in_page(b, row, exists);
        let place = source.rows.place(b, page, number);
        let scales = source.rows.scales(b, page, number);
        let slot = self.asks.take(b);
        slot.wait(b);
        let shared = &self.frame.shared;
        self.mark(b, slot.stage(), exists);
        self.copy(b, source, slot.stage(), place, exists);
        let zero = b.value::<u32>(0);
        let to = shared.scales.element(b, &[zero, self.row, slot.stage()]);
        let bytes = b.select::<u32>(exists, SCALE_BYTES, 0);
        b.cp_async8(to, scales, Some(bytes));
        b.cp_async_commit();
        b.assign(self.pending, self.pending + 1);
    }

    /// Copies the rows that the lanes of this warp have places of, where they exist, and zeros elsewhere: eight lanes a
    /// row, 128 bytes of it at a time.
    #[track_caller]
    fn copy(
        &self,
        b: &mut Builder,
        source: &Source<'_>,
        stage: Reg<u32>,
        place: Reg<u32>,
        exists: Reg<bool>,
    ) {
        let rows = &self.frame.shared.rows;
        let lane = b.special("%laneid");
        let (owner, vector) = (b.eval(lane / LANES_PER_ROW), b.eval(lane % LANES_PER_ROW));
        let first = Rows::Runs(self.warp).first(b, owner);
        let word = b.eval(vector * (VECTOR_BYTES / 4));
        let to = rows.element(b, &[word, first, stage]);
        let from = b.eval(vector.widening_mul(VECTOR_BYTES));
        let from = b.global_add(source.rows.base, from);
        let rest = b.setp(Cmp::Lt, vector, ROW_BYTES % LINE_BYTES / VECTOR_BYTES);
        let bytes = b.select::<u32>(exists, VECTOR_BYTES, 0);
        for run in 0..RUNS {
            let owner = b.eval(owner + run * ROWS_PER_RUN);
            let [place, bytes] = [place, bytes].map(|of_owner| b.lane_value(of_owner, owner));
            let from = b.global_add(from, place.widening_mul(VECTOR_BYTES));
            let to = to.plus(run * rows.offset(&[0, WARPS * ROWS_PER_RUN]));
            for line in 0..ROW_BYTES / LINE_BYTES {
                let at = line * LINE_BYTES;
                b.cp_async16(to.plus(at), from.plus(at.into()), Some(bytes));
            }
            let at = ROW_BYTES / LINE_BYTES * LINE_BYTES;
            b.if_(rest, |b| b.cp_async16(to.plus(at), from.plus(at.into()), Some(bytes)));
        }
    }

    /// Whether there is a row, and the token sees it.
    #[track_caller]
    fn exists(&self, b: &mut Builder, source: &Source<'_>, n: KvTile, row: &Row) -> Reg<bool> {
        let exists = source.lookup.exists(b, row);
        let Some(window) = &source.window else { return exists };
        let key = source.lookup.key(b, n);
        let (first, end) = window.keys(b);
        let (begun, ended) = (b.setp(Cmp::Ge, key, first), b.setp(Cmp::Ge, key, end));
        let before = b.not(ended);
        let seen = b.and(begun, before);
        b.and(exists, seen)
    }

    /// Notes whether the lane's key exists.
    #[track_caller]
    fn mark(&self, b: &mut Builder, stage: Reg<u32>, exists: Reg<bool>) {
        let scales = &self.frame.shared.key_scales;
        let last = b.value(SCALED);
        let at = scales.element(b, &[self.column, last, stage]);
        let exists = b.select::<f32>(exists, 1.0, 0.0);
        b.st_shared(at, exists);
    }

    /// Makes the scales of the oldest tile factors, which completes it.
    #[track_caller]
    fn publish(&self, b: &mut Builder) {
        let shared = &self.frame.shared;
        let slot = self.publishes.take(b);
        let zero = b.value::<u32>(0);
        let at = [zero, self.row, slot.stage()];
        let scales = shared.scales.element(b, &at);
        let scales = b.ld_shared_vector::<u32>(scales, 2);
        let at = [self.column, zero, slot.stage()];
        let (to, factors) = (shared.key_scales.element(b, &at), shared.factors.element(b, &at));
        let mark = b.ld_shared::<f32>(to.plus(shared.key_scales.offset(&[0, SCALED])));
        let exists = b.setp(Cmp::Ne, mark, 0.0);
        for n in 0..SCALED {
            let scale = unpack::scale(b, &scales, n);
            b.st_shared(to.plus(shared.key_scales.offset(&[0, n])), scale);
            // Zeros came for the scales of a key that does not exist, and no factor is NaN times a probability of 0.
            let factor = unpack::factor(b, scale);
            let factor = b.select::<u32>(exists, factor, 0);
            b.st_shared_half(factors.plus(shared.factors.offset(&[0, n])), factor);
        }
        b.warp_sync();
        let full = slot.full(b);
        full.arrive_if(b, self.lead);
        b.assign(self.pending, self.pending - 1);
    }
}
