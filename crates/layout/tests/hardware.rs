//! The hardware's layouts against the PTX ISA's formulas, written out here a second time the way
//! the instructions read memory: from descriptor bits, not from our layouts.

use layout::hw::fragment::{matrix_fragment, mma_a, mma_b, mma_c, wgmma_a, wgmma_d};
use layout::hw::tmem_access::warp_lanes;
use layout::hw::{
    BlockScale, CtaGroup, DataPath, Generation, InstructionDescriptor, Major, MatrixDescriptor,
    MmaKind, OperandType, ScaleFormat, SmemSwizzle, SmemTile, TmaBox, TmemAccess, TmemAddress,
    TmemColumn, TmemLane, TmemShape, TmemTile,
};
use layout::{ComposedLayout, Layout};

/// The byte address at which an MMA reads element (r, k) of an instruction's operand.
fn address_read(bits: u64, generation: Generation, major: Major, size: u64, r: u64, k: u64) -> u64 {
    let field = |at: u32| (bits >> at & 0x3fff) << 4;
    let (start, lbo, sbo) = (field(0), field(16), field(32));
    let span = match (generation, bits >> 61) {
        (_, 0) => 16,
        (Generation::Hopper, 0b010) | (Generation::Blackwell, 2) => 128,
        (Generation::Hopper, 0b100) | (Generation::Blackwell, 4) => 64,
        (Generation::Hopper, 0b110) | (Generation::Blackwell, 6) => 32,
        (Generation::Blackwell, 1) => 129,
        other => panic!("no such swizzle {other:?}"),
    };
    let (t, s) = (16 / size, span.min(128) / 16);
    let linear = match (major, span) {
        (Major::K, 16) => r % 8 * 16 + r / 8 * sbo + k % t * size + k / t * lbo,
        (Major::K, _) => r % 8 * 16 * s + r / 8 * sbo + k * size,
        (Major::Mn, 16) => r % t * size + r / t * sbo + k % 8 * 16 + k / 8 * lbo,
        (Major::Mn, 129) => r % (t * s) * size + r / (t * s) * lbo + k % 4 * 128 + k / 4 * sbo,
        (Major::Mn, _) => r % (t * s) * size + r / (t * s) * lbo + k % 8 * 16 * s + k / 8 * sbo,
    };
    let address = start + linear;
    match span {
        16 => address,
        32 => address ^ (address >> 7 & 1) << 4,
        64 => address ^ (address >> 7 & 3) << 4,
        128 => address ^ (address >> 7 & 7) << 4,
        _ => address ^ (address >> 7 & 3) << 5,
    }
}

#[test]
fn the_offset_of_an_element_is_its_place_in_the_layout() {
    for tile in tiles() {
        let layout = tile.layout().unwrap();
        for (mn, k) in
            [(0, 0), (1, 0), (0, 1), (7, 5), (tile.mn() - 1, tile.k() - 1), (tile.mn() / 2, 3)]
        {
            let bytes = u64::from(tile.offset(mn, k).unwrap().bytes());
            assert_eq!(
                layout.at((mn, k)).unwrap() * tile.element_bits() / 8,
                bytes,
                "{tile}: ({mn},{k})"
            );
        }
        assert!(tile.offset(tile.mn(), 0).is_err());
    }
}

fn tiles() -> Vec<SmemTile> {
    let mut tiles = Vec::new();
    for swizzle in SmemSwizzle::ALL {
        for (mn, k) in [(8, 64), (64, 128), (128, 64), (128, 256), (64, 512), (256, 128)] {
            for bits in [8, 16, 32] {
                for major in [Major::K, Major::Mn] {
                    tiles.extend(
                        SmemTile::new(mn, k, bits, major, swizzle)
                            .ok()
                            .filter(|t| t.bytes() <= 32768),
                    );
                }
            }
        }
    }
    assert!(tiles.len() > 50, "only {} tiles", tiles.len());
    tiles
}

/// Which operands the instructions of a generation can read (PTX ISA, `wgmma` and `tcgen05.mma`).
fn is_readable(tile: &SmemTile, generation: Generation) -> bool {
    let atom_32 = tile.swizzle() == SmemSwizzle::B128Atom32;
    let layout = match (tile.major(), generation) {
        (Major::K, _) => !atom_32,
        (Major::Mn, Generation::Hopper) => tile.element_bits() == 16 && !atom_32,
        (Major::Mn, Generation::Blackwell) => (tile.element_bits() == 32) == atom_32,
    };
    layout && tile.k().is_multiple_of(tile.k_per_step())
}

