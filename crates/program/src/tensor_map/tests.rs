use super::*;
use crate::Rule;

/// Rows of 128 bf16 in 4096 tokens of 16 heads, box of one swizzle span by 64 tokens.
fn tokens() -> TensorMap {
    TensorMap {
        buffer: BufferId(0),
        offset: 256,
        element: ElementType::Bf16,
        dims: vec![128, 4096, 16],
        strides: vec![256, 1 << 20],
        box_dims: vec![64, 64, 1],
        element_strides: vec![1, 1, 1],
        im2col: None,
        swizzle: Swizzle::B128,
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::B128,
    }
}

fn broken(change: impl FnOnce(&mut TensorMap)) -> Vec<Rule> {
    let mut map = tokens();
    change(&mut map);
    map.check().err().unwrap_or_default().iter().map(|violation| violation.rule).collect()
}

fn warned(change: impl FnOnce(&mut TensorMap)) -> Vec<Rule> {
    let mut map = tokens();
    change(&mut map);
    map.check().unwrap().iter().map(|warning| warning.rule).collect()
}

#[test]
fn a_plain_map_passes_without_warnings() {
    assert_eq!(tokens().check(), Ok(vec![]));
}

#[test]
fn what_the_driver_refuses_is_refused_by_number() {
    assert_eq!(broken(|m| *m = TensorMap { dims: vec![], ..tokens() })[0], Rule::T(1));
    assert_eq!(broken(|m| m.strides = vec![2, 256, 1 << 20]), [Rule::T(2)]);
    assert_eq!(broken(|m| m.element_strides = vec![1]), [Rule::T(2)]);
    assert_eq!(broken(|m| m.offset = 8), [Rule::T(3)]);
    assert_eq!(broken(|m| m.dims[1] = 0), [Rule::T(4)]);
    assert_eq!(broken(|m| m.dims[1] = (1 << 32) + 1), [Rule::T(4)]);
    assert_eq!(broken(|m| m.strides[0] = 264), [Rule::T(5)]);
    assert_eq!(broken(|m| m.strides[1] = 1 << 40), [Rule::T(6)]);
    assert_eq!(broken(|m| m.box_dims[1] = 257), [Rule::T(7)]);
    assert_eq!(broken(|m| m.box_dims[0] = 4), [Rule::T(8)]);
    assert_eq!(broken(|m| m.box_dims[0] = 128), [Rule::T(9)]);
    assert_eq!(broken(|m| m.swizzle = Swizzle::B64), [Rule::T(9)]);
    assert_eq!(broken(|m| m.box_dims = vec![64, 256, 8]), [Rule::T(10)]);
    assert_eq!(broken(|m| m.element_strides[0] = 0), [Rule::T(11)]);
    assert_eq!(broken(|m| m.element_strides[2] = 9), [Rule::T(11)]);
    assert_eq!(
        broken(|m| (m.element, m.oob_fill) = (ElementType::U16, OobFill::Nan)),
        [Rule::T(12)]
    );
    assert_eq!(broken(|m| m.element = ElementType::B4x16P64), [Rule::T(13)]);
}

/// Images of 16 × 12 pixels with 64 channels; 3 × 3 windows with a border of one pixel.
fn images() -> TensorMap {
    TensorMap {
        dims: vec![64, 16, 12, 4],
        strides: vec![128, 128 * 16, 128 * 16 * 12],
        box_dims: vec![64, 128],
        element_strides: vec![1, 1, 1, 1],
        im2col: Some(PixelBox { lower: [-1, -1, 0], upper: [-1, -1, 0] }),
        ..tokens()
    }
}

