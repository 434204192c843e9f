//! The queries of a work tile, loaded by one thread of a warp.

use crate::call::index::RowBlockIndex;
use crate::call::task::{OpenTile, Params};
use crate::moves::copies::{Counter, PairBarrier, PairFills, Panels};
use ptx::build::{Builder, Cursor, Pipeline, Producer, Reg, SharedTiles};

/// The queries, as the warp that loads them fills their ring.
pub struct QueryLoader<'p> {
    params: &'p Params,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    /// A tile per row block of a slot.
    tiles: SharedTiles,
    slots: u32,
    cursor: Cursor<Producer>,
    /// Whether this is the even one of two CTAs that multiply together: its barrier counts the copies of both.
    even: Option<Reg<bool>>,
}

impl<'p> QueryLoader<'p> {
    /// The queries that the `lead` of a warp loads to `tiles`, slot by slot of `ring`.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'p Params,
        lead: Reg<bool>,
        (tiles, ring): (SharedTiles, &Pipeline),
    ) -> Self {
        let (slots, cursor) = (ring.stages, ring.producer(b));
        QueryLoader { params, lead, tiles, slots, cursor, even: None }
    }

    /// The same in one of two CTAs that multiply together, which is `even` or not.
    pub fn of_cta_pair(self, even: Reg<bool>) -> Self {
        QueryLoader { even: Some(even), ..self }
    }

    /// Loads the row blocks of a work tile that are this CTA's; `number` says which its `n`-th one is.
    pub fn load(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        number: impl Fn(&mut Builder, u32) -> RowBlockIndex,
    ) {
        let slot = self.cursor.take(b);
        slot.wait(b);
        let pair = self.even.map(|even| {
            let own = slot.full(b);
            PairBarrier::new(b, own, even, PairFills::Copies)
        });
        b.if_(self.lead, |b| {
            let full: Counter = match pair {
                Some(full) => full.into(),
                None => slot.full(b).into(),
            };
            full.arrive_expect(b, self.bytes());
            let tiles = slot.tiles(b, self.tiles);
            for n in 0..tiles.count() {
                let number = number(b, n);
                self.params.copy_queries(b, open, number, Panels::of(tiles.tile(n)), full);
            }
        });
    }

    /// Waits until all queries that were loaded have been used.
    #[track_caller]
    pub fn drain(&self, b: &mut Builder) {
        self.cursor.drain(b);
    }

    /// Bytes that come to a slot.
    fn bytes(&self) -> u32 {
        let row_blocks = self.tiles.count() / self.slots;
        let panels = Panels::of(self.tiles.tile(0));
        row_blocks * panels.count * self.params.tiling.packing.used() * panels.row_bytes()
    }
}
