//! Arithmetic, comparison and conversion.

use super::builder::{Builder, Target};
use super::value::{Arg, Integer, Number, Reg, Scalar};
use crate::ast::Operand;

/// Comparison operators of `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Cmp {
    fn name(self) -> &'static str {
        match self {
            Cmp::Eq => "eq",
            Cmp::Ne => "ne",
            Cmp::Lt => "lt",
            Cmp::Le => "le",
            Cmp::Gt => "gt",
            Cmp::Ge => "ge",
        }
    }
}

fn opcode(base: &str, modifiers: &[&str], ty: &str) -> String {
    let mut text = base.to_string();
    for part in modifiers.iter().copied().chain([ty]) {
        text.push('.');
        text.push_str(part);
    }
    text
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident<$bound:ident>($base:literal, $modifiers:expr, $suffix:ident);)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: $bound>(&mut self, a: Reg<T>, b: impl Into<Arg<T>>) -> Reg<T> {
            let b = self.operand(b);
            let d = self.reg();
            self.emit(&opcode($base, $modifiers, T::$suffix), vec![d.operand(), a.operand(), b]);
            d
        }
    )*};
}

macro_rules! unary_f32 {
    ($($(#[$doc:meta])* $name:ident($text:literal);)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&mut self, a: Reg<f32>) -> Reg<f32> {
            let d = self.reg();
            self.emit($text, vec![d.operand(), a.operand()]);
            d
        }
    )*};
}

impl Builder {
    binary! {
        /// `a + b`.
        add<Number>("add", T::ADD, SUFFIX);
        /// `a - b`.
        sub<Number>("sub", T::ADD, SUFFIX);
        /// `a · b` (the low half, for integers).
        mul<Number>("mul", T::MUL, SUFFIX);
        /// The smaller one.
        min<Number>("min", &[], SUFFIX);
        /// The larger one.
        max<Number>("max", &[], SUFFIX);
        /// Bitwise and.
        and<Scalar>("and", &[], BITS);
        /// Bitwise or.
        or<Scalar>("or", &[], BITS);
        /// Bitwise exclusive or.
        xor<Scalar>("xor", &[], BITS);
    }

    unary_f32! {
        /// `2^a`, approximate (MUFU).
        ex2("ex2.approx.ftz.f32");
        /// `log2 a`, approximate (MUFU).
        lg2("lg2.approx.ftz.f32");
        /// `1 / a`, approximate (MUFU).
        rcp("rcp.approx.ftz.f32");
        /// `|a|`.
        abs("abs.f32");
        /// `tanh a`, approximate (MUFU).
        tanh("tanh.approx.f32");
    }

    /// The larger one, NaN if either is.
    #[track_caller]
    pub fn max_or_nan(&mut self, a: Reg<f32>, b: impl Into<Arg<f32>>) -> Reg<f32> {
        let b = self.operand(b);
        let d = self.reg();
        self.emit("max.NaN.f32", vec![d.operand(), a.operand(), b]);
        d
    }

    /// Whether `a` is greater than `b`, or either is NaN.
    #[track_caller]
    pub fn greater_or_nan(&mut self, a: Reg<f32>, b: impl Into<Arg<f32>>) -> Reg<bool> {
        let b = self.operand(b);
        let p = self.reg();
        self.emit("setp.gtu.f32", vec![p.operand(), a.operand(), b]);
        p
    }

    /// `a · b + c`.
    #[track_caller]
    pub fn fma(&mut self, a: Reg<f32>, b: impl Into<Arg<f32>>, c: impl Into<Arg<f32>>) -> Reg<f32> {
        let b = self.operand(b);
        let c = self.operand(c);
        let d = self.reg();
        self.emit("fma.rn.f32", vec![d.operand(), a.operand(), b, c]);
        d
    }

