//! Vectors of f32, by instruction set.
//!
//! An instruction set is a token ([`Simd`]) that can only be had where the machine has it. Code is
//! written once, generic over the token, as a [`Kernel`]; [`Isa::run`] runs it with a token of this
//! machine, inside a function that has the instruction set's features enabled, so that
//! everything `#[inline(always)]` below it compiles to those instructions.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use half::{bf16, f16};

/// An instruction set with vectors of f32.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Elements of a vector.
    const LANES: usize;
    /// Vector registers.
    const REGISTERS: usize;
    /// A vector of f32.
    type Vector: Copy;

    /// Runs `kernel` with this instruction set's features enabled.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::Vector;
    /// Sum.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Difference.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Product.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Quotient.
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a · b + c`, rounded once where the machine can.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// The larger; `b` where either is NaN.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `x` where `low <= at < high`, negative infinity elsewhere.
    fn keep_between(
        self,
        x: Self::Vector,
        at: f32,
        low: Self::Vector,
        high: Self::Vector,
    ) -> Self::Vector;
    /// `x` where it is above negative infinity, 0 elsewhere.
    fn finite_or_zero(self, x: Self::Vector) -> Self::Vector;
    /// `new` where it is above `old` by more than `slack`, `old` elsewhere.
    fn raise(self, old: Self::Vector, new: Self::Vector, slack: f32) -> Self::Vector;
    /// `small` where the magnitude of `x` is below `limit`, `large` elsewhere (and where `x` is NaN).
    fn by_magnitude(
        self,
        x: Self::Vector,
        limit: f32,
        small: Self::Vector,
        large: Self::Vector,
    ) -> Self::Vector;
    /// Whether any lane of `a` is above that of `b`.
    fn any_above(self, a: Self::Vector, b: Self::Vector) -> bool;
    /// 2 to the power of `x`, for `x` up to 127; below -126, 0 or no more than 2^-126; 0 of negative infinity,
    /// and NaN of every NaN. Relative error below 3e-7.
    fn exp2(self, x: Self::Vector) -> Self::Vector;
    /// Sum of the lanes.
    fn sum(self, x: Self::Vector) -> f32;
    /// The largest lane, where none is NaN.
    fn largest(self, x: Self::Vector) -> f32;
    /// Sums of the lanes of four vectors.
    #[inline(always)]
    fn sum4(self, x: [Self::Vector; 4]) -> [f32; 4] {
        [self.sum(x[0]), self.sum(x[1]), self.sum(x[2]), self.sum(x[3])]
    }

    /// The transpose of 16 rows of 16 elements that are `pitch` apart.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements in each of the rows.
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, pitch: usize) -> [[f32; 16]; 16] {
        let mut to = [[0.0; 16]; 16];
        for (column, row) in (0..16).flat_map(|c| (0..16).map(move |r| (c, r))) {
            // SAFETY: the caller promises 16 elements in each row.
            to[column][row] = unsafe { *from.add(row * pitch + column) };
        }
        to
    }

    /// Starts bringing the cache line of `at` into the second cache, which has more room for lines
    /// under way than the first; any address will do.
    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        let _ = at;
    }

    /// Loads consecutive elements.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load(self, from: *const f32) -> Self::Vector;
    /// Stores consecutive elements.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` elements.
    unsafe fn store(self, to: *mut f32, x: Self::Vector);
    /// Loads and widens consecutive bf16.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load_bf16(self, from: *const bf16) -> Self::Vector;
    /// Loads and widens consecutive f16.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load_f16(self, from: *const f16) -> Self::Vector;
    /// Loads and widens consecutive bf16, the even ones into the first vector and the odd ones into
    /// the second: each is the high half of a word, so that nothing has to cross lanes.
    ///
    /// # Safety
    /// `from` must be readable for `2 * LANES` elements.
    unsafe fn load_bf16_pairs(self, from: *const bf16) -> [Self::Vector; 2];
}

/// Coefficients of a polynomial for 2^x on [-0.5, 0.5], lowest power first: interpolation at
/// Chebyshev nodes, relative error 1e-7.
pub(crate) const EXP2_POLYNOMIAL: [f32; 6] =
    [1.0000001, std::f32::consts::LN_2, 0.240_221_08, 0.055_503_57, 0.009_676_032, 0.001_339_086_3];

/// As [`EXP2_POLYNOMIAL`], on [0, 1): for machines that scale by a power of two rounded down.
#[cfg(target_arch = "x86_64")]
pub(crate) const EXP2_FROM_FLOOR: [f32; 6] =
    [0.999_999_94, 0.693_153_1, 0.240_153_61, 0.055_826_318, 0.008_989_341, 0.001_877_576_6];

