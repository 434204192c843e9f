//! The warps that gather rows, and the one that loads queries beside them.

use crate::blackwell::config::Piece;
use crate::blackwell::fill::{Buffers, Queries};
use crate::blackwell::frame::Frame;
use crate::blackwell::gatherers::{Gathered, Gatherer, Publisher};
use crate::call::task::OpenTile;
use crate::call::tensors::CHUNK;
use crate::moves::gather::{Place, Row, Scattered};
use ptx::build::{Builder, CtaGroup, Reg};

/// Emits the warp that loads queries, and tells of slots to which copies have arrived.
pub fn emit_publisher(b: &mut Builder, frame: &Frame, buffers: &Buffers, gathered: &Gathered) {
    let lead = b.elect();
    let queries = Queries::new(b, frame, buffers, lead);
    let publisher = Publisher::new(b, gathered, &buffers.kv_ring, CtaGroup::One);
    frame.params.for_each_tile(b, |b, open| {
        open.range.if_any(b, |b, _| {
            queries.load(b, &open);
            publisher.publish(b, &open, frame.config.slots_per_tile());
        });
    });
}

/// Emits warp `warp` of those that gather.
pub fn emit(
    b: &mut Builder,
    frame: &Frame,
    buffers: &Buffers,
    gathered: &Gathered,
    warp: Reg<u32>,
) {
    let ring = (buffers.kv, &buffers.kv_ring);
    let gatherer = Gatherer::new(b, &frame.params, gathered, ring, CtaGroup::One, warp);
    let rows = RowGatherer { frame, gatherer };
    frame.params.for_each_tile(b, |b, open| {
        rows.gatherer.bring(
            b,
            &open,
            |b, of_tile| rows.copy_keys(b, &open, of_tile),
            |b, of_tile| rows.copy_values(b, &open, of_tile),
        );
    });
}

struct RowGatherer<'f> {
    frame: &'f Frame,
    gatherer: Gatherer<'f>,
}

impl RowGatherer<'_> {
    /// Keys, and with them values where they are the same.
    fn copy_keys(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]) {
        self.gatherer.mark(b, rows);
        let keys = self.frame.params.keys().k.scattered();
        let places = self.gatherer.places(b, open, &keys, rows);
        for piece in self.frame.config.key_pieces() {
            self.copy(b, &keys, &places, piece);
        }
    }

    /// This CTA's columns of values, where they did not come with the keys.
    fn copy_values(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]) {
        let Some(values) = self.frame.params.keys().v else { return };
        let columns = self.frame.config.slice_dim();
        let first = match open.slice {
            None => b.value(0),
            Some(slice) => b.eval(slice.reg() * columns),
        };
        let values = values.scattered().columns(b, first, columns);
        let places = self.gatherer.places(b, open, &values, rows);
        for piece in self.frame.config.value_pieces() {
            self.copy(b, &values, &places, piece);
        }
    }

    /// Fills the next slot with a piece of the rows at `places`.
    fn copy(&self, b: &mut Builder, source: &Scattered, places: &[Place], piece: Piece) {
        self.gatherer.fill(b, |b, to| {
            let to = to.blocks(0..piece.stored / CHUNK);
            self.gatherer.copy(b, source, places, piece.column, to);
        });
    }
}
