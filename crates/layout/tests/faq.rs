//! Questions that writers of Blackwell attention kernels ask, answered by layouts.
//!
//! The setting of most of them: Q K^T leaves a 128 by 128 tile S of f32 in tensor memory; four
//! softmax warps read it, make P of bf16, and hand P to the second MMA as its A operand.

use layout::hw::tmem_access::warp_lanes;
use layout::hw::{
    DataPath, Generation, Major, SmemSwizzle, SmemTile, TmaBox, TmemAccess, TmemAddress,
    TmemColumn, TmemLane, TmemShape, TmemTile,
};
use layout::{ComposedLayout, CoordLayout, IntTuple, Layout, TvLayout, transform};

/// What CuTe prints for S in tensor memory.
const S_IN_TMEM: &str = "((128,128),1,1):((65536,1),0,0)";
/// What CuTe prints for P as the A operand in shared memory, without its swizzle.
const P_IN_SMEM: &str = "((128,16),1,(4,2),1):((64,1),0,(16,8192),0)";

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// P as the second MMA reads it: 128 by 128 bf16, K-major, 128-byte swizzle.
fn p_tile() -> SmemTile {
    SmemTile::new(128, 128, 16, Major::K, SmemSwizzle::B128).unwrap()
}

/// Four `32x32b.x32` loads by each of 128 threads: (thread, value) to (row, column) of S.
fn s_in_registers() -> TvLayout {
    let one = TmemAccess::new(TmemShape::S32x32b, 32).unwrap().warpgroup_tv().unwrap();
    let loads = Layout::from_modes([one.layout().mode(1).unwrap(), layout("4:4096")]).unwrap();
    let threads = one.layout().mode(0).unwrap();
    TvLayout::new(Layout::from_modes([threads, loads]).unwrap(), (128, 128)).unwrap()
}

#[test]
fn which_128_elements_of_s_does_thread_t_hold_after_four_32x32b_x32_loads() {
    let s = s_in_registers();
    assert!(s.is_partition(), "128 threads x 128 values are all of S, each once");
    for thread in 0..128 {
        for load in 0..4 {
            for register in 0..32 {
                // Row t, columns in order: load i brings columns 32 i to 32 i + 31.
                assert_eq!(
                    s.row_col(thread, 32 * load + register),
                    Ok((thread, 32 * load + register))
                );
            }
        }
    }
}

#[test]
fn what_does_the_printed_coordinate_layout_of_that_load_mean() {
    // CuTe printed `((32,1),4,1,1):((1@1,0),32@1,0,0)` for one thread: 32 steps along mode 1 (the
    // columns), four times, 32 columns apart.
    let columns =
        CoordLayout::new(layout("((32,1),4,1,1):((128,0),4096,0,0)"), (128, 128)).unwrap();
    assert_eq!(columns.to_string(), "((32,1),4,1,1):((1@1,0),32@1,0,0)");
    assert_eq!(columns.at(((5, 0), 3, 0, 0)).unwrap().to_string(), "(0,101)");
}

#[test]
fn where_in_p_does_element_m_n_of_s_go() {
    let qk_to_pv = transform(layout(S_IN_TMEM), layout(P_IN_SMEM), 16).unwrap();
    assert!(qk_to_pv.is_bijection());
    for (m, n) in (0..128).flat_map(|m| (0..128).map(move |n| (m, n))) {
        let coord = qk_to_pv.coord(((m, n), 0, 0)).unwrap();
        assert_eq!(coord, IntTuple::from(((m, n % 16), 0, (n / 16 % 4, n / 64), 0)));
    }
}

#[test]
fn at_which_byte_is_that_and_why_did_the_right_formula_give_wrong_results() {
    // The printed swizzle S<3,4,3> permutes byte addresses; the printed strides count bf16
    // elements. As one function of elements the swizzle is S<3,3,3>.
    let strides = layout(P_IN_SMEM);
    let right: ComposedLayout = format!("S<3,3,3> o 0 o {strides}").parse().unwrap();
    let wrong: ComposedLayout = format!("S<3,4,3> o 0 o {strides}").parse().unwrap();
    let mut displaced = 0;
    for (m, n) in (0..128).flat_map(|m| (0..128).map(move |n| (m, n))) {
        let coord = IntTuple::from(((m, n % 16), 0, (n / 16 % 4, n / 64), 0));
        let linear = 128 * m + 2 * (n % 64) + 16384 * (n / 64);
        let byte = linear ^ (linear >> 7 & 7) << 4;
        assert_eq!(2 * right.at(&coord).unwrap(), byte);
        assert_eq!(u64::from(p_tile().offset(m, n).unwrap().bytes()), byte);
        displaced += u64::from(2 * wrong.at(&coord).unwrap() != byte);
    }
    // Right coordinates, wrong unit: three of four elements land elsewhere, still one to one, which
    // is what a near-zero cosine from a "bijective but wrong" map looks like.
    assert_eq!(displaced, 16384 * 3 / 4);
    assert!(wrong.is_injective());
}

