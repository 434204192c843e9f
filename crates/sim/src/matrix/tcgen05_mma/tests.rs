use super::*;

fn value(i: usize) -> f32 {
    ((i * 23 + 5) % 13) as f32 - 6.0
}

fn a_value(m: usize, k: usize) -> f32 {
    value(m * 17 + k * 3)
}

fn b_value(n: usize, k: usize) -> f32 {
    value(n * 7 + k * 11 + 1)
}

/// A descriptor for a K-major tile of 128-byte swizzled lines.
fn descriptor(start: u32, swizzle: u64) -> u64 {
    swizzle << 61 | 1 << 46 | 64 << 32 | 128 << 16 | u64::from(start >> 4)
}

fn bits(element: Element, x: f32) -> u32 {
    match element {
        Element::F16 => u32::from(half::f16::from_f32(x).to_bits()),
        Element::Bf16 => u32::from(half::bf16::from_f32(x).to_bits()),
        Element::Tf32 => x.to_bits(),
        Element::E4m3 => Conversion::nearest(Format::E4M3).apply_f32(x),
        Element::S8 => x as i32 as u32 & 0xFF,
        _ => unreachable!(),
    }
}

fn put(shared: &mut [u8], matrix: &SharedMatrix, element: Element, at: (usize, usize), x: f32) {
    let address = matrix.element_address(at.0 as u32, at.1 as u32, element) as usize;
    let size = 4 / element.per_register();
    shared[address..address + size].copy_from_slice(&bits(element, x).to_le_bytes()[..size]);
}

struct Case {
    modifiers: &'static str,
    descriptor: u32,
    a_in_tensor: bool,
    swizzle: u64,
}

const B_START: u32 = 0x8000;

fn run(case: &Case) {
    let mma = Tcgen05Mma::from_modifiers(case.modifiers.split('.')).unwrap();
    let fields = InstructionDescriptor::decode(mma.kind, case.descriptor).unwrap();
    let depth = mma.kind.depth();
    let rows = fields.rows / mma.ctas;
    let a_address = TmemAddress { lane: 0, column: 300 };
    let path = DataPath::new(fields.rows, mma.ctas, mma.stationary).unwrap();
    let mut shared = vec![vec![0u8; 0x18000]; mma.ctas];
    let mut tensor = vec![TensorMemory::default(); mma.ctas];
    for cta in 0..mma.ctas {
        let a = SharedMatrix::from_sm100(descriptor(0, case.swizzle), fields.a_major).unwrap();
        let b =
            SharedMatrix::from_sm100(descriptor(B_START, case.swizzle), fields.b_major).unwrap();
        for k in 0..depth {
            for m in 0..rows {
                let x = a_value(cta * rows + m, k);
                put(&mut shared[cta], &a, fields.a, (m, k), x);
                let per = fields.a.per_register();
                for part in 0..path.parts {
                    let cell = &mut tensor[cta].lane_mut(path.lane(m, part))[300 + k / per];
                    *cell |= bits(fields.a, x) << (32 / per * (k % per));
                }
            }
            for n in 0..fields.columns / mma.ctas {
                let x = b_value(cta * fields.columns / mma.ctas + n, k);
                put(&mut shared[cta], &b, fields.b, (n, k), x);
            }
        }
    }
    let operands = MmaOperands {
        d: TmemAddress { lane: 0, column: 16 },
        a: if case.a_in_tensor {
            MmaA::Tensor(a_address)
        } else {
            MmaA::Shared(descriptor(0, case.swizzle))
        },
        b: descriptor(B_START, case.swizzle),
        descriptor: case.descriptor,
        accumulate: true,
        scale_d: 0,
        disabled_lanes: Vec::new(),
        scales: None,
    };
    let two = match fields.d {
        Accumulator::F32 => 2f32.to_bits(),
        Accumulator::F16 => 0x4000,
        Accumulator::S32 => 2,
    };
    for tensor in &mut tensor {
        (0..128).for_each(|lane| tensor.lane_mut(lane)[16..16 + fields.columns].fill(two));
    }
    let mut ctas: Vec<CtaMemory> = shared
        .iter()
        .zip(&mut tensor)
        .map(|(shared, tensor)| CtaMemory { shared, tensor })
        .collect();
    mma.decode(operands.clone()).unwrap().execute(&mut ctas).unwrap();
    for m in 0..fields.rows {
        for n in 0..fields.columns {
            let sum: f32 = (0..depth).map(|k| a_value(m, k) * b_value(n, k)).sum();
            let (cta, lane, column) = place(case, fields.rows, fields.columns, m, n);
            let cell = tensor[cta].lane(lane)[16 + column];
            let got = match fields.d {
                Accumulator::F32 => f32::from_bits(cell),
                Accumulator::F16 => f16_to_f32(cell as u16),
                Accumulator::S32 => cell as i32 as f32,
            };
            assert_eq!(got, 2.0 + sum, "{} D[{m}][{n}]", case.modifiers);
        }
    }
}

