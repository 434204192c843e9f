//! Numbers as PTX computes them: narrow formats, rounding modes, flush-to-zero, MUFU functions.
//!
//! Everything here is a pure function of bits. Conversions and `add`/`mul`/`fma`/`div`/`sqrt` are
//! exact to the last bit in every rounding mode: a result is formed in f64 together with the sign
//! of what f64 lost, and rounded once (f64 itself in [`double`], by integers). The `.approx` functions ([`mufu`]) are evaluated in f64 and
//! rounded to f32, so they are at least as accurate as the hardware's tables; [`mufu`] lists the
//! distance a GPU may have from them.

mod arithmetic;
mod convert;
pub mod double;
mod format;
pub mod mufu;

pub use arithmetic::{Flush, add, canonical, div, flush, fma, mul, rcp, sqrt};
pub use arithmetic::{add_narrow, fma_narrow, mul_narrow};
pub use convert::{Conversion, f32_to_tf32, f32_to_ue8m0, ue8m0_to_f32};
pub use format::{Format, Overflow, Rounding};