#[test]
fn the_mma_reads_every_element_where_the_tile_put_it() {
    let mut read = 0;
    for tile in tiles() {
        for generation in [Generation::Hopper, Generation::Blackwell] {
            let descriptor = tile.descriptor(generation);
            assert_eq!(
                descriptor.is_ok(),
                is_readable(&tile, generation),
                "{tile}: {descriptor:?}"
            );
            let Ok(descriptor) = descriptor else { continue };
            let base = 4096;
            let bits = descriptor.at(base).unwrap().encode();
            for step in 0..tile.k_steps() {
                let bits = bits + u64::from(tile.descriptor_advance(0, step).unwrap());
                let size = tile.element_bits() / 8;
                for (r, k) in
                    (0..tile.mn()).flat_map(|r| (0..tile.k_per_step()).map(move |k| (r, k)))
                {
                    let found = address_read(bits, generation, tile.major(), size, r, k);
                    let put = tile.offset(r, step * tile.k_per_step() + k).unwrap();
                    assert_eq!(
                        found,
                        u64::from(base + put.bytes()),
                        "{tile}: ({r},{k}) of step {step}"
                    );
                }
            }
            read += 1;
        }
    }
    assert!(read > 60, "only {read} operands were readable");
}

#[test]
fn an_instruction_can_start_further_along_mn() {
    for tile in tiles().into_iter().filter(|tile| tile.descriptor(Generation::Blackwell).is_ok()) {
        let bits = tile.descriptor(Generation::Blackwell).unwrap().encode();
        let unit = if tile.major() == Major::K { 8 } else { tile.span() };
        for first in (0..tile.mn()).step_by(unit as usize) {
            let bits = bits + u64::from(tile.descriptor_advance(first, 0).unwrap());
            let size = tile.element_bits() / 8;
            for r in 0..unit {
                let found = address_read(bits, Generation::Blackwell, tile.major(), size, r, 3);
                assert_eq!(
                    found,
                    u64::from(tile.offset(first + r, 3).unwrap().bytes()),
                    "{tile}: {first}+{r}"
                );
            }
        }
        assert!(tile.descriptor_advance(1, 0).is_err(), "{tile} has no atom at 1");
    }
}

#[test]
fn tma_boxes_fill_a_tile_exactly() {
    for tile in tiles() {
        let tma = tile.tma_box().unwrap();
        let box_layout = tma.layout().unwrap();
        let mut filled = vec![None; tile.bytes() as usize];
        let size = tile.element_bits() / 8;
        for copy in tile.tma_copies().unwrap() {
            for line in 0..tma.extents()[1] {
                for i in 0..tma.extents()[0] {
                    let linear = box_layout.layout().at((i, line)).unwrap() * size;
                    let address =
                        tile.swizzle().on_bytes().apply(u64::from(copy.offset.bytes()) + linear);
                    filled[address as usize] = Some((copy.contiguous + i, copy.line + line));
                }
            }
        }
        for (mn, k) in (0..tile.mn()).flat_map(|mn| (0..tile.k()).map(move |k| (mn, k))) {
            let byte = tile.offset(mn, k).unwrap().bytes() as usize;
            assert_eq!(filled[byte], Some(tile.box_coord(mn, k)), "{tile} at ({mn},{k})");
        }
    }
}

#[test]
fn descriptors_round_trip() {
    for tile in tiles() {
        for generation in [Generation::Hopper, Generation::Blackwell] {
            let Ok(descriptor) = tile.descriptor(generation) else { continue };
            let placed = descriptor.at(0x2_3450).unwrap();
            assert_eq!(MatrixDescriptor::decode(placed.encode(), generation), Ok(placed));
        }
    }
    assert!(MatrixDescriptor::decode(1 << 53, Generation::Hopper).unwrap_err().is_hardware());
    assert!(
        MatrixDescriptor::decode(0, Generation::Blackwell).is_err(),
        "bits 48:46 must be 0b001"
    );
    assert!(MatrixDescriptor::decode(3 << 61 | 1 << 46, Generation::Blackwell).is_err());
}

