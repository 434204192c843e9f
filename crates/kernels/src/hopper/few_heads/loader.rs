//! The warps that load: a row per lane, 32 rows of a tile per warp.
//!
//! A lane looks its row up two tiles ahead ([`Lookup`]), and has it brought by one bulk copy when a stage is free. Its
//! scales come by `cp.async`. Nothing waits for them: they are made factors, and the tile is published, when two more
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
/// Arrivals that make a stage full: each warp's when rows are asked for, and when factors are there.
pub const ARRIVALS: u32 = 2 * WARPS;
/// Tiles that are asked for before the first of them is published.
const AHEAD: u32 = 2;
/// Bytes of a row's scales.
const SCALE_BYTES: u32 = 8;

/// One of the warps.
pub struct Loader<'f> {
    frame: &'f Frame,
    sources: Vec<(Lookup<'f>, Packed)>,
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
            let first = open.range.end.before(b, 1);
            let rows = lookup.look_up(b, open, first);
            let next = first.before(b, 1);
            let ahead = lookup.look_up(b, open, next);
            let ([row], [next]) = (&rows[..], &ahead[..]) else { panic!("a row per lane") };
            open.range.for_each_down(b, |b, n| {
                self.ask(b, &source, n, row);
                row.assign(b, next);
                let after = n.before(b, 2);
                lookup.look_up_into(b, open, after, &ahead);
                let enough = b.setp(Cmp::Gt, self.pending, AHEAD);
                b.if_(enough, |b| {
                    b.cp_async_wait(AHEAD);
                    self.publish(b);
                });
            });
        });
        b.cp_async_wait(0);
        b.while_(|b| b.setp(Cmp::Gt, self.pending, 0), |b| self.publish(b));
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

    /// Asks for this lane's row of tile `n`, and its scales.
    #[track_caller]
    fn ask(&self, b: &mut Builder, source: &Source<'_>, n: KvTile, row: &Row) {
        let exists = self.exists(b, source, n, row);
        let (page, number) = source.lookup.row_in_page(b, row, exists);
        let (from, scales) = source.rows.row_and_scales(b, page, number);
        let slot = self.asks.take(b);
        slot.wait(b);
        let shared = &self.frame.shared;
        let zero = b.value::<u32>(0);
        let at = [zero, self.row, slot.stage()];
        let to = shared.rows.element(b, &at);
        self.mark(b, slot.stage(), exists);
        let missing = b.not(exists);
        b.if_(missing, |b| {
            let zeros = [zero; 4];
            for vector in 0..ROW_BYTES / VECTOR_BYTES {
                b.st_shared_vector(to.plus(vector * VECTOR_BYTES), &zeros);
            }
        });
        // A copy is going to write where zeros are written now.
        b.fence_proxy_async();
        let existing = b.ballot(exists);
        let full = slot.full(b);
        b.if_(self.lead, |b| {
            let rows = b.count_bits(existing);
            full.arrive_expect(b, rows * ROW_BYTES);
        });
        b.if_(exists, |b| b.bulk_load(to, from, ROW_BYTES, full));
        let bytes = b.select::<u32>(exists, SCALE_BYTES, 0);
        let to = shared.scales.element(b, &at);
        b.cp_async8(to, scales, Some(bytes));
        b.cp_async_commit();
        b.assign(self.pending, self.pending + 1);
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
        let factors = &self.frame.shared.key_factors;
        let last = b.value(SCALED);
        let at = factors.element(b, &[self.column, last, stage]);
        let exists = b.select::<u32>(exists, 1, 0);
        b.st_shared_half(at, exists);
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
        let factors: Vec<_> = (0..SCALED).map(|n| unpack::factor(b, &scales, n)).collect();
        let of_keys = shared.key_factors.element(b, &[self.column, zero, slot.stage()]);
        for (n, factor) in (0..).zip(&factors) {
            b.st_shared_half(of_keys.plus(shared.key_factors.offset(&[0, n])), *factor);
        }
        let mut twice: Vec<_> = factors.iter().map(|factor| b.eval(*factor * 0x1_0001)).collect();
        twice.push(zero);
        let of_row = shared.row_factors.element(b, &at);
        for (n, words) in (0..).zip(twice.chunks_exact(4)) {
            b.st_shared_vector(of_row.plus(n * VECTOR_BYTES), words);
        }
        b.warp_sync();
        let full = slot.full(b);
        full.arrive_if(b, self.lead);
        b.assign(self.pending, self.pending - 1);
    }
}
