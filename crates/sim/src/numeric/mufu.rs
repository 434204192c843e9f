//! The `.approx` functions of the special function unit.
//!
//! Each is evaluated in f64 and rounded to f32. PTX bounds the hardware's error: `ex2` 2 ulp,
//! `lg2` 2^-22 absolute near 1 and 2 ulp elsewhere, `rcp` 1 ulp, `rsqrt` 2^-22.9 relative, `sqrt`
//! 1 ulp over `x * rsqrt(x)`, `sin`/`cos` 2^-20.5 absolute in [-pi, pi], `tanh` 2^-11 relative.
//! Comparisons between a GPU and the simulator must allow these.

use super::{Flush, canonical, flush};

fn through_f64(x: f32, mode: Flush, f: impl Fn(f64) -> f64) -> f32 {
    flush(canonical(f(f64::from(flush(x, mode))) as f32), mode)
}

/// `ex2.approx{.ftz}.f32`.
pub fn ex2(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, f64::exp2)
}

/// `lg2.approx{.ftz}.f32`.
pub fn lg2(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, f64::log2)
}

/// `rcp.approx{.ftz}.f32`.
pub fn rcp(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, f64::recip)
}

/// `rsqrt.approx{.ftz}.f32`.
pub fn rsqrt(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, |x| x.sqrt().recip())
}

/// `sqrt.approx{.ftz}.f32`.
pub fn sqrt(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, f64::sqrt)
}

/// `sin.approx{.ftz}.f32`.
pub fn sin(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, f64::sin)
}

/// `cos.approx{.ftz}.f32`.
pub fn cos(x: f32, mode: Flush) -> f32 {
    through_f64(x, mode, f64::cos)
}

/// `tanh.approx.f32`.
pub fn tanh(x: f32) -> f32 {
    through_f64(x, Flush::Keep, f64::tanh)
}

/// `div.approx{.ftz}.f32`: `a * (1 / b)`, rounded once.
pub fn div(a: f32, b: f32, mode: Flush) -> f32 {
    let (a, b) = (flush(a, mode), flush(b, mode));
    flush(canonical(a / b), mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(ex2(f32::NEG_INFINITY, Flush::ToZero), 0.0);
        assert_eq!(ex2(3.0, Flush::ToZero), 8.0);
        assert_eq!(lg2(0.0, Flush::ToZero), f32::NEG_INFINITY);
        assert_eq!(lg2(-1.0, Flush::ToZero).to_bits(), 0x7FFF_FFFF);
        assert_eq!(rcp(-0.0, Flush::ToZero), f32::NEG_INFINITY);
        assert_eq!(rcp(f32::INFINITY, Flush::Keep), 0.0);
        assert_eq!(rsqrt(0.0, Flush::Keep), f32::INFINITY);
        assert_eq!(tanh(f32::INFINITY), 1.0);
    }

    #[test]
    fn subnormal_results_flush() {
        assert_eq!(ex2(-140.0, Flush::ToZero), 0.0);
        assert!(ex2(-140.0, Flush::Keep) > 0.0);
    }
}
