//! Arithmetic over rows of 32 lanes.
//!
//! Loading picks, for each instruction, a function over whole rows; running it is one indirect call
//! and a loop the compiler vectorises. Lanes outside the mask are computed too and thrown away.

mod bits;
mod cvt;
mod float;
mod half;
mod integer;
mod lane;
mod predicate;
mod stochastic;
mod video;

pub use bits::{bfe64, bit_insert, bit_op, lop3, prmt};
pub use cvt::{Cvt, CvtSource};
pub use float::{double_op, float_op, float_pair_op, mufu, saturate};
pub use half::{half_op, mixed_op};
pub use integer::{integer_op, wide_op};
pub use lane::{packed_integer_op, special_lane_op, test_property};
pub use predicate::{BoolOp, Compare, Half, compare_float, compare_half, compare_integer};
pub use stochastic::StochasticCvt;
pub use video::Video;

use crate::register::{Row32, Row64};

/// `d = f(a)` over 32-bit rows.
pub type F32x1 = fn(&mut Row32, &Row32);
/// `d = f(a, b)` over 32-bit rows.
pub type F32x2 = fn(&mut Row32, &Row32, &Row32);
/// `d = f(a, b, c)` over 32-bit rows.
pub type F32x3 = fn(&mut Row32, &Row32, &Row32, &Row32);
/// `d = f(a)` over 64-bit rows.
pub type F64x1 = fn(&mut Row64, &Row64);
/// `d = f(a, b)` over 64-bit rows.
pub type F64x2 = fn(&mut Row64, &Row64, &Row64);
/// `d = f(a, b, c)` over 64-bit rows.
pub type F64x3 = fn(&mut Row64, &Row64, &Row64, &Row64);
/// 64-bit result of 32-bit operands.
pub type Wide2 = fn(&mut Row64, &Row32, &Row32);
/// 64-bit result of two 32-bit operands and a 64-bit one.
pub type Wide3 = fn(&mut Row64, &Row32, &Row32, &Row64);
/// 32-bit result of a 64-bit operand.
pub type Narrow = fn(&mut Row32, &Row64);
/// 64-bit value shifted by a 32-bit amount.
pub type Shift64 = fn(&mut Row64, &Row64, &Row32);

/// A row function with its operand shape.
#[derive(Clone, Copy)]
pub enum RowFn {
    /// 32-bit, one operand.
    A1(F32x1),
    /// 32-bit, two operands.
    A2(F32x2),
    /// 32-bit, three operands.
    A3(F32x3),
    /// 64-bit, one operand.
    B1(F64x1),
    /// 64-bit, two operands.
    B2(F64x2),
    /// 64-bit, three operands.
    B3(F64x3),
    /// 64 from 32, 32.
    Wide2(Wide2),
    /// 64 from 32, 32, 64.
    Wide3(Wide3),
    /// 32 from 64.
    Narrow(Narrow),
    /// 64 from 64, 32.
    Shift64(Shift64),
}

/// Builds a [`RowFn`] from a lane expression.
macro_rules! row {
    (A1 |$a:ident| $e:expr) => {{
        fn over_rows(d: &mut Row32, a: &Row32) {
            for i in 0..32 {
                let $a = a.0[i];
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::A1(over_rows)
    }};
    (A2 |$a:ident, $b:ident| $e:expr) => {{
        fn over_rows(d: &mut Row32, a: &Row32, b: &Row32) {
            for i in 0..32 {
                let ($a, $b) = (a.0[i], b.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::A2(over_rows)
    }};
    (A3 |$a:ident, $b:ident, $c:ident| $e:expr) => {{
        fn over_rows(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
            for i in 0..32 {
                let ($a, $b, $c) = (a.0[i], b.0[i], c.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::A3(over_rows)
    }};
    (B1 |$a:ident| $e:expr) => {{
        fn over_rows(d: &mut Row64, a: &Row64) {
            for i in 0..32 {
                let $a = a.0[i];
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::B1(over_rows)
    }};
    (B2 |$a:ident, $b:ident| $e:expr) => {{
        fn over_rows(d: &mut Row64, a: &Row64, b: &Row64) {
            for i in 0..32 {
                let ($a, $b) = (a.0[i], b.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::B2(over_rows)
    }};
    (B3 |$a:ident, $b:ident, $c:ident| $e:expr) => {{
        fn over_rows(d: &mut Row64, a: &Row64, b: &Row64, c: &Row64) {
            for i in 0..32 {
                let ($a, $b, $c) = (a.0[i], b.0[i], c.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::B3(over_rows)
    }};
    (Wide2 |$a:ident, $b:ident| $e:expr) => {{
        fn over_rows(d: &mut Row64, a: &Row32, b: &Row32) {
            for i in 0..32 {
                let ($a, $b) = (a.0[i], b.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::Wide2(over_rows)
    }};
    (Wide3 |$a:ident, $b:ident, $c:ident| $e:expr) => {{
        fn over_rows(d: &mut Row64, a: &Row32, b: &Row32, c: &Row64) {
            for i in 0..32 {
                let ($a, $b, $c) = (a.0[i], b.0[i], c.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::Wide3(over_rows)
    }};
    (Narrow |$a:ident| $e:expr) => {{
        fn over_rows(d: &mut Row32, a: &Row64) {
            for i in 0..32 {
                let $a = a.0[i];
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::Narrow(over_rows)
    }};
    (Shift64 |$a:ident, $b:ident| $e:expr) => {{
        fn over_rows(d: &mut Row64, a: &Row64, b: &Row32) {
            for i in 0..32 {
                let ($a, $b) = (a.0[i], b.0[i]);
                d.0[i] = $e;
            }
        }
        $crate::alu::RowFn::Shift64(over_rows)
    }};
}
pub(crate) use row;