    /// `a · b + c` (low half of the product).
    #[track_caller]
    pub fn mad<T: Integer>(
        &mut self,
        a: Reg<T>,
        b: impl Into<Arg<T>>,
        c: impl Into<Arg<T>>,
    ) -> Reg<T> {
        let b = self.operand(b);
        let c = self.operand(c);
        let d = self.reg();
        let operands = vec![d.operand(), a.operand(), b, c];
        self.emit(&opcode("mad", &["lo"], T::SUFFIX), operands);
        d
    }

    /// The 64-bit product of two 32-bit numbers.
    #[track_caller]
    pub fn mul_wide(&mut self, a: Reg<u32>, b: impl Into<Arg<u32>>) -> Reg<u64> {
        let b = self.operand(b);
        let d = self.reg();
        self.emit("mul.wide.u32", vec![d.operand(), a.operand(), b]);
        d
    }

    /// `a · b + c` with a 64-bit result of 32-bit factors.
    #[track_caller]
    pub fn mad_wide(
        &mut self,
        a: Reg<u32>,
        b: impl Into<Arg<u32>>,
        c: impl Into<Arg<u64>>,
    ) -> Reg<u64> {
        let b = self.operand(b);
        let c = self.operand(c);
        let d = self.reg();
        let operands = vec![d.operand(), a.operand(), b, c];
        self.emit("mad.wide.u32", operands);
        d
    }

    /// The upper half of the product of two 32-bit numbers.
    #[track_caller]
    pub fn mul_hi(&mut self, a: Reg<u32>, b: impl Into<Arg<u32>>) -> Reg<u32> {
        let b = self.operand(b);
        let d = self.reg();
        self.emit("mul.hi.u32", vec![d.operand(), a.operand(), b]);
        d
    }

    /// `a << n`.
    #[track_caller]
    pub fn shl<T: Integer>(&mut self, a: Reg<T>, n: impl Into<Arg<u32>>) -> Reg<T> {
        let n = self.operand(n);
        let d = self.reg();
        self.emit(&opcode("shl", &[], T::BITS), vec![d.operand(), a.operand(), n]);
        d
    }

    /// `a >> n`, arithmetic for signed types.
    #[track_caller]
    pub fn shr<T: Integer>(&mut self, a: Reg<T>, n: impl Into<Arg<u32>>) -> Reg<T> {
        let n = self.operand(n);
        let d = self.reg();
        self.emit(&opcode("shr", &[], T::SUFFIX), vec![d.operand(), a.operand(), n]);
        d
    }

    /// Bitwise not (logical not of a predicate).
    #[track_caller]
    pub fn not<T: Scalar>(&mut self, a: Reg<T>) -> Reg<T> {
        let d = self.reg();
        self.emit(&opcode("not", &[], T::BITS), vec![d.operand(), a.operand()]);
        d
    }

    /// `-a`.
    #[track_caller]
    pub fn neg<T: Number>(&mut self, a: Reg<T>) -> Reg<T> {
        let d = self.reg();
        self.emit(&opcode("neg", &[], T::SUFFIX), vec![d.operand(), a.operand()]);
        d
    }

    /// A new register holding `value`.
    #[track_caller]
    pub fn value<T: Scalar>(&mut self, value: impl Into<Arg<T>>) -> Reg<T> {
        let d = self.reg();
        self.assign(d, value);
        d
    }

    /// Overwrites `d`: how state crosses loop iterations.
    #[track_caller]
    pub fn assign<T: Scalar>(&mut self, d: Reg<T>, value: impl Into<Arg<T>>) {
        let value = self.operand(value);
        let ty = if T::PREFIX == "%f" { "f32" } else { T::BITS };
        self.emit(&opcode("mov", &[], ty), vec![d.operand(), value]);
    }

    /// `d *= factor`, in place: how accumulators are rescaled.
    #[track_caller]
    pub fn scale(&mut self, d: Reg<f32>, factor: Reg<f32>) {
        self.emit("mul.f32", vec![d.operand(), d.operand(), factor.operand()]);
    }

