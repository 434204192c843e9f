//! The published post-conditions of the layout algebra, for random layouts.
//!
//! Stated in Cecka, "CuTe Layout Representation and Algebra" (arXiv 2603.02298) and in CuTe's
//! documentation of each operation.

use std::collections::BTreeSet;

use layout::hw::{Generation, HardwareLayout, Major, SmemSwizzle, SmemTile};
use layout::{ComposedLayout, CoordLayout, IntTuple, Layout, Slice, Swizzle, Tiler};
use proptest::prelude::*;

/// Random nested shapes of at most 4096 elements.
fn shape() -> impl Strategy<Value = IntTuple> {
    let extent = prop::sample::select(vec![1u64, 2, 2, 3, 4, 4, 5, 6, 8, 16]);
    let nested = extent.prop_map(IntTuple::Int).prop_recursive(3, 6, 3, |inner| {
        prop::collection::vec(inner, 1..4).prop_map(IntTuple::Tuple)
    });
    nested.prop_filter("small enough to visit", |shape| {
        shape.product().is_ok_and(|size| size <= 4096)
    })
}

/// Random layouts: any strides, overlapping ones and zeros included.
fn any_layout() -> impl Strategy<Value = Layout> {
    let strides = prop::collection::vec(
        prop::sample::select(vec![0u64, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64]),
        32,
    );
    (shape(), strides).prop_map(|(shape, strides)| {
        let mut strides = strides.into_iter().cycle();
        let stride = shape.map_leaves(&mut |_| strides.next().unwrap());
        Layout::new(shape, stride).unwrap()
    })
}

/// The bijection onto `0..size` in which the leaf with the smallest key is contiguous.
fn compact(shape: IntTuple, keys: &[u32]) -> Layout {
    let extents = shape.flatten();
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.sort_by_key(|&leaf| keys[leaf % keys.len()]);
    let mut strides = vec![0; extents.len()];
    let mut next = 1;
    for leaf in order {
        strides[leaf] = next;
        next *= extents[leaf];
    }
    let mut strides = strides.into_iter();
    let stride = shape.map_leaves(&mut |_| strides.next().unwrap());
    Layout::new(shape, stride).unwrap()
}

fn keys() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 32)
}

/// Random bijections onto `0..size`: the leaves of a shape in a random order of significance.
fn compact_layout() -> impl Strategy<Value = Layout> {
    (shape(), keys()).prop_map(|(shape, keys)| compact(shape, &keys))
}

/// Two bijections of one shape.
fn compact_pair() -> impl Strategy<Value = (Layout, Layout)> {
    (shape(), keys(), keys())
        .prop_map(|(shape, a, b)| (compact(shape.clone(), &a), compact(shape, &b)))
}

/// Injective layouts with holes: a compact layout without some of its leaves.
fn holed_layout() -> impl Strategy<Value = Layout> {
    (compact_layout(), prop::collection::vec(any::<bool>(), 32)).prop_map(|(layout, keep)| {
        let kept = layout.leaves().into_iter().zip(keep).filter(|(_, keep)| *keep);
        let (extents, strides): (Vec<u64>, Vec<u64>) = kept.map(|(leaf, _)| leaf).unzip();
        Layout::new(extents, strides).unwrap()
    })
}

const EXTREMES: [u64; 9] = [0, 1, 2, 7, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];

/// Layouts of any magnitude, the empty one included.
fn huge_layout() -> impl Strategy<Value = Layout> {
    let leaf = prop::sample::select(EXTREMES.to_vec());
    prop::collection::vec((leaf.clone(), leaf), 0..4).prop_filter_map(
        "a layout that fits 64 bits",
        |leaves| {
            let (shape, stride): (Vec<u64>, Vec<u64>) = leaves.into_iter().unzip();
            Layout::new(shape, stride).ok()
        },
    )
}

fn swizzle() -> impl Strategy<Value = Swizzle> {
    (0u32..4, 0u32..5, 0i32..4, any::<bool>()).prop_map(|(bits, base, extra, negative)| {
        let shift = bits as i32 + extra;
        Swizzle::new(bits, base, if negative { -shift } else { shift }).unwrap()
    })
}