#[test]
fn what_no_descriptor_describes_is_refused_by_rule() {
    let refuse = |text: &str, bits, major, generation| {
        let layout: ComposedLayout = text.parse().unwrap();
        MatrixDescriptor::from_layout(&layout, bits, major, generation).unwrap_err().to_string()
    };
    let hopper = Generation::Hopper;
    assert_eq!(
        refuse("(64,64):(64,1)", 16, Major::K, hopper),
        "(64,64):(64,1): element (1,0) is at byte 128, the descriptor reads 16: \
         K-major without swizzle: (r%8)*16 + (r/8)*SBO + (k%T)*size + (k/T)*LBO"
    );
    assert_eq!(
        refuse("S<3,4,3> o 0 o (64,64):(64,1)", 16, Major::K, hopper),
        "swizzle S<3,5,3> on bytes: descriptors know S<1,4,3>, S<2,4,3>, S<3,4,3> and S<2,5,2> on bytes"
    );
    assert!(
        refuse("S<3,4,3> o 0 o (128,32):(1,128)", 8, Major::Mn, hopper)
            .contains("16-bit elements only")
    );
    assert!(
        refuse("S<3,3,3> o 4 o (64,64):(64,1)", 16, Major::K, hopper)
            .contains("multiples of 16 bytes")
    );
    let short = SmemTile::new(64, 24, 16, Major::K, SmemSwizzle::None).unwrap();
    assert!(short.descriptor(hopper).unwrap_err().to_string().contains("multiple of 32 bytes"));
    let row_pitch_off = refuse("S<3,3,3> o 0 o (64,64):(72,1)", 16, Major::K, hopper);
    assert!(row_pitch_off.contains("K-major swizzled"), "{row_pitch_off}");
}

#[test]
fn instruction_descriptors_of_known_kernels() {
    let f16 =
        InstructionDescriptor::new(MmaKind::F16, OperandType::F16, OperandType::F16, 128, 256);
    assert_eq!(f16.encode(), Ok(0x0840_0010));
    let bf16 =
        InstructionDescriptor::new(MmaKind::F16, OperandType::Bf16, OperandType::Bf16, 128, 64);
    assert_eq!(bf16.encode(), Ok(0x0810_0490));
    assert_eq!(bf16.b_mn_major().encode(), Ok(0x0811_0490));
    let scale = Some(BlockScale { format: ScaleFormat::Ue8m0, a_id: 1, b_id: 3 });
    let base = InstructionDescriptor::new(
        MmaKind::Mxf8f6f4,
        OperandType::E4m3,
        OperandType::E5m2,
        256,
        16,
    );
    let mx = InstructionDescriptor { scale, ..base };
    for descriptor in [f16, bf16, bf16.a_mn_major(), mx] {
        let bits = descriptor.encode().unwrap();
        assert_eq!(InstructionDescriptor::decode(bits, descriptor.kind), Ok(descriptor));
    }
    assert!(f16.check_shape(CtaGroup::One).is_ok() && mx.check_shape(CtaGroup::Two).is_ok());
    let error = InstructionDescriptor { n: 12, ..f16 }.encode().unwrap_err();
    assert_eq!(error.to_string(), "N = 12: N is a multiple of 8 from 8 to 256");
    assert!(InstructionDescriptor { a: OperandType::E4m3, ..f16 }.encode().is_err());
    assert!(base.encode().unwrap_err().to_string().contains("block-scaled kinds need scales"));
    assert!(InstructionDescriptor { m: 256, ..f16 }.check_shape(CtaGroup::One).is_err());
    assert!(InstructionDescriptor::decode(0x0840_0010 | 1 << 6, MmaKind::F16).is_err());
}