#[test]
fn im2col_maps_have_rules_of_their_own() {
    let broken = |change: fn(&mut TensorMap)| {
        let mut map = images();
        change(&mut map);
        map.check().err().unwrap_or_default().iter().map(|v| v.rule).collect::<Vec<_>>()
    };
    assert_eq!(images().check(), Ok(vec![]));
    assert_eq!(broken(|m| m.box_dims = vec![64, 1024]), []);
    assert_eq!(broken(|m| m.box_dims = vec![64, 1025]), [Rule::T(7), Rule::T(10)]);
    assert_eq!(broken(|m| m.box_dims = vec![64, 16, 8, 1]), [Rule::T(2)]);
    assert_eq!(
        broken(|m| {
            (m.dims, m.strides, m.element_strides) = (vec![64, 16], vec![128], vec![1; 2]);
        }),
        [Rule::T(14)]
    );
    let with = |lower, upper| {
        let map = TensorMap { im2col: Some(PixelBox { lower, upper }), ..images() };
        map.check().err().unwrap_or_default().iter().map(|v| v.rule).collect::<Vec<_>>()
    };
    assert_eq!(with([-128, 0, 0], [127, 0, 0]), []);
    assert_eq!(with([-129, 0, 0], [128, 0, 0]), [Rule::T(15), Rule::T(15)]);
    assert_eq!(with([8, 0, 0], [-7, 0, 0]), []);
    assert_eq!(with([8, 0, 0], [-8, 0, 0]), [Rule::T(16)]);
}

#[test]
fn the_limits_themselves_pass() {
    assert_eq!(broken(|m| m.strides[1] = (1 << 40) - 16), []);
    assert_eq!(broken(|m| m.dims[2] = 1 << 32), []);
    assert_eq!(broken(|m| m.box_dims = vec![64, 256, 4]), []);
    assert_eq!(broken(|m| m.oob_fill = OobFill::Nan), []);
}

#[test]
fn a_refusal_names_the_value_and_the_rule() {
    let mut map = tokens();
    map.box_dims[0] = 128;
    let violations = map.check().unwrap_err();
    assert_eq!(violations[0].to_string(), "a box row has 256 bytes: B128 allows 128 (rule T9)");
}

#[test]
fn what_the_driver_takes_in_silence_is_warned_about() {
    // Strides in elements: 128 and 2^19.
    assert_eq!(warned(|m| m.strides = vec![128, 1 << 19]), [Rule::W(1), Rule::W(1)]);
    assert_eq!(warned(|m| m.strides = vec![256, 0]), [Rule::W(2), Rule::W(3)]);
    // Heads between tokens, as in [batch, tokens, heads, dim]: fine but for the order.
    assert_eq!(warned(|m| m.strides = vec![4096, 256]), [Rule::W(3)]);
    assert_eq!(warned(|m| m.dims[1] = 63), [Rule::W(4)]);
}

#[test]
fn decoding_gives_back_what_was_encoded() {
    for element in ElementType::ALL {
        for swizzle in Swizzle::ALL {
            for (fill, promotion) in
                [(OobFill::Zero, L2Promotion::B256), (OobFill::Nan, L2Promotion::B64)]
            {
                let map = TensorMap {
                    element,
                    swizzle,
                    oob_fill: fill,
                    l2_promotion: promotion,
                    dims: vec![1 << 32, 7, 6, 5, 4],
                    strides: vec![16, (1 << 40) - 16, 1 << 36, 48],
                    box_dims: vec![256, 2, 3, 4, 5],
                    element_strides: vec![1, 2, 8, 4, 3],
                    ..tokens()
                };
                let descriptor = map.descriptor(0x7f12_3456_7000);
                assert_eq!(TensorDescriptor::decode(&map.encode(0x7f12_3456_7000)), Ok(descriptor));
            }
        }
    }
}

#[test]
fn decoding_gives_back_pixel_boxes() {
    let images = |rank: usize, lower, upper| TensorMap {
        dims: vec![64, 1 << 17, 300, 40, 4][..rank].to_vec(),
        strides: vec![128, 1 << 24, 1 << 33, 1 << 39][..rank - 1].to_vec(),
        box_dims: vec![64, 1024],
        element_strides: vec![1, 2, 8, 4, 1][..rank].to_vec(),
        im2col: Some(PixelBox { lower, upper }),
        ..tokens()
    };
    for map in [
        images(3, [-32768, 0, 0], [32767, 0, 0]),
        images(4, [-128, 127, 0], [127, -128, 0]),
        images(4, [1, 2, 0], [3, 4, 0]),
        images(5, [-16, 15, 1], [15, -16, 2]),
    ] {
        let read = TensorDescriptor::decode(&map.encode(0x7f12_3456_7000));
        assert_eq!(read, Ok(map.descriptor(0x7f12_3456_7000)));
        assert_eq!(read.unwrap().transaction_bytes(), 1024 * 128);
    }
}