/// Code to run on an instruction set.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// Runs on `simd`. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set of the CPU engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isa {
    /// Whatever the target has without asking.
    Portable,
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512, and AMX tiles for bf16.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// Every instruction set of this kind of machine, best first.
    pub const ALL: &[Isa] = &[
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Isa::Amx,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon,
        Isa::Portable,
    ];

    /// Whether this machine has it.
    pub fn is_detected(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::detect().is_some(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Isa::Amx => amx::Amx::detect().is_some(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::Neon::detect().is_some(),
        }
    }

    /// Every instruction set of this machine, best first.
    pub fn detected() -> Vec<Isa> {
        Self::ALL.iter().copied().filter(|isa| isa.is_detected()).collect()
    }

    /// The best instruction set of this machine.
    pub fn best() -> Isa {
        Self::ALL.iter().copied().find(|isa| isa.is_detected()).unwrap_or(Isa::Portable)
    }

    /// Elements of a vector of f32.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Isa::Portable => portable::Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::LANES,
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Isa::Amx => avx512::Avx512::LANES,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::Neon::LANES,
        }
    }

    /// Whether bf16 products run in tile registers.
    pub(crate) fn has_tiles(self) -> bool {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return self == Isa::Amx;
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        false
    }

    /// Runs `kernel`, or its portable form where this machine lacks the instruction set.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        match (self, avx512::Avx512::detect(), avx2::Avx2::detect()) {
            (Isa::Avx2, _, Some(simd)) => return simd.run(kernel),
            (Isa::Portable, ..) => {}
            (_, Some(simd), _) => return simd.run(kernel),
            _ => {}
        }
        #[cfg(target_arch = "aarch64")]
        if let (Isa::Neon, Some(simd)) = (self, neon::Neon::detect()) {
            return simd.run(kernel);
        }
        portable::Portable.run(kernel)
    }
}

/// An element type that vectors are loaded from.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    /// Whether this is f32, which needs no widening.
    const IS_F32: bool;
    /// Loads and widens consecutive elements.
    ///
    /// # Safety
    /// `from` must be readable for `S::LANES` elements.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::Vector;
    /// Loads and widens twice as many consecutive elements, in the order of [`Element::place`].
    ///
    /// # Safety
    /// `from` must be readable for `2 * S::LANES` elements.
    unsafe fn load_two<S: Simd>(simd: S, from: *const Self) -> [S::Vector; 2];
    /// Where [`Element::load_two`] puts element `at` of the `2 * lanes` that it loads.
    fn place(lanes: usize, at: usize) -> usize;
    /// Widens.
    fn to_f32(self) -> f32;
    /// Rounds to nearest even.
    fn from_f32(x: f32) -> Self;

    /// As [`Element::load_two`] for `count < 2 * LANES` elements; the other lanes are 0.
    ///
    /// # Safety
    /// `from` must be readable for `count` elements.
    #[inline(always)]
    unsafe fn load_part<S: Simd>(simd: S, from: *const Self, count: usize) -> [S::Vector; 2] {
        let mut lanes = [Self::default(); 32];
        debug_assert!(count < 2 * S::LANES && 2 * S::LANES <= lanes.len());
        // SAFETY: `count` elements are readable, and `lanes` has room for two vectors.
        unsafe {
            std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
            Self::load_two(simd, lanes.as_ptr())
        }
    }
}

macro_rules! element {
    ($element:ty, $is_f32:literal, $load:ident, $widen:expr, $round:expr, $two:expr, $place:expr) => {
        impl Element for $element {
            const IS_F32: bool = $is_f32;
            #[inline(always)]
            unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::Vector {
                // SAFETY: the caller's promise is the same.
                unsafe { simd.$load(from) }
            }
            #[inline(always)]
            unsafe fn load_two<S: Simd>(simd: S, from: *const Self) -> [S::Vector; 2] {
                // SAFETY: the caller's promise is the same.
                unsafe { $two(simd, from) }
            }
            #[inline(always)]
            fn place(lanes: usize, at: usize) -> usize {
                $place(lanes, at)
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $widen(self)
            }
            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                $round(x)
            }
        }
    };
}
element!(f32, true, load, |x| x, |x| x, two_loads, |_, at| at);
element!(f16, false, load_f16, f16::to_f32, f16::from_f32, two_loads, |_, at| at);
element!(bf16, false, load_bf16, widen_bf16, round_bf16, two_of_pairs, |lanes, at| {
    at % 2 * lanes + at / 2
});

/// # Safety
/// As [`Element::load_two`].
#[inline(always)]
unsafe fn two_loads<S: Simd, E: Element>(simd: S, from: *const E) -> [S::Vector; 2] {
    // SAFETY: the caller's promise is for both.
    unsafe { [E::load(simd, from), E::load(simd, from.add(S::LANES))] }
}

/// # Safety
/// As [`Element::load_two`].
#[inline(always)]
unsafe fn two_of_pairs<S: Simd>(simd: S, from: *const bf16) -> [S::Vector; 2] {
    // SAFETY: the caller's promise is the same.
    unsafe { simd.load_bf16_pairs(from) }
}

/// As `bf16::to_f32`, without its branch, so that loops become vectors.
#[inline(always)]
fn widen_bf16(x: bf16) -> f32 {
    f32::from_bits((x.to_bits() as u32) << 16)
}

/// As `bf16::from_f32`, without its branches.
#[inline(always)]
fn round_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    bf16::from_bits(if x.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
}

#[cfg(test)]
mod tests;
