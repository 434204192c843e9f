//! Two CTAs on the heads of one token share the rows of its list: each gathers half of a tile and gives it to the other.
//!
//! The warps that gather copy 32 of a tile's 64 rows. When their copies have come, the hardware arrives on a barrier of
//! this CTA's own. One more warp waits for it, fences, says so on the barrier on which the piece is full, and copies the
//! half to the same place in the other CTA, on whose barrier the bytes are counted. A place is refilled when the
//! warps of both CTAs have released it. Those of the other have its half by then, so that nothing reads it any more.
//!
//! | signal | arrivals | told by | waited for by | before |
//! |---|---|---|---|---|
//! | half arrived | 64 | the hardware, for each thread whose copies are done | the sharing warp | its fence |
//! | piece full | 1 + bytes | the sharing warp; the other CTA's copy | both warpgroups | multiplying |

use super::config::{Config, TILE};
use super::kernel::Frame;
use crate::hopper::ROWS;
use crate::moves::gather::ARRIVALS;
use ptx::build::{Builder, Cursor, Producer, Reg, SignalCursor, Signals, Slot, SmemPtr};
use std::ops::Range;

/// The barriers on which halves arrive, one ring for each piece of a tile.
pub struct Halves(Vec<Signals>);

impl Halves {
    /// Reserves the barriers of a kernel that shares rows.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, config: &Config) -> Option<Self> {
        let mut ring = |_| Signals::reserve(b, shared, config.stages);
        config
            .shares_rows()
            .then(|| Halves(config.key_pieces().into_iter().map(&mut ring).collect()))
    }

    /// Initialises the barriers (one thread).
    #[track_caller]
    pub fn init(&self, b: &mut Builder) {
        self.0.iter().for_each(|ring| ring.init(b, ARRIVALS));
    }

    /// Cursors at the first half of each piece.
    #[track_caller]
    pub fn cursors(&self, b: &mut Builder) -> Vec<SignalCursor> {
        self.0.iter().map(|ring| ring.cursor(b)).collect()
    }
}

/// The warp that gives halves of tiles to the other CTA.
struct Sharer<'f> {
    frame: &'f Frame,
    /// Panels of each piece, its slots, and the halves that arrive there.
    pieces: Vec<(Range<u32>, Cursor<Producer>, SignalCursor)>,
    other: Reg<u32>,
    elected: Reg<bool>,
}

/// Emits the warp.
pub fn emit(b: &mut Builder, frame: &Frame, halves: &Halves) {
    let mut panel = 0;
    let pieces = frame.config.key_pieces().into_iter().zip(&frame.shared.k_rings);
    let pieces = pieces.zip(halves.cursors(b)).map(|((panels, ring), arrived)| {
        let first = panel;
        panel += panels;
        (first..panel, ring.producer(b), arrived)
    });
    let pieces = pieces.collect();
    let sharer = Sharer { frame, pieces, other: frame.other_block(b), elected: b.elect() };
    let params = &frame.params;
    params.for_each_tile(b, |b, open| {
        params.for_each_segment(b, &open, |b, _, open| {
            open.range.for_each_down(b, |b, _| sharer.share_tile(b));
        });
    });
}

impl Sharer<'_> {
    fn share_tile(&self, b: &mut Builder) {
        for (panels, slots, arrived) in &self.pieces {
            arrived.wait(b);
            arrived.advance(b);
            b.fence_proxy_async();
            let slot = slots.take(b);
            b.if_(self.elected, |b| self.share(b, panels.clone(), &slot));
        }
    }

    /// Says that this CTA's half of a piece is there, and gives it to the other CTA.
    fn share(&self, b: &mut Builder, panels: Range<u32>, slot: &Slot<Producer>) {
        let tile = slot.tile(b, self.frame.shared.k).blocks(panels.clone());
        let half = tile.layout().block_bytes() as u32 / 2;
        let full = slot.full(b);
        full.arrive_expect(b, half * panels.len() as u32);
        let counted = full.in_cta(b, self.other);
        let offset = b.mul(self.frame.block, half);
        let from = b.smem_add(tile.block(0), offset);
        let to = from.in_cta(b, self.other);
        for panel in 0..panels.len() as u32 {
            let at = panel * 2 * half;
            b.copy_to_cta(to.plus(at), from.plus(at), half, counted);
        }
    }
}

const _: () = assert!(TILE == ROWS, "a half is 32 rows of 128 bytes of every panel");
