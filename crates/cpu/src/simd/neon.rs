use super::{EXP2_POLYNOMIAL, Kernel, Simd};
use half::{bf16, f16};
use std::arch::aarch64::*;

/// NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    pub(crate) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

macro_rules! intrinsics {
    ($($body:tt)*) => {
        // SAFETY: a token exists only where the features were detected; where memory is touched,
        // the caller vouches for it.
        unsafe { $($body)* }
    };
}

#[target_feature(enable = "neon")]
fn run_with_features<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
    kernel.run(simd)
}

impl Simd for Neon {
    const LANES: usize = 4;
    const REGISTERS: usize = 32;
    type Vector = float32x4_t;

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        intrinsics!(run_with_features(self, kernel))
    }
    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        intrinsics!(vdupq_n_f32(x))
    }
    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsics!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsics!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsics!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsics!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        intrinsics!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsics!(vbslq_f32(vcgtq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn keep_between(
        self,
        x: float32x4_t,
        at: f32,
        low: float32x4_t,
        high: float32x4_t,
    ) -> float32x4_t {
        intrinsics! {
            let at = vdupq_n_f32(at);
            let inside = vandq_u32(vcleq_f32(low, at), vcltq_f32(at, high));
            vbslq_f32(inside, x, vdupq_n_f32(f32::NEG_INFINITY))
        }
    }
    #[inline(always)]
    fn finite_or_zero(self, x: float32x4_t) -> float32x4_t {
        intrinsics! {
            let above = vcgtq_f32(x, vdupq_n_f32(f32::NEG_INFINITY));
            vbslq_f32(above, x, vdupq_n_f32(0.0))
        }
    }
    #[inline(always)]
    fn raise(self, old: float32x4_t, new: float32x4_t, slack: f32) -> float32x4_t {
        intrinsics!(vbslq_f32(vcgtq_f32(new, vaddq_f32(old, vdupq_n_f32(slack))), new, old))
    }
    #[inline(always)]
    fn by_magnitude(
        self,
        x: float32x4_t,
        limit: f32,
        small: float32x4_t,
        large: float32x4_t,
    ) -> float32x4_t {
        intrinsics!(vbslq_f32(vcltq_f32(vabsq_f32(x), vdupq_n_f32(limit)), small, large))
    }
    #[inline(always)]
    fn any_above(self, a: float32x4_t, b: float32x4_t) -> bool {
        intrinsics!(vmaxvq_u32(vcgtq_f32(a, b)) != 0)
    }
    #[inline(always)]
    fn exp2(self, x: float32x4_t) -> float32x4_t {
        intrinsics! {
            let low = vdupq_n_f32(-127.0);
            let x = vbslq_f32(vcgtq_f32(low, x), low, x);
            // 1.5 · 2^23 leaves no bits for a fraction: adding it rounds, and the low bits of the sum
            // are the whole number. (miri, which runs this without such a machine, knows no
            // instruction that rounds.)
            const LARGE: f32 = 12_582_912.0;
            let rounded = vaddq_f32(x, vdupq_n_f32(LARGE));
            let whole = vsubq_f32(rounded, vdupq_n_f32(LARGE));
            let part = vsubq_f32(x, whole);
            let mut sum = vdupq_n_f32(EXP2_POLYNOMIAL[5]);
            for power in (0..5).rev() {
                sum = vfmaq_f32(vdupq_n_f32(EXP2_POLYNOMIAL[power]), sum, part);
            }
            let bias = vdupq_n_s32(LARGE.to_bits() as i32 - 127);
            let biased = vsubq_s32(vreinterpretq_s32_f32(rounded), bias);
            vmulq_f32(sum, vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
        }
    }
    #[inline(always)]
    fn sum(self, x: float32x4_t) -> f32 {
        intrinsics! {
            let two = vadd_f32(vget_low_f32(x), vget_high_f32(x));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }
    #[inline(always)]
    fn largest(self, x: float32x4_t) -> f32 {
        intrinsics! {
            let (low, high) = (vget_low_f32(x), vget_high_f32(x));
            let two = vbsl_f32(vcgt_f32(low, high), low, high);
            vget_lane_f32::<0>(two).max(vget_lane_f32::<1>(two))
        }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4_t {
        intrinsics!(vld1q_f32(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: float32x4_t) {
        intrinsics!(vst1q_f32(to, x))
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> float32x4_t {
        intrinsics!(vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from.cast()))))
    }
    #[inline(always)]
    unsafe fn load_bf16_pairs(self, from: *const bf16) -> [float32x4_t; 2] {
        intrinsics! {
            let pairs = vreinterpretq_u32_u16(vld1q_u16(from.cast()));
            let odd = vandq_u32(pairs, vdupq_n_u32(0xffff_0000));
            [vshlq_n_u32::<16>(pairs), odd].map(|half| vreinterpretq_f32_u32(half))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> float32x4_t {
        let mut wide = [0.0; 4];
        for (i, x) in wide.iter_mut().enumerate() {
            // SAFETY: the caller promises four readable elements.
            *x = unsafe { from.add(i).read_unaligned() }.to_f32();
        }
        intrinsics!(vld1q_f32(wide.as_ptr()))
    }
}
