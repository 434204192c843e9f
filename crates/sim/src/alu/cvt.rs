//! `cvt` in all its forms: integers, floats, and packed narrow floats.

use crate::numeric::{
    Conversion, Flush, Format, Overflow, Rounding, canonical, f32_to_tf32, f32_to_ue8m0, flush,
    ue8m0_to_f32,
};
use ptx::ast::{Instruction, Type};

/// What a conversion reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CvtSource {
    /// One number.
    Scalar,
    /// Two f32 registers: the first becomes the upper half.
    TwoSingles,
    /// A packed pair.
    Pair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Integer { bits: u32, signed: bool },
    Float(Format),
    Double,
    Tf32,
    Ue8m0,
}

/// A decoded `cvt`.
#[derive(Clone, Copy, Debug)]
pub struct Cvt {
    /// What it reads.
    pub source: CvtSource,
    to: Number,
    from: Number,
    rounding: Option<Rounding>,
    to_integral: bool,
    overflow: Overflow,
    relu: bool,
    sat: bool,
    ftz: bool,
    /// Bits of the destination register: a narrower integer is extended to them.
    register_bits: u32,
}

fn number(name: &str) -> Option<(Number, bool)> {
    let float = |format| Some((Number::Float(format), false));
    let pair = |format| Some((Number::Float(format), true));
    match name {
        "f16" => float(Format::F16),
        "bf16" => float(Format::BF16),
        "f32" => float(Format::F32),
        "f64" => Some((Number::Double, false)),
        "tf32" => Some((Number::Tf32, false)),
        "f16x2" => pair(Format::F16),
        "bf16x2" => pair(Format::BF16),
        "e4m3x2" => pair(Format::E4M3),
        "e5m2x2" => pair(Format::E5M2),
        "e2m3x2" => pair(Format::E2M3),
        "e3m2x2" => pair(Format::E3M2),
        "e2m1x2" => pair(Format::E2M1),
        "ue8m0x2" => Some((Number::Ue8m0, true)),
        _ => {
            let ty = Type::from_name(name)?;
            let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64);
            let bits = ty.bits();
            (name != "pred" && bits <= 64).then_some((Number::Integer { bits, signed }, false))
        }
    }
}

fn rounding(name: &str) -> Option<(Rounding, bool)> {
    Some(match name {
        "rn" => (Rounding::Nearest, false),
        "rna" => (Rounding::NearestAway, false),
        "rz" => (Rounding::Zero, false),
        "rm" => (Rounding::Down, false),
        "rp" => (Rounding::Up, false),
        "rni" => (Rounding::Nearest, true),
        "rzi" => (Rounding::Zero, true),
        "rmi" => (Rounding::Down, true),
        "rpi" => (Rounding::Up, true),
        _ => return None,
    })
}

impl Cvt {
    /// The conversion an instruction's modifiers describe.
    pub fn decode(instruction: &Instruction) -> Option<Cvt> {
        let n = instruction.modifiers.len();
        let (to, to_pair) = number(instruction.modifiers.get(n.checked_sub(2)?)?.as_str())?;
        let (from, from_pair) = number(instruction.modifiers[n - 1].as_str())?;
        let known = |m: &&str| ["ftz", "sat", "satfinite", "relu"].contains(m);
        let mut mode = None;
        for modifier in &instruction.modifiers[..n - 2] {
            match rounding(modifier.as_str()) {
                Some(found) => mode = Some(found),
                None => known(&modifier.as_str()).then_some(())?,
            }
        }
        let source = match (to_pair, from_pair) {
            (false, false) => CvtSource::Scalar,
            (true, false) => CvtSource::TwoSingles,
            (true, true) => CvtSource::Pair,
            (false, true) => return None,
        };
        Some(Cvt {
            source,
            to,
            from,
            rounding: mode.map(|m| m.0),
            to_integral: mode.is_some_and(|m| m.1),
            overflow: if instruction.has("satfinite") {
                Overflow::Saturate
            } else {
                Overflow::Format
            },
            relu: instruction.has("relu"),
            sat: instruction.has("sat"),
            ftz: instruction.has("ftz"),
            register_bits: 0,
        })
    }

