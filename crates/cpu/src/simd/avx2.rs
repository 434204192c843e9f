use super::{EXP2_POLYNOMIAL, Kernel, Simd};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// AVX2 with FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
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

#[target_feature(enable = "avx2,fma,f16c")]
fn run_with_features<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// The transpose of 8 rows of 8 elements.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose_8(rows: [__m256; 8]) -> [__m256; 8] {
    let mut pairs = rows;
    for n in 0..4 {
        pairs[2 * n] = _mm256_unpacklo_ps(rows[2 * n], rows[2 * n + 1]);
        pairs[2 * n + 1] = _mm256_unpackhi_ps(rows[2 * n], rows[2 * n + 1]);
    }
    let mut fours = pairs;
    for half in [0, 4] {
        for n in 0..2 {
            let (a, b) = (pairs[half + n], pairs[half + 2 + n]);
            fours[half + 2 * n] = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
            fours[half + 2 * n + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
        }
    }
    let mut turned = fours;
    for n in 0..4 {
        turned[n] = _mm256_permute2f128_ps::<0x20>(fours[n], fours[4 + n]);
        turned[4 + n] = _mm256_permute2f128_ps::<0x31>(fours[n], fours[4 + n]);
    }
    turned
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    type Vector = __m256;

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        intrinsics!(run_with_features(self, kernel))
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        intrinsics!(_mm256_set1_ps(x))
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        intrinsics!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        intrinsics!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        intrinsics!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        intrinsics!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        intrinsics!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        intrinsics!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn keep_between(self, x: __m256, at: f32, low: __m256, high: __m256) -> __m256 {
        intrinsics! {
            let at = _mm256_set1_ps(at);
            let from = _mm256_cmp_ps::<_CMP_LE_OQ>(low, at);
            let to = _mm256_cmp_ps::<_CMP_LT_OQ>(at, high);
            _mm256_blendv_ps(_mm256_set1_ps(f32::NEG_INFINITY), x, _mm256_and_ps(from, to))
        }
    }
    #[inline(always)]
    fn finite_or_zero(self, x: __m256) -> __m256 {
        intrinsics! {
            let low = _mm256_set1_ps(f32::NEG_INFINITY);
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, low), x)
        }
    }
    #[inline(always)]
    fn raise(self, old: __m256, new: __m256, slack: f32) -> __m256 {
        intrinsics! {
            let limit = _mm256_add_ps(old, _mm256_set1_ps(slack));
            _mm256_blendv_ps(old, new, _mm256_cmp_ps::<_CMP_GT_OQ>(new, limit))
        }
    }
    #[inline(always)]
    fn by_magnitude(self, x: __m256, limit: f32, small: __m256, large: __m256) -> __m256 {
        intrinsics! {
            let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
            let below = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(limit));
            _mm256_blendv_ps(large, small, below)
        }
    }
    #[inline(always)]
    fn any_above(self, a: __m256, b: __m256) -> bool {
        intrinsics!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) != 0)
    }
    #[inline(always)]
    fn exp2(self, x: __m256) -> __m256 {
        // Adding this rounds to a whole number, which is then, with the exponent's bias, in the sum's
        // lowest bits.
        const WHOLE: f32 = 1.5 * (1 << 23) as f32 + 127.0;
        intrinsics! {
            let x = _mm256_max_ps(_mm256_set1_ps(-127.0), x);
            let shifted = _mm256_add_ps(x, _mm256_set1_ps(WHOLE));
            let part = _mm256_sub_ps(x, _mm256_sub_ps(shifted, _mm256_set1_ps(WHOLE)));
            let mut sum = _mm256_set1_ps(EXP2_POLYNOMIAL[5]);
            for power in (0..5).rev() {
                sum = _mm256_fmadd_ps(sum, part, _mm256_set1_ps(EXP2_POLYNOMIAL[power]));
            }
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            _mm256_mul_ps(sum, _mm256_castsi256_ps(power))
        }
    }
    #[inline(always)]
    fn sum(self, x: __m256) -> f32 {
        intrinsics! {
            let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn largest(self, x: __m256) -> f32 {
        intrinsics! {
            let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn sum4(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        intrinsics! {
            let all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), four);
            sums
        }
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, pitch: usize) -> [[f32; 16]; 16] {
        let mut to = [[0.0; 16]; 16];
        for (row, column) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            intrinsics! {
                let mut block = [_mm256_setzero_ps(); 8];
                for n in 0..8 {
                    block[n] = _mm256_loadu_ps(from.add((row + n) * pitch + column));
                }
                for (n, turned) in transpose_8(block).into_iter().enumerate() {
                    _mm256_storeu_ps(to[column + n][row..].as_mut_ptr(), turned);
                }
            }
        }
        to
    }
    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        intrinsics!(_mm_prefetch::<_MM_HINT_T1>(at.cast()))
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        intrinsics!(_mm256_loadu_ps(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m256) {
        intrinsics!(_mm256_storeu_ps(to, x))
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> __m256 {
        intrinsics! {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16_pairs(self, from: *const bf16) -> [__m256; 2] {
        intrinsics! {
            let pairs = _mm256_loadu_si256(from.cast());
            let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs)), _mm256_castsi256_ps(odd)]
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> __m256 {
        intrinsics!(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())))
    }
}
