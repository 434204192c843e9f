//! The two loading warps: one brings keys, one brings queries and values, so that neither waits for the
//! other's buffers.

use super::kernel::Frame;
use crate::call::index::KvTile;
use crate::call::task::{Keys, OpenTile};
use crate::call::tensors::CHUNK;
use crate::moves::copies::{Column, Counter, Panels};
use crate::roles::loader::{Copier, RowsPastEnd};
use crate::roles::queries::QueryLoader;
use ptx::build::{Builder, Cmp, Cursor, Producer, Reg, SharedTiles, TensorMapParam};

/// Emits the warp that loads queries and, where they are not the keys, values.
pub fn emit_queries_and_values(b: &mut Builder, frame: &Frame) {
    let (config, shared) = (&frame.config, &frame.shared);
    let lead = b.elect();
    let (queries, loaded) = (Queries::new(b, frame, lead), shared.q_ring.consumer(b));
    let values = (!config.shared_kv).then(|| {
        let maps = frame.params.segments.iter().filter_map(|keys| Some((keys, keys.v?.map())));
        let streams = Stream::each(b, frame, maps, &config.value_pieces(), true);
        (streams, shared.v_rings.map(|ring| ring.producer(b)))
    });
    frame.params.for_each_tile(b, |b, open| {
        queries.load(b, &open);
        let Some((streams, rings)) = &values else { return };
        // Queries and keys are needed first: values do not compete with them.
        let slot = loaded.take(b);
        slot.wait(b);
        slot.release_if(b, lead);
        frame.params.for_each_segment(b, &open, |b, segment, open| {
            let stream = &streams[segment];
            open.range.for_each_down(b, |b, n| stream.load(b, open, n, shared.v, rings));
        });
    });
}

/// Emits the warp that loads keys.
pub fn emit_keys(b: &mut Builder, frame: &Frame) {
    let (config, shared) = (&frame.config, &frame.shared);
    let maps = frame.params.segments.iter().map(|keys| (keys, keys.k.map()));
    let streams = Stream::each(b, frame, maps, &config.key_pieces(), config.shared_kv);
    let rings: Vec<_> = shared.k_rings.iter().map(|ring| ring.producer(b)).collect();
    frame.params.lead_tiles(b, |b, open| {
        frame.params.for_each_segment(b, &open, |b, segment, open| {
            let stream = &streams[segment];
            open.range.for_each_down(b, |b, n| stream.load(b, open, n, shared.k, &rings));
        });
    });
}

/// The queries, of one row block, that the `lead` of a warp loads.
pub struct Queries<'f> {
    frame: &'f Frame,
    loader: QueryLoader<'f>,
}

impl<'f> Queries<'f> {
    /// The queries that the `lead` of a warp loads.
    #[track_caller]
    pub fn new(b: &mut Builder, frame: &'f Frame, lead: Reg<bool>) -> Self {
        let (shared, params) = (&frame.shared, &frame.params);
        let ring = (shared.q, &shared.q_ring);
        Queries { frame, loader: QueryLoader::new(b, params, lead, ring) }
    }

    /// Loads those of a work tile.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, open: &OpenTile) {
        self.loader.load(b, open, |b, _| open.first_block.plus(b, self.frame.block));
    }
}

/// A segment's stream of tiles, piece by piece.
struct Stream<'f> {
    frame: &'f Frame,
    keys: &'f Keys,
    map: TensorMapParam,
    pieces: Vec<u32>,
    /// Whether rows past the end of a sequence must be zero.
    cleared: bool,
    copier: Copier,
    /// The CTAs that get every copy, where there is more than one.
    ctas: Option<Reg<u16>>,
}

impl<'f> Stream<'f> {
    /// The streams of all segments, which one warp loads.
    fn each(
        b: &mut Builder,
        frame: &'f Frame,
        maps: impl Iterator<Item = (&'f Keys, TensorMapParam)>,
        pieces: &[u32],
        values: bool,
    ) -> Vec<Self> {
        let lead = b.elect();
        let copier = Copier::new(b, lead, &frame.shared.tail);
        let ctas = (frame.config.multicast > 1).then(|| {
            let both = b.value::<u16>(0b11);
            b.eval(both << (frame.part.reg() * 2))
        });
        let stream = |(keys, map): (&'f Keys, TensorMapParam)| {
            let (pieces, cleared) = (pieces.to_vec(), values && keys.dirty_tail);
            Stream { frame, keys, map, pieces, cleared, copier, ctas }
        };
        maps.map(stream).collect()
    }

    fn load(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        ring: SharedTiles,
        cursors: &[Cursor<Producer>],
    ) {
        let mut panel = 0;
        for (piece, cursor) in cursors.iter().enumerate() {
            let count = self.pieces[piece];
            if count == 0 {
                continue;
            }
            let slot = cursor.take(b);
            slot.wait(b);
            let tile = slot.tile(b, ring);
            let to = Panels::of(tile.blocks(panel..panel + count));
            let full = slot.full(b);
            let past_end = RowsPastEnd::cleared_if(self.cleared);
            self.copier.fill(b, open, n, to, full, past_end, |b, on| {
                self.copy(b, open, n, panel * CHUNK, to, on);
            });
            self.prefetch(b, open, n, panel * CHUNK, to);
            panel += count;
        }
    }

    /// Brings the same piece of the next tile to L2: the wait for a place in shared memory hides the rest
    /// of the way. Not where a tile is many copies.
    fn prefetch(&self, b: &mut Builder, open: &OpenTile, n: KvTile, column: u32, to: Panels) {
        if self.keys.rows_per_copy < to.rows {
            return;
        }
        let next = n.before(b, 1);
        let more = open.range.reaches(b, next);
        b.if_(more, |b| {
            self.copier.issue(b, to, Counter::Prefetch, |b, on| {
                self.copy(b, open, next, column, to, on);
            });
        });
    }

    /// Issues this CTA's share of a piece's copies, counted on `counter` in every CTA.
    fn copy(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        column: u32,
        to: Panels,
        counter: Counter,
    ) {
        let Some(ctas) = self.ctas else {
            let column = Column::fixed(column);
            return self.keys.copy_rows(b, open, n, self.map, column, to, counter);
        };
        let half = to.count.div_ceil(2);
        let is_first = b.setp(Cmp::Eq, self.frame.block, 0);
        let share = |b: &mut Builder, from: u32, count: u32| {
            let at = to.at.plus(from * to.bytes);
            let to = Panels { at, count, ctas: Some(ctas), ..to };
            let column = Column::fixed(column + from * CHUNK);
            self.keys.copy_rows(b, open, n, self.map, column, to, counter);
        };
        b.if_else(is_first, |b| share(b, 0, half), |b| share(b, half, to.count - half));
    }
}