fn smem_tile() -> impl Strategy<Value = SmemTile> {
    let swizzle = prop::sample::select(SmemSwizzle::ALL.to_vec());
    let bits = prop::sample::select(vec![8u64, 16, 32]);
    (swizzle, bits, 1u64..5, 1u64..9, any::<bool>()).prop_map(
        |(swizzle, bits, blocks, groups, k_major)| {
            let (along, lines) = (blocks * swizzle.span_bytes() * 8 / bits, 8 * groups);
            let (mn, k, major) =
                if k_major { (lines, along, Major::K) } else { (along, lines, Major::Mn) };
            SmemTile::new(mn, k, bits, major, swizzle).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn coordinates_go_there_and_back(shape in shape()) {
        for index in 0..shape.product().unwrap() {
            let nested = shape.coord_of(index).unwrap();
            let by_mode = IntTuple::from(shape.coord_by_mode(index).unwrap());
            prop_assert_eq!(shape.index_of(&nested), Ok(index));
            if !shape.is_int() {
                prop_assert_eq!(shape.index_of(&by_mode), Ok(index));
            }
        }
    }

    #[test]
    fn a_layout_is_one_function_of_all_coordinate_forms(layout in any_layout()) {
        for (index, expected) in layout.indices().enumerate() {
            let nested = layout.shape().coord_of(index as u64).unwrap();
            prop_assert_eq!(nested.inner_product(layout.stride()), Ok(expected));
            prop_assert_eq!(layout.at(nested), Ok(expected));
            prop_assert!(expected < layout.cosize());
        }
        prop_assert_eq!(layout.indices().max(), Some(layout.cosize() - 1));
    }

    #[test]
    fn coalesce_is_the_same_function_and_minimal(layout in any_layout()) {
        let coalesced = layout.coalesce();
        prop_assert!(coalesced.depth() <= 1);
        prop_assert_eq!(coalesced.coalesce(), coalesced.clone());
        prop_assert!(layout.indices().eq(coalesced.indices()));
    }

    #[test]
    fn composition_is_application_twice(outer in any_layout(), inner in any_layout()) {
        prop_assume!(inner.cosize() <= outer.size());
        let Ok(composed) = outer.compose(&inner) else { return Ok(()) };
        prop_assert!(inner.shape().is_compatible(composed.shape()));
        for index in 0..inner.size() {
            prop_assert_eq!(composed.at(index), outer.at(inner.at(index).unwrap()));
        }
    }

    #[test]
    fn composition_with_a_contiguous_layout_always_exists(inner in any_layout()) {
        let outer = Layout::strided(inner.cosize(), 3).unwrap();
        let composed = outer.compose(&inner).unwrap();
        prop_assert!(composed.indices().eq(inner.indices().map(|index| 3 * index)));
    }

    #[test]
    fn composition_is_associative(a in compact_layout(), b in holed_layout(), c in holed_layout()) {
        prop_assume!(b.cosize() <= a.size() && c.cosize() <= b.size());
        let left = a.compose(&b).and_then(|ab| ab.compose(&c));
        let right = b.compose(&c).and_then(|bc| a.compose(&bc));
        if let (Ok(left), Ok(right)) = (left, right) {
            prop_assert!(left.indices().eq(right.indices()), "{} and {}", left, right);
        }
    }

    #[test]
    fn a_complement_fills_the_holes(layout in holed_layout(), extra in 1u64..5) {
        let bound = layout.cosize() * extra;
        let complement = layout.complement(bound).unwrap();
        let own: BTreeSet<u64> = layout.indices().collect();
        prop_assert!(complement.indices().all(|index| index == 0 || !own.contains(&index)));
        prop_assert!(complement.indices().is_sorted_by(|a, b| a < b));
        let both = Layout::from_modes([layout, complement]).unwrap();
        prop_assert!(both.is_compact() && both.size() >= bound);
    }

    #[test]
    fn inverses_undo(layout in holed_layout()) {
        let right = layout.right_inverse().unwrap();
        for index in 0..right.size() {
            prop_assert_eq!(layout.at(right.at(index).unwrap()), Ok(index));
        }
        let left = layout.left_inverse().unwrap();
        for index in 0..layout.size() {
            prop_assert_eq!(left.at(layout.at(index).unwrap()), Ok(index));
        }
    }

    #[test]
    fn a_bijection_has_one_inverse(layout in compact_layout()) {
        prop_assert!(layout.is_compact());
        let (left, right) = (layout.left_inverse().unwrap(), layout.right_inverse().unwrap());
        prop_assert_eq!(right.size(), layout.size());
        prop_assert!(left.indices().eq(right.indices()));
    }

    #[test]
    fn division_keeps_every_element_and_puts_the_tile_first(
        layout in compact_layout(), log2 in 0u32..4, stride in 0u32..4,
    ) {
        let tile = Layout::strided(1 << log2, 1 << stride).unwrap();
        prop_assume!(layout.size().is_multiple_of(1 << (log2 + stride)));
        let Ok(divided) = layout.logical_divide(&tile.clone().into()) else { return Ok(()) };
        prop_assert_eq!(divided.size(), layout.size());
        prop_assert!(divided.is_compact());
        for index in 0..tile.size() {
            let first = divided.mode(0).unwrap().at(index);
            prop_assert_eq!(first, layout.at(tile.at(index).unwrap()));
        }
        let zipped = layout.zipped_divide(&tile.clone().into()).unwrap();
        let tiled = layout.tiled_divide(&tile.clone().into()).unwrap();
        let flat = layout.flat_divide(&tile.into()).unwrap();
        prop_assert!(divided.indices().eq(zipped.indices()));
        prop_assert!(divided.indices().eq(tiled.indices()) && divided.indices().eq(flat.indices()));
    }

    #[test]
    fn products_repeat_the_tile_without_overlap(tile in holed_layout(), grid in compact_layout()) {
        prop_assume!(tile.size() * grid.size() <= 4096);
        let Ok(product) = tile.logical_product(&grid.clone().into()) else { return Ok(()) };
        prop_assert_eq!(product.mode(0).unwrap(), tile.clone());
        prop_assert!(product.is_injective());
        let all: BTreeSet<u64> = product.indices().collect();
        let blocked = tile.blocked_product(&grid).unwrap();
        let raked = tile.raked_product(&grid).unwrap();
        prop_assert_eq!(blocked.indices().collect::<BTreeSet<u64>>(), all.clone());
        prop_assert_eq!(raked.indices().collect::<BTreeSet<u64>>(), all);
    }

    #[test]
    fn recasting_down_and_up_is_the_identity(layout in compact_layout(), log2 in 0u32..4) {
        let finer = layout.downcast(1 << log2).unwrap();
        // Extents of 1 at stride 1 grow as well, as in CuTe.
        if layout.leaves().iter().filter(|(_, stride)| *stride == 1).count() == 1 {
            prop_assert_eq!(finer.size(), layout.size() << log2);
        }
        prop_assert!(finer.upcast(1 << log2).unwrap().indices().eq(layout.indices()));
    }

    #[test]
    fn slices_are_restrictions(layout in any_layout(), pick in any::<u64>()) {
        prop_assume!(layout.rank() == 2 && !layout.shape().is_int());
        let column = pick % layout.mode(1).unwrap().size();
        let (rows, start) = layout.slice(&Slice::Modes(vec![Slice::All, Slice::At(column)])).unwrap();
        for row in 0..rows.size() {
            prop_assert_eq!(layout.at((row, column)), Ok(start + rows.at(row).unwrap()));
        }
    }

    #[test]
    fn common_vectors_are_contiguous_in_both((a, b) in compact_pair()) {
        let Ok(common) = a.max_common_layout(&b) else { return Ok(()) };
        for index in 0..common.size() {
            let at = common.at(index).unwrap();
            prop_assert_eq!((a.at(at), b.at(at)), (Ok(index), Ok(index)));
        }
    }

    #[test]
    fn a_swizzle_is_an_involution(swizzle in swizzle(), index in 0u64..1 << 40) {
        prop_assert_eq!(swizzle.apply(swizzle.apply(index)), index);
        let image: BTreeSet<u64> = (0..swizzle.period()).map(|index| swizzle.apply(index)).collect();
        prop_assert!(image.into_iter().eq(0..swizzle.period()));
    }

    #[test]
    fn what_is_printed_is_read_back(layout in any_layout(), swizzle in swizzle(), offset in 0u64..100) {
        prop_assert_eq!(layout.to_string().parse(), Ok(layout.clone()));
        prop_assert_eq!(layout.shape().to_string().parse(), Ok(layout.shape().clone()));
        let composed = ComposedLayout::new(swizzle, offset, layout.clone()).unwrap();
        prop_assert_eq!(composed.to_string().parse(), Ok(composed));
        let tile = layout.shape().clone();
        let identity = CoordLayout::identity(tile.clone()).unwrap();
        let read = CoordLayout::parse(&identity.to_string(), tile).unwrap();
        prop_assert_eq!(read.to_string(), identity.to_string());
        for index in 0..layout.size() {
            prop_assert_eq!(read.at(index), identity.at(index));
        }
        let tiler = Tiler::ByMode(vec![layout.clone().into(), Tiler::Keep, layout.into()]);
        prop_assert_eq!(tiler.to_string().parse(), Ok(tiler));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[S_(),:<>o0-9 a-z]{0,24}", any in "\\PC{0,24}") {
        for text in [text, any] {
            let _ = (text.parse::<ComposedLayout>(), text.parse::<Tiler>(), text.parse::<Slice>());
            let _ = (text.parse::<HardwareLayout>(), CoordLayout::parse(&text, (8, (2, 4))));
            if let Err(error) = text.parse::<Layout>() {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn no_numbers_make_the_algebra_panic(
        a in huge_layout(), b in huge_layout(), number in prop::sample::select(EXTREMES.to_vec()),
    ) {
        let tiler = Tiler::from(b.clone());
        let by_mode = Tiler::ByMode(vec![Tiler::Keep, b.clone().into()]);
        let _ = (a.compose(&b), a.complement(number), a.left_inverse(), a.right_inverse());
        let _ = (a.logical_divide(&tiler), a.zipped_divide(&by_mode), a.tiled_divide(&tiler));
        let _ = (a.logical_product(&tiler), a.blocked_product(&b), a.raked_product(&b));
        let _ = (a.upcast(number), a.downcast(number), a.recast(number, 8), a.max_common_vector(&b));
        let _ = (a.at(number), a.at((number, number)), a.shape().coord_of(number), a.coalesce());
        let _ = (a.shape().shape_div(number), a.group(0, 1), a.append(b.clone()));
        if let Ok(composed) = ComposedLayout::new(Swizzle::new(3, 4, 3).unwrap(), number, a) {
            let _ = (composed.at(0), composed.recast(16, number), composed.shifted(number));
        }
    }

    #[test]
    fn tma_and_descriptors_see_the_same_swizzle(tile in smem_tile()) {
        let box_layout = tile.tma_box().unwrap().layout().unwrap();
        let operand = tile.layout().unwrap();
        prop_assert_eq!(box_layout.swizzle(), operand.swizzle());
        let elements = |bytes: u32| u64::from(bytes) * 8 / tile.element_bits();
        for copy in tile.tma_copies().unwrap() {
            let placed = box_layout.shifted(elements(copy.offset.bytes())).unwrap();
            for (i, line) in [(0, 0), (1, 3), (tile.span() - 1, 7)] {
                let (along, across) = (copy.contiguous + i, copy.line + line);
                let coord = if tile.major() == Major::K { (across, along) } else { (along, across) };
                prop_assert_eq!(placed.at((i, line)), operand.at(coord), "{}", tile);
            }
        }
        if let Ok(descriptor) = tile.descriptor(Generation::Blackwell) {
            prop_assert_eq!(descriptor.swizzle, tile.swizzle());
        }
    }
}
