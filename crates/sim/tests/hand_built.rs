//! One hand-built kernel per generation: `D = A·Bᵀ` of one tile by `mma.sync`, by TMA and wgmma, and by
//! TMA, tcgen05 and tensor memory. Each is assembled by the real `ptxas` and run on the simulator.

use half::bf16;
use layout::hw::{InstructionDescriptor, Major, MmaKind, OperandType, SmemSwizzle, SmemTile};
use program::{
    Access, Argument, Buffer, BufferId, ElementType, L2Promotion, Launch, OobFill, Program,
    Swizzle, TensorMap,
};
use ptx::build::{
    Builder, Cmp, CtaGroup, GlobalPtr, HalfType, Kernel, Reg, SharedArray, SharedTile, Signals,
    SmemPtr, Target, Tcgen05A, TmemPtr, WgmmaA, module,
};
use std::sync::Arc;

const K: u32 = 64;

/// Element `i` of an input: small numbers that bf16 holds exactly.
fn input(seed: u32, i: u32) -> f32 {
    ((i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) % 17) as f32 / 4.0 - 2.0
}

fn check(target: Target, kernel: Kernel, [m, n, k]: [u32; 3], block: u32, maps: bool) {
    let (name, shared_bytes) = (kernel.function.name.to_string(), kernel.shared_bytes);
    let module = module(target, vec![kernel]);
    let assembled =
        ptx::toolchain::assemble(&module.to_string(), target.name()).expect("assembles");
    assert_eq!(assembled.report[0].spill_stores + assembled.report[0].spill_loads, 0);
    assert!(assembled.warnings.is_empty(), "{:?}", assembled.warnings);

    let sizes = [m * k * 2, n * k * 2, m * n * 4];
    let buffer = |i: usize| {
        let access = if i == 2 { Access::Write } else { Access::Read };
        Buffer::new(["a", "b", "d"][i], sizes[i].into(), 128, access)
    };
    let operand = |i: usize, rows: u32| match maps {
        true => Argument::TensorMap(tensor_map(BufferId(i), rows, k)),
        false => Argument::Buffer(BufferId(i), 0),
    };
    let launch = Launch {
        kernel: name,
        grid: [1; 3],
        block: [block, 1, 1],
        cluster: [1; 3],
        shared_bytes,
        args: vec![operand(0, m), operand(1, n), Argument::Buffer(BufferId(2), 0)],
        overlaps_previous: false,
    };
    let program = Program {
        module: Arc::new(module),
        buffers: (0..3).map(buffer).collect(),
        launches: vec![launch],
    };
    let bytes = |seed, count| -> Vec<u8> {
        (0..count).flat_map(|i| bf16::from_f32(input(seed, i)).to_le_bytes()).collect()
    };
    let memory = [bytes(1, m * k), bytes(2, n * k), vec![0; sizes[2] as usize]];
    for mode in ["eager", "latest"] {
        let options = sixwarp_sim::Options::mode(mode, 0).expect("a mode");
        let report =
            sixwarp_sim::run(&program, &memory, &options).unwrap_or_else(|e| panic!("{e}"));
        let (cells, _) = report.buffers[2].as_chunks::<4>();
        for (i, cell) in cells.iter().enumerate() {
            let (row, column) = (i as u32 / n, i as u32 % n);
            let want: f32 = (0..k).map(|t| input(1, row * k + t) * input(2, column * k + t)).sum();
            assert_eq!(f32::from_le_bytes(*cell), want, "{mode}: D[{row}, {column}]");
        }
    }
}

fn tensor_map(buffer: BufferId, rows: u32, columns: u32) -> TensorMap {
    TensorMap {
        buffer,
        offset: 0,
        element: ElementType::Bf16,
        dims: vec![columns.into(), rows.into()],
        strides: vec![u64::from(columns) * 2],
        box_dims: vec![columns, rows],
        element_strides: vec![1, 1],
        im2col: None,
        swizzle: Swizzle::B128,
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::None,
    }
}

fn tile(rows: u32) -> SmemTile {
    SmemTile::new(rows.into(), K.into(), 16, Major::K, SmemSwizzle::B128).expect("a legal tile")
}

/// What a kernel has before it multiplies.
struct Operands {
    a: SharedTile,
    b: SharedTile,
    out: GlobalPtr,
    /// The multiply is done.
    done: Signals,
    /// One word of shared memory.
    word: SmemPtr,
}

/// Both operands by TMA, waited for by every thread.
fn load_operands(b: &mut Builder, rows: [u32; 2]) -> Operands {
    let maps = [b.param_tensor_map("a"), b.param_tensor_map("b")];
    let out = b.param_ptr("d");
    let base = b.shared_base();
    let tiles = rows.map(|rows| SharedTile::reserve(b, base, tile(rows)));
    let [full, done] = [(); 2].map(|()| Signals::reserve(b, base, 1));
    let word = SharedArray::<u32>::one(b, base).at();
    let thread = b.thread();
    let first = b.setp(Cmp::Eq, thread, 0);
    b.if_(first, |b| {
        full.init(b, 1);
        done.init(b, 1);
        b.fence_mbarrier_init();
    });
    b.barrier_all();
    let full = full.cursor(b);
    b.if_(first, |b| {
        let arrived = full.barrier(b);
        arrived.arrive_expect(b, tiles[0].bytes() + tiles[1].bytes());
        for (map, tile) in maps.into_iter().zip(tiles) {
            b.tma_load(tile.block(0), map, &[0.into(), 0.into()], arrived);
        }
    });
    full.wait(b);
    Operands { a: tiles[0], b: tiles[1], out, done, word }
}