/// The reference table's formulas, row by row.
fn place(case: &Case, rows: usize, columns: usize, m: usize, n: usize) -> (usize, usize, usize) {
    let ws = case.modifiers.contains("ws");
    match (rows, case.modifiers.contains("cta_group::2")) {
        (256, true) => (m / 128, m % 128, n),
        (128, true) => (m / 64, m % 64 + 64 * (n / (columns / 2)), n % (columns / 2)),
        (64, _) if ws => (0, m + 64 * (n / (columns / 2)), n % (columns / 2)),
        (32, _) => (0, m + 32 * (n / (columns / 4)), n % (columns / 4)),
        (64, _) => (0, m % 16 + 32 * (m / 16), n),
        _ => (0, m, n),
    }
}

fn idesc(m: u32, n: u32, rest: u32) -> u32 {
    (m >> 4) << 24 | (n >> 3) << 17 | rest
}

const F32: u32 = 1 << 4;
const BF16: u32 = 1 << 10 | 1 << 7;

#[test]
fn every_arrangement_of_d() {
    let case = |modifiers, m, n| Case {
        modifiers,
        descriptor: idesc(m, n, F32 | BF16),
        a_in_tensor: false,
        swizzle: 2,
    };
    run(&case("mma.cta_group::1.kind::f16", 128, 64));
    run(&case("mma.cta_group::1.kind::f16", 64, 24));
    run(&case("mma.cta_group::2.kind::f16", 256, 64));
    run(&case("mma.cta_group::2.kind::f16", 128, 32));
    run(&case("mma.ws.cta_group::1.kind::f16", 128, 64));
    run(&case("mma.ws.cta_group::1.kind::f16", 64, 128));
    run(&case("mma.ws.cta_group::1.kind::f16.collector::b0::fill", 32, 64));
}

#[test]
fn a_from_tensor_memory() {
    for (modifiers, m, n) in [
        ("mma.cta_group::1.kind::f16", 128, 16),
        ("mma.cta_group::2.kind::f16", 256, 32),
        ("mma.cta_group::2.kind::f16", 128, 32),
        ("mma.ws.cta_group::1.kind::f16", 32, 64),
    ] {
        run(&Case {
            modifiers,
            descriptor: idesc(m, n, F32 | BF16),
            a_in_tensor: true,
            swizzle: 2,
        });
    }
}

#[test]
fn kinds_types_and_majors() {
    let mut cases = vec![
        ("mma.cta_group::1.kind::f16", F32, 2),
        ("mma.cta_group::1.kind::f16", 0, 6),
        ("mma.cta_group::1.kind::f16", F32 | BF16 | 1 << 15 | 1 << 16, 2),
        ("mma.cta_group::1.kind::f16", F32 | BF16 | 1 << 16, 4),
        ("mma.cta_group::1.kind::tf32", F32 | 2 << 10 | 2 << 7, 4),
        ("mma.cta_group::1.kind::tf32", F32 | 2 << 10 | 2 << 7 | 1 << 15 | 1 << 16, 1),
        ("mma.cta_group::1.kind::f8f6f4", F32, 2),
        ("mma.cta_group::1.kind::i8", 2 << 4 | 1 << 10 | 1 << 7, 4),
    ];
    for (modifiers, rest, swizzle) in cases.drain(..) {
        run(&Case { modifiers, descriptor: idesc(128, 32, rest), a_in_tensor: false, swizzle });
    }
}