    /// The same conversion into a register of `bits` bits.
    pub fn into_register(self, bits: u32) -> Cvt {
        Cvt { register_bits: bits, ..self }
    }

    /// Bits of the destination register, for packed pairs both halves together.
    pub fn width(&self) -> u32 {
        let one = self.to.bits();
        match self.source {
            CvtSource::Scalar => one,
            // e2m1x2 is one byte, six-bit formats fill a byte each.
            _ if one == 4 => 8,
            _ => 2 * one.next_power_of_two(),
        }
    }

    /// Bits of a packed source.
    fn source_half_bits(&self) -> u32 {
        match self.from.bits() {
            4 => 4,
            bits => bits.next_power_of_two(),
        }
    }

    /// Converts one lane; `b` is the second source of [`CvtSource::TwoSingles`].
    pub fn apply(&self, a: u64, b: u64) -> u64 {
        match self.source {
            CvtSource::Scalar => self.extended(self.one(a)),
            CvtSource::TwoSingles => self.pack(self.one(b), self.one(a)),
            CvtSource::Pair => {
                let bits = self.source_half_bits();
                let mask = (1u64 << bits) - 1;
                self.pack(self.one(a & mask), self.one(a >> bits & mask))
            }
        }
    }

    /// A signed integer narrower than its register is extended.
    fn extended(&self, value: u64) -> u64 {
        match self.to {
            Number::Integer { bits, signed: true } if bits < self.register_bits => {
                truncate(extend(value, bits, true) as u64, self.register_bits)
            }
            _ => value,
        }
    }

    fn pack(&self, low: u64, high: u64) -> u64 {
        low | high << (self.width() / 2)
    }

    fn one(&self, a: u64) -> u64 {
        match (self.to, self.from) {
            (Number::Integer { bits, signed }, Number::Integer { bits: from, signed: s }) => {
                integer_to_integer(a, from, s, bits, signed, self.sat)
            }
            (Number::Integer { bits, signed }, _) => self.float_to_integer(a, bits, signed),
            (_, Number::Integer { bits, signed }) => self.integer_to_float(a, bits, signed),
            _ => self.float_to_float(a),
        }
    }

    fn read(&self, a: u64) -> f64 {
        let flushed = |x: f32| if self.ftz { flush(x, Flush::ToZero) } else { x };
        match self.from {
            Number::Float(Format::F32) => f64::from(flushed(f32::from_bits(a as u32))),
            Number::Float(format) => f64::from(format.decode(a as u32)),
            Number::Tf32 => f64::from(f32::from_bits(a as u32)),
            Number::Ue8m0 => f64::from(ue8m0_to_f32(a as u8)),
            Number::Double | Number::Integer { .. } => f64::from_bits(a),
        }
    }

    fn float_to_integer(&self, a: u64, bits: u32, signed: bool) -> u64 {
        let value = self.read(a);
        if value.is_nan() {
            // NaN gives 0 in 32-bit destinations and below, and the sign bit alone in 64-bit ones.
            return if bits == 64 { 1 << 63 } else { 0 };
        }
        let whole = round_integral(value, self.rounding.unwrap_or(Rounding::Zero));
        let result = if signed {
            let (low, high) = (-(2f64.powi(bits as i32 - 1)), 2f64.powi(bits as i32 - 1));
            let clamped = match () {
                _ if whole < low => i64::MIN >> (64 - bits),
                _ if whole >= high => i64::MAX >> (64 - bits),
                _ => whole as i64,
            };
            clamped as u64
        } else if whole >= 2f64.powi(bits as i32) {
            u64::MAX >> (64 - bits)
        } else {
            whole.max(0.0) as u64
        };
        truncate(result, bits)
    }

