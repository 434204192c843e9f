//! One warp's share of a tile: which lane copies what.

use super::WARPS;
use super::lookup::{Aside, Place};
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedTile, SmemPtr, VECTOR_BYTES};

/// Lanes of a warp.
pub const LANES: u32 = 32;
/// Lanes that copy a row of a panel of 128 bytes, a vector each.
pub const LANES_PER_ROW: u32 = 8;
/// Rows of a run: what one instruction of a warp copies of a panel.
pub const ROWS: u32 = LANES / LANES_PER_ROW;
/// A place that holds no row.
pub const NOWHERE: u32 = u32::MAX;
/// Bytes that come to L2 at a time.
pub const LINE_BYTES: u32 = 128;

/// A warp's share of a tile, or of a piece of its columns.
pub struct Share<'a> {
    places: &'a [Place],
    lane: Reg<u32>,
    /// Row of a run, and vector of a panel, of this lane.
    row: Reg<u32>,
    /// Vector of a panel.
    pub vector: Reg<u32>,
    /// First column.
    pub column: u32,
    to: SharedTile,
    /// Where this lane's vector of the first panel of the first run goes.
    at: SmemPtr,
    /// Runs of rows.
    runs: u32,
}

/// A row of a run: what the lanes that copy it know of it.
pub struct Handed {
    /// Whether there is a row.
    pub exists: Reg<bool>,
    /// Its place, or another where there is none.
    pub row: Reg<u32>,
    /// What else is known of it.
    pub aside: Aside,
}

impl<'a> Share<'a> {
    /// Warp `warp`'s share of columns from `column` on, which go to `to`.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        warp: Reg<u32>,
        places: &'a [Place],
        column: u32,
        to: SharedTile,
    ) -> Self {
        let lane = b.special("%laneid");
        let (row, vector) = (b.eval(lane / LANES_PER_ROW), b.eval(lane % LANES_PER_ROW));
        let line = b.eval(warp * ROWS + row);
        let at = to.row(b, line).from_vector(b, vector).vector(b, 0);
        let runs = to.layout().lines() as u32 / WARPS / ROWS;
        Share { places, lane, row, vector, column, to, at, runs }
    }

    /// Half `half` of it: the rows of its first runs, or of the others.
    #[track_caller]
    pub fn half(self, b: &mut Builder, half: Reg<u32>) -> Self {
        let runs = self.runs / 2;
        assert!(runs * ROWS * 2 <= LANES, "a lane looks up one row");
        let first = b.eval(half * (runs * self.run_bytes()));
        let row = b.eval(half * (runs * ROWS) + self.row);
        Share { row, at: b.smem_add(self.at, first), runs, ..self }
    }

    /// The lane's number.
    pub fn lane(&self) -> Reg<u32> {
        self.lane
    }

    /// Panels of columns.
    pub fn panels(&self) -> u32 {
        self.to.layout().blocks() as u32
    }

    /// Runs of rows.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// The place of this lane's row of run `run`, from the lane that looked it up.
    #[track_caller]
    pub fn handed(&self, b: &mut Builder, run: u32) -> Handed {
        let from = b.eval(self.row + run * ROWS % LANES);
        Handed::from_lane(b, self.place(run), from)
    }

    /// Runs `body` for every run, in loops that the assembler does not unroll: with the place of this lane's row of
    /// it, and where its vector of the first panel goes.
    #[track_caller]
    pub fn for_each_run(
        &self,
        b: &mut Builder,
        mut body: impl FnMut(&mut Builder, Handed, SmemPtr),
    ) {
        let runs_of_place = LANES / ROWS;
        for (first, place) in (0..self.runs()).step_by(runs_of_place as usize).zip(self.places) {
            b.range(0, runs_of_place, |b, run| {
                let from = b.eval(run * ROWS + self.row);
                let handed = Handed::from_lane(b, place, from);
                let to = b.smem_add(self.to(first, 0), run * self.run_bytes());
                body(b, handed, to);
            });
        }
    }

    /// The place of a row of run `run`, in the lane that looked it up.
    pub fn place(&self, run: u32) -> &Place {
        &self.places[(run * ROWS / LANES) as usize]
    }

    /// Where this lane's vector of a panel of run `run` goes.
    pub fn to(&self, run: u32, panel: u32) -> SmemPtr {
        self.panel(self.at, panel).plus(run * self.run_bytes())
    }

    /// The vector of panel `panel` of the row whose vector of the first one is at `first`.
    pub fn panel(&self, first: SmemPtr, panel: u32) -> SmemPtr {
        first.plus(panel * self.to.layout().block_bytes() as u32)
    }

    /// Bytes from a run to the next. All warps' rows of a run are whole atoms of the swizzle: it is the same in every
    /// run.
    fn run_bytes(&self) -> u32 {
        ROWS * WARPS * self.to.layout().swizzle().span_bytes() as u32
    }
}

impl Handed {
    /// What lane `lane` looked up.
    #[track_caller]
    fn from_lane(b: &mut Builder, place: &Place, lane: Reg<u32>) -> Self {
        let Place { row, aside } = place.of_lane(b, lane);
        let exists = b.setp(Cmp::Ne, row, NOWHERE);
        Handed { exists, row: b.select::<u32>(exists, row, 0), aside }
    }
}

/// The row at a place.
#[track_caller]
pub fn row_at(b: &mut Builder, base: GlobalPtr, place: Reg<u32>) -> GlobalPtr {
    b.global_add(base, place.widening_mul(VECTOR_BYTES))
}

/// Brings rows of `bytes` to L2, a lane those it looked up: the wait for room in shared memory hides the rest of
/// their way.
#[track_caller]
pub fn prefetch(b: &mut Builder, base: GlobalPtr, bytes: u32, places: &[Place]) {
    for place in places {
        let exists = place.exists(b);
        b.if_(exists, |b| {
            let row = row_at(b, base, place.row);
            for line in 0..bytes.div_ceil(LINE_BYTES) {
                b.prefetch_to_l2(row.plus(i64::from(line * LINE_BYTES)));
            }
        });
    }
}
