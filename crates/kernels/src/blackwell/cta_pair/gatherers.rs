//! The warps of each CTA that gather rows, and the one that loads queries beside them: for the scores the CTA's keys
//! of a tile, for the output its columns of all values.

use super::config::{PANEL, SLOT_ROWS};
use super::kernel::Frame;
use super::loader::queries;
use crate::blackwell::config::TILE;
use crate::blackwell::gatherers::{self, CopyRows, Gathered, Gatherer, Part, Publisher};
use crate::call::task::OpenTile;
use crate::moves::gather::{Row, Scattered};
use ptx::build::{Builder, Cmp, CtaGroup, Reg};

/// Emits the warp that loads queries, and tells of slots to which copies have arrived.
pub fn emit_publisher(b: &mut Builder, frame: &Frame, gathered: &Gathered) {
    let lead = b.elect();
    let queries = queries(b, frame, lead);
    let publisher = Publisher::new(b, gathered, &frame.shared.kv_ring, CtaGroup::Two);
    let slots = frame.config.slots_per_tile();
    let number = |b: &mut Builder, open: &OpenTile| frame.block_number(b, open);
    gatherers::emit_publisher(b, &frame.params, (&queries, number), &publisher, slots);
}

/// Emits warp `warp` of those that gather.
pub fn emit(b: &mut Builder, frame: &Frame, gathered: &Gathered, warp: Reg<u32>) {
    let ring = (frame.shared.kv, &frame.shared.kv_ring);
    let gatherer = Gatherer::new(b, &frame.params, gathered, ring, CtaGroup::Two, warp);
    let rows = RowGatherer { frame, gatherer, even: b.setp(Cmp::Eq, frame.rank, 0) };
    gatherers::emit(b, &frame.params, &rows.gatherer, &rows);
}

struct RowGatherer<'f> {
    frame: &'f Frame,
    gatherer: Gatherer<'f>,
    /// Whether this is the even CTA.
    even: Reg<bool>,
}

impl CopyRows for RowGatherer<'_> {
    /// This CTA's half of the keys.
    fn copy_keys(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]) {
        self.gatherer.mark(b, rows);
        let keys = self.frame.params.keys().k.scattered();
        let own = rows[0].or(b, self.even, &rows[1]);
        let places = self.gatherer.places(b, open, &keys, &[own]);
        for (column, steps) in self.frame.config.key_pieces() {
            let panels = 0..(steps * 16).div_ceil(PANEL);
            self.gatherer.fill(b, &[Part { source: &keys, places: &places, column, panels }]);
        }
    }

    /// This CTA's columns of the values, a half of the keys at a time.
    fn copy_values(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]) {
        let config = &self.frame.config;
        let columns = self.columns(b);
        let places = self.gatherer.places(b, open, &columns[0], rows);
        for half in 0..(TILE / SLOT_ROWS) as usize {
            let places = &places[half..=half];
            let parts = (0..).zip(&columns).map(|(n, source)| {
                let first = n * config.accumulator_panels();
                Part {
                    source,
                    places,
                    column: 0,
                    panels: first..first + config.accumulator_panels(),
                }
            });
            self.gatherer.fill(b, &parts.collect::<Vec<_>>());
        }
    }
}

impl RowGatherer<'_> {
    /// This CTA's columns of each accumulator.
    fn columns(&self, b: &mut Builder) -> Vec<Scattered> {
        let config = &self.frame.config;
        let values = self.frame.params.keys().v.expect("values are copied apart from keys");
        let all = 0..config.accumulators();
        let columns = all.map(|n| {
            let half = config.accumulator_columns() / 2;
            let first = b.eval(self.frame.rank * half);
            let first = b.eval(first + n * config.accumulator_columns());
            values.scattered().columns(b, first, half)
        });
        columns.collect()
    }
}
