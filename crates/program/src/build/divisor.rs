//! Division by numbers the host knows: a multiplication and a shift.
//!
//! For `d ≥ 1` and `n < 2^31`, with `s = ⌈log2 d⌉` and `m = ⌊2^32·(2^s − d) / d⌋ + 1`:
//! `n / d = (⌊n·m / 2^32⌋ + n) >> s` (Granlund and Montgomery, PLDI 1994).

use super::Arguments;
use ptx::build::{Builder, Reg, magic};

/// A divisor that the host knows and the kernel's text does not: three parameters.
///
/// Where the text may know it, [`Builder::div`] takes a constant.
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    value: Reg<u32>,
    magic: Reg<u32>,
    shift: Reg<u32>,
}

impl Divisor {
    /// Declares a divisor that is at least 1.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, name: &str, value: u32) -> Self {
        let (magic, shift) = magic(value.max(1));
        Divisor {
            value: args.u32(b, name, value),
            magic: args.u32(b, &format!("{name}_magic"), magic),
            shift: args.u32(b, &format!("{name}_shift"), shift),
        }
    }

    /// The divisor itself.
    pub fn value(&self) -> Reg<u32> {
        self.value
    }

    /// Quotient and remainder of `n < 2^31`.
    #[track_caller]
    pub fn divide(&self, b: &mut Builder, n: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let high = b.mul_hi(n, self.magic);
        let quotient = b.eval((high + n) >> self.shift);
        (quotient, b.eval(n - quotient * self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::magic;

    #[test]
    fn quotients_are_exact() {
        let numerators = [0, 1, 2, 3, 63, 64, 65, 1000, 46341, 65535, 1 << 20, (1 << 31) - 1];
        for divisor in (1..2000).chain([65536, 1 << 20, (1 << 30) + 1, (1 << 31) - 1]) {
            let (magic, shift) = magic(divisor);
            for n in numerators.into_iter().chain([divisor - 1, divisor]) {
                let high = ((n as u64 * magic as u64) >> 32) as u32;
                assert_eq!((high + n) >> shift, n / divisor, "{n} / {divisor}");
            }
        }
    }
}
