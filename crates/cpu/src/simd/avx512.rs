use super::{EXP2_FROM_FLOOR, Kernel, Simd};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// AVX-512 F, BW and DQ, with the F16C and AVX2 that every such machine has.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("fma");
        found.then_some(Self(()))
    }
}

macro_rules! intrinsics {
    ($($body:tt)*) => {
        // SAFETY: a token exists only where the features were detected; where memory is touched,
        // the caller vouches for it.
        unsafe { $($body)* }
    };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,fma,f16c,avx2")]
fn run_with_features<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
    kernel.run(simd)
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    type Vector = __m512;

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        intrinsics!(run_with_features(self, kernel))
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        intrinsics!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        intrinsics!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        intrinsics!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        intrinsics!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        intrinsics!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        intrinsics!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        intrinsics!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn keep_between(self, x: __m512, at: f32, low: __m512, high: __m512) -> __m512 {
        intrinsics! {
            let at = _mm512_set1_ps(at);
            let from = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(low, at);
            let inside = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(from, at, high);
            _mm512_mask_mov_ps(_mm512_set1_ps(f32::NEG_INFINITY), inside, x)
        }
    }
    #[inline(always)]
    fn finite_or_zero(self, x: __m512) -> __m512 {
        intrinsics! {
            let low = _mm512_set1_ps(f32::NEG_INFINITY);
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, low), x)
        }
    }
    #[inline(always)]
    fn raise(self, old: __m512, new: __m512, slack: f32) -> __m512 {
        intrinsics! {
            let limit = _mm512_add_ps(old, _mm512_set1_ps(slack));
            _mm512_mask_mov_ps(old, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(new, limit), new)
        }
    }
    #[inline(always)]
    fn by_magnitude(self, x: __m512, limit: f32, small: __m512, large: __m512) -> __m512 {
        intrinsics! {
            let limit = _mm512_set1_ps(limit);
            let below = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(x), limit);
            _mm512_mask_mov_ps(large, below, small)
        }
    }
    #[inline(always)]
    fn any_above(self, a: __m512, b: __m512) -> bool {
        intrinsics!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b) != 0)
    }
    #[inline(always)]
    fn exp2(self, x: __m512) -> __m512 {
        const FLOOR: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
        intrinsics! {
            let part = _mm512_reduce_ps::<FLOOR>(x);
            let mut sum = _mm512_set1_ps(EXP2_FROM_FLOOR[5]);
            for power in (0..5).rev() {
                sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2_FROM_FLOOR[power]));
            }
            _mm512_scalef_ps(sum, x)
        }
    }
    #[inline(always)]
    fn sum(self, x: __m512) -> f32 {
        intrinsics!(_mm512_reduce_add_ps(x))
    }
    #[inline(always)]
    fn largest(self, x: __m512) -> f32 {
        intrinsics!(_mm512_reduce_max_ps(x))
    }
    #[inline(always)]
    fn sum4(self, [a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        intrinsics! {
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            let all = _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
            let high = _mm512_castpd_ps(_mm512_castpd256_pd512(
                _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(all)),
            ));
            let eight = _mm512_castps512_ps256(_mm512_add_ps(all, high));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), four);
            sums
        }
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, pitch: usize) -> [[f32; 16]; 16] {
        let mut to = [[0.0; 16]; 16];
        intrinsics! {
            let mut rows = [_mm512_setzero_si512(); 16];
            for (n, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512(from.add(n * pitch).cast());
            }
            for (row, to) in transpose(rows).iter().zip(&mut to) {
                _mm512_storeu_si512(to.as_mut_ptr().cast(), *row);
            }
        }
        to
    }
    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        intrinsics!(_mm_prefetch::<_MM_HINT_T1>(at.cast()))
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        intrinsics!(_mm512_loadu_ps(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m512) {
        intrinsics!(_mm512_storeu_ps(to, x))
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> __m512 {
        intrinsics! {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16_pairs(self, from: *const bf16) -> [__m512; 2] {
        intrinsics! {
            let pairs = _mm512_loadu_si512(from.cast());
            let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)), _mm512_castsi512_ps(odd)]
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> __m512 {
        intrinsics!(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast())))
    }
}

/// Transposes 16 × 16 numbers of 32 bits.
///
/// # Safety
/// The machine must have AVX-512. (A function with the feature enabled would not be inlined, and
/// pass 2 KiB through memory.)
#[inline(always)]
pub(crate) unsafe fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    intrinsics! {
        let mut pairs = rows;
        for i in 0..8 {
            let (a, b) = (rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i] = _mm512_unpacklo_epi32(a, b);
            pairs[2 * i + 1] = _mm512_unpackhi_epi32(a, b);
        }
        let mut quads = pairs;
        for i in (0..16).step_by(4) {
            quads[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
            quads[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
            quads[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
            quads[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
        }
        let mut columns = quads;
        for c in 0..4 {
            let (a, b, e, d) = (quads[c], quads[4 + c], quads[8 + c], quads[12 + c]);
            let (even_low, even_high) =
                (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(e, d));
            let (odd_low, odd_high) =
                (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(e, d));
            columns[c] = _mm512_shuffle_i32x4::<0x88>(even_low, even_high);
            columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd_low, odd_high);
            columns[8 + c] = _mm512_shuffle_i32x4::<0xdd>(even_low, even_high);
            columns[12 + c] = _mm512_shuffle_i32x4::<0xdd>(odd_low, odd_high);
        }
        columns
    }
}
