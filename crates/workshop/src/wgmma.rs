//! A GEMM with Hopper's tensor cores: `C = A · Bᵀ`, one tile of 64 × 128 per CTA.

use layout::hw::{Major, SmemSwizzle, SmemTile};
use program::build::{Arguments, Grid, Memory};
use program::{BufferId, ElementType, Program, Swizzle, TensorMap};
use ptx::build::{
    Accumulator, Budget, Builder, Cmp, HalfType, Pipeline, Reg, SharedTiles, Target, TensorMapParam,
};

/// Rows of a tile: those of a warpgroup.
const ROWS: u32 = 64;
/// Columns of a tile.
const COLUMNS: u32 = 128;
/// Elements of a row that one step multiplies, and columns that one copy stores.
const DEPTH: u32 = 64;
/// Steps in flight.
const STAGES: u32 = 2;
/// One warpgroup multiplies, and one more warp loads.
const THREADS: u32 = 128 + 32;

/// What both roles know.
struct Frame {
    /// Maps of `A`, `B` and `C`.
    maps: [TensorMapParam; 3],
    steps: Reg<u32>,
    ring: Pipeline,
    left: SharedTiles,
    right: SharedTiles,
    /// The result, in blocks of 64 columns.
    out: SharedTiles,
    row: Reg<u32>,
    column: Reg<u32>,
}

/// The program for `m` × `k` by `n` × `k` bf16 numbers, buffers `a`, `b` and `c`.
pub fn program([m, n, k]: [u32; 3]) -> Program {
    let mut memory = Memory::new();
    let bytes = |rows: u32, columns: u32| 2 * u64::from(rows) * u64::from(columns);
    let a = memory.input("a", bytes(m, k));
    let b = memory.input("b", bytes(n, k));
    let c = memory.output("c", bytes(m, n));
    let mut builder = Builder::new("gemm", Target::Sm90a);
    let (args, frame) = declare(&mut builder, [m, n, k], [a, b, c]);
    frame.emit(&mut builder);
    let grid = Grid::new(m.div_ceil(ROWS), THREADS);
    memory.single(builder, args, Grid { ctas: [m.div_ceil(ROWS), n.div_ceil(COLUMNS), 1], ..grid })
}

fn declare(b: &mut Builder, [m, n, k]: [u32; 3], buffers: [BufferId; 3]) -> (Arguments, Frame) {
    b.launch_bounds(THREADS, 1);
    let mut args = Arguments::default();
    let mut map = |b: &mut Builder, name, buffer, shape: [u32; 2], box_rows| {
        let (element, swizzle) = (ElementType::Bf16, Swizzle::B128);
        let shape = shape.map(u64::from);
        let map = TensorMap::matrix(buffer, element, shape, [box_rows, DEPTH], swizzle);
        args.tensor_map(b, name, map)
    };
    let maps = [
        map(b, "a", buffers[0], [m, k], ROWS),
        map(b, "b", buffers[1], [n, k], COLUMNS),
        map(b, "c", buffers[2], [m, n], ROWS),
    ];
    let base = b.shared_base();
    let frame = Frame {
        maps,
        steps: args.u32(b, "steps", k.div_ceil(DEPTH)),
        left: SharedTiles::reserve(b, base, operand(ROWS), STAGES),
        right: SharedTiles::reserve(b, base, operand(COLUMNS), STAGES),
        out: SharedTiles::reserve(b, base, operand(ROWS), COLUMNS / DEPTH),
        ring: Pipeline::reserve(b, base, STAGES),
        row: place(b, "%ctaid.x", ROWS),
        column: place(b, "%ctaid.y", COLUMNS),
    };
    (args, frame)
}

/// An operand of one step: a row is 64 numbers, the span of the 128-byte swizzle.
fn operand(rows: u32) -> SmemTile {
    let tile = SmemTile::new(rows.into(), DEPTH.into(), 16, Major::K, SmemSwizzle::B128);
    tile.expect("whole swizzle atoms")
}

/// Where the CTA's tile begins along one dimension of the grid.
fn place(b: &mut Builder, index: &str, size: u32) -> Reg<u32> {
    let index = b.special(index);
    b.mul(index, size)
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            // A fill is one arrival and its bytes; a stage is free when all four warps say so.
            self.ring.init(b, 1, 4);
            b.fence_mbarrier_init();
        });
        b.barrier_all();
        let warp = b.warp();
        b.roles(warp, |roles| {
            roles.warpgroup(0, Budget::Launch, |b| self.multiply(b, thread, first));
            roles.warp(4, |b| self.load(b));
        });
    }

    /// Brings both operands of every step.
    fn load(&self, b: &mut Builder) {
        let lead = b.elect();
        let [a_map, b_map, _] = self.maps;
        b.if_(lead, |b| {
            let ring = self.ring.producer(b);
            b.range(0, self.steps, |b, step| {
                let slot = ring.take(b);
                slot.wait(b);
                let (left, right) = (slot.tile(b, self.left), slot.tile(b, self.right));
                let full = slot.full(b);
                full.arrive_expect(b, left.bytes() + right.bytes());
                let along = Builder::coordinate(b.mul(step, DEPTH));
                let at = |row| [along.clone(), Builder::coordinate(row)];
                b.tma_load(left.at(), a_map, &at(self.row), full);
                b.tma_load(right.at(), b_map, &at(self.column), full);
            });
        });
    }

    /// Multiplies step by step, and stores the sums.
    fn multiply(&self, b: &mut Builder, thread: Reg<u32>, first: Reg<bool>) {
        let sums = Accumulator::new(b, COLUMNS);
        let ring = self.ring.consumer(b);
        let lead = b.elect();
        b.range(0, self.steps, |b, step| {
            let slot = ring.take(b);
            slot.wait(b);
            let (left, right) = (slot.tile(b, self.left), slot.tile(b, self.right));
            let accumulate = b.setp(Cmp::Ne, step, 0);
            sums.multiply(b, HalfType::Bf16, left, right, accumulate);
            b.wgmma_wait(0);
            slot.release_if(b, lead);
        });
        for block in 0..self.out.count() {
            let columns = block * DEPTH..(block + 1) * DEPTH;
            let pairs = sums.rounded(b, HalfType::Bf16, columns);
            b.store_fragment(thread, &pairs, self.out.tile(block));
        }
        b.fence_proxy_async();
        b.barrier_sync(1, 128);
        b.if_(first, |b| self.store(b));
    }

    /// Copies the result to memory (one thread).
    fn store(&self, b: &mut Builder) {
        let [_, _, map] = self.maps;
        for block in 0..self.out.count() {
            let column = Builder::coordinate(b.add(self.column, block * DEPTH));
            let at = [column, Builder::coordinate(self.row)];
            b.tma_store(map, &at, self.out.tile(block).at());
        }
        b.bulk_commit();
        b.bulk_wait(0);
    }
}
