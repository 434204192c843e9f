use super::{RowFn, row};
use crate::register::{Row32, Row64};
use ptx::ast::Type;

fn field(pos: u32, len: u32) -> (u32, u32) {
    (pos & 0xFF, len & 0xFF)
}

fn bfe_unsigned(a: u64, pos: u32, len: u32, bits: u32) -> u64 {
    let (pos, len) = field(pos, len);
    if len == 0 || pos >= bits {
        return 0;
    }
    let kept = len.min(64);
    let mask = if kept == 64 { u64::MAX } else { (1 << kept) - 1 };
    (a >> pos) & mask
}

/// Bits above the value repeat its sign, as does a field that reaches beyond it.
fn bfe_signed(a: u64, pos: u32, len: u32, bits: u32) -> u64 {
    let (pos, len) = field(pos, len);
    if len == 0 {
        return 0;
    }
    let wide = ((a << (64 - bits)) as i64 >> (64 - bits)) as i128;
    let top = (pos + len - 1).min(bits - 1);
    let value = wide >> pos.min(127);
    let width = (top + 1).saturating_sub(pos);
    let sign = wide >> top & 1;
    let kept = if width == 0 { 0 } else { value & ((1i128 << width) - 1) };
    let filled = if sign != 0 { kept | (-1i128 << width) } else { kept };
    filled as u64
}

fn bfi(a: u64, b: u64, pos: u32, len: u32, bits: u32) -> u64 {
    let (pos, len) = field(pos, len);
    if len == 0 || pos >= bits {
        return b;
    }
    let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let mask = ones << pos;
    (b & !mask) | (a << pos & mask)
}

fn bmsk(pos: u32, len: u32, wrap: bool) -> u32 {
    let (pos, len) = if wrap { (pos & 31, len & 31) } else { (pos.min(32), len.min(32)) };
    let ones = ((1u64 << len) - 1) << pos;
    ones as u32
}

/// The n-th set bit counted from `base` (`fns`).
fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let base = base as i32;
    let (step, mut left) = (if offset < 0 { -1 } else { 1 }, offset.unsigned_abs());
    if offset == 0 {
        return if mask >> (base & 31) & 1 != 0 { base as u32 } else { u32::MAX };
    }
    let mut at = base;
    while (0..32).contains(&at) {
        if mask >> at & 1 != 0 {
            left -= 1;
            if left == 0 {
                return at as u32;
            }
        }
        at += step;
    }
    u32::MAX
}

/// The row function of a logic, shift or bit-field instruction; the type only gives width and,
/// for `shr`, `bfe`, `bfind` and `szext`, the sign.
pub fn bit_op(name: &str, ty: Type) -> Option<RowFn> {
    match ty.bits() {
        16 => bits16(name, ty),
        32 => bits32(name, ty == Type::S32),
        64 => bits64(name, ty == Type::S64),
        _ => None,
    }
}

fn bits16(name: &str, ty: Type) -> Option<RowFn> {
    Some(match name {
        "and" => row!(A2 | a, b | a & b),
        "or" => row!(A2 | a, b | a | b),
        "xor" => row!(A2 | a, b | a ^ b),
        "not" => row!(A1 | a | !a & 0xFFFF),
        "cnot" => row!(A1 | a | u32::from(a & 0xFFFF == 0)),
        "shl" => row!(A2 | a, b | if b > 15 { 0 } else { a << b & 0xFFFF }),
        "shr" if ty == Type::S16 => {
            row!(A2 | a, b | u32::from(((a as i16) >> b.min(15)) as u16))
        }
        "shr" => row!(A2 | a, b | if b > 15 { 0 } else { (a & 0xFFFF) >> b }),
        _ => return None,
    })
}

fn bits32(name: &str, signed: bool) -> Option<RowFn> {
    Some(match (name, signed) {
        ("and", _) => row!(A2 | a, b | a & b),
        ("or", _) => row!(A2 | a, b | a | b),
        ("xor", _) => row!(A2 | a, b | a ^ b),
        ("not", _) => row!(A1 | a | !a),
        ("cnot", _) => row!(A1 | a | u32::from(a == 0)),
        ("shl", _) => row!(A2 | a, b | a.checked_shl(b).unwrap_or(0)),
        ("shr", true) => row!(A2 | a, b | ((a as i32) >> b.min(31)) as u32),
        ("shr", false) => row!(A2 | a, b | a.checked_shr(b).unwrap_or(0)),
        ("shf.l.wrap", _) => row!(A3 | a, b, c | shf_left(a, b, c & 31)),
        ("shf.l.clamp", _) => row!(A3 | a, b, c | shf_left(a, b, c.min(32))),
        ("shf.r.wrap", _) => row!(A3 | a, b, c | shf_right(a, b, c & 31)),
        ("shf.r.clamp", _) => row!(A3 | a, b, c | shf_right(a, b, c.min(32))),
        ("popc", _) => row!(A1 | a | a.count_ones()),
        ("clz", _) => row!(A1 | a | a.leading_zeros()),
        ("brev", _) => row!(A1 | a | a.reverse_bits()),
        ("bfind", false) => row!(A1 | a | 31u32.wrapping_sub(a.leading_zeros())),
        ("bfind", true) => {
            row!(A1 | a | 31u32.wrapping_sub((a ^ ((a as i32) >> 31) as u32).leading_zeros()))
        }
        ("bfind.shiftamt", false) => {
            row!(A1 | a | if a == 0 { u32::MAX } else { a.leading_zeros() })
        }
        ("bfind.shiftamt", true) => row!(
            A1 | a | {
                let magnitude = a ^ ((a as i32) >> 31) as u32;
                if magnitude == 0 { u32::MAX } else { magnitude.leading_zeros() }
            }
        ),
        ("bfe", false) => row!(A3 | a, b, c | bfe_unsigned(u64::from(a), b, c, 32) as u32),
        ("bfe", true) => row!(A3 | a, b, c | bfe_signed(u64::from(a), b, c, 32) as u32),
        ("fns", _) => row!(A3 | a, b, c | fns(a, b, c as i32)),
        ("bmsk.clamp", _) => row!(A2 | a, b | bmsk(a, b, false)),
        ("bmsk.wrap", _) => row!(A2 | a, b | bmsk(a, b, true)),
        ("szext.wrap", true) => row!(A2 | a, b | bfe_signed(u64::from(a), 0, b & 31, 32) as u32),
        ("szext.clamp", true) => {
            row!(A2 | a, b | bfe_signed(u64::from(a), 0, b.min(32), 32) as u32)
        }
        ("szext.wrap", false) => row!(A2 | a, b | bfe_unsigned(u64::from(a), 0, b & 31, 32) as u32),
        ("szext.clamp", false) => {
            row!(A2 | a, b | bfe_unsigned(u64::from(a), 0, b.min(32), 32) as u32)
        }
        _ => return None,
    })
}

