use super::Outcome;
use program::{BufferId, ElementType, L2Promotion, OobFill, PixelBox, Swizzle, TensorMap};
use sixwarp_cuda::{Device, encode_with_driver};

fn tokens() -> TensorMap {
    TensorMap {
        buffer: BufferId(0),
        offset: 0,
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

/// Maps that touch every field of the encoding; `narrow` ones, of 4 and 6 bits, where the device has
/// them.
fn samples(narrow: bool) -> Vec<TensorMap> {
    let mut samples = vec![tokens()];
    for element in ElementType::ALL.into_iter().filter(|element| narrow || element.bits() >= 8) {
        let width = if element.bits() < 8 { 128 } else { 16 };
        let box_dims = vec![width, 64, 1];
        samples.push(TensorMap { element, box_dims, swizzle: Swizzle::None, ..tokens() });
    }
    for (swizzle, width) in
        [(Swizzle::None, 128), (Swizzle::B32, 16), (Swizzle::B64, 32), (Swizzle::B128, 64)]
    {
        samples.push(TensorMap { swizzle, box_dims: vec![width, 128, 2], ..tokens() });
    }
    use L2Promotion::*;
    samples.extend([None, B64, B256].map(|l2_promotion| TensorMap { l2_promotion, ..tokens() }));
    samples.push(TensorMap { oob_fill: OobFill::Nan, offset: 4096, ..tokens() });
    samples.push(TensorMap {
        dims: vec![1 << 20],
        strides: vec![],
        box_dims: vec![256],
        element_strides: vec![1],
        swizzle: Swizzle::None,
        ..tokens()
    });
    samples.push(TensorMap {
        dims: vec![64, 7, 6, 5, 4],
        strides: vec![128, (1 << 40) - 16, 1 << 36, 48],
        box_dims: vec![64, 2, 3, 4, 1],
        element_strides: vec![1, 2, 1, 3, 8],
        ..tokens()
    });
    for (rank, corner) in [(3, -32768), (4, -128), (5, -16)] {
        let upper = [-corner - 1; 3].map(|last| last.min(300));
        samples.push(TensorMap {
            dims: vec![64, 60, 50, 40, 4][..rank].to_vec(),
            strides: vec![128, 1 << 13, 1 << 20, 1 << 26][..rank - 1].to_vec(),
            box_dims: vec![64, 1024],
            element_strides: vec![1, 2, 8, 4, 3][..rank].to_vec(),
            im2col: Some(PixelBox { lower: [corner; 3], upper }),
            ..tokens()
        });
    }
    samples
}

/// Our bytes and the driver's, over what a copy reads (the first 64).
///
/// Two fields may differ: the mode (bits 3:0 at 8), where two values mean the same, and the
/// footprint hint (bit 21 at 8).
pub fn same_bytes(device: &Device) -> Outcome {
    let samples = samples(device.info().compute_capability.0 >= 10);
    let mut free = 0;
    for map in &samples {
        let mut ours = map.encode(0x7f00_1234_5600);
        let mut theirs = encode_with_driver(map, 0x7f00_1234_5600)?;
        free |= theirs[8] & 0x0F | theirs[10] & 0x20;
        for bytes in [&mut ours, &mut theirs] {
            bytes[8] &= 0xF0;
            bytes[10] &= !0x20;
        }
        if ours[..64] != theirs[..64] {
            let words = |bytes: &[u8; 128]| -> Vec<String> {
                super::words(&bytes[..80]).iter().map(|word| format!("{word:08x}")).collect()
            };
            let (ours, theirs) = (words(&ours).join(" "), words(&theirs).join(" "));
            return Err(format!("{map:?}\n  ours   {ours}\n  driver {theirs}").into());
        }
    }
    Ok(format!("{} maps; free bits set by the driver: {free:#04x}", samples.len()))
}

/// What our rules refuse the driver refuses, and what they take it takes.
pub fn same_rules(_: &Device) -> Outcome {
    let cases = variations();
    for (name, map) in &cases {
        let (ours, theirs) = (map.check().is_ok(), encode_with_driver(map, 1 << 40).is_ok());
        if ours != theirs {
            return Err(format!("{name}: we say {ours}, the driver {theirs}: {map:?}").into());
        }
    }
    let largest = largest_box_kib();
    Ok(format!("{} maps judged alike; the driver takes boxes up to {largest} KiB", cases.len()))
}

/// The largest box the driver takes, in steps of 16 KiB. Our rule (T10) stops at 128.
fn largest_box_kib() -> u32 {
    let takes = |&count: &u32| {
        let map = TensorMap { box_dims: vec![64, 128, count], ..tokens() };
        encode_with_driver(&map, 1 << 40).is_ok()
    };
    16 * (1..=16).filter(takes).max().unwrap_or(0)
}

fn variations() -> Vec<(&'static str, TensorMap)> {
    let mut cases = Vec::new();
    let mut case = |name, change: fn(&mut TensorMap)| {
        let mut map = tokens();
        change(&mut map);
        cases.push((name, map));
    };
    case("as it is", |_| ());
    case("offset 8", |m| m.offset = 8);
    case("empty dimension", |m| m.dims[1] = 0);
    case("dimension of 2^32", |m| m.dims[2] = 1 << 32);
    case("dimension over 2^32", |m| m.dims[2] = (1 << 32) + 1);
    case("stride 264", |m| m.strides[0] = 264);
    case("stride 2^40", |m| m.strides[1] = 1 << 40);
    case("stride 2^40 - 16", |m| m.strides[1] = (1 << 40) - 16);
    case("stride 0", |m| m.strides[1] = 0);
    case("stride below a row", |m| m.strides[0] = 128);
    case("falling strides", |m| m.strides = vec![4096, 256]);
    case("box of 257", |m| m.box_dims[1] = 257);
    case("box of 0", |m| m.box_dims[1] = 0);
    case("box row of 8 bytes", |m| m.box_dims[0] = 4);
    case("box row over the swizzle", |m| m.box_dims[0] = 128);
    case("box beyond the tensor", |m| m.dims[1] = 3);
    case("128 KiB box", |m| m.box_dims = vec![64, 256, 4]);
    case("256 KiB box", |m| m.box_dims = vec![64, 256, 8]);
    case("element stride 0", |m| m.element_strides[0] = 0);
    case("element stride 8", |m| m.element_strides[2] = 8);
    case("element stride 9", |m| m.element_strides[2] = 9);
    case("NaN fill of integers", |m| {
        (m.element, m.oob_fill) = (ElementType::U16, OobFill::Nan);
    });
    case("NaN fill of floats", |m| m.oob_fill = OobFill::Nan);
    cases
}
