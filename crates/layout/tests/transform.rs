//! Moving tiles: vector widths and bank conflicts of accesses whose answers are known by hand.

use layout::hw::fragment::{mma_c, wgmma_d};
use layout::hw::{Major, SmemSwizzle, SmemTile};
use layout::{ComposedLayout, Layout, Transform, TvLayout, WarpAccess, transform};

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn composed(text: &str) -> ComposedLayout {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The store of one row of eight elements by each of 32 threads.
fn store(to: &str, bits: u64) -> Transform {
    let rows = TvLayout::new(layout("(32,8):(1,32)"), (32, 8)).unwrap();
    transform(rows, composed(to), bits).unwrap()
}

#[test]
fn a_vector_must_be_contiguous_aligned_and_whole() {
    assert_eq!(store("(32,8):(8,1)", 16).vector_bits(), 128);
    assert_eq!(store("(32,8):(8,1)", 32).vector_bits(), 128, "two vectors of four");
    assert_eq!(store("(32,8):(8,1)", 8).vector_bits(), 64, "a row is only 8 bytes");
    assert_eq!(store("(32,8):(1,32)", 16).vector_bits(), 16, "columns are 32 apart");
    assert_eq!(store("(32,8):(9,1)", 16).vector_bits(), 16, "odd rows start off alignment");
    assert_eq!(store("(32,8):(10,1)", 16).vector_bits(), 32, "rows of 20 bytes are 4-byte aligned");
    assert_eq!(store("(32,8):(12,1)", 16).vector_bits(), 64);
    assert_eq!(store("S<0,4,3> o 4 o (32,8):(8,1)", 16).vector_bits(), 64, "4 elements off");
    assert_eq!(store("S<0,4,3> o 1 o (32,8):(8,1)", 16).vector_bits(), 16);
    assert_eq!(store("(32,(2,4)):(8,(4,1))", 16).vector_bits(), 128, "any registers can be joined");
    assert_eq!(store("(32,(2,4)):(8,(4,1))", 16).vector_bits_in_order(), 16, "but not in order");
    assert_eq!(store("(32,(2,4)):(2,(1,64))", 16).vector_bits(), 32);
}

#[test]
fn values_of_a_vector_are_in_memory_order() {
    let shuffled = store("(32,(2,4)):(8,(4,1))", 16);
    let accesses = shuffled.accesses().unwrap();
    assert_eq!((accesses[3].len(), accesses[3][0].index), (1, 24));
    assert_eq!(accesses[3][0].values, [0, 2, 4, 6, 1, 3, 5, 7]);
}

#[test]
fn bank_conflicts_of_well_known_accesses() {
    let degree = |transform: &Transform| transform.conflict_degree().unwrap();
    // A column of 32-bit elements in rows of 128 bytes is in one bank; padding by one word cures it.
    let column = TvLayout::new(layout("(32,1):(1,0)"), (32, 1)).unwrap();
    assert_eq!(degree(&transform(column.clone(), layout("(32,1):(32,0)"), 32).unwrap()), 32);
    assert_eq!(degree(&transform(column, layout("(32,1):(33,0)"), 32).unwrap()), 1);
    // 16-byte rows are served eight lanes at a time and fill all banks.
    let packed = store("(32,8):(8,1)", 16);
    assert_eq!(degree(&packed), 1);
    assert_eq!(packed.warp_accesses().unwrap()[0].passes, 4);
    assert_eq!(degree(&store("(32,8):(64,1)", 16)), 8);
    // Two halves of one word are one word.
    assert!(WarpAccess::new((0..32).map(|lane| 2 * lane).collect(), 2).is_conflict_free());
    // All lanes at one word are served at once.
    assert_eq!(WarpAccess::new(vec![64; 32], 4).passes, 1);
}

#[test]
fn accumulators_go_to_shared_memory_in_pairs() {
    let operand = SmemTile::new(64, 64, 16, Major::K, SmemSwizzle::B128).unwrap();
    let d = transform(wgmma_d(64, 32).unwrap().tv, operand.layout().unwrap(), 16).unwrap();
    assert!(d.is_bijection());
    assert_eq!(
        (d.vector_bits(), d.conflict_degree()),
        (32, Ok(1)),
        "bf16 pairs, one word per lane"
    );
    let plain = transform(wgmma_d(64, 32).unwrap().tv, operand.unswizzled().unwrap(), 16).unwrap();
    assert_eq!(plain.conflict_degree(), Ok(8), "eight rows of 128 bytes meet in four banks");
    let transposed = transform(mma_c(32).unwrap().tv, layout("(16,8):(1,16)"), 16).unwrap();
    assert_eq!(transposed.vector_bits(), 16);
}

#[test]
fn from_memory_to_memory_both_sides_limit_the_vector() {
    let width =
        |from: &str, to: &str| transform(composed(from), composed(to), 16).unwrap().vector_bits();
    assert_eq!(width("(8,64):(64,1)", "(8,64):(64,1)"), 128);
    assert_eq!(width("(8,64):(64,1)", "(8,64):(1,8)"), 16);
    assert_eq!(width("(8,64):(64,1)", "S<3,3,3> o 0 o (8,64):(64,1)"), 128);
    assert_eq!(width("(8,64):(64,1)", "S<3,1,3> o 0 o (8,64):(64,1)"), 32);
    assert_eq!(width("(8,64):(65,1)", "(8,64):(64,1)"), 16);
}

#[test]
fn what_is_not_a_bijection_says_so() {
    assert!(!transform(layout("(4,4):(4,1)"), layout("(4,4):(1,1)"), 16).unwrap().is_bijection());
    let broadcast = TvLayout::new(layout("(32,4):(0,32)"), (32, 4)).unwrap();
    assert!(!transform(broadcast, layout("(32,4):(4,1)"), 16).unwrap().is_bijection());
    let error = transform(layout("(4,4)"), layout("(4,8)"), 16).unwrap_err();
    assert_eq!(error.to_string(), "transform: (4,8) does not have the profile of (4,4)");
    assert!(transform(layout("(4,4)"), layout("(4,4)"), 24).is_err());
}
