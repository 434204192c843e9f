//! Less common functions, one lane at a time.

use super::{Compare, RowFn, row};
use crate::register::Row32;
use ptx::ast::Type;

fn dot<const N: usize>(a: [i32; N], b: [i32; N], c: u32) -> u32 {
    let sum: i32 = a.iter().zip(b).fold(0i32, |s, (x, y)| s.wrapping_add(x.wrapping_mul(y)));
    (sum as u32).wrapping_add(c)
}

fn bytes(x: u32, signed: bool) -> [i32; 4] {
    x.to_le_bytes().map(|b| if signed { i32::from(b as i8) } else { i32::from(b) })
}

fn halves(x: u32, signed: bool) -> [i32; 2] {
    [x as u16, (x >> 16) as u16].map(|h| if signed { i32::from(h as i16) } else { i32::from(h) })
}

fn dp4a<const A: bool, const B: bool>(a: u32, b: u32, c: u32) -> u32 {
    dot(bytes(a, A), bytes(b, B), c)
}

fn dp2a<const A: bool, const B: bool, const HIGH: bool>(a: u32, b: u32, c: u32) -> u32 {
    let [b0, b1, b2, b3] = bytes(b, B);
    dot(halves(a, A), if HIGH { [b2, b3] } else { [b0, b1] }, c)
}

fn pack16<const SIGNED: bool>(a: u32, b: u32, _: u32) -> u32 {
    let clamp = |x: u32| {
        let (low, high) = if SIGNED { (-32768, 32767) } else { (0, 65535) };
        (x as i32).clamp(low, high) as u32 & 0xFFFF
    };
    clamp(a) << 16 | clamp(b)
}

/// Two numbers of `BITS` bits below those of `c`.
fn pack<const BITS: u32, const SIGNED: bool>(a: u32, b: u32, c: u32) -> u32 {
    let clamp = |x: u32| {
        let (low, high) = match SIGNED {
            true => (-(1 << (BITS - 1)), (1 << (BITS - 1)) - 1),
            false => (0, (1 << BITS) - 1),
        };
        (x as i32).clamp(low, high) as u32 & ((1 << BITS) - 1)
    };
    c << (2 * BITS) | clamp(a) << BITS | clamp(b)
}

/// `dp4a`, `dp2a` and `cvt.pack`, by opcode and modifiers.
pub fn special_lane_op(name: &str, modifiers: &[&str]) -> Option<fn(u32, u32, u32) -> u32> {
    Some(match (name, modifiers) {
        ("dp4a", ["u32", "u32"]) => dp4a::<false, false>,
        ("dp4a", ["u32", "s32"]) => dp4a::<false, true>,
        ("dp4a", ["s32", "u32"]) => dp4a::<true, false>,
        ("dp4a", ["s32", "s32"]) => dp4a::<true, true>,
        ("dp2a", ["lo", "u32", "u32"]) => dp2a::<false, false, false>,
        ("dp2a", ["lo", "s32", "s32"]) => dp2a::<true, true, false>,
        ("dp2a", ["lo", "u32", "s32"]) => dp2a::<false, true, false>,
        ("dp2a", ["lo", "s32", "u32"]) => dp2a::<true, false, false>,
        ("dp2a", ["hi", "u32", "u32"]) => dp2a::<false, false, true>,
        ("dp2a", ["hi", "s32", "s32"]) => dp2a::<true, true, true>,
        ("dp2a", ["hi", "u32", "s32"]) => dp2a::<false, true, true>,
        ("dp2a", ["hi", "s32", "u32"]) => dp2a::<true, false, true>,
        ("cvt.pack", ["pack", "sat", "s16", "s32"]) => pack16::<true>,
        ("cvt.pack", ["pack", "sat", "u16", "s32"]) => pack16::<false>,
        ("cvt.pack", ["pack", "sat", "s8", "s32", "b32"]) => pack::<8, true>,
        ("cvt.pack", ["pack", "sat", "u8", "s32", "b32"]) => pack::<8, false>,
        ("cvt.pack", ["pack", "sat", "s4", "s32", "b32"]) => pack::<4, true>,
        ("cvt.pack", ["pack", "sat", "u4", "s32", "b32"]) => pack::<4, false>,
        ("cvt.pack", ["pack", "sat", "s2", "s32", "b32"]) => pack::<2, true>,
        ("cvt.pack", ["pack", "sat", "u2", "s32", "b32"]) => pack::<2, false>,
        _ => return None,
    })
}

/// `testp` of f32 and f64.
pub fn test_property(name: &str, ty: Type) -> Option<Compare> {
    macro_rules! test {
        ($single:path, $double:path) => {
            match ty {
                Type::F32 => Compare::A(|a, _| lanes(|i| $single(f32::from_bits(a.0[i])))),
                Type::F64 => Compare::B(|a, _| lanes(|i| $double(f64::from_bits(a.0[i])))),
                _ => return None,
            }
        };
    }
    Some(match name {
        "finite" => test!(f32::is_finite, f64::is_finite),
        "infinite" => test!(f32::is_infinite, f64::is_infinite),
        "normal" => test!(f32::is_normal, f64::is_normal),
        "subnormal" => test!(f32::is_subnormal, f64::is_subnormal),
        _ => return None,
    })
}

fn lanes(test: impl Fn(usize) -> bool) -> u32 {
    (0..32).fold(0, |mask, i| mask | u32::from(test(i)) << i)
}

fn pairwise(a: u32, b: u32, op: impl Fn(u16, u16) -> u16) -> u32 {
    let low = op(a as u16, b as u16);
    let high = op((a >> 16) as u16, (b >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}

/// `add`, `min`, `max` of packed 16-bit integers.
pub fn packed_integer_op(name: &str, ty: &str) -> Option<RowFn> {
    Some(match (name, ty) {
        ("add", _) => row!(A2 | a, b | pairwise(a, b, u16::wrapping_add)),
        ("sub", _) => row!(A2 | a, b | pairwise(a, b, u16::wrapping_sub)),
        ("min", "u16x2") => row!(A2 | a, b | pairwise(a, b, u16::min)),
        ("max", "u16x2") => row!(A2 | a, b | pairwise(a, b, u16::max)),
        ("min", _) => row!(A2 | a, b | pairwise(a, b, |x, y| (x as i16).min(y as i16) as u16)),
        ("max", _) => row!(A2 | a, b | pairwise(a, b, |x, y| (x as i16).max(y as i16) as u16)),
        ("min.relu", "s16x2") => {
            row!(A2 | a, b | pairwise(a, b, |x, y| (x as i16).min(y as i16).max(0) as u16))
        }
        ("max.relu", "s16x2") => {
            row!(A2 | a, b | pairwise(a, b, |x, y| (x as i16).max(y as i16).max(0) as u16))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::special_lane_op;

    #[test]
    fn packing_saturates_and_shifts_up() {
        let pack = |ty: &str, a: i32, b: i32, c: u32| {
            let modifiers = ["pack", "sat", ty, "s32", "b32"];
            special_lane_op("cvt.pack", &modifiers).expect(ty)(a as u32, b as u32, c)
        };
        assert_eq!(pack("s8", 300, -1, 0x1234), 0x1234_7FFF);
        assert_eq!(pack("s4", -9, 5, 0x12), 0x1285);
        assert_eq!(pack("u4", -9, 50, 0x12), 0x120F);
        assert_eq!(pack("u2", 2, 9, 1), 0b01_1011);
    }
}