#[test]
fn ampere_multiplies_by_mma_sync() {
    let mut b = Builder::new("mma_sync", Target::Sm80);
    let [a, right, out] = ["a", "b", "d"].map(|name| b.param_ptr(name));
    let lane = b.thread();
    let (row, quad) = (b.shr(lane, 2), b.and(lane, 3));
    let fragment = b.mul_wide(quad, 4);
    let fragment = b.mad_wide(row, 16 * 2, fragment);
    let left = b.global_add(a, fragment);
    let right = b.global_add(right, fragment);
    let rows = [0, 8 * 32, 16, 8 * 32 + 16].map(|offset| b.ld_global::<u32>(left.plus(offset)));
    let columns = [0, 16].map(|offset| b.ld_global::<u32>(right.plus(offset)));
    let d: [Reg<f32>; 4] = std::array::from_fn(|_| b.value(0.0));
    b.mma_m16n8k16(HalfType::Bf16, &d, &rows, &columns);
    let at = b.mul_wide(quad, 8);
    let at = b.mad_wide(row, 8 * 4, at);
    let at = b.global_add(out, at);
    b.st_global_vector(at, &d[..2]);
    b.st_global_vector(at.plus(8 * 32), &d[2..]);
    check(Target::Sm80, b.finish(), [16, 8, 16], 32, false);
}

#[test]
fn hopper_multiplies_by_tma_and_wgmma() {
    const N: u32 = 64;
    let mut b = Builder::new("wgmma", Target::Sm90a);
    b.launch_bounds(128, 1);
    let operands = load_operands(&mut b, [64, N]);
    let [left, right] = [operands.a, operands.b].map(|tile| tile.descriptor(&mut b));
    let d: Vec<Reg<f32>> = b.regs(N as usize / 2);
    let (no, yes) = (b.predicate(false), b.predicate(true));
    b.wgmma_fence();
    for step in 0..K / 16 {
        let left = WgmmaA::Shared(operands.a.step(&mut b, left, step), false);
        let right = operands.b.step(&mut b, right, step);
        let accumulate = if step == 0 { no } else { yes };
        b.wgmma(HalfType::Bf16, &d, &left, right, false, accumulate);
    }
    b.wgmma_commit();
    b.wgmma_wait(0);
    let thread = b.thread();
    let (warp, lane) = (b.shr(thread, 5), b.and(thread, 31));
    let (row, quad) = (b.shr(lane, 2), b.and(lane, 3));
    let row = b.mad(warp, 16, row);
    let at = b.mul_wide(quad, 8);
    let at = b.mad_wide(row, N * 4, at);
    let at = b.global_add(operands.out, at);
    for (i, pair) in d.chunks_exact(2).enumerate() {
        let (group, half) = (i as i64 / 2, i as i64 % 2);
        b.st_global_vector(at.plus(group * 32 + half * 8 * i64::from(N) * 4), pair);
    }
    check(Target::Sm90a, b.finish(), [64, N, K], 128, true);
}

/// `d = a·bᵀ` by one thread.
fn multiply(b: &mut Builder, operands: &Operands, d: TmemPtr, columns: u32) {
    let [left, right] = [operands.a, operands.b].map(|tile| tile.descriptor(b));
    let bf16 = OperandType::Bf16;
    let rows = operands.a.layout().mn() as u32;
    let shape = InstructionDescriptor::new(MmaKind::F16, bf16, bf16, rows, columns);
    let shape = shape.encode().expect("a shape the instruction has");
    for step in 0..K / 16 {
        let left = Tcgen05A::Shared(operands.a.step(b, left, step));
        let right = operands.b.step(b, right, step);
        let accumulate = b.predicate(step > 0);
        b.tcgen05_mma_f16(CtaGroup::One, d, left, right, shape, accumulate);
    }
}

#[test]
fn blackwell_multiplies_by_tma_and_tcgen05() {
    const N: u32 = 64;
    let mut b = Builder::new("tcgen05", Target::Sm100a);
    b.launch_bounds(128, 1);
    let operands = load_operands(&mut b, [128, N]);
    let warp = b.warp();
    let first_warp = b.setp(Cmp::Eq, warp.index(), 0);
    b.if_(first_warp, |b| {
        b.tmem_alloc(CtaGroup::One, operands.word, 64);
        b.tmem_relinquish(CtaGroup::One);
    });
    b.tcgen05_fence_before();
    b.barrier_all();
    b.tcgen05_fence_after();
    let base = b.ld_shared::<u32>(operands.word);
    let done = operands.done.cursor(&mut b);
    b.roles(warp, |roles| {
        roles.warp(0, |b| {
            let issues = b.elect();
            b.if_(issues, |b| {
                multiply(b, &operands, TmemPtr { base, column: 0 }, N);
                let done = done.barrier(b);
                b.tcgen05_commit(CtaGroup::One, done);
            });
        });
    });
    done.wait(&mut b);
    b.tcgen05_fence_after();
    let thread = b.thread();
    let lanes = b.shl(warp.index(), 21);
    let own = b.add(base, lanes);
    let row = b.tmem_load::<f32>(TmemPtr { base: own, column: 0 }, N);
    b.tmem_wait_load();
    let at = b.mul_wide(thread, N * 4);
    let at = b.global_add(operands.out, at);
    for (i, four) in row.chunks_exact(4).enumerate() {
        b.st_global_vector(at.plus(i as i64 * 16), four);
    }
    b.tcgen05_fence_before();
    b.barrier_all();
    b.if_(first_warp, |b| b.tmem_dealloc(CtaGroup::One, base, 64));
    check(Target::Sm100a, b.finish(), [128, N, K], 128, true);
}
