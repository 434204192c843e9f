//! Division of integers.
//!
//! The assembler divides even by a constant through a reciprocal, some hundred cycles; here an unsigned
//! 32-bit number is divided by a constant by shifts, or by a multiplication and shifts. For `d` that is no
//! power of two, `s = ⌈log2 d⌉`, `m = ⌊2^32·(2^s − d) / d⌋ + 1` and `t = ⌊n·m / 2^32⌋`:
//! `n / d = (t + ((n − t) >> 1)) >> (s − 1)` (Granlund and Montgomery, PLDI 1994).

use super::builder::Builder;
use super::expression::Node;
use super::value::{Arg, Integer, Reg};
use crate::ast::Operand;

/// The factor and the shift that divide by `divisor`, which is at least 1.
pub fn magic(divisor: u32) -> (u32, u32) {
    let shift = u32::BITS - (divisor - 1).leading_zeros();
    let excess = (1u64 << shift) - u64::from(divisor);
    let magic = ((excess << 32) / u64::from(divisor)) as u32;
    (magic.wrapping_add(1), shift)
}

impl Builder {
    /// `a / b`.
    #[track_caller]
    pub fn div<T: Integer>(&mut self, a: Reg<T>, b: impl Into<Arg<T>>) -> Reg<T> {
        let b = b.into();
        match constant(&b) {
            Some(divisor) => self.div_constant(a.reinterpret(), divisor).reinterpret(),
            None => self.division("div", a, b),
        }
    }

    /// `a mod b`.
    #[track_caller]
    pub fn rem<T: Integer>(&mut self, a: Reg<T>, b: impl Into<Arg<T>>) -> Reg<T> {
        let b = b.into();
        let Some(divisor) = constant(&b) else { return self.division("rem", a, b) };
        let a = a.reinterpret::<u32>();
        if divisor.is_power_of_two() {
            return self.and(a, divisor - 1).reinterpret();
        }
        let quotient = self.div_constant(a, divisor);
        let product = self.mul(quotient, divisor);
        self.sub(a, product).reinterpret()
    }

    #[track_caller]
    fn division<T: Integer>(&mut self, name: &str, a: Reg<T>, b: Arg<T>) -> Reg<T> {
        let b = self.operand(b);
        let d = self.reg();
        let operands = vec![d.operand(), a.operand(), b];
        self.emit(&format!("{name}.{}", T::SUFFIX), operands);
        d
    }

    #[track_caller]
    fn div_constant(&mut self, a: Reg<u32>, divisor: u32) -> Reg<u32> {
        let (magic, shift) = magic(divisor);
        if divisor.is_power_of_two() {
            return self.shr(a, shift);
        }
        let high = self.mul_hi(a, magic);
        let rest = self.sub(a, high);
        let half = self.shr(rest, 1);
        let sum = self.add(high, half);
        self.shr(sum, shift - 1)
    }
}

/// The value of an unsigned 32-bit constant that can be divided by.
fn constant<T: Integer>(arg: &Arg<T>) -> Option<u32> {
    match arg.node {
        Node::Leaf(Operand::Integer { value, .. }) if T::SUFFIX == "u32" => {
            u32::try_from(value).ok().filter(|divisor| *divisor > 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::magic;

    #[test]
    fn quotients_are_exact() {
        let ends = [0, 1, 2, 3, 63, 64, 65, 1000, 46341, 65535, 1 << 20, i32::MAX as u32, u32::MAX];
        for divisor in (2..2000u32).chain([65535, (1 << 30) + 1, i32::MAX as u32, u32::MAX]) {
            if divisor.is_power_of_two() {
                continue;
            }
            let (magic, shift) = magic(divisor);
            let multiples = [1, 2, 1000, u32::MAX / divisor].map(|k| divisor.saturating_mul(k));
            for n in multiples.iter().flat_map(|n| [n - 1, *n]).chain(ends) {
                let high = ((u64::from(n) * u64::from(magic)) >> 32) as u32;
                let quotient = (high + ((n - high) >> 1)) >> (shift - 1);
                assert_eq!(quotient, n / divisor, "{n} / {divisor}");
            }
        }
    }
}
