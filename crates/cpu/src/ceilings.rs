//! What this machine can do at most, measured on rayon's threads: attention can take no less than its
//! operations over the rate of multiply-adds, or its bytes over the rate of reading.

#[cfg(target_arch = "x86_64")]
use crate::Isa;
use rayon::prelude::*;
use std::time::Instant;

/// Runs `work` on every thread several times, and returns the amount per second of the best round.
fn rate(amount: f64, work: impl Fn(usize) + Sync) -> f64 {
    let threads = rayon::current_num_threads();
    let round = || {
        let start = Instant::now();
        (0..threads).into_par_iter().with_max_len(1).for_each(&work);
        amount * threads as f64 / start.elapsed().as_secs_f64()
    };
    (0..7).map(|_| round()).fold(0.0, f64::max)
}

/// Bytes per second at which all threads together read `bytes`, again and again.
pub fn read_rate(bytes: usize) -> f64 {
    let threads = rayon::current_num_threads();
    let memory: Vec<Vec<u64>> =
        (0..threads).map(|thread| vec![thread as u64 + 1; bytes / threads / 8]).collect();
    rate(bytes as f64 / threads as f64, |thread| {
        // Several streams, each fetched ahead: one alone waits for memory.
        let parts: Vec<&[u64]> = memory[thread].chunks(memory[thread].len().div_ceil(4)).collect();
        let mut sums = [0u64; 8];
        for at in (0..parts[parts.len() - 1].len() / 8 * 8).step_by(8) {
            for part in &parts {
                prefetch(part[at..].as_ptr().wrapping_byte_add(4096));
                sums.iter_mut().zip(&part[at..at + 8]).for_each(|(s, x)| *s = s.wrapping_add(*x));
            }
        }
        std::hint::black_box(sums);
    })
}

fn prefetch(at: *const u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: any address may be prefetched.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Multiply-adds of one call: 16 chains, enough to hide the latency.
    const CHAINS: usize = 16;
    pub const STEPS: usize = 4_000_000;

    #[target_feature(enable = "avx512f")]
    pub fn multiply_512() {
        let x = _mm512_set1_ps(std::hint::black_box(0.5));
        let mut sums = [x; CHAINS];
        for _ in 0..STEPS {
            sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(*sum, x, x));
        }
        std::hint::black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn multiply_256() {
        let x = _mm256_set1_ps(std::hint::black_box(0.5));
        let mut sums = [x; 12];
        for _ in 0..STEPS {
            sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_ps(*sum, x, x));
        }
        std::hint::black_box(sums);
    }

    /// Operations of [`multiply_512`] and [`multiply_256`].
    pub const OPERATIONS_512: f64 = (2 * 16 * CHAINS * STEPS) as f64;
    pub const OPERATIONS_256: f64 = (2 * 8 * 12 * STEPS) as f64;
}

/// Only Linux hands tile registers out.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles {
    use crate::simd::amx::{Amx, Tiles};
    use std::arch::asm;

    /// Products of tile registers, four sums from four operands.
    pub fn multiply_tiles(steps: usize) {
        let Some(amx) = Amx::detect() else { return };
        let _tiles = Tiles::configure(amx);
        // SAFETY: tiles are configured while `_tiles` lives.
        unsafe {
            asm!("tilezero tmm4", "tilezero tmm5", "tilezero tmm6", "tilezero tmm7");
            for _ in 0..steps {
                asm!(
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                );
            }
        }
    }
}

/// Operations per second of multiply-adds, by the kind of instruction, the fastest first.
#[cfg(target_arch = "x86_64")]
pub fn multiply_rates() -> Vec<(&'static str, f64)> {
    use x86::*;
    let found = Isa::detected();
    let mut rates = Vec::new();
    #[cfg(target_os = "linux")]
    if found.contains(&Isa::Amx) {
        let steps = 1_000_000;
        let operations = (steps * 4 * 2 * 16 * 16 * 32) as f64;
        rates.push(("bf16-tiles", rate(operations, |_| tiles::multiply_tiles(steps))));
    }
    if found.contains(&Isa::Avx512) {
        // SAFETY: the machine has AVX-512.
        rates.push(("f32-avx512", rate(OPERATIONS_512, |_| unsafe { multiply_512() })));
    }
    if found.contains(&Isa::Avx2) {
        // SAFETY: the machine has AVX2 and FMA.
        rates.push(("f32-avx2", rate(OPERATIONS_256, |_| unsafe { multiply_256() })));
    }
    if rates.is_empty() {
        rates.push(("f32-portable", portable_rate()));
    }
    rates
}

/// Operations per second of multiply-adds, by the kind of instruction, the fastest first.
#[cfg(not(target_arch = "x86_64"))]
pub fn multiply_rates() -> Vec<(&'static str, f64)> {
    vec![("f32-portable", portable_rate())]
}

/// Multiply-adds as the compiler makes them of plain code for this target.
fn portable_rate() -> f64 {
    const CHAINS: usize = 64;
    let steps = 1_000_000;
    rate((2 * CHAINS * steps) as f64, |_| {
        let x = std::hint::black_box(0.5f32);
        let mut sums = [x; CHAINS];
        for _ in 0..steps {
            sums.iter_mut().for_each(|sum| *sum = *sum * x + x);
        }
        std::hint::black_box(sums);
    })
}
