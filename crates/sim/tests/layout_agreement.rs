//! The simulator's addresses against the `layout` crate's: two implementations of the same tables,
//! written apart, must agree on every element.

use layout::hw;
use layout::hw::{Generation, SmemSwizzle, SmemTile};
use program::{ElementType, L2Promotion, OobFill, Swizzle, TensorDescriptor};
use sixwarp_sim::matrix::{
    DataPath, Element, Major, SharedMatrix, TensorMemory, TmemAddress, TmemTransfer, Wgmma, WgmmaA,
    WgmmaOperands,
};
use sixwarp_sim::tensor_copy::{CopyPlan, Direction, Piece};

const START: u32 = 0x8000;

fn decode(descriptor: u64, generation: Generation, major: Major) -> SharedMatrix {
    match generation {
        Generation::Hopper => SharedMatrix::from_sm90(descriptor, major),
        Generation::Blackwell => SharedMatrix::from_sm100(descriptor, major).unwrap(),
    }
}

fn check_tile(tile: &SmemTile, element: Element, generation: Generation) {
    let Ok(descriptor) = tile.descriptor(generation) else { return };
    let major = match tile.major() {
        hw::Major::K => Major::K,
        hw::Major::Mn => Major::Mn,
    };
    let whole = descriptor.at(START).unwrap().encode();
    for step in 0..tile.k_steps() {
        let advance = u64::from(tile.descriptor_advance(0, step).unwrap());
        let matrix = decode(whole + advance, generation, major);
        for mn in 0..tile.mn() {
            for k in 0..tile.k_per_step() {
                let expected = START + tile.offset(mn, step * tile.k_per_step() + k).unwrap().0;
                let got = matrix.element_address(mn as u32, k as u32, element);
                assert_eq!(got, expected, "{tile} {generation:?} ({mn}, {k}) of step {step}");
            }
        }
    }
}

#[test]
fn descriptors_address_what_tiles_place() {
    let mut tiles = 0;
    for (element, bits) in [(Element::U8, 8), (Element::F16, 16), (Element::Tf32, 32)] {
        for swizzle in SmemSwizzle::ALL {
            for major in [hw::Major::K, hw::Major::Mn] {
                let k = 256 * 8 / bits;
                let Ok(tile) = SmemTile::new(128, k, bits, major, swizzle) else { continue };
                check_tile(&tile, element, Generation::Hopper);
                check_tile(&tile, element, Generation::Blackwell);
                tiles += 1;
            }
        }
    }
    assert!(tiles >= 24, "only {tiles} tiles exist");
}

#[test]
fn tensor_memory_transfers_agree() {
    let mut tensor = TensorMemory::default();
    for lane in 0..128 {
        let cells = tensor.lane_mut(lane).iter_mut().enumerate();
        cells.for_each(|(column, cell)| *cell = ((lane << 16) | column) as u32);
    }
    for shape in hw::TmemShape::all(64) {
        let name = match shape {
            hw::TmemShape::S32x32b => "32x32b",
            hw::TmemShape::S16x64b => "16x64b",
            hw::TmemShape::S16x128b => "16x128b",
            hw::TmemShape::S16x256b => "16x256b",
            hw::TmemShape::S16x32bx2 { .. } => "16x32bx2",
        };
        for repeat in [1u64, 2, 16] {
            let access = hw::TmemAccess::new(shape, repeat).unwrap();
            let modifiers = format!("{name}.x{repeat}");
            let transfer = TmemTransfer::from_modifiers(modifiers.split('.')).unwrap();
            assert_eq!(transfer.registers() as u64, access.registers());
            let base = hw::TmemAddress::new(hw::TmemLane(0), hw::TmemColumn(40)).unwrap();
            let address = TmemAddress { lane: 64, column: 40 };
            let registers = transfer.load(&tensor, address, 64).unwrap();
            for (r, lanes) in registers.iter().enumerate() {
                for (thread, &got) in lanes.iter().enumerate() {
                    let cell = access.cell(2, thread as u64, r as u64, base).unwrap();
                    assert_eq!(got, cell.encode(), "{modifiers} register {r} thread {thread}");
                }
            }
        }
    }
}