#[test]
fn wgmma_fragments_follow_the_isa() {
    for n in (8..=256).step_by(8) {
        let d = wgmma_d(n, 32).unwrap();
        assert!(d.tv.is_partition(), "n{n}");
        assert_eq!(d.registers(), n / 2);
        for (t, i) in (0..128).flat_map(|t| (0..n / 2).map(move |i| (t, i))) {
            let (warp, lane) = (t / 32, t % 32);
            let place =
                (16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2);
            assert_eq!(d.row_col(t, i), Ok(place));
        }
    }
    assert_eq!(wgmma_d(64, 16).unwrap().register_of(5), (2, 16));
    let k_of = |bits: u64, lane: u64, i: u64| match bits {
        16 => (8 * (i / 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i / 4)),
        32 => (8 * (i % 2), lane % 4 + 4 * (i / 2)),
        _ => (8 * (i / 4 % 2), 4 * (lane % 4) + i % 4 + 16 * (i / 8)),
    };
    for bits in [8, 16, 32] {
        let a = wgmma_a(bits).unwrap();
        assert!(a.tv.is_partition() && a.registers() == 4);
        for (t, i) in (0..128).flat_map(|t| (0..a.tv.values()).map(move |i| (t, i))) {
            let (row, k) = k_of(bits, t % 32, i);
            assert_eq!(a.row_col(t, i), Ok((16 * (t / 32) + t % 32 / 4 + row, k)), "{bits} bits");
        }
    }
    assert!(wgmma_d(12, 32).is_err() && wgmma_d(264, 32).is_err() && wgmma_a(64).is_err());
}

#[test]
fn mma_sync_and_ldmatrix_fragments_follow_the_isa() {
    let (a, b, c) = (mma_a(16).unwrap(), mma_b(16).unwrap(), mma_c(32).unwrap());
    assert_eq!((a.registers(), b.registers(), c.registers()), (4, 2, 4));
    for t in 0..32 {
        let (group, quad) = (t / 4, t % 4);
        for i in 0..8 {
            let row = if matches!(i, 0 | 1 | 4 | 5) { group } else { group + 8 };
            let col = 2 * quad + (i & 1) + if i >= 4 { 8 } else { 0 };
            assert_eq!(a.row_col(t, i), Ok((row, col)));
        }
        for i in 0..4 {
            assert_eq!(b.row_col(t, i), Ok((group, 2 * quad + (i & 1) + 8 * (i / 2))));
            assert_eq!(c.row_col(t, i), Ok((group + 8 * (i / 2), 2 * quad + (i & 1))));
        }
    }
    for bits in [8, 16, 32] {
        assert!(mma_a(bits).unwrap().tv.is_partition() && mma_b(bits).unwrap().tv.is_partition());
    }
    // ldmatrix.x4 over the four 8x8 corners of a 16x16 tile is the A fragment of m16n8k16.
    let x4 = matrix_fragment(4, false).unwrap();
    let transposed = matrix_fragment(4, true).unwrap();
    for (t, v) in (0..32).flat_map(|t| (0..8).map(move |v| (t, v))) {
        let (row, col) = x4.row_col(t, v).unwrap();
        let (matrix, row) = (row / 8, row % 8);
        assert_eq!(a.row_col(t, v), Ok((row + 8 * (matrix % 2), col + 8 * (matrix / 2))));
        assert_eq!(transposed.row_col(t, v), Ok((8 * matrix + col, row)));
    }
    assert!(matrix_fragment(3, false).is_err());
}

#[test]
fn accumulators_lie_in_the_documented_lanes() {
    let n = 64;
    let place = |path, m, column| {
        let tile = TmemTile::accumulator(path, n, TmemAddress::default()).unwrap();
        let place = tile.at(m, column).unwrap();
        (u64::from(place.cta), u64::from(place.address.lane.0), u64::from(place.address.column.0))
    };
    for column in 0..n {
        for m in 0..256 {
            assert_eq!(place(DataPath::A, m, column), (m / 128, m % 128, column));
        }
        for m in 0..128 {
            assert_eq!(
                place(DataPath::B, m, column),
                (m / 64, m % 64 + 64 * (column / 32), column % 32)
            );
            assert_eq!(place(DataPath::D, m, column), (0, m, column));
        }
        for m in 0..64 {
            assert_eq!(place(DataPath::E, m, column), (0, m + 64 * (column / 32), column % 32));
            assert_eq!(place(DataPath::F, m, column), (0, m % 16 + 32 * (m / 16), column));
        }
        for m in 0..32 {
            assert_eq!(place(DataPath::G, m, column), (0, m + 32 * (column / 16), column % 16));
        }
    }
    assert_eq!(DataPath::of(128, CtaGroup::Two, false, false), Ok(DataPath::B));
    assert!(DataPath::of(256, CtaGroup::One, false, false).is_err());
    let shifted = TmemAddress::new(TmemLane(16), TmemColumn(8)).unwrap();
    assert_eq!(
        TmemTile::accumulator(DataPath::F, n, shifted)
            .unwrap()
            .at(63, 0)
            .unwrap()
            .address
            .to_string(),
        "tmem[127,8]"
    );
    assert!(TmemTile::accumulator(DataPath::D, n, shifted).is_err(), "lane 128 does not exist");
    assert!(TmemTile::operand_a(DataPath::B, 64, 16, TmemAddress::default()).is_err());
}