fn operands(descriptor_bits: u32) -> MmaOperands {
    MmaOperands {
        d: TmemAddress { lane: 0, column: 0 },
        a: MmaA::Shared(descriptor(0, 2)),
        b: descriptor(B_START, 2),
        descriptor: descriptor_bits,
        accumulate: false,
        scale_d: 0,
        disabled_lanes: Vec::new(),
        scales: None,
    }
}

#[test]
fn disabled_lanes_and_scaled_input() {
    let mma = Tcgen05Mma::from_modifiers("mma.cta_group::1.kind::f16".split('.')).unwrap();
    let mut operands = operands(idesc(128, 16, F32));
    operands.accumulate = true;
    operands.scale_d = 3;
    operands.disabled_lanes = vec![0, 1 << 7, 0, 0];
    let mut tensor = TensorMemory::default();
    (0..128).for_each(|lane| tensor.lane_mut(lane)[..16].fill(8f32.to_bits()));
    let shared = vec![0u8; 0x10000];
    let mut ctas = [CtaMemory { shared: &shared, tensor: &mut tensor }];
    mma.decode(operands.clone()).unwrap().execute(&mut ctas).unwrap();
    assert_eq!(f32::from_bits(tensor.lane(39)[5]), 8.0);
    assert_eq!(f32::from_bits(tensor.lane(40)[5]), 1.0);
    let footprint = mma.decode(operands).unwrap().footprint(0);
    let lanes: Vec<_> = footprint.tensor_writes.iter().map(|r| r.lanes.clone()).collect();
    assert_eq!(lanes, [0..39, 40..128]);
    let bytes: u32 = footprint.shared_b.iter().map(|r| r.end - r.start).sum();
    assert_eq!(bytes, 16 * 32);
}

/// Packed fp4 with a ue4m3 scale for every 16 elements.
#[test]
fn nvfp4_blocks_are_scaled() {
    let mma = Tcgen05Mma::from_modifiers(
        "mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X".split('.'),
    )
    .unwrap();
    let rest = 1 << 10 | 1 << 7;
    let mut operands = operands(idesc(128, 64, rest));
    let (sfa, sfb) = (100, 110);
    operands.scales =
        Some((TmemAddress { lane: 0, column: sfa }, TmemAddress { lane: 0, column: sfb }));
    // All elements 1.0 (pattern 2).
    let shared = vec![0x22u8; 0x10000];
    let mut tensor = TensorMemory::default();
    let scale = |i: usize, s: usize| Format::UE4M3.decode(0x30 + ((i * 5 + s * 3) % 16) as u32);
    for lane in 0..128 {
        for group in 0..4 {
            let index = group * 32 + lane % 32;
            let pattern = |i: usize| {
                (0..4).fold(0u32, |w, s| w | (0x30 + ((i * 5 + s * 3) % 16) as u32) << (8 * s))
            };
            tensor.lane_mut(lane)[sfa + group] = pattern(index);
            tensor.lane_mut(lane)[sfb + group] = pattern(index + 1);
        }
    }
    let mut ctas = [CtaMemory { shared: &shared, tensor: &mut tensor }];
    mma.decode(operands.clone()).unwrap().execute(&mut ctas).unwrap();
    for m in [0, 31, 32, 77, 127] {
        for n in [0, 1, 33, 63] {
            let expected: f32 = (0..4).map(|s| 16.0 * scale(m, s) * scale(n + 1, s)).sum();
            let got = f32::from_bits(tensor.lane(m)[n]);
            assert!((got - expected).abs() <= expected * 1e-6, "D[{m}][{n}] {got} {expected}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    let mma = Tcgen05Mma::from_modifiers("mma.cta_group::1.kind::f16".split('.')).unwrap();
    let error = |operands: &MmaOperands| mma.decode(operands.clone()).unwrap_err().to_string();
    assert!(error(&operands(idesc(256, 16, F32))).contains("M must be 64 or 128"));
    assert!(error(&operands(idesc(64, 0, F32))).contains("N = 0"));
    let mut wrong = operands(idesc(128, 16, F32));
    wrong.d = TmemAddress { lane: 32, column: 0 };
    assert!(error(&wrong).contains("starts at lane 32"));
    wrong.d = TmemAddress { lane: 0, column: 500 };
    assert!(error(&wrong).contains("columns 500..516"));
}
