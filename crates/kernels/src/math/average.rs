//! Averages of numbers near the largest f32.
//!
//! Weights that are rounded may add up to a little more than 1, and an average of the largest numbers is then infinite.
//! Averages of 16-bit numbers have room above them; those of f32 are kept within its numbers.

use crate::call::precision::Precision;
use ptx::build::{Builder, Cmp, Reg};

/// What weights are multiplied with so that averages, before [`scaled`], are finite where what they are of is.
pub fn headroom(precision: Precision) -> Option<f32> {
    (precision == Precision::Single).then_some(0.5)
}

/// `number · factor`, an average; the largest number where only the factor makes it infinite.
#[track_caller]
pub fn scaled(
    b: &mut Builder,
    precision: Precision,
    number: Reg<f32>,
    factor: Reg<f32>,
) -> Reg<f32> {
    let product = b.mul(number, factor);
    if precision == Precision::Single {
        let finite = [(Cmp::Le, f32::MAX), (Cmp::Ge, f32::MIN)];
        let [below, above] = finite.map(|(cmp, bound)| b.setp(cmp, number, bound));
        let finite = b.and(below, above);
        for (cmp, bound) in [(Cmp::Gt, f32::MAX), (Cmp::Lt, f32::MIN)] {
            let beyond = b.setp(cmp, product, bound);
            let beyond = b.and(beyond, finite);
            b.assign_if(beyond, product, bound);
        }
    }
    product
}
