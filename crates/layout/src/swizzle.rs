//! [`Swizzle`]: the XOR permutation of index bits that spreads rows over memory banks.

use std::fmt;

use crate::error::{LayoutError, Result};

/// XORs `bits` bits at `base + shift` of an index into the `bits` bits at `base`.
///
/// Written `S<bits,base,shift>`; CuTe's `Swizzle<B,M,S>`. A negative shift XORs the low field into
/// the high one. Applying a swizzle twice gives the index back.
///
/// ```
/// use layout::Swizzle;
/// let swizzle = Swizzle::new(3, 4, 3)?;
/// assert_eq!(swizzle.apply(0x80), 0x90);
/// assert_eq!(swizzle.apply(swizzle.apply(0x3f8)), 0x3f8);
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    bits: u32,
    base: u32,
    shift: i32,
}

impl Swizzle {
    /// The swizzle that changes nothing, as CuTe writes it for 16-byte units: `S<0,4,3>`.
    pub const NONE: Swizzle = Swizzle { bits: 0, base: 4, shift: 3 };

    /// A swizzle of `bits` bits; the two bit fields must not overlap.
    pub fn new(bits: u32, base: u32, shift: i32) -> Result<Swizzle> {
        let swizzle = Swizzle { bits, base, shift };
        if bits > shift.unsigned_abs() {
            return Err(swizzle.refused("the bit fields overlap: |shift| must be at least bits"));
        }
        let top = u64::from(bits) + u64::from(base) + u64::from(shift.unsigned_abs());
        if top > 63 {
            return Err(swizzle.refused("bits, base and |shift| together must stay below 64"));
        }
        Ok(swizzle)
    }

    fn refused(self, rule: &'static str) -> LayoutError {
        LayoutError::Swizzle { swizzle: self.to_string(), rule }
    }

    /// Number of bits in each field.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Number of low bits left alone: log2 of the unit that stays contiguous.
    pub fn base(self) -> u32 {
        self.base
    }

    /// Distance between the two fields.
    pub fn shift(self) -> i32 {
        self.shift
    }

    /// Whether the swizzle changes nothing.
    pub fn is_identity(self) -> bool {
        self.bits == 0
    }

    /// The swizzled index.
    pub fn apply(self, index: u64) -> u64 {
        let distance = self.shift.unsigned_abs();
        let low_field = ((1u64 << self.bits) - 1) << self.base;
        if self.shift >= 0 {
            index ^ ((index & (low_field << distance)) >> distance)
        } else {
            index ^ ((index & low_field) << distance)
        }
    }

    /// Number of consecutive, aligned indices the swizzle keeps together.
    pub fn contiguous(self) -> u64 {
        if self.is_identity() { u64::MAX } else { 1 << self.base }
    }

    /// The length after which the pattern repeats.
    pub fn period(self) -> u64 {
        if self.is_identity() {
            1
        } else {
            1 << (self.bits + self.base + self.shift.unsigned_abs())
        }
    }

    /// The same permutation when each index counts units `2^log2` times as large.
    pub fn coarser(self, log2: u32) -> Result<Swizzle> {
        if self.is_identity() {
            return Ok(self);
        }
        if self.base < log2 {
            return Err(self.refused("the new unit is larger than the swizzle keeps contiguous"));
        }
        Swizzle::new(self.bits, self.base - log2, self.shift)
    }

    /// The same permutation when each index counts units `2^log2` times as small.
    pub fn finer(self, log2: u32) -> Result<Swizzle> {
        if self.is_identity() {
            Ok(self)
        } else {
            Swizzle::new(self.bits, self.base + log2, self.shift)
        }
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S<{},{},{}>", self.bits, self.base, self.shift)
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_128_byte_swizzle_is_an_involution_on_its_period() {
        let swizzle = Swizzle::new(3, 4, 3).unwrap();
        assert_eq!(swizzle.period(), 1024);
        let mut seen: Vec<u64> = (0..1024).map(|i| swizzle.apply(i)).collect();
        assert!((0..1024).all(|i| swizzle.apply(swizzle.apply(i)) == i));
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..1024));
    }

    #[test]
    fn overlapping_fields_are_refused() {
        let error = Swizzle::new(3, 4, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "S<3,4,2>: the bit fields overlap: |shift| must be at least bits"
        );
        assert!(Swizzle::new(3, 50, 30).is_err());
    }
}
