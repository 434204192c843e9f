//! Mask tensors of cases: how they lie in memory, and what they hold.

use crate::Rng;
use problem::{AttnMask, DType, HostVec, InvalidProblem, MaskElement};

/// Letters of the dimensions, in the order of a shape.
const LETTERS: &str = "bhqk";

/// Reads `f32-bhqk`: the element type, then the dimensions that are not broadcast, outermost in memory
/// first. `gap` elements after each innermost row are left unused.
///
/// # Errors
/// If the type is unknown, or a letter is none of `bhqk` or there twice.
pub(crate) fn parse(text: &str, extents: [u64; 4], gap: u64) -> Result<AttnMask, InvalidProblem> {
    let wrong = |rule: String| InvalidProblem::new("attn_mask", rule, text);
    let (element, letters) = text.split_once('-').unwrap_or((text, ""));
    let element: MaskElement = element.parse().map_err(wrong)?;
    let (mut shape, mut strides) = ([1; 4], [0; 4]);
    let mut step = 1u64;
    for (n, letter) in letters.chars().rev().enumerate() {
        let found = LETTERS.find(letter).filter(|d| strides[*d] == 0);
        let d = found.ok_or_else(|| wrong("its dimensions are letters of bhqk".to_string()))?;
        (shape[d], strides[d]) = (extents[d], step);
        let unused = if n == 0 { gap } else { 0 };
        step = step.saturating_mul(extents[d].saturating_add(unused));
    }
    Ok(AttnMask { shape, strides, element })
}

/// Elements of a mask: those that `seen` says are looked at are random, the others NaN (or true).
///
/// One row of eight hides every key, and one, where the type allows, gives all the lowest number, which
/// hides none. Of the other rows, every fourth key is hidden; in one of eight, `+inf` is added to some.
pub(crate) fn fill(rng: &mut Rng, mask: &AttnMask, seen: impl Fn(u64) -> bool) -> HostVec {
    let len = mask.span().unwrap_or(0) as usize;
    let mut memory = match mask.element {
        MaskElement::Bool => HostVec::U8(vec![1; len]),
        MaskElement::Float(dtype) => HostVec::filled(dtype, len, f32::NAN),
    };
    let [batch, heads, queries, keys] = mask.shape;
    for row in 0..batch * heads * queries {
        let (b, h, q) = (row / queries / heads, row / queries % heads, row % queries);
        let kind = rng.below(8);
        for at in (0..keys).map(|key| mask.offset([b, h, q, key])) {
            let hidden = kind == 0 || rng.one_in(4);
            let [bias, _] = rng.normal_pair();
            if !seen(at) {
                continue;
            }
            match (&mut memory, mask.element) {
                (HostVec::U8(bytes), _) => bytes[at as usize] = u8::from(!hidden),
                (floats, MaskElement::Float(dtype)) if kind == 1 => {
                    floats.set(at as usize, lowest(dtype));
                }
                (floats, _) if hidden => floats.set(at as usize, f32::NEG_INFINITY),
                (floats, _) if kind == 2 && bias > 1.0 => floats.set(at as usize, f32::INFINITY),
                (floats, _) => floats.set(at as usize, 2.0 * bias),
            }
        }
    }
    memory
}

/// What people write who mean `-inf`; in f16, a number that leaves sums with it some bits.
fn lowest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN,
        DType::F32 => f32::MIN.into(),
        DType::F16 => -1000.0,
        DType::Bf16 => half::bf16::MIN.into(),
        DType::E4m3 => (-problem::E4m3::MAX).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_say_which_dimensions_there_are_and_how_they_lie() {
        let read = |text| parse(text, [2, 3, 5, 7], 4).map_err(|error| error.to_string());
        let mask = |text| read(text).unwrap();
        assert_eq!(mask("bool-bhqk").strides, [165, 55, 11, 1]);
        assert_eq!((mask("f32-kq").shape, mask("f32-kq").strides), ([1, 1, 5, 7], [0, 0, 1, 9]));
        assert_eq!(mask("f16").shape, [1; 4]);
        assert!(read("f32-bx").unwrap_err().contains("letters of bhqk"));
        assert!(read("f32-kk").unwrap_err().contains("letters of bhqk"));
        assert!(read("i32-k").unwrap_err().contains("unknown mask type `i32`"));
    }
}
