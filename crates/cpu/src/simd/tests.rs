//! Every instruction set that this machine has, against scalar arithmetic.

use super::*;

fn lanes<S: Simd>(simd: S, x: S::Vector) -> Vec<f32> {
    let mut out = vec![0.0; S::LANES];
    // SAFETY: `out` holds `LANES` elements.
    unsafe { simd.store(out.as_mut_ptr(), x) };
    out
}

fn vector<S: Simd>(simd: S, f: impl Fn(usize) -> f32) -> S::Vector {
    let values: Vec<f32> = (0..S::LANES).map(f).collect();
    // SAFETY: `values` holds `LANES` elements.
    unsafe { simd.load(values.as_ptr()) }
}

/// Checks each operation.
struct Check;

impl Kernel for Check {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        check_exp2(simd);
        check_selection(simd);
        check_widening(simd);
        check_transpose(simd);
        let x = vector(simd, |i| i as f32 + 1.0);
        let n = S::LANES as f32;
        assert_eq!(simd.sum(x), n * (n + 1.0) / 2.0);
        assert_eq!(simd.largest(x), n);
        assert_eq!(simd.largest(simd.sub(simd.splat(0.0), x)), -1.0);
        let two = simd.splat(2.0);
        let four = [x, two, simd.mul(x, two), simd.splat(-1.0)];
        assert_eq!(simd.sum4(four), four.map(|x| simd.sum(x)));
        assert_eq!(lanes(simd, simd.mul_add(x, two, simd.splat(1.0)))[1], 5.0);
        assert_eq!(lanes(simd, simd.div(simd.sub(simd.add(x, two), two), two))[3], 2.0);
    }
}

#[inline(always)]
fn check_exp2<S: Simd>(simd: S) {
    // miri interprets some thousand times slower.
    for step in (-12_800..=1280).step_by(if cfg!(miri) { 320 } else { 1 }) {
        let x = step as f32 / 100.0;
        let got = lanes(simd, simd.exp2(simd.splat(x)))[0];
        let want = (x as f64).exp2();
        if x < -126.0 {
            assert!((0.0..=f32::MIN_POSITIVE).contains(&got), "{x}: {got}");
        } else {
            assert!((got as f64 / want - 1.0).abs() < 3e-7, "{x}: {got} {want}");
        }
    }
    assert_eq!(lanes(simd, simd.exp2(simd.splat(f32::NEG_INFINITY)))[0], 0.0);
    for nan in [0x7fc0_0000, 0x7fc0_0001, 0xffff_ffff, 0x7f80_0001] {
        let power = simd.exp2(simd.splat(f32::from_bits(nan)));
        assert!(lanes(simd, power)[0].is_nan(), "{nan:#x}");
    }
}

#[inline(always)]
fn check_selection<S: Simd>(simd: S) {
    let x = vector(simd, |i| i as f32);
    let kept = simd.keep_between(x, 5.0, vector(simd, |i| 4.0 + i as f32), simd.splat(6.0));
    assert_eq!(lanes(simd, kept)[..3], [0.0, 1.0, f32::NEG_INFINITY]);
    let none = simd.keep_between(x, 6.0, simd.splat(0.0), simd.splat(6.0));
    assert!(lanes(simd, none).iter().all(|x| *x == f32::NEG_INFINITY));
    assert_eq!(lanes(simd, simd.finite_or_zero(none))[0], 0.0);
    assert_eq!(lanes(simd, simd.max(x, simd.splat(1.5)))[..3], [1.5, 1.5, 2.0]);
    let raised = simd.raise(simd.splat(1.0), x, 1.5);
    assert_eq!(lanes(simd, raised)[..4], [1.0, 1.0, 1.0, 3.0]);
    let signed = vector(simd, |i| [0.25, -0.25, 0.5, f32::NAN][i % 4]);
    let chosen = simd.by_magnitude(signed, 0.5, simd.splat(1.0), simd.splat(2.0));
    assert_eq!(lanes(simd, chosen)[..4], [1.0, 1.0, 2.0, 2.0]);
    let first = simd.raise(simd.splat(f32::NEG_INFINITY), x, 8.0);
    assert_eq!(lanes(simd, first), lanes(simd, x));
    assert!(simd.any_above(x, simd.splat(S::LANES as f32 - 1.5)));
    assert!(!simd.any_above(x, simd.splat(S::LANES as f32 - 1.0)));
}

#[inline(always)]
fn check_widening<S: Simd>(simd: S) {
    let values: Vec<f32> = (0..32).map(|i| (i as f32 - 7.0) / 4.0).collect();
    let halves: Vec<f16> = values.iter().map(|x| f16::from_f32(*x)).collect();
    let brains: Vec<bf16> = values.iter().map(|x| bf16::from_f32(*x)).collect();
    // SAFETY: all hold 32 elements, and no two vectors have more.
    unsafe {
        assert_eq!(lanes(simd, f16::load(simd, halves.as_ptr())), values[..S::LANES]);
        assert_eq!(lanes(simd, bf16::load(simd, brains.as_ptr())), values[..S::LANES]);
        check_two::<S, f32>(simd, &values);
        check_two::<S, f16>(simd, &halves);
        check_two::<S, bf16>(simd, &brains);
    }
}

/// Loads as many elements as two vectors hold, whole and in part, and finds each in its place.
#[inline(always)]
fn check_two<S: Simd, E: Element>(simd: S, values: &[E]) {
    for count in [2 * S::LANES, 2 * S::LANES - 1, 3, 1] {
        // SAFETY: there are as many elements.
        let two = unsafe {
            match count == 2 * S::LANES {
                true => E::load_two(simd, values.as_ptr()),
                false => E::load_part(simd, values.as_ptr(), count),
            }
        };
        let found: Vec<f32> = two.into_iter().flat_map(|x| lanes(simd, x)).collect();
        for (at, value) in values[..2 * S::LANES].iter().enumerate() {
            let want = if at < count { value.to_f32() } else { 0.0 };
            assert_eq!(found[E::place(S::LANES, at)], want, "{at} of {count}");
        }
    }
}

#[inline(always)]
fn check_transpose<S: Simd>(simd: S) {
    let numbers: Vec<f32> = (0..16 * 20).map(|n| n as f32).collect();
    // SAFETY: 16 rows of 16 elements, 20 apart.
    let columns = unsafe { simd.transpose(numbers.as_ptr(), 20) };
    for (c, r) in (0..16).flat_map(|c| (0..16).map(move |r| (c, r))) {
        assert_eq!(columns[c][r], numbers[r * 20 + c]);
    }
}

#[test]
fn bf16_rounds_as_the_half_crate_does() {
    for high in (0..=u16::MAX).step_by(if cfg!(miri) { 1009 } else { 7 }) {
        for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let x = f32::from_bits((high as u32) << 16 | low);
            assert_eq!(round_bf16(x).to_bits(), bf16::from_f32(x).to_bits(), "{x}");
        }
        let x = bf16::from_bits(high);
        assert!(widen_bf16(x) == x.to_f32() || x.is_nan() && widen_bf16(x).is_nan());
    }
}

#[test]
fn every_instruction_set_agrees_with_scalar_arithmetic() {
    for isa in Isa::detected() {
        isa.run(Check);
    }
}
