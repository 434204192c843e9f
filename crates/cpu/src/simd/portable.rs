use super::{EXP2_POLYNOMIAL, Kernel, Simd};
use half::{bf16, f16};

/// Arrays that the compiler may turn into whatever vectors the target has.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

const LANES: usize = 4;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

fn exp2(x: f32) -> f32 {
    let x = if x < -127.0 { -127.0 } else { x };
    let whole = x.round_ties_even();
    let part = x - whole;
    let sum = EXP2_POLYNOMIAL.iter().rev().fold(0.0, |sum, c| sum * part + c);
    // Rows that have seen NaN may come with any number; nothing is left of what it gives.
    sum * f32::from_bits(((whole as i32).wrapping_add(127) as u32) << 23)
}

impl Simd for Portable {
    const LANES: usize = LANES;
    const REGISTERS: usize = 16;
    type Vector = [f32; LANES];

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        [x; LANES]
    }
    #[inline(always)]
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |x, y| x + y)
    }
    #[inline(always)]
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |x, y| x - y)
    }
    #[inline(always)]
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |x, y| x * y)
    }
    #[inline(always)]
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |x, y| x / y)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // Without a fused instruction, `f32::mul_add` is a slow library call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn keep_between(
        self,
        x: Self::Vector,
        at: f32,
        low: Self::Vector,
        high: Self::Vector,
    ) -> Self::Vector {
        let inside = |i: usize| low[i] <= at && at < high[i];
        std::array::from_fn(|i| if inside(i) { x[i] } else { f32::NEG_INFINITY })
    }
    #[inline(always)]
    fn finite_or_zero(self, x: Self::Vector) -> Self::Vector {
        x.map(|x| if x > f32::NEG_INFINITY { x } else { 0.0 })
    }
    #[inline(always)]
    fn raise(self, old: Self::Vector, new: Self::Vector, slack: f32) -> Self::Vector {
        zip(old, new, |old, new| if new > old + slack { new } else { old })
    }
    #[inline(always)]
    fn by_magnitude(
        self,
        x: Self::Vector,
        limit: f32,
        small: Self::Vector,
        large: Self::Vector,
    ) -> Self::Vector {
        std::array::from_fn(|i| if x[i].abs() < limit { small[i] } else { large[i] })
    }
    #[inline(always)]
    fn any_above(self, a: Self::Vector, b: Self::Vector) -> bool {
        a.iter().zip(b).any(|(x, y)| *x > y)
    }
    #[inline(always)]
    fn exp2(self, x: Self::Vector) -> Self::Vector {
        x.map(exp2)
    }
    #[inline(always)]
    fn sum(self, x: Self::Vector) -> f32 {
        x.iter().sum()
    }
    #[inline(always)]
    fn largest(self, x: Self::Vector) -> f32 {
        x.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::Vector {
        // SAFETY: the caller promises `LANES` readable elements.
        std::array::from_fn(|i| unsafe { from.add(i).read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: Self::Vector) {
        for (i, x) in x.into_iter().enumerate() {
            // SAFETY: the caller promises `LANES` writable elements.
            unsafe { to.add(i).write(x) };
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> Self::Vector {
        // SAFETY: the caller promises `LANES` readable elements.
        std::array::from_fn(|i| unsafe { from.add(i).read() }.to_f32())
    }
    #[inline(always)]
    unsafe fn load_bf16_pairs(self, from: *const bf16) -> [Self::Vector; 2] {
        // SAFETY: the caller promises `2 * LANES` readable elements.
        [0, 1].map(|odd| std::array::from_fn(|i| unsafe { from.add(2 * i + odd).read() }.to_f32()))
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> Self::Vector {
        // SAFETY: the caller promises `LANES` readable elements.
        std::array::from_fn(|i| unsafe { from.add(i).read() }.to_f32())
    }
}
