//! Fitting the descriptor formulas to a layout.
//!
//! With `T` = elements in 16 bytes and `W` = elements in the swizzle span, an instruction reads
//! element `(r, k)` before swizzling at start plus (PTX ISA, "Strides"; CUTLASS descriptor
//! headers):
//!
//! | major | swizzle | bytes |
//! |---|---|---|
//! | K | none | `(r%8)*16 + (r/8)*SBO + (k%T)*size + (k/T)*LBO` |
//! | K | any | `(r%8)*span + (r/8)*SBO + k*size` |
//! | MN | none | `(r%T)*size + (r/T)*SBO + (k%8)*16 + (k/8)*LBO` |
//! | MN | any | `(r%W)*size + (r/W)*LBO + (k%A)*span + (k/A)*SBO`, `A` lines per atom |
//!
//! Both offsets are read off the layout at the first place where they matter; then every element
//! is compared.

use super::smem::{Major, SmemSwizzle, SmemTile};
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result, checked_add, checked_mul};

/// What the formulas need: all in bytes.
pub(super) struct Fitted {
    pub swizzle: SmemSwizzle,
    pub start: u64,
    pub leading: u64,
    pub stride: u64,
}

/// What 18 address bits reach.
const SMEM_BITS: u64 = 8 << 18;

/// LBO where the hardware ignores it, as CUTLASS encodes it.
const IGNORED: u64 = 16;

pub(super) fn fit(layout: &ComposedLayout, element_bits: u64, major: Major) -> Result<Fitted> {
    let operand = Operand::new(layout, element_bits)?;
    let swizzle = byte_swizzle(layout, element_bits)?;
    let start = operand.byte(0, 0);
    let formula = Formula::read_off(&operand, major, swizzle)?;
    let per_step = SmemTile::K_STEP_BYTES * 8 / element_bits;
    let k = operand.k.len() as u64;
    for first_k in (0..k).step_by(per_step as usize) {
        check_step(&operand, &formula, first_k, per_step.min(k - first_k))?;
    }
    Ok(Fitted { swizzle, start, leading: formula.leading, stride: formula.stride })
}

/// The swizzle mode of a layout in elements.
fn byte_swizzle(layout: &ComposedLayout, element_bits: u64) -> Result<SmemSwizzle> {
    let swizzle = layout.swizzle();
    let on_bytes = match element_bits {
        4 => swizzle.coarser(1)?,
        _ => swizzle.finer((element_bits / 8).trailing_zeros())?,
    };
    SmemSwizzle::from_byte_swizzle(on_bytes).ok_or_else(|| {
        LayoutError::hardware(
            "descriptors know S<1,4,3>, S<2,4,3>, S<3,4,3> and S<2,5,2> on bytes",
            format!("swizzle {on_bytes} on bytes"),
        )
    })
}

/// The operand before swizzling. A layout adds up over its modes, so the indices of both are kept
/// and an element costs one addition.
struct Operand<'a> {
    layout: &'a ComposedLayout,
    element_bits: u64,
    mn: Vec<u64>,
    k: Vec<u64>,
}

impl<'a> Operand<'a> {
    fn new(layout: &'a ComposedLayout, element_bits: u64) -> Result<Self> {
        if !matches!(element_bits, 4 | 8 | 16 | 32) {
            return Err(LayoutError::hardware(
                "MMA operands have elements of 4, 8, 16 or 32 bits",
                format!("element of {element_bits} bits"),
            ));
        }
        let modes = layout.layout().modes();
        let [mn, k] = modes.as_slice() else {
            return Err(LayoutError::Rank {
                operation: "operand (mn, k)",
                asked: 2,
                rank: modes.len(),
            });
        };
        let end = checked_add("operand", layout.offset(), layout.layout().cosize())?;
        checked_mul("operand", end, element_bits)?;
        if checked_mul("operand", layout.size(), element_bits)? > SMEM_BITS {
            return Err(LayoutError::hardware(
                "an operand tile fits the 256 KiB that a descriptor can address",
                format!("{layout} of {element_bits}-bit elements"),
            ));
        }
        Ok(Operand { layout, element_bits, mn: mn.indices().collect(), k: k.indices().collect() })
    }

    /// Bit offset of an element; cannot wrap, as `new` has checked the last one.
    fn bit(&self, mn: u64, k: u64) -> u64 {
        (self.layout.offset() + self.mn[mn as usize] + self.k[k as usize]) * self.element_bits
    }

    fn byte(&self, mn: u64, k: u64) -> u64 {
        self.bit(mn, k) / 8
    }

