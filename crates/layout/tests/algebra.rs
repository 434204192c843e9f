//! Facts of the algebra published with CuTe: worked examples of its documentation and the layouts
//! its own unit tests run through, checked against each operation's post-condition.

use layout::{ComposedLayout, IntTuple, Layout, Tiler};

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn tiler(text: &str) -> Tiler {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

const COALESCE: &[&str] = &[
    "1:0",
    "1:1",
    "(2,4)",
    "(2,4,6)",
    "(2,4,6):(1,6,2)",
    "(2,1,6):(1,7,2)",
    "(2,1,6):(4,7,8)",
    "(2,(4,6))",
    "(2,4):(4,1)",
    "(2,4,6):(24,6,1)",
    "(2,1,3):(2,4,4)",
    "((2,2),(2,2)):((1,4),(8,32))",
];

#[test]
fn coalesce_keeps_the_function_and_flattens() {
    for text in COALESCE {
        let (before, after) = (layout(text), layout(text).coalesce());
        assert!(after.depth() <= 1, "{before} became {after}");
        assert!(before.indices().eq(after.indices()), "{before} became {after}");
    }
    assert_eq!(layout("(2,(1,6)):(1,(6,2))").coalesce().to_string(), "12:1");
    let by_mode = layout("(2,(1,6)):(1,(6,2))").coalesce_by(&IntTuple::from((1, 1))).unwrap();
    assert_eq!(by_mode.to_string(), "(2,6):(1,2)");
}

const COMPOSE: &[(&str, &str)] = &[
    ("1:0", "1:0"),
    ("1:0", "1:1"),
    ("1:1", "1:0"),
    ("1:1", "1:1"),
    ("4", "4"),
    ("4:2", "4"),
    ("4", "4:2"),
    ("4:0", "4"),
    ("4", "4:0"),
    ("1:0", "4"),
    ("4", "1:0"),
    ("4", "2"),
    ("4:2", "2"),
    ("4", "2:2"),
    ("4:2", "2:2"),
    ("12", "(4,3)"),
    ("12:2", "(4,3)"),
    ("12", "(4,3):(3,1)"),
    ("12:2", "(4,3):(3,1)"),
    ("12", "(2,3):(2,4)"),
    ("(4,3)", "(4,3)"),
    ("(4,3)", "12"),
    ("(4,3)", "6:2"),
    ("(4,3)", "(6,2):(2,1)"),
    ("(4,3):(3,1)", "(4,3)"),
    ("(4,3):(3,1)", "12"),
    ("(4,3):(3,1)", "6:2"),
    ("(4,3):(3,1)", "(6,2):(2,1)"),
    ("(8,8)", "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))"),
    ("(8,8):(8,1)", "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))"),
    ("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", "8:4"),
    ("(4,2):(1,16)", "(4,2):(2,1)"),
    ("(2,2):(2,1)", "(2,2):(2,1)"),
    ("(4,8,2)", "(2,2,2):(2,8,1)"),
    ("(4,8,2):(2,8,1)", "(2,2,2):(1,8,2)"),
    ("(4,8,2):(2,8,1)", "(4,2,2):(2,8,1)"),
    ("(4,6,8):(1,4,7)", "6:1"),
    ("(4,6,8,10):(2,3,5,7)", "6:12"),
    ("(6,2):(8,2)", "(4,3):(3,1)"),
    ("20:2", "(5,4):(4,1)"),
    ("(10,2):(16,4)", "(5,4):(1,5)"),
];

/// The index at `i`, running on along the last mode past the end as CuTe does.
fn extended(layout: &Layout, i: u64) -> u64 {
    let leaves = layout.leaves();
    let (last, before) = leaves.split_last().unwrap();
    let mut rest = i;
    let mut index = 0;
    for (extent, stride) in before {
        index += rest % extent * stride;
        rest /= extent;
    }
    index + rest * last.1
}

#[test]
fn composition_is_one_layout_after_the_other() {
    for (outer, inner) in COMPOSE {
        let (outer, inner) = (layout(outer), layout(inner));
        let composed = outer.compose(&inner).unwrap_or_else(|e| panic!("{outer} o {inner}: {e}"));
        assert!(inner.shape().is_compatible(composed.shape()), "{outer} o {inner} = {composed}");
        for i in 0..inner.size() {
            let through = extended(&outer, inner.at(i).unwrap());
            assert_eq!(composed.at(i).unwrap(), through, "{outer} o {inner} = {composed} at {i}");
        }
    }
    assert_eq!(layout("(4,6)").compose(&layout("4:3")).unwrap().to_string(), "4:3");
    let uneven = layout("(4,6):(1,5)").compose(&layout("4:3")).unwrap_err();
    assert_eq!(uneven.to_string(), "composition: 4 and 3 do not divide evenly");
    let carry = layout("(2,2):(0,1)").compose(&layout("(2,2):(1,1)")).unwrap_err();
    let message =
        "composition: the modes of (2,2):(1,1) carry from one mode of (2,2):(0,1) into the next";
    assert_eq!(carry.to_string(), message);
}

#[test]
fn composition_by_mode() {
    let tiled = layout("(12,(4,8)):(59,(13,1))").compose_by(&tiler("<3:4,8:2>")).unwrap();
    assert_eq!(tiled.to_string(), "(3,(2,4)):(236,(26,1))");
}

const COMPLEMENT: &[(&str, u64)] = &[
    ("1:0", 1),
    ("1:1", 1),
    ("4:0", 1),
    ("(2,4):(1,2)", 1),
    ("(2,3):(1,2)", 1),
    ("(2,4):(1,4)", 1),
    ("(2,4,8):(8,1,64)", 1),
    ("((2,2),(2,2)):((1,4),(8,32))", 1),
    ("(2,(3,4)):(3,(1,6))", 1),
    ("(4,6):(1,6)", 1),
    ("(4,10):(1,10)", 1),
    ("1:0", 5),
    ("4:1", 24),
    ("6:4", 24),
    ("(4,6):(1,4)", 24),
    ("4:2", 24),
    ("(2,4):(1,6)", 24),
    ("(2,2):(1,6)", 24),
];

#[test]
fn a_complement_meets_its_layout_only_in_zero() {
    for &(text, bound) in COMPLEMENT {
        let original = layout(text);
        let complement = original.complement(bound).unwrap();
        let own: std::collections::BTreeSet<u64> = original.indices().collect();
        assert!(complement.indices().all(|i| i == 0 || !own.contains(&i)), "{text}: {complement}");
        assert!(complement.indices().is_sorted(), "{text}: {complement}");
        let both = Layout::from_modes([original, complement]).unwrap();
        assert!(both.cosize() >= bound, "{text} leaves a tail below {bound}");
    }
    // Gaps that are not whole multiples have a complement but are not filled by it.
    assert_eq!(layout("(4,10):(1,10)").complement(1).unwrap().to_string(), "2:4");
    let error = layout("32").logical_divide(&tiler("(4,2):(1,6)")).unwrap_err();
    assert_eq!(error.to_string(), "logical divide: 6 and 4 do not divide evenly");
    let error = layout("(4,4):(1,2)").complement(16).unwrap_err();
    assert_eq!(error.to_string(), "complement: the modes of (4,4):(1,2) overlap");
}

const LEFT_INVERSE: &[&str] = &[
    "1:0",
    "(1,1):(0,0)",
    "1:1",
    "4:1",
    "4:2",
    "(8,4):(1,8)",
    "(8,4):(4,1)",
    "(2,4,6):(1,2,8)",
    "(2,4,6):(4,1,8)",
    "(4,2):(1,16)",
    "((2,2),(2,2)):((1,4),(8,32))",
];

const RIGHT_INVERSE: &[&str] = &[
    "1:0",
    "(1,1):(0,0)",
    "(3,7):(0,0)",
    "1:1",
    "4:0",
    "4:1",
    "4:2",
    "(2,4):(0,2)",
    "(8,4):(1,8)",
    "(8,4):(4,1)",
    "(2,4,6):(1,2,8)",
    "(2,4,6):(4,1,8)",
    "(4,2):(1,16)",
    "(2,8):(0,1)",
];

#[test]
fn left_and_right_inverses_undo() {
    for text in RIGHT_INVERSE {
        let original = layout(text);
        let right = original.right_inverse().unwrap();
        assert!(
            (0..right.size()).all(|i| original.at(right.at(i).unwrap()) == Ok(i)),
            "{text}: {right}"
        );
    }
    let right = |text: &str| layout(text).right_inverse().unwrap().to_string();
    assert_eq!(right("(2,8):(0,1)"), "8:2");
    assert_eq!(right("(3,2,4):(1,1,2)"), "8:3", "2 then 4 reaches farther than 3");
    assert_eq!(right("(2,8):(1,1)"), "8:2");
    for text in LEFT_INVERSE {
        let original = layout(text);
        let left = original.left_inverse().unwrap();
        assert!(
            (0..original.size()).all(|i| left.at(original.at(i).unwrap()) == Ok(i)),
            "{text}: {left}"
        );
    }
    assert!(layout("4:0").left_inverse().is_err());
    assert!(layout("(4,4):(1,2)").left_inverse().is_err());
    assert!(layout("(2,2):(2,3)").left_inverse().is_err(), "2 does not divide 3");
}

#[test]
fn divisions_of_the_documentation() {
    let whole = layout("(9,(4,8)):(59,(13,1))");
    let tile = tiler("<3:3,(2,4):(1,8)>");
    let shown = |layout: layout::Result<Layout>| layout.unwrap().to_string();
    assert_eq!(
        shown(whole.logical_divide(&tile)),
        "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"
    );
    assert_eq!(
        shown(whole.zipped_divide(&tile)),
        "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    );
    assert_eq!(shown(whole.tiled_divide(&tile)), "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))");
    assert_eq!(shown(whole.flat_divide(&tile)), "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))");
    assert_eq!(
        shown(layout("(4,2,3):(2,1,8)").logical_divide(&tiler("4:2"))),
        "((2,2),(2,3)):((4,1),(2,8))"
    );
}

#[test]
fn products_of_the_documentation() {
    let tile = layout("(2,5):(5,1)");
    let arrangement = layout("(3,4):(1,3)");
    assert_eq!(
        tile.blocked_product(&arrangement).unwrap().to_string(),
        "((2,3),(5,4)):((5,10),(1,30))"
    );
    assert_eq!(
        tile.raked_product(&arrangement).unwrap().to_string(),
        "((3,2),(4,5)):((10,5),(30,1))"
    );
    let product = layout("(2,2):(4,1)").logical_product(&tiler("(4,2):(2,1)")).unwrap();
    assert!(product.is_compact(), "{product} is eight copies of a 2 by 2 tile");
    assert_eq!(product.mode(0).unwrap(), layout("(2,2):(4,1)"));
}

#[test]
fn recast_counts_the_same_bytes() {
    let bf16: ComposedLayout = "S<3,3,3> o 0 o (8,64):(64,1)".parse().unwrap();
    assert_eq!(bf16.recast(16, 8).unwrap().to_string(), "S<3,4,3> o 0 o (8,128):(128,1)");
    assert_eq!(bf16.recast(16, 128).unwrap().to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    assert!(bf16.recast(16, 256).is_err(), "32-byte units are torn apart by the swizzle");
    assert!(layout("(8,3):(3,1)").upcast(2).is_err());
}

#[test]
fn overflow_is_an_error() {
    assert!(Layout::new((1 << 40, 1 << 40), (1, 1)).unwrap_err().is_overflow());
    assert!(Layout::new((1 << 32, 2), (1 << 40, 1)).unwrap_err().is_overflow());
    assert!(layout("2:9223372036854775807").right_inverse().is_ok());
    assert!("0:1".parse::<Layout>().unwrap_err().to_string().contains("extent of zero"));
}

#[test]
fn int_tuple_functions() {
    let tuple = |text: &str| text.parse::<IntTuple>().unwrap();
    let nested = tuple("((2,3),4)");
    assert_eq!((nested.rank(), nested.depth(), nested.product()), (2, 2, Ok(24)));
    assert_eq!((tuple("2").product(), tuple("(3,2)").product()), (Ok(2), Ok(6)));
    assert_eq!(tuple("2").inner_product(&tuple("3")), Ok(6));
    assert_eq!(tuple("(1,2)").inner_product(&tuple("(3,2)")), Ok(7));
    assert_eq!(nested.inner_product(&tuple("((2,1),2)")), Ok(15));
    assert!(nested.inner_product(&tuple("(2,2)")).is_err());
    let prefix = |text: &str| tuple(text).prefix_product().unwrap().to_string();
    assert_eq!(
        (prefix("2"), prefix("(3,2)"), prefix("(3,2,4)")),
        ("1".into(), "(1,3)".into(), "(1,3,6)".into())
    );
    assert_eq!(prefix("((2,3),4)"), "((1,2),6)");
    assert_eq!(prefix("((2,3),(2,1,2),(5,2,1))"), "((1,2),(6,12,12),(24,120,240))");
    let divided = |text: &str, divisor| tuple(text).shape_div(divisor).unwrap().to_string();
    assert_eq!((divided("(3,4)", 6), divided("(3,4)", 12)), ("(1,2)".into(), "(1,1)".into()));
    assert_eq!(divided("(3,4)", 36), "(1,1)");
    assert_eq!(
        (divided("((3,4),6)", 36), divided("(6,(3,4))", 36)),
        ("((1,1),2)".into(), "(1,(1,2))".into())
    );
    assert!(tuple("(3,4)").shape_div(2).is_err());
}
