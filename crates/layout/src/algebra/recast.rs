//! Recasting: the same bytes counted in elements of another size.

use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result, checked_mul, exact_div};
use crate::int_tuple::IntTuple;
use crate::layout::Layout;

impl Layout {
    /// The layout in elements `factor` times as large.
    ///
    /// ```
    /// use layout::Layout;
    /// let halves: Layout = "(8,64):(64,1)".parse()?;
    /// assert_eq!(halves.upcast(2)?.to_string(), "(8,32):(32,1)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn upcast(&self, factor: u64) -> Result<Layout> {
        self.map_pairs(&|extent, stride| match stride {
            0 => Ok((extent, 0)),
            _ if stride.is_multiple_of(factor.max(1)) => {
                Ok((extent, exact_div("upcast", stride, factor)?))
            }
            _ => Ok((exact_div("upcast", extent, exact_div("upcast", factor, stride)?)?, 1)),
        })
    }

    /// The layout in elements `factor` times as small; unit-stride leaves grow.
    pub fn downcast(&self, factor: u64) -> Result<Layout> {
        self.map_pairs(&|extent, stride| match stride {
            1 => Ok((checked_mul("downcast", extent, factor)?, 1)),
            _ => Ok((extent, checked_mul("downcast", stride, factor)?)),
        })
    }

    /// The layout of the same bytes when elements of `from_bits` become elements of `to_bits`.
    pub fn recast(&self, from_bits: u64, to_bits: u64) -> Result<Layout> {
        let common = gcd(from_bits, to_bits).max(1);
        self.downcast(from_bits / common)?.upcast(to_bits / common)
    }

    fn map_pairs(&self, f: &impl Fn(u64, u64) -> Result<(u64, u64)>) -> Result<Layout> {
        if self.shape().is_int() {
            let (extent, stride) = self.leaves()[0];
            let (extent, stride) = f(extent, stride)?;
            return Layout::new(extent, stride);
        }
        if *self.shape() == IntTuple::Tuple(Vec::new()) {
            return Ok(self.clone());
        }
        let modes: Result<Vec<Layout>> =
            self.modes().iter().map(|mode| mode.map_pairs(f)).collect();
        Layout::from_modes(modes?)
    }
}

impl ComposedLayout {
    /// [`Layout::recast`] of all three parts; the ratio of sizes must be a power of two.
    pub fn recast(&self, from_bits: u64, to_bits: u64) -> Result<ComposedLayout> {
        let layout = self.layout().recast(from_bits, to_bits)?;
        let bit_offset = checked_mul("recast", self.offset(), from_bits)?;
        let offset = exact_div("recast", bit_offset, to_bits)?;
        let swizzle = if to_bits >= from_bits {
            self.swizzle().coarser(log2("recast", to_bits, from_bits)?)?
        } else {
            self.swizzle().finer(log2("recast", from_bits, to_bits)?)?
        };
        ComposedLayout::new(swizzle, offset, layout)
    }
}

fn log2(operation: &'static str, large: u64, small: u64) -> Result<u32> {
    let ratio = exact_div(operation, large, small)?;
    if !ratio.is_power_of_two() {
        return Err(LayoutError::NotDivisible { operation, dividend: large, divisor: small });
    }
    Ok(ratio.trailing_zeros())
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