fn shf_left(low: u32, high: u32, n: u32) -> u32 {
    let pair = u64::from(high) << 32 | u64::from(low);
    if n == 32 { low } else { (pair << n >> 32) as u32 }
}

fn shf_right(low: u32, high: u32, n: u32) -> u32 {
    let pair = u64::from(high) << 32 | u64::from(low);
    (pair >> n) as u32
}

fn bits64(name: &str, signed: bool) -> Option<RowFn> {
    Some(match (name, signed) {
        ("and", _) => row!(B2 | a, b | a & b),
        ("or", _) => row!(B2 | a, b | a | b),
        ("xor", _) => row!(B2 | a, b | a ^ b),
        ("not", _) => row!(B1 | a | !a),
        ("cnot", _) => row!(B1 | a | u64::from(a == 0)),
        ("shl", _) => row!(Shift64 | a, b | a.checked_shl(b).unwrap_or(0)),
        ("shr", true) => row!(Shift64 | a, b | ((a as i64) >> b.min(63)) as u64),
        ("shr", false) => row!(Shift64 | a, b | a.checked_shr(b).unwrap_or(0)),
        ("popc", _) => row!(Narrow | a | a.count_ones()),
        ("clz", _) => row!(Narrow | a | a.leading_zeros()),
        ("brev", _) => row!(B1 | a | a.reverse_bits()),
        ("bfind", false) => row!(Narrow | a | 63u32.wrapping_sub(a.leading_zeros())),
        ("bfind", true) => {
            row!(Narrow | a | 63u32.wrapping_sub((a ^ ((a as i64) >> 63) as u64).leading_zeros()))
        }
        _ => return None,
    })
}

/// `bfe` of 64-bit values, whose position and length are 32-bit.
pub fn bfe64(signed: bool, a: u64, pos: u32, len: u32) -> u64 {
    if signed { bfe_signed(a, pos, len, 64) } else { bfe_unsigned(a, pos, len, 64) }
}

/// `bfi`, 32 or 64 bits.
pub fn bit_insert(bits: u32, a: u64, b: u64, pos: u32, len: u32) -> u64 {
    bfi(a, b, pos, len, bits)
}

/// `lop3.b32` with a lookup table.
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let mut result = 0;
    for index in 0..8 {
        if table >> index & 1 != 0 {
            let pick = |value: u32, bit: u32| if index >> bit & 1 != 0 { value } else { !value };
            result |= pick(a, 2) & pick(b, 1) & pick(c, 0);
        }
    }
    result
}

/// `prmt.b32{.mode}`.
pub fn prmt(mode: Option<&str>, a: u32, b: u32, selector: u32) -> Option<u32> {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let byte = |index: u32| (bytes >> (8 * (index & 7))) as u8;
    let s = selector & 3;
    let picks: [u32; 4] = match mode {
        None => return Some(prmt_default(bytes, selector)),
        Some("f4e") => [s, s + 1, s + 2, s + 3],
        Some("b4e") => [s, s.wrapping_sub(1), s.wrapping_sub(2), s.wrapping_sub(3)],
        Some("rc8") => [s; 4],
        Some("ecl") => [s, s.max(1), s.max(2), 3],
        Some("ecr") => [0, s.min(1), s.min(2), s],
        Some("rc16") => {
            if s & 1 == 0 {
                [0, 1, 0, 1]
            } else {
                [2, 3, 2, 3]
            }
        }
        Some(_) => return None,
    };
    Some(u32::from_le_bytes(picks.map(byte)))
}

fn prmt_default(bytes: u64, selector: u32) -> u32 {
    let mut result = [0u8; 4];
    for (i, out) in result.iter_mut().enumerate() {
        let nibble = selector >> (4 * i) & 0xF;
        let byte = (bytes >> (8 * (nibble & 7))) as u8;
        // Bit 3 replicates the sign.
        *out = if nibble & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte };
    }
    u32::from_le_bytes(result)
}