    fn integer_to_float(&self, a: u64, bits: u32, signed: bool) -> u64 {
        let value = extend(a, bits, signed);
        let rounding = self.rounding.unwrap_or(Rounding::Nearest);
        match self.to {
            Number::Double => round_wide(value, 53, rounding).to_bits(),
            Number::Float(format) => {
                // Rounding to odd at 53 bits first keeps the final rounding exact.
                u64::from(format.encode(odd_f64(value), rounding, self.overflow))
            }
            _ => 0,
        }
    }

    /// NaNs that keep their payload: nothing rounds them.
    fn widened_nan(&self, a: u64) -> Option<u64> {
        let plain = !self.sat && !self.relu;
        match (self.from, self.to) {
            (Number::Float(Format::BF16), Number::Float(Format::F32)) if plain => {
                (a & 0x7FFF > 0x7F80).then_some(a << 16)
            }
            (Number::Float(Format::F16), Number::Double) if plain => {
                let nan = 0x7FF8 << 48 | (a & 0x8000) << 48 | (a & 0x3FF) << 42;
                (a & 0x7FFF > 0x7C00).then_some(nan)
            }
            _ => None,
        }
    }

    fn float_to_float(&self, a: u64) -> u64 {
        if let Some(nan) = self.widened_nan(a) {
            return nan;
        }
        let mut value = self.read(a);
        if self.to_integral {
            value = round_integral(value, self.rounding.unwrap_or(Rounding::Nearest));
        }
        if self.sat {
            value = if value > 0.0 { value.min(1.0) } else { 0.0 };
        }
        let rounding = self.rounding.unwrap_or(Rounding::Nearest);
        match self.to {
            Number::Double => value.to_bits(),
            Number::Tf32 => {
                // A NaN's bits matter, and a trip through f64 would change them.
                let single = if value.is_nan() { f32::from_bits(a as u32) } else { value as f32 };
                let tf32 = f32_to_tf32(single, rounding, self.overflow, self.relu);
                u64::from(tf32.to_bits())
            }
            Number::Ue8m0 => u64::from(f32_to_ue8m0(value as f32, rounding, self.overflow)),
            Number::Float(Format::F32) if !matches!(self.from, Number::Double) => {
                let single = canonical(value as f32);
                let single = if self.ftz { flush(single, Flush::ToZero) } else { single };
                u64::from(if self.relu && single <= 0.0 { 0.0 } else { single }.to_bits())
            }
            Number::Float(format) => {
                let conversion =
                    Conversion { format, rounding, overflow: self.overflow, relu: self.relu };
                u64::from(conversion.apply(value))
            }
            Number::Integer { .. } => 0,
        }
    }

    /// Whether this is the plain packing of two f32 to `format`.
    pub fn packs_nearest(&self) -> Option<Conversion> {
        let Number::Float(format) = self.to else { return None };
        let plain = self.source == CvtSource::TwoSingles
            && self.from == Number::Float(Format::F32)
            && !self.sat
            && !self.ftz;
        plain.then_some(Conversion {
            format,
            rounding: self.rounding.unwrap_or(Rounding::Nearest),
            overflow: self.overflow,
            relu: self.relu,
        })
    }
}

impl Number {
    fn bits(self) -> u32 {
        match self {
            Number::Integer { bits, .. } => bits,
            Number::Float(format) => format.bits(),
            Number::Double => 64,
            Number::Tf32 => 32,
            Number::Ue8m0 => 8,
        }
    }
}

fn truncate(value: u64, bits: u32) -> u64 {
    if bits == 64 { value } else { value & ((1 << bits) - 1) }
}

fn extend(a: u64, bits: u32, signed: bool) -> i128 {
    let shift = 128 - bits;
    let wide = u128::from(a) << shift;
    if signed { (wide as i128) >> shift } else { (wide >> shift) as i128 }
}