#[test]
fn accumulators_lie_in_the_same_lanes() {
    use hw::CtaGroup::{One, Two};
    for (m, group, ws) in [
        (256, Two, false),
        (128, Two, false),
        (128, One, false),
        (64, One, false),
        (128, One, true),
        (64, One, true),
        (32, One, true),
    ] {
        let n = 64usize;
        let theirs = hw::DataPath::of(m, group, ws, false).unwrap();
        let base = hw::TmemAddress::default();
        let tile = hw::TmemTile::accumulator(theirs, n as u64, base).unwrap();
        let ours = DataPath::new(m as usize, if group == Two { 2 } else { 1 }, ws).unwrap();
        for row in 0..m as usize {
            for column in 0..n {
                let place = tile.at(row as u64, column as u64).unwrap();
                let width = n / ours.parts;
                let lane = ours.lane(row % ours.rows, column / width);
                let got = (row / ours.rows, (lane << 16) | (column % width));
                let expected = (place.cta as usize, place.address.encode() as usize);
                assert_eq!(got, expected, "M = {m} ws {ws} ({row}, {column})");
            }
        }
    }
}

/// D[m][n] = m + 64 n tells where each element went.
#[test]
fn wgmma_accumulator_fragments_agree() {
    let n = 32;
    let tile = |rows| SmemTile::new(rows, 64, 16, hw::Major::K, SmemSwizzle::B128).unwrap();
    let mut shared = vec![0u8; 0x10000];
    let mut put = |base: u32, tile: &SmemTile, row: u64, k: u64, x: u64| {
        let at = (base + tile.offset(row, k).unwrap().0) as usize;
        shared[at..at + 2].copy_from_slice(&half::bf16::from_f32(x as f32).to_le_bytes());
    };
    for m in 0..64 {
        put(0, &tile(64), m, 0, m);
        put(0, &tile(64), m, 1, 1);
    }
    for column in 0..n {
        put(START, &tile(n), column, 0, 1);
        put(START, &tile(n), column, 1, 64 * column);
    }
    let wgmma = Wgmma::from_modifiers("m64n32k16.f32.bf16.bf16".split('.')).unwrap();
    let descriptor =
        |rows, base| tile(rows).descriptor(Generation::Hopper).unwrap().at(base).unwrap().encode();
    let operands = WgmmaOperands {
        a: WgmmaA::Shared(wgmma.decode_a(descriptor(64, 0), false)),
        b: wgmma.decode_b(descriptor(n, START), false),
        accumulate: false,
        negate_a: false,
        negate_b: false,
    };
    let mut d = vec![[0u32; 32]; 4 * wgmma.d_registers()];
    wgmma.execute(&operands, &shared, &mut d).unwrap();
    let fragment = hw::fragment::wgmma_d(n, 32).unwrap();
    for thread in 0..128usize {
        for value in 0..wgmma.d_registers() {
            let (row, column) = fragment.row_col(thread as u64, value as u64).unwrap();
            let got = f32::from_bits(d[thread / 32 * wgmma.d_registers() + value][thread % 32]);
            assert_eq!(got as u64, row + 64 * column, "thread {thread} value {value}");
        }
    }
}

#[test]
fn boxes_land_where_their_layout_says() {
    let modes = [
        (SmemSwizzle::None, Swizzle::None),
        (SmemSwizzle::B32, Swizzle::B32),
        (SmemSwizzle::B64, Swizzle::B64),
        (SmemSwizzle::B128, Swizzle::B128),
    ];
    for (swizzle, map_swizzle) in modes {
        let extents = [swizzle.span_bytes() / 2, 16, 3];
        let layout = hw::TmaBox::new(&extents, 16, swizzle).unwrap().layout().unwrap();
        let map = TensorDescriptor {
            address: 0x1_0000,
            rank: 3,
            element: ElementType::F16,
            dims: [extents[0], 16, 3, 1, 1],
            strides: [2, 256, 8192, 0, 0],
            box_dims: [extents[0] as u32, 16, 3, 1, 1],
            element_strides: [1; 5],
            im2col: None,
            swizzle: map_swizzle,
            oob_fill: OobFill::Zero,
            l2_promotion: L2Promotion::None,
        };
        let plan = CopyPlan::tile(&map, &[0, 0, 0], START, Direction::Load).unwrap();
        for piece in plan.pieces {
            let Piece::Copy { global, shared, bytes } = piece else { panic!("{piece:?}") };
            for i in 0..u64::from(bytes / 2) {
                let offset = global - map.address + 2 * i;
                let coordinate = (offset % 256 / 2, offset % 8192 / 256, offset / 8192);
                let index = layout.at(coordinate).unwrap();
                assert_eq!(
                    u64::from(shared - START) + 2 * i,
                    2 * index,
                    "{swizzle} {coordinate:?}"
                );
            }
        }
    }
}