    /// A predicate constant.
    #[track_caller]
    pub fn predicate(&mut self, value: bool) -> Reg<bool> {
        let d = self.reg();
        let relation = if value { "setp.eq.u32" } else { "setp.ne.u32" };
        self.emit(relation, vec![d.operand(), Operand::int(0), Operand::int(0)]);
        d
    }

    /// Compares.
    #[track_caller]
    pub fn setp<T: Number>(&mut self, cmp: Cmp, a: Reg<T>, b: impl Into<Arg<T>>) -> Reg<bool> {
        let b = self.operand(b);
        let d = self.reg();
        let operands = vec![d.operand(), a.operand(), b];
        self.emit(&opcode("setp", &[cmp.name()], T::SUFFIX), operands);
        d
    }

    /// `p ? a : b`.
    #[track_caller]
    pub fn select<T: Scalar>(
        &mut self,
        p: Reg<bool>,
        a: impl Into<Arg<T>>,
        b: impl Into<Arg<T>>,
    ) -> Reg<T> {
        let a = self.operand(a);
        let b = self.operand(b);
        let d = self.reg();
        let ty = if T::PREFIX == "%f" { "f32" } else { T::BITS };
        let operands = vec![d.operand(), a, b, p.operand()];
        self.emit(&opcode("selp", &[], ty), operands);
        d
    }

    /// Overwrites `d` where `p` holds.
    #[track_caller]
    pub fn assign_if<T: Scalar>(&mut self, p: Reg<bool>, d: Reg<T>, value: impl Into<Arg<T>>) {
        let value = self.operand(value);
        let ty = if T::PREFIX == "%f" { "f32" } else { T::BITS };
        self.emit_if(p, &opcode("mov", &[], ty), vec![d.operand(), value]);
    }

    /// Zero-extends to 64 bits.
    #[track_caller]
    pub fn widen(&mut self, a: Reg<u32>) -> Reg<u64> {
        let d = self.reg();
        self.emit("cvt.u64.u32", vec![d.operand(), a.operand()]);
        d
    }

    /// Sign-extends to 64 bits.
    #[track_caller]
    pub fn widen_signed(&mut self, a: Reg<i32>) -> Reg<i64> {
        let d = self.reg();
        self.emit("cvt.s64.s32", vec![d.operand(), a.operand()]);
        d
    }

    /// The low 32 bits.
    #[track_caller]
    pub fn narrow(&mut self, a: Reg<u64>) -> Reg<u32> {
        let d = self.reg();
        self.emit("cvt.u32.u64", vec![d.operand(), a.operand()]);
        d
    }

    /// Integer to float.
    #[track_caller]
    pub fn to_f32<T: Integer>(&mut self, a: Reg<T>) -> Reg<f32> {
        let d = self.reg();
        self.emit(&opcode("cvt.rn.f32", &[], T::SUFFIX), vec![d.operand(), a.operand()]);
        d
    }

    /// The nearest integer to a float that is not negative; 0 if it is.
    #[track_caller]
    pub fn round_to_u32(&mut self, a: Reg<f32>) -> Reg<u32> {
        let d = self.reg();
        self.emit("cvt.rni.u32.f32", vec![d.operand(), a.operand()]);
        d
    }

    /// The bits of a float.
    #[track_caller]
    pub fn bits(&mut self, a: Reg<f32>) -> Reg<u32> {
        let d: Reg<u32> = self.reg();
        self.emit("mov.b32", vec![d.operand(), a.operand()]);
        d
    }

    /// The float with these bits.
    #[track_caller]
    pub fn float_from_bits(&mut self, a: Reg<u32>) -> Reg<f32> {
        let d: Reg<f32> = self.reg();
        self.emit("mov.b32", vec![d.operand(), a.operand()]);
        d
    }

