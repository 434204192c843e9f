//! Number literals.

use crate::ast::Operand;

/// The operand a literal stands for, or what is wrong with it.
pub(super) fn operand(text: &str, negative: bool) -> Result<Operand, &'static str> {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1)) {
        (Some(b'0'), Some(b'f' | b'F')) => {
            let bits = float_bits(text, 8).ok_or("`0f` with 8 hexadecimal digits")? as u32;
            Ok(Operand::F32(if negative { bits ^ 1 << 31 } else { bits }))
        }
        (Some(b'0'), Some(b'd' | b'D')) => {
            let bits = float_bits(text, 16).ok_or("`0d` with 16 hexadecimal digits")?;
            Ok(Operand::F64(if negative { bits ^ 1 << 63 } else { bits }))
        }
        _ if is_decimal_fraction(text) => {
            let value: f64 = text.parse().map_err(|_| "a decimal fraction such as `1.5e-3`")?;
            Ok(Operand::F64(if negative { (-value).to_bits() } else { value.to_bits() }))
        }
        _ => {
            let (magnitude, unsigned) = integer(text)?;
            let magnitude = i128::from(magnitude);
            Ok(Operand::Integer { value: if negative { -magnitude } else { magnitude }, unsigned })
        }
    }
}

/// An integer literal and whether it has a `U` suffix.
pub(super) fn integer(text: &str) -> Result<(u64, bool), &'static str> {
    let (digits, unsigned) = match text.strip_suffix(['U', 'u']) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err("an integer");
    }
    match u64::from_str_radix(digits, radix) {
        Ok(value) => Ok((value, unsigned)),
        Err(_) => Err("an integer of at most 64 bits"),
    }
}

fn float_bits(text: &str, digits: usize) -> Option<u64> {
    let hex = &text[2..];
    let exact = hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit());
    exact.then(|| u64::from_str_radix(hex, 16).ok()).flatten()
}

fn is_decimal_fraction(text: &str) -> bool {
    let hexadecimal = text.len() > 1 && matches!(text.as_bytes()[1], b'x' | b'X');
    !hexadecimal && text.contains(['.', 'e', 'E'])
}
