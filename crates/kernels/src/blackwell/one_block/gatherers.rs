//! The warps that gather rows, and the one that loads queries beside them.

use crate::blackwell::config::Piece;
use crate::blackwell::fill::Buffers;
use crate::blackwell::frame::Frame;
use crate::blackwell::gatherers::{self, CopyRows, Gathered, Gatherer, Part, Publisher};
use crate::call::task::OpenTile;
use crate::call::tensors::CHUNK;
use crate::moves::gather::{Place, Row, Scattered};
use ptx::build::{Builder, CtaGroup, Reg};

/// Emits the warp that loads queries, and tells of slots to which copies have arrived.
pub fn emit_publisher(b: &mut Builder, frame: &Frame, buffers: &Buffers, gathered: &Gathered) {
    let lead = b.elect();
    let queries = buffers.queries(b, frame, lead);
    let publisher = Publisher::new(b, gathered, &buffers.kv_ring, CtaGroup::One);
    let slots = frame.config.slots_per_tile();
    let number = |b: &mut Builder, open: &OpenTile| open.first_block.plus(b, 0);
    gatherers::emit_publisher(b, &frame.params, (&queries, number), &publisher, slots);
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
    gatherers::emit(b, &frame.params, &rows.gatherer, &rows);
}

struct RowGatherer<'f> {
    frame: &'f Frame,
    gatherer: Gatherer<'f>,
}

impl CopyRows for RowGatherer<'_> {
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
}

impl RowGatherer<'_> {
    /// Fills the next slot with a piece of the rows at `places`.
    fn copy(&self, b: &mut Builder, source: &Scattered, places: &[Place], piece: Piece) {
        let panels = 0..piece.stored / CHUNK;
        self.gatherer.fill(b, &[Part { source, places, column: piece.column, panels }]);
    }
}