    /// Rounds two floats to 16-bit ones, `low` in the lower half. `half` is `bf16` or `f16`.
    #[track_caller]
    pub fn pack(&mut self, half: HalfType, low: Reg<f32>, high: Reg<f32>) -> Reg<u32> {
        let d: Reg<u32> = self.reg();
        let text = match half {
            HalfType::Bf16 => "cvt.rn.bf16x2.f32",
            HalfType::F16 => "cvt.rn.f16x2.f32",
        };
        self.emit(text, vec![d.operand(), high.operand(), low.operand()]);
        d
    }
}

impl Builder {
    /// The four e4m3 numbers of a word, the lowest byte's first.
    #[track_caller]
    pub fn unpack_e4m3(&mut self, word: Reg<u32>) -> [Reg<f32>; 4] {
        if matches!(self.target(), Target::Sm80 | Target::Sm86) {
            return [24, 16, 8, 0].map(|bit| self.widen_e4m3(word, bit));
        }
        let [low, high] = self.halves(word).map(|pair| {
            let pair = self.widen_e4m3_pair(pair);
            self.halves(pair).map(|half| self.widen_f16(half))
        });
        [low[0], low[1], high[0], high[1]]
    }

    /// The four e4m3 numbers of a word as pairs of 16-bit floats, exactly; the lowest byte's first.
    #[track_caller]
    pub fn e4m3_pairs(&mut self, half: HalfType, word: Reg<u32>) -> [Reg<u32>; 2] {
        let has_instruction = !matches!(self.target(), Target::Sm80 | Target::Sm86);
        match half {
            HalfType::F16 if has_instruction => {
                return self.halves(word).map(|pair| self.widen_e4m3_pair(pair));
            }
            HalfType::Bf16 if !has_instruction => return self.lift_e4m3_pairs(word),
            _ => {}
        }
        let [x, y, z, w] = self.unpack_e4m3(word);
        [self.pack(half, x, y), self.pack(half, z, w)]
    }

    /// Two e4m3 numbers as f16. (PTX has this for sm_89 since 8.1.)
    #[track_caller]
    fn widen_e4m3_pair(&mut self, pair: Reg<u16>) -> Reg<u32> {
        self.version = self.version.max((8, 1));
        let d: Reg<u32> = self.reg();
        self.emit("cvt.rn.f16x2.e4m3x2", vec![d.operand(), pair.operand()]);
        d
    }

    /// The four e4m3 numbers of a word as pairs of bf16, without an instruction for it: exponents that are 120 too small
    /// are lifted by a product. Whether one of the four is NaN is found for all at once.
    #[track_caller]
    fn lift_e4m3_pairs(&mut self, word: Reg<u32>) -> [Reg<u32>; 2] {
        // Bytes 0 and 1, and 2 and 3, each as the upper half of 16 bits.
        const SPREAD: [u32; 2] = [0x1404, 0x3424];
        // Two bf16 of 2^120.
        const LIFT: u32 = 0x7b80_7b80;
        let (zero, lift) = (self.value::<u32>(0), self.value::<u32>(LIFT));
        let pairs = SPREAD.map(|selector| {
            let spread = self.permute_bytes(word, zero, selector);
            let magnitude = self.shr(spread, 4);
            let magnitude = self.and(magnitude, 0x07f0_07f0u32);
            let sign = self.and(spread, 0x8000_8000u32);
            let bits = self.or(magnitude, sign);
            self.mul_halves(HalfType::Bf16, bits, lift)
        });
        let magnitudes = self.and(word, 0x7f7f_7f7fu32);
        let carried = self.add(magnitudes, 0x0101_0101u32);
        let nans = self.and(carried, 0x8080_8080u32);
        let any = self.setp(Cmp::Ne, nans, 0);
        self.if_(any, |b| {
            for (pair, selector) in pairs.into_iter().zip(SPREAD) {
                // 0x8000 less 0x10 has all bits of the exponent, and more.
                let nan = b.permute_bytes(nans, zero, selector);
                let one = b.shr(nan, 11);
                let nan = b.sub(nan, one);
                let number = b.or(pair, nan);
                b.emit("mov.b32", vec![pair.operand(), number.operand()]);
            }
        });
        pairs
    }