    /// Bytes from the start to an element, or `unused` when the operand does not reach it.
    fn distance(&self, mn: u64, k: u64, unused: u64) -> Result<u64> {
        if mn >= self.mn.len() as u64 || k >= self.k.len() as u64 {
            return Ok(unused);
        }
        // A layout's first element has the smallest index, so the distance cannot be negative.
        match self.byte(mn, k) - self.byte(0, 0) {
            bytes if bytes < 1 << 18 => Ok(bytes),
            bytes => Err(LayoutError::hardware(
                "descriptor fields are multiples of 16 bytes below 2^18",
                format!("element ({mn},{k}) is {bytes} bytes from the start"),
            )),
        }
    }
}

/// One of the four formulas with its offsets filled in.
struct Formula {
    major: Major,
    swizzle: SmemSwizzle,
    element_bits: u64,
    leading: u64,
    stride: u64,
}

impl Formula {
    fn read_off(operand: &Operand, major: Major, swizzle: SmemSwizzle) -> Result<Formula> {
        let bits = operand.element_bits;
        let span = swizzle.span_bytes() * 8 / bits;
        let lines = swizzle.atom_lines();
        let packed = lines * swizzle.span_bytes();
        let (leading, stride) = match (major, swizzle) {
            (Major::K, SmemSwizzle::None) => {
                (operand.distance(0, span, IGNORED)?, operand.distance(8, 0, packed)?)
            }
            (Major::K, _) => (IGNORED, operand.distance(8, 0, packed)?),
            (Major::Mn, SmemSwizzle::None) => {
                (operand.distance(0, 8, packed)?, operand.distance(span, 0, packed)?)
            }
            (Major::Mn, _) => {
                (operand.distance(span, 0, IGNORED)?, operand.distance(0, lines, packed)?)
            }
        };
        Ok(Formula { major, swizzle, element_bits: bits, leading, stride })
    }

    /// Bits from the start of an instruction's operand to its element `(r, k)`.
    fn bit(&self, r: u64, k: u64) -> u64 {
        let span_bytes = self.swizzle.span_bytes();
        let span = span_bytes * 8 / self.element_bits;
        let lines = self.swizzle.atom_lines();
        let (elements, bytes) = match (self.major, self.swizzle) {
            (Major::K, SmemSwizzle::None) => {
                (k % span, r % 8 * 16 + r / 8 * self.stride + k / span * self.leading)
            }
            (Major::K, _) => (k, r % 8 * span_bytes + r / 8 * self.stride),
            (Major::Mn, SmemSwizzle::None) => {
                (r % span, r / span * self.stride + k % 8 * 16 + k / 8 * self.leading)
            }
            (Major::Mn, _) => (
                r % span,
                r / span * self.leading + k % lines * span_bytes + k / lines * self.stride,
            ),
        };
        elements * self.element_bits + bytes * 8
    }
}

/// Compares every element of one instruction's operand with the formula.
fn check_step(operand: &Operand, formula: &Formula, first_k: u64, extent: u64) -> Result<()> {
    let start = operand.bit(0, first_k);
    for k in 0..extent {
        for mn in 0..operand.mn.len() as u64 {
            let (wanted, found) = (start + formula.bit(mn, k), operand.bit(mn, first_k + k));
            if wanted != found {
                return Err(not_there(operand, formula, (mn, first_k + k), wanted / 8, found / 8));
            }
        }
    }
    Ok(())
}

fn not_there(
    operand: &Operand,
    formula: &Formula,
    (mn, k): (u64, u64),
    wanted: u64,
    found: u64,
) -> LayoutError {
    let rule = match (formula.major, formula.swizzle) {
        (Major::K, SmemSwizzle::None) => {
            "K-major without swizzle: (r%8)*16 + (r/8)*SBO + (k%T)*size + (k/T)*LBO"
        }
        (Major::K, _) => "K-major swizzled: (r%8)*span + (r/8)*SBO + k*size within one span",
        (Major::Mn, SmemSwizzle::None) => {
            "MN-major without swizzle: (r%T)*size + (r/T)*SBO + (k%8)*16 + (k/8)*LBO"
        }
        (Major::Mn, _) => "MN-major swizzled: (r%W)*size + (r/W)*LBO + (k%A)*span + (k/A)*SBO",
    };
    LayoutError::hardware(
        rule,
        format!(
            "{}: element ({mn},{k}) is at byte {found}, the descriptor reads {wanted}",
            operand.layout
        ),
    )
}