#[test]
fn why_could_the_copy_not_be_vectorised_to_128_bits() {
    // The copy partitioned by the QK accumulator: its vector mode is 8 values of one column.
    let source = layout("((8,(16,128)),128,1):((1,(8,128)),16384,0)");
    let destination = layout("((8,(16,128)),(64,2),1):((64,(512,0)),(1,8192),0)");
    let vector_mode = |layout: &Layout| layout.mode(0).unwrap().mode(0).unwrap();
    assert_eq!(vector_mode(&source).to_string(), "8:1");
    assert_eq!(vector_mode(&destination).to_string(), "8:64");
    // Contiguous in the source, 64 apart in the destination: nothing wider than one element.
    assert_eq!(vector_mode(&source).max_common_vector(&vector_mode(&destination)), Ok(1));
}

#[test]
fn which_store_of_p_is_possible() {
    // From the rows that the TMEM load gave each thread: 16-byte stores, free of bank conflicts.
    let store = transform(s_in_registers(), p_tile().layout().unwrap(), 16).unwrap();
    assert!(store.is_bijection());
    assert_eq!(store.vector_bits(), 128);
    assert_eq!(store.vector_bits_in_order(), 128, "eight neighbouring columns make one store");
    assert_eq!(store.conflict_degree(), Ok(1));
    assert_eq!(store.accesses().unwrap()[0].len(), 16, "16 stores of 8 bf16 per thread");
    // Without the swizzle the same stores hit the same four banks eight at a time.
    let plain = transform(s_in_registers(), p_tile().unswizzled().unwrap(), 16).unwrap();
    assert_eq!(plain.conflict_degree(), Ok(8));
}

#[test]
fn which_tmem_column_does_p_start_at_when_it_lives_with_s() {
    let s = TmemTile::accumulator(DataPath::D, 128, TmemAddress::default()).unwrap();
    assert_eq!(s.width(), Ok(TmemColumn(128)));
    // bf16 packs two to a column: P is 64 columns wide. Behind S it starts at column 128.
    let p_at = |column| {
        let base = TmemAddress::new(TmemLane(0), TmemColumn(column)).unwrap();
        TmemTile::operand_a(DataPath::D, 128, 16, base).unwrap()
    };
    assert_eq!(p_at(128).width(), Ok(TmemColumn(64)));
    assert_eq!(s.end(), Ok(p_at(128).base().column));
    // The kernel in question let P overwrite S from column 32 on; an MMA that reads A at column 0
    // reads f32 scores as pairs of bf16. K step j (16 elements, 8 columns) is at 32 + 8 j.
    let p = p_at(32);
    for step in 0..8 {
        let first = p.at(0, 16 * step).unwrap();
        assert_eq!(first.address.column, TmemColumn(32 + 8 * step as u32));
        assert_eq!(p.at(0, 16 * step + 1).unwrap().bit, 16, "the odd element is the high half");
    }
    assert_eq!(p.end(), Ok(TmemColumn(96)));
}

#[test]
fn which_rows_may_each_softmax_warp_read() {
    // A warp reaches the 32 lanes of its number modulo 4, with any shape: `32x32b` reading "only
    // rows 0 to 31" is warp 0 doing all it can. Rows 32 to 127 belong to warps 1 to 3.
    let rows: Vec<_> = (0..4).map(warp_lanes).collect();
    assert_eq!(rows, [0..32, 32..64, 64..96, 96..128]);
    assert_eq!(warp_lanes(4), warp_lanes(0), "warps 4 and 5 share the lanes of warps 0 and 1");
    let load = TmemAccess::new(TmemShape::S32x32b, 8).unwrap();
    let cell = load.cell(2, 5, 3, TmemAddress::default()).unwrap();
    assert_eq!(cell.to_string(), "tmem[69,3]");
    assert_eq!(cell.encode() >> 16, 64 + 5, "the address operand carries the warp's lane base");
}