    /// The e4m3 number that a word shifted left by `bits` begins with, without an instruction for it: the bits of an
    /// f32 whose exponent is 120 too small, and NaN where all but the sign are set.
    #[track_caller]
    fn widen_e4m3(&mut self, word: Reg<u32>, bits: u32) -> Reg<f32> {
        let byte = self.shl(word, bits);
        let sign = self.and(byte, 0x8000_0000u32);
        let rest = self.and(byte, 0x7f00_0000u32);
        let magnitude = self.shr(rest, 4);
        let magnitude = self.float_from_bits(magnitude);
        let magnitude = self.mul(magnitude, (120f32).exp2());
        let is_nan = self.setp(Cmp::Eq, rest, 0x7f00_0000u32);
        let magnitude = self.select::<f32>(is_nan, f32::NAN, magnitude);
        let magnitude = self.bits(magnitude);
        let number = self.or(magnitude, sign);
        self.float_from_bits(number)
    }

    /// Four of the eight bytes of `a` and `b`, each named by a half byte of `selector`, the lowest first: its number, or
    /// its number and 8 for its sign in all bits.
    #[track_caller]
    pub fn permute_bytes(&mut self, a: Reg<u32>, b: Reg<u32>, selector: u32) -> Reg<u32> {
        let d: Reg<u32> = self.reg();
        let operands = vec![d.operand(), a.operand(), b.operand(), Operand::int(selector)];
        self.emit("prmt.b32", operands);
        d
    }

    /// How many bits of a word are set.
    #[track_caller]
    pub fn count_bits(&mut self, word: Reg<u32>) -> Reg<u32> {
        let d: Reg<u32> = self.reg();
        self.emit("popc.b32", vec![d.operand(), word.operand()]);
        d
    }

    /// Products of the 16-bit floats of two words, half by half.
    #[track_caller]
    pub fn mul_halves(&mut self, half: HalfType, a: Reg<u32>, b: Reg<u32>) -> Reg<u32> {
        let d: Reg<u32> = self.reg();
        let mut operands = vec![d.operand(), a.operand(), b.operand()];
        let text = match half {
            HalfType::F16 => "mul.rn.f16x2",
            HalfType::Bf16 if self.target().multiplies_bf16() => "mul.rn.bf16x2",
            HalfType::Bf16 => {
                // A product plus -0 is that product, whatever its sign.
                operands.push(self.value::<u32>(0x8000_8000u32).operand());
                "fma.rn.bf16x2"
            }
        };
        self.emit(text, operands);
        d
    }

    /// The two 16-bit floats of a word, the lower half's first.
    #[track_caller]
    pub fn unpack(&mut self, half: HalfType, word: Reg<u32>) -> [Reg<f32>; 2] {
        match half {
            HalfType::Bf16 => {
                let bits = [self.shl(word, 16), self.and(word, 0xffff_0000u32)];
                bits.map(|bits| self.float_from_bits(bits))
            }
            HalfType::F16 => self.halves(word).map(|half| self.widen_f16(half)),
        }
    }

    #[track_caller]
    fn widen_f16(&mut self, half: Reg<u16>) -> Reg<f32> {
        let number: Reg<f32> = self.reg();
        self.emit("cvt.f32.f16", vec![number.operand(), half.operand()]);
        number
    }

    /// The low and the high 16 bits of a word.
    #[track_caller]
    fn halves(&mut self, word: Reg<u32>) -> [Reg<u16>; 2] {
        let parts: [Reg<u16>; 2] = [self.reg(), self.reg()];
        let vector = Operand::Vector(parts.iter().map(|part| part.operand()).collect());
        self.emit("mov.b32", vec![vector, word.operand()]);
        parts
    }
}

/// The 16-bit floating-point types matrix instructions take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HalfType {
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl HalfType {
    /// Name as a PTX modifier.
    pub fn name(self) -> &'static str {
        match self {
            HalfType::Bf16 => "bf16",
            HalfType::F16 => "f16",
        }
    }
}
