//! Register fragments: which thread holds which element in which register.
//!
//! From the PTX ISA ("Register fragments" of `wgmma`, `mma`, and `ldmatrix`/`stmatrix`) and
//! CUTLASS's `mma_traits_sm80.hpp` and `mma_traits_sm90_gmma.hpp`. Tiles are `(M, N)`, `(M, K)`
//! and `(N, K)`, rows first.

use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::tv::TvLayout;

/// A TV layout together with how its values are packed into 32-bit registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Thread and value to tile coordinate.
    pub tv: TvLayout,
    /// Bits per value: 32, 16 or 8.
    pub element_bits: u64,
}

impl Fragment {
    fn new(layout: Layout, tile: (u64, u64), element_bits: u64) -> Result<Fragment> {
        Ok(Fragment { tv: TvLayout::new(layout, tile)?, element_bits })
    }

    /// Number of 32-bit registers per thread.
    pub fn registers(&self) -> u64 {
        self.tv.values() * self.element_bits / 32
    }

    /// The register that holds a value and the bit at which it starts there.
    pub fn register_of(&self, value: u64) -> (u64, u64) {
        let bit = value * self.element_bits;
        (bit / 32, bit % 32)
    }

    /// Row and column of a value.
    pub fn row_col(&self, thread: u64, value: u64) -> Result<(u64, u64)> {
        self.tv.row_col(thread, value)
    }
}

fn check_width(element_bits: u64, allowed: &[u64], what: &'static str) -> Result<()> {
    if allowed.contains(&element_bits) {
        return Ok(());
    }
    Err(LayoutError::hardware(what, format!("element of {element_bits} bits")))
}

/// The accumulator of `wgmma.mma_async` m64nN: 128 threads, `(64, n)`, 32- or 16-bit values.
///
/// ```
/// use layout::hw::fragment::wgmma_d;
/// let d = wgmma_d(64, 32)?;
/// assert_eq!(d.tv.to_string(), "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))");
/// assert_eq!((d.registers(), d.row_col(37, 6)?), (32, (25, 10)));
/// # Ok::<(), layout::LayoutError>(())
/// ```
pub fn wgmma_d(n: u64, element_bits: u64) -> Result<Fragment> {
    check_width(element_bits, &[16, 32], "wgmma accumulators have 16 or 32 bits")?;
    if n == 0 || n > 256 || !n.is_multiple_of(8) {
        return Err(LayoutError::hardware(
            "wgmma N is a multiple of 8 up to 256",
            format!("N = {n}"),
        ));
    }
    let layout = Layout::new(((4, 8, 4), (2, 2, n / 8)), ((128, 1, 16), (64, 8, 512)))?;
    Fragment::new(layout, (64, n), element_bits)
}

/// The register A operand of one `wgmma.mma_async`: `(64, k)` with 32 bytes of K.
pub fn wgmma_a(element_bits: u64) -> Result<Fragment> {
    let layout = match element_bits {
        16 => Layout::new(((4, 8, 4), (2, 2, 2)), ((128, 1, 16), (64, 8, 512)))?,
        32 => Layout::new(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 256)))?,
        8 => Layout::new(((4, 8, 4), (4, 2, 2)), ((256, 1, 16), (64, 8, 1024)))?,
        _ => return Err(no_operand_width(element_bits)),
    };
    Fragment::new(layout, (64, 256 / element_bits), element_bits)
}

/// The A operand of `mma.sync` m16n8 with 32 bytes of K: m16n8k16 for 16-bit elements.
pub fn mma_a(element_bits: u64) -> Result<Fragment> {
    let layout = match element_bits {
        16 => Layout::new(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))?,
        32 => Layout::new(((4, 8), (2, 2)), ((16, 1), (8, 64)))?,
        8 => Layout::new(((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256)))?,
        _ => return Err(no_operand_width(element_bits)),
    };
    Fragment::new(layout, (16, 256 / element_bits), element_bits)
}

/// The B operand of `mma.sync` m16n8 with 32 bytes of K, as `(n, k)`.
pub fn mma_b(element_bits: u64) -> Result<Fragment> {
    let layout = match element_bits {
        16 => Layout::new(((4, 8), (2, 2)), ((16, 1), (8, 64)))?,
        32 => Layout::new(((4, 8), 2), ((8, 1), 32))?,
        8 => Layout::new(((4, 8), (4, 2)), ((32, 1), (8, 128)))?,
        _ => return Err(no_operand_width(element_bits)),
    };
    Fragment::new(layout, (8, 256 / element_bits), element_bits)
}

/// The accumulator of `mma.sync` m16n8: `(16, 8)`, 32- or 16-bit values.
pub fn mma_c(element_bits: u64) -> Result<Fragment> {
    check_width(element_bits, &[16, 32], "mma.sync accumulators have 16 or 32 bits")?;
    let layout = Layout::new(((4, 8), (2, 2)), ((32, 1), (16, 8)))?;
    Fragment::new(layout, (16, 8), element_bits)
}

fn no_operand_width(element_bits: u64) -> LayoutError {
    LayoutError::hardware(
        "register operands have elements of 8, 16 or 32 bits",
        format!("element of {element_bits} bits"),
    )
}

/// What `ldmatrix` gives and `stmatrix` takes: `count` 8 by 8 matrices of 16-bit elements, stacked
/// along the rows of an `(8 * count, 8)` tile.
///
/// Row `i` of matrix `j` is at the address that lane `8 * j + i` supplies.
pub fn matrix_fragment(count: u64, transposed: bool) -> Result<Fragment> {
    if !matches!(count, 1 | 2 | 4) {
        return Err(LayoutError::hardware(
            "ldmatrix moves 1, 2 or 4 matrices",
            format!("x{count}"),
        ));
    }
    let column = 8 * count;
    let layout = if transposed {
        Layout::new(((4, 8), (2, count)), ((2, column), (1, 8)))?
    } else {
        Layout::new(((4, 8), (2, count)), ((2 * column, 1), (column, 8)))?
    };
    Fragment::new(layout, (8 * count, 8), 16)
}
