//! The same GEMM with Blackwell's tensor cores: sums are in tensor memory, one tile of 128 × 128 per CTA.

use layout::hw::{InstructionDescriptor, MmaKind, OperandType};
use layout::hw::{Major, SmemSwizzle, SmemTile};
use program::build::{Arguments, Grid, Memory};
use program::{BufferId, ElementType, Program, Swizzle, TensorMap};
use ptx::build::{
    Builder, Cmp, CtaGroup, HalfType, Pipeline, Reg, SharedTiles, Signals, Target, Tcgen05A,
    TensorMapParam, TensorMemory, TmemPtr,
};

/// Rows and columns of a tile: all 128 lanes of tensor memory, and as many columns.
const SIZE: u32 = 128;
/// Elements of a row that one step multiplies, and columns that one copy stores.
const DEPTH: u32 = 64;
/// Steps in flight.
const STAGES: u32 = 2;
/// Four warps read tensor memory; one loads, and one issues products.
const THREADS: u32 = 6 * 32;
/// The warp that loads, and the one that multiplies.
const LOADS: u32 = 4;
const MULTIPLIES: u32 = 5;
/// Columns that a thread takes from tensor memory at once.
const AT_ONCE: u32 = 32;

/// What all roles know.
struct Frame {
    /// Maps of `A`, `B` and `C`.
    maps: [TensorMapParam; 3],
    steps: Reg<u32>,
    ring: Pipeline,
    /// Tells that the sums are complete.
    complete: Signals,
    memory: TensorMemory,
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
    let mut builder = Builder::new("gemm", Target::Sm100a);
    let (args, frame) = declare(&mut builder, [m, n, k], [a, b, c]);
    frame.emit(&mut builder);
    let grid = Grid::new(m.div_ceil(SIZE), THREADS);
    memory.single(builder, args, Grid { ctas: [m.div_ceil(SIZE), n.div_ceil(SIZE), 1], ..grid })
}

fn declare(b: &mut Builder, [m, n, k]: [u32; 3], buffers: [BufferId; 3]) -> (Arguments, Frame) {
    b.launch_bounds(THREADS, 1);
    let mut args = Arguments::default();
    let mut map = |b: &mut Builder, name, buffer, shape: [u32; 2]| {
        let (element, swizzle) = (ElementType::Bf16, Swizzle::B128);
        let map = TensorMap::matrix(buffer, element, shape.map(u64::from), [SIZE, DEPTH], swizzle);
        args.tensor_map(b, name, map)
    };
    let maps = [
        map(b, "a", buffers[0], [m, k]),
        map(b, "b", buffers[1], [n, k]),
        map(b, "c", buffers[2], [m, n]),
    ];
    let base = b.shared_base();
    let frame = Frame {
        maps,
        steps: args.u32(b, "steps", k.div_ceil(DEPTH)),
        left: SharedTiles::reserve(b, base, operand(), STAGES),
        right: SharedTiles::reserve(b, base, operand(), STAGES),
        out: SharedTiles::reserve(b, base, operand(), SIZE / DEPTH),
        ring: Pipeline::reserve(b, base, STAGES),
        complete: Signals::reserve(b, base, 1),
        memory: TensorMemory::reserve(b, base, CtaGroup::One, MULTIPLIES, SIZE),
        row: place(b, "%ctaid.x"),
        column: place(b, "%ctaid.y"),
    };
    (args, frame)
}

/// An operand of one step: a row is 64 numbers, the span of the 128-byte swizzle.
fn operand() -> SmemTile {
    let tile = SmemTile::new(SIZE.into(), DEPTH.into(), 16, Major::K, SmemSwizzle::B128);
    tile.expect("whole swizzle atoms")
}

/// Where the CTA's tile begins along one dimension of the grid.
fn place(b: &mut Builder, index: &str) -> Reg<u32> {
    let index = b.special(index);
    b.mul(index, SIZE)
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        let (thread, warp) = (b.thread(), b.warp());
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            self.ring.init(b, 1, 1);
            self.complete.init(b, 1);
            b.fence_mbarrier_init();
        });
        self.memory.allocate(b, warp);
        b.tcgen05_fence_before();
        b.barrier_all();
        b.tcgen05_fence_after();
        let sums = self.memory.pointer(b);
        b.roles(warp, |roles| {
            roles.warps(0..4, |b, number| self.finish(b, thread, number, sums));
            roles.warp(LOADS, |b| self.load(b));
            roles.warp(MULTIPLIES, |b| self.multiply(b, sums));
        });
        b.tcgen05_fence_before();
        b.barrier_all();
        self.memory.free(b, warp, sums);
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
        b.warp_sync();
    }

    /// Issues the products (one thread). What it issued arrives on barriers when it is done.
    fn multiply(&self, b: &mut Builder, sums: TmemPtr) {
        let (ring, lead) = (self.ring.consumer(b), b.elect());
        let kind = InstructionDescriptor::new(
            MmaKind::F16,
            OperandType::Bf16,
            OperandType::Bf16,
            SIZE,
            SIZE,
        );
        let kind = kind.encode().expect("a legal shape");
        b.if_(lead, |b| {
            b.range(0, self.steps, |b, step| {
                let slot = ring.take(b);
                slot.wait(b);
                let (left, right) = (slot.tile(b, self.left), slot.tile(b, self.right));
                let (left_at, right_at) = (left.descriptor(b), right.descriptor(b));
                let (later, always) = (b.setp(Cmp::Ne, step, 0), b.predicate(true));
                for k in 0..left.layout().k_steps() as u32 {
                    let a = Tcgen05A::Shared(left.step(b, left_at, k));
                    let right = right.step(b, right_at, k);
                    let accumulate = if k == 0 { later } else { always };
                    b.tcgen05_mma_f16(CtaGroup::One, sums, a, right, kind, accumulate);
                }
                let free = slot.empty(b);
                b.tcgen05_commit(CtaGroup::One, free);
            });
            let complete = self.complete.cursor(b).barrier(b);
            b.tcgen05_commit(CtaGroup::One, complete);
        });
        b.warp_sync();
    }

    /// Takes the sums from tensor memory, a row per thread, and stores them.
    fn finish(&self, b: &mut Builder, thread: Reg<u32>, warp: Reg<u32>, sums: TmemPtr) {
        self.complete.cursor(b).wait(b);
        b.tcgen05_fence_after();
        // A warp reads the 32 lanes of its own number; lanes are the upper half of an address.
        let lanes = b.shl(warp, 5 + 16);
        let own = TmemPtr { base: b.add(sums.base, lanes), ..sums };
        for first in (0..SIZE).step_by(AT_ONCE as usize) {
            let numbers = b.tmem_load::<f32>(own.columns(first), AT_ONCE);
            b.tmem_wait_load();
            let row = self.out.tile(first / DEPTH).row(b, thread);
            for (i, eight) in numbers.chunks(8).enumerate() {
                let (pairs, _) = eight.as_chunks::<2>();
                let pairs: Vec<_> =
                    pairs.iter().map(|[x, y]| b.pack(HalfType::Bf16, *x, *y)).collect();
                let at = row.vector(b, first % DEPTH + 8 * i as u32);
                b.st_shared_vector(at, &pairs);
            }
        }
        b.fence_proxy_async();
        b.barrier_sync(1, 128);
        let leads = b.setp(Cmp::Eq, thread, 0);
        b.if_(leads, |b| self.store(b));
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