fn integer_to_integer(a: u64, from: u32, s: bool, bits: u32, signed: bool, sat: bool) -> u64 {
    let value = extend(a, from, s);
    let limits = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    let value = if sat { value.clamp(limits.0, limits.1) } else { value };
    truncate(value as u64, bits)
}

fn round_integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
        _ => value.trunc(),
    }
}

/// An integer rounded to `precision` bits as an f64.
fn round_wide(value: i128, precision: u32, rounding: Rounding) -> f64 {
    let magnitude = value.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(precision);
    let kept = magnitude >> excess;
    let lost = magnitude - (kept << excess);
    let half = if excess == 0 { 0 } else { 1u128 << (excess - 1) };
    let up = match rounding {
        Rounding::Nearest => lost > half || (lost == half && lost != 0 && kept & 1 == 1),
        Rounding::Up => value > 0 && lost != 0,
        Rounding::Down => value < 0 && lost != 0,
        _ => false,
    };
    let result = ((kept + u128::from(up)) << excess) as f64;
    if value < 0 { -result } else { result }
}

/// An integer as an f64, rounded to odd.
fn odd_f64(value: i128) -> f64 {
    let magnitude = value.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> excess;
    let sticky = u128::from(magnitude != kept << excess);
    let result = ((kept | sticky) << excess) as f64;
    if value < 0 { -result } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cvt(modifiers: &str) -> Cvt {
        let instruction = Instruction {
            guard: None,
            opcode: "cvt".into(),
            modifiers: modifiers.split('.').map(Into::into).collect(),
            operands: Vec::new(),
            line: Default::default(),
        };
        Cvt::decode(&instruction).expect(modifiers)
    }

    #[test]
    fn integers_extend_truncate_and_saturate() {
        assert_eq!(cvt("s64.s32").apply(0xFFFF_FFFF, 0), u64::MAX);
        assert_eq!(cvt("u64.u32").apply(0xFFFF_FFFF, 0), 0xFFFF_FFFF);
        assert_eq!(cvt("s32.s8").apply(0x80, 0), 0xFFFF_FF80);
        assert_eq!(cvt("sat.u8.s32").apply(300, 0), 255);
        assert_eq!(cvt("sat.s8.s32").apply((-300i32) as u32 as u64, 0) as u8, 0x80);
        assert_eq!(cvt("s8.s32").into_register(16).apply(0x1280, 0), 0xFF80);
        assert_eq!(cvt("u8.s32").into_register(16).apply(0x1280, 0), 0x80);
        assert_eq!(cvt("s16.s32").into_register(64).apply(0x8000, 0), 0xFFFF_FFFF_FFFF_8000);
    }

    #[test]
    fn floats_round_as_told() {
        assert_eq!(cvt("rni.s32.f32").apply(u64::from(2.5f32.to_bits()), 0), 2);
        assert_eq!(cvt("rzi.s32.f32").apply(u64::from((-2.5f32).to_bits()), 0) as i32, -2);
        assert_eq!(cvt("rn.f32.s32").apply(7, 0), u64::from(7f32.to_bits()));
        assert_eq!(cvt("rzi.u32.f32").apply(u64::from((-3f32).to_bits()), 0), 0);
        assert_eq!(cvt("rn.f32.u64").apply(u64::MAX, 0), u64::from((u64::MAX as f32).to_bits()));
    }

    #[test]
    fn packed_pairs_put_the_first_source_on_top() {
        let (one, two) = (u64::from(1f32.to_bits()), u64::from(2f32.to_bits()));
        assert_eq!(cvt("rn.f16x2.f32").apply(one, two), 0x3C00_4000);
        assert_eq!(cvt("rn.bf16x2.f32").apply(one, two), 0x3F80_4000);
        assert_eq!(cvt("rn.satfinite.e4m3x2.f32").apply(one, two), 0x3840);
        assert_eq!(cvt("rn.f16x2.e4m3x2").apply(0x3840, 0), 0x3C00_4000);
        assert_eq!(cvt("rz.ue8m0x2.f32").apply(one, two), 0x7F80);
    }
}
