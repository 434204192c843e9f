//! Tiles by TMA: a matrix times a number, through a ring of tiles in shared memory.

use layout::hw::{Major, SmemSwizzle, SmemTile};
use program::build::{Arguments, Grid, Memory};
use program::{ElementType, Program, Swizzle, TensorMap};
use ptx::build::{Builder, Cmp, Pipeline, Reg, SharedTiles, Target, TensorMapParam};

/// Rows of a tile, one per thread of the warpgroup that computes.
const ROWS: u32 = 128;
/// Columns of a tile: 128 bytes of f32, the span of a swizzle.
const COLUMNS: u32 = 32;
/// Tiles in flight.
const STAGES: u32 = 2;
/// Four warps compute, and one more brings tiles.
const THREADS: u32 = 5 * 32;

/// What both roles know.
struct Frame {
    from: TensorMapParam,
    to: TensorMapParam,
    factor: Reg<f32>,
    tiles: Reg<u32>,
    ring: Pipeline,
    shared: SharedTiles,
}

/// The program for a matrix of `rows` × 32 numbers, buffers `x` and `y`.
pub fn program(rows: u32, factor: f32) -> Program {
    let (mut memory, mut args) = (Memory::new(), Arguments::default());
    let shape = [rows, COLUMNS].map(u64::from);
    let map =
        |buffer| TensorMap::matrix(buffer, ElementType::F32, shape, [ROWS, COLUMNS], Swizzle::B128);
    let x = map(memory.input("x", 4 * shape[0] * shape[1]));
    let y = map(memory.output("y", 4 * shape[0] * shape[1]));

    let mut b = Builder::new("scale", Target::Sm90a);
    b.launch_bounds(THREADS, 1);
    let base = b.shared_base();
    let tile = SmemTile::new(ROWS.into(), COLUMNS.into(), 32, Major::K, SmemSwizzle::B128);
    let frame = Frame {
        from: args.tensor_map(&mut b, "x", x),
        to: args.tensor_map(&mut b, "y", y),
        factor: args.f32(&mut b, "factor", factor),
        tiles: args.u32(&mut b, "tiles", rows.div_ceil(ROWS)),
        shared: SharedTiles::reserve(&mut b, base, tile.expect("a legal tile"), STAGES),
        ring: Pipeline::reserve(&mut b, base, STAGES),
    };
    frame.emit(&mut b);
    memory.single(b, args, Grid::new(1, THREADS))
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            self.ring.init(b, 1, 1);
            b.fence_mbarrier_init();
        });
        b.barrier_all();
        let warp = b.warp();
        b.roles(warp, |roles| {
            roles.warps(0..4, |b, _| self.compute(b, thread, first));
            roles.warp(4, |b| self.load(b));
        });
    }

    /// Brings one tile after the other, as stages become free.
    fn load(&self, b: &mut Builder) {
        let lead = b.elect();
        b.if_(lead, |b| {
            let ring = self.ring.producer(b);
            b.range(0, self.tiles, |b, n| {
                let slot = ring.take(b);
                slot.wait(b);
                let (tile, full) = (slot.tile(b, self.shared), slot.full(b));
                full.arrive_expect(b, tile.bytes());
                let row = b.mul(n, ROWS);
                b.tma_load(tile.at(), self.from, &[0.into(), Builder::coordinate(row)], full);
            });
        });
    }

    /// Multiplies a row per thread, in place, and stores the tile.
    fn compute(&self, b: &mut Builder, thread: Reg<u32>, lead: Reg<bool>) {
        let ring = self.ring.consumer(b);
        b.range(0, self.tiles, |b, n| {
            let slot = ring.take(b);
            slot.wait(b);
            let tile = slot.tile(b, self.shared);
            let row = tile.row(b, thread);
            for column in (0..COLUMNS).step_by(4) {
                let at = row.vector(b, column);
                let values = b.ld_shared_vector::<f32>(at, 4);
                let scaled: Vec<_> = values.iter().map(|x| b.mul(*x, self.factor)).collect();
                b.st_shared_vector(at, &scaled);
            }
            // The copy reads through the async proxy what these threads wrote through the generic one.
            b.fence_proxy_async();
            b.barrier_sync(1, ROWS);
            b.if_(lead, |b| {
                let first = b.mul(n, ROWS);
                b.tma_store(self.to, &[0.into(), Builder::coordinate(first)], tile.at());
                b.bulk_commit();
                b.bulk_wait_read(0);
            });
            slot.release_if(b, lead);
        });
        b.if_(lead, |b| b.bulk_wait(0));
    }
}
