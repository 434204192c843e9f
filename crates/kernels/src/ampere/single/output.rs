//! The end of a tile of f32 rows: normalise and write.

use super::{PANEL, REGISTERS};
use crate::hopper::{epilogue, fragment};
use crate::math::exact::Watch;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

/// Columns of a panel that a lane accumulates.
const OF_LANE: u32 = 8;

/// Finished output columns of a warp.
pub struct Columns<'a> {
    /// Thread within the row block.
    pub thread: Reg<u32>,
    /// Accumulators, of whole panels.
    pub out: &'a [Reg<f32>],
    /// First column.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// Whether they are finite.
    pub watch: Watch,
}

impl Columns<'_> {
    /// Multiplies rows by `factors` and writes them; partial results are f32 too.
    pub fn write(&self, b: &mut Builder, output: &BlockOutput<'_>, factors: [Reg<f32>; 2]) {
        fragment::scale_rows(b, self.out, factors);
        let finite = self.watch.finite(b);
        finite.look(b, self.out);
        self.watch.note(b, &finite);
        let lane = b.eval(self.thread % 4);
        let column = b.eval(lane.widening_mul(OF_LANE * 4));
        let places = epilogue::places(b, self.thread, output);
        for (half, place) in places.iter().enumerate() {
            let to = match output.params.output.partial {
                Some(partial) => output.partial_row(b, place, partial, column),
                None => output.output_row(b, place, column),
            };
            let to = to.plus(i64::from(self.first) * 4);
            for (panel, registers) in (0..).zip(self.out.chunks_exact(REGISTERS)) {
                let writes = self.within(b, lane, panel, place.live);
                let to = to.plus(i64::from(panel * PANEL) * 4);
                b.if_(writes, |b| write_columns(b, to, registers, half));
            }
        }
    }

    /// `live`, where the lane has columns of a panel: the last one may not be whole.
    #[track_caller]
    fn within(&self, b: &mut Builder, lane: Reg<u32>, panel: u32, live: Reg<bool>) -> Reg<bool> {
        let lanes = self.count.saturating_sub(panel * PANEL) / OF_LANE;
        if lanes >= PANEL / OF_LANE {
            return live;
        }
        let has = b.setp(Cmp::Lt, lane, lanes);
        b.and(live, has)
    }
}

/// Writes the eight columns that a lane has of a panel in row `half`.
#[track_caller]
fn write_columns(b: &mut Builder, to: GlobalPtr, registers: &[Reg<f32>], half: usize) {
    for upper in [0, 1] {
        let columns: Vec<_> = (0..4).map(|n| registers[4 * n + 2 * half + upper]).collect();
        b.st_global_vector(to.plus(16 * upper as i64), &columns);
    }
}