#[test]
fn would_16x256b_let_one_warp_read_all_128_rows() {
    let load = TmemAccess::new(TmemShape::S16x256b, 1).unwrap().tv().unwrap();
    assert_eq!(load.tile().to_string(), "(16,8)", "16 lanes, not 128");
    // Lane j holds two columns of rows j/4 and j/4 + 8, not rows 4 j to 4 j + 3.
    let held: Vec<_> = (0..4).map(|value| load.row_col(9, value).unwrap()).collect();
    assert_eq!(held, [(2, 2), (2, 3), (10, 2), (10, 3)]);
}

#[test]
fn does_an_m128_n64_accumulator_skip_columns_32_to_35_and_48_to_51() {
    let d = DataPath::D.layout(64).unwrap();
    let lane_0: Vec<u64> = (0..64).map(|n| d.at((0, n)).unwrap()).collect();
    assert_eq!(lane_0, (0..64).collect::<Vec<_>>(), "columns are contiguous");
    // Those columns are rows 32..35 and 48..51 of B, 512 bytes each: what one warp of a
    // 16-bytes-per-thread fill writes in one pass. Look for a missing proxy fence, not a hole.
    let b = SmemTile::new(64, 64, 16, Major::K, SmemSwizzle::None).unwrap();
    let k_major_rows = |row| b.offset(row, 0).unwrap().bytes();
    assert_eq!(k_major_rows(33) - k_major_rows(32), 16);
}

#[test]
fn which_d_does_the_canonical_layout_take_and_how_does_the_mma_find_later_k_steps() {
    // The layout takes the full k; the descriptor moves. Without swizzle 128 rows are 2048 bytes
    // per 8 elements of K, so each k-step of 16 starts 4096 bytes on.
    let q = SmemTile::new(128, 64, 16, Major::K, SmemSwizzle::None).unwrap();
    let steps: Vec<u32> = (0..4).map(|step| q.descriptor_advance(0, step).unwrap() << 4).collect();
    assert_eq!(steps, [0, 4096, 8192, 12288]);
    let descriptor = q.descriptor(Generation::Blackwell).unwrap();
    assert_eq!((descriptor.leading_bytes, descriptor.stride_bytes), (2048, 128));
    // With the 128-byte swizzle, steps stay inside the span: +32 bytes.
    let steps: Vec<u32> =
        (0..4).map(|step| p_tile().descriptor_advance(0, step).unwrap() << 4).collect();
    assert_eq!(steps, [0, 32, 64, 96]);
}

#[test]
fn must_tma_data_be_transposed_before_the_mma_can_read_it() {
    // No. A 64-wide box with the 128-byte swizzle is the K-major operand, byte for byte.
    let box_128b = TmaBox::new(&[64, 128], 16, SmemSwizzle::B128).unwrap().layout().unwrap();
    let operand = SmemTile::new(128, 64, 16, Major::K, SmemSwizzle::B128).unwrap();
    // Nor without swizzle, if the box is 16 bytes wide: 8 boxes instead of a transpose.
    let box_none = TmaBox::new(&[8, 128], 16, SmemSwizzle::None).unwrap().layout().unwrap();
    let plain = SmemTile::new(128, 64, 16, Major::K, SmemSwizzle::None).unwrap();
    for (row, k) in (0..128).flat_map(|row| (0..64).map(move |k| (row, k))) {
        let swizzled = 2 * box_128b.at((k, row)).unwrap();
        assert_eq!(swizzled, u64::from(operand.offset(row, k).unwrap().bytes()));
        let unswizzled = 2 * box_none.at((k % 8, row)).unwrap() + k / 8 * 2048;
        assert_eq!(unswizzled, u64::from(plain.offset(row, k).unwrap().bytes()));
    }
}

#[test]
fn why_is_a_box_of_128_half_precision_columns_refused_with_the_128_byte_swizzle() {
    let error = TmaBox::new(&[128, 64], 16, SmemSwizzle::B128).unwrap_err();
    assert_eq!(
        error.to_string(),
        "128 elements, 256 bytes, swizzle 128B: the first box extent must not exceed the swizzle span"
    );
}