#[test]
fn lower_ranks_read_back_with_neutral_dimensions() {
    let map = TensorMap {
        dims: vec![64],
        strides: vec![],
        box_dims: vec![64],
        element_strides: vec![1],
        ..tokens()
    };
    let read = TensorDescriptor::decode(&map.encode(0)).unwrap();
    assert_eq!((read.rank, read.dims), (1, [64, 1, 1, 1, 1]));
    assert_eq!((read.strides, read.box_bytes()), ([2, 0, 0, 0, 0], 128));
}

/// Fields at the places the format's table gives them, written out by hand.
#[test]
fn the_words_are_where_the_hardware_reads_them() {
    let bytes = tokens().encode(0x7f00_0000_0000);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(4)), (0x100, 0x7f00));
    // rank 3, bf16 = 10, swizzle 128 B = 3, L2 promotion 128 B = 2.
    assert_eq!(word(8), 2 << 4 | 10 << 7 | 3 << 13 | 2 << 17);
    assert_eq!((word(0x0C), word(0x10), word(0x1C)), (256 >> 4, 1 << 16, 0));
    assert_eq!((word(0x20), word(0x24), word(0x28), word(0x2C)), (127, 4095, 15, 0));
    assert_eq!((word(0x34), word(0x38)), (63 << 24, 63));
    assert_eq!(word(0x40), 64 * 64 * 2);
}

/// As the driver wrote them for an H200.
#[test]
fn pixel_boxes_are_where_the_hardware_reads_them() {
    let words = |rank: usize, lower: [i32; 3], upper: [i32; 3]| {
        let map = TensorMap {
            element: ElementType::F16,
            dims: [64, 8, 6, 4, 4][..rank].to_vec(),
            strides: [128, 1024, 6144, 24576][..rank - 1].to_vec(),
            box_dims: vec![64, 513],
            element_strides: [1, 8, 8, 8, 1][..rank].to_vec(),
            im2col: Some(PixelBox { lower, upper }),
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::None,
            ..tokens()
        };
        let bytes = map.encode(0);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        [word(0x08), word(0x34), word(0x38), word(0x3C), word(0x40)]
    };
    let [mode, steps, corners, pixels, bytes] = words(4, [8, 0, 0], [-7, 0, 0]);
    assert_eq!((mode, steps, corners), (0x331, 0x3f00_0ff8, 0x00f9_0008));
    assert_eq!((pixels, bytes), (0x200, 513 * 128));
    assert_eq!(words(4, [0, -1, 0], [0, -11, 0])[2], 0xf500_ff00);
    assert_eq!(words(3, [-1, 0, 0], [-1, 0, 0])[..3], [0x321, 0x3f00_01f8, 0xffff_ffff]);
    assert_eq!(words(5, [-1, -1, -1], [-1, -1, -1])[..3], [0x341, 0x3f00_0ff8, 0x7fff_7fff]);
    assert_eq!(words(5, [-16, 0, 0], [15, 0, 0])[2], 0x000f_0010);
    assert_eq!(words(5, [0, 1, 0], [0, 0, 1])[2], 0x0400_0020);
}

#[test]
fn foreign_bytes_are_refused_by_field() {
    let refusal = |change: fn(&mut [u8; 128])| {
        let mut bytes = tokens().encode(0);
        change(&mut bytes);
        TensorDescriptor::decode(&bytes).unwrap_err().to_string()
    };
    assert_eq!(refusal(|b| b[8] |= 0x70), "not a tensor map: the rank is 8");
    assert!(refusal(|b| b[9] |= 0x08).contains("interleave"));
    assert!(refusal(|b| b[8] |= 4).contains("mode"));
    assert!(refusal(|b| b[10] |= 0x40).contains("swizzle"));
    let mut cute = tokens().encode(0);
    cute[8] |= 2;
    assert!(TensorDescriptor::decode(&cute).is_ok());
}