#[test]
fn tmem_loads_follow_the_isa_for_every_shape_and_repetition() {
    for shape in TmemShape::all(128) {
        for log2 in 0..=7 {
            let Ok(access) = TmemAccess::new(shape, 1 << log2) else { continue };
            let warp = access.tv().unwrap();
            assert_eq!(warp.values(), access.registers());
            for (t, r) in (0..32).flat_map(|t| (0..access.registers()).map(move |r| (t, r))) {
                let place = match shape {
                    TmemShape::S32x32b => (t, r),
                    TmemShape::S16x64b => (t / 4 + 8 * (t % 2), 2 * r + t / 2 % 2),
                    TmemShape::S16x128b => (t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2)),
                    TmemShape::S16x256b => {
                        (t / 4 + 8 * (r / 2 % 2), 8 * (r / 4) + 2 * (t % 4) + r % 2)
                    }
                    TmemShape::S16x32bx2 { .. } => (t % 16, r + 128 * (t / 16)),
                };
                assert_eq!(warp.row_col(t, r), Ok(place), "{access}");
                let halves = access.packed_16b().tv().unwrap();
                assert_eq!(halves.row_col(t, 2 * r), Ok((place.0, 2 * place.1)), "{access}");
                assert_eq!(
                    halves.row_col(t, 2 * r + 1),
                    Ok((place.0, 2 * place.1 + 1)),
                    "{access}"
                );
            }
            let warpgroup = access.warpgroup_tv().unwrap();
            let whole = !matches!(shape, TmemShape::S16x32bx2 { .. }) || log2 == 7;
            assert_eq!(warpgroup.is_partition(), whole, "{access}");
        }
    }
    assert!(
        TmemAccess::new(TmemShape::S16x256b, 64).is_err()
            && TmemAccess::new(TmemShape::S32x32b, 3).is_err()
    );
    assert_eq!(warp_lanes(6), 64..96);
}

#[test]
fn tma_boxes_that_the_driver_refuses() {
    let refuse = |extents: &[u64], bits, swizzle| {
        TmaBox::new(extents, bits, swizzle).unwrap_err().to_string()
    };
    assert!(refuse(&[128, 64], 16, SmemSwizzle::B128).contains("must not exceed the swizzle span"));
    assert!(refuse(&[64, 257], 16, SmemSwizzle::B128).contains("1 to 256"));
    assert!(refuse(&[4, 8], 16, SmemSwizzle::None).contains("multiple of 16 bytes"));
    assert!(refuse(&[8; 6], 16, SmemSwizzle::None).contains("one to five dimensions"));
    let tall = SmemTile::new(512, 64, 16, Major::K, SmemSwizzle::B128).unwrap();
    assert_eq!(tall.tma_box().unwrap().extents(), [64, 256]);
    assert_eq!(tall.tma_copies().unwrap().len(), 2);
}

#[test]
fn the_layouts_print_as_cute_prints_them() {
    let shown = |major, swizzle| {
        SmemTile::new(128, 64, 16, major, swizzle).unwrap().layout().unwrap().to_string()
    };
    assert_eq!(
        shown(Major::K, SmemSwizzle::B64),
        "S<2,3,3> o 0 o ((8,16),(32,2)):((32,256),(1,4096))"
    );
    assert_eq!(shown(Major::K, SmemSwizzle::None), "((8,16),(8,8)):((8,64),(1,1024))");
    assert_eq!(
        shown(Major::Mn, SmemSwizzle::B128),
        "S<3,3,3> o 0 o ((64,2),(8,8)):((1,4096),(64,512))"
    );
    assert_eq!(
        DataPath::B.layout(64).unwrap().coalesce(),
        Layout::new((64, 2, 32, 2), (65536, 1 << 32, 1, 1 << 22)).unwrap()
    );
}
