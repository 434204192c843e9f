//! Random numbers of cuRAND: as many and as spread, but others than NVIDIA's generators give.

use super::number::Number;
use super::product::known;
use super::{library, queue};
use crate::driver::driver;
use crate::guard::give;
use crate::result::{CudaResult, Outcome};
use std::ffi::c_int;

/// A generator.
#[derive(Clone, Copy, Default)]
pub(crate) struct Generator {
    stream: usize,
    seed: u64,
    /// Numbers that it has given.
    given: u64,
}

/// A result as `curandStatus_t` numbers it.
fn status(result: CudaResult) -> u32 {
    match result {
        CudaResult::SUCCESS => 0,
        CudaResult::NOT_INITIALIZED | CudaResult::INVALID_HANDLE => 101,
        CudaResult::NOT_SUPPORTED => 103,
        CudaResult::INVALID_VALUE => 105,
        _ => 201,
    }
}

/// The number at a place of a generator's sequence (SplitMix64).
fn bits(seed: u64, place: u64) -> u64 {
    let mut x = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number above 0 and at most 1, as cuRAND's are. It has as many bits as an f32 holds, so that rounding keeps it so.
fn uniform(seed: u64, place: u64) -> f64 {
    ((bits(seed, place) >> 40) + 1) as f64 / (1u64 << 24) as f64
}

/// A number of the normal distribution, by Box and Muller: two places give two numbers.
fn normal(seed: u64, place: u64) -> f64 {
    let pair = place & !1;
    let radius = (-2. * uniform(seed, pair).ln()).sqrt();
    let angle = std::f64::consts::TAU * uniform(seed, pair + 1);
    radius * if place == pair { angle.cos() } else { angle.sin() }
}

/// Queues the next `count` numbers of a generator.
fn generate(
    handle: usize,
    (to, count, number): (u64, usize, Number),
    draw: impl Fn(u64, u64) -> f64 + Send + Sync + 'static,
) -> Outcome {
    let generator = {
        let mut state = driver()?.state();
        let generator = state.generators.get_mut(handle)?;
        let before = *generator;
        // Pairs of normal numbers are not torn.
        generator.given += (count as u64).next_multiple_of(2);
        before
    };
    queue(generator.stream, move |memory| {
        let mut bytes = Vec::new();
        for place in generator.given..generator.given + count as u64 {
            number.write(draw(generator.seed, place), &mut bytes);
        }
        known(memory, to, bytes.len() as u64)?;
        // SAFETY: the range is memory that the device knows.
        unsafe { memory.write(to, &bytes) }
    })
}

fn normals(handle: usize, out: (u64, usize, Number), mean: f64, deviation: f64) -> Outcome {
    // As cuRAND's: they come in pairs.
    if !out.1.is_multiple_of(2) {
        return Err(CudaResult::INVALID_VALUE);
    }
    generate(handle, out, move |seed, place| mean + deviation * normal(seed, place))
}

library! { status;
    /// Makes a generator; all pseudo-random kinds are one here.
    fn curandCreateGenerator(generator: *mut usize, kind: c_int) {
        if !(100..200).contains(&kind) {
            return Err(CudaResult::NOT_SUPPORTED);
        }
        crate::runtime::start()?;
        let made = driver()?.state().generators.add(Generator::default());
        // SAFETY: the program's pointer.
        unsafe { give(generator, made) }
    }

    /// Ends a generator.
    fn curandDestroyGenerator(generator: usize) {
        driver()?.state().generators.remove(generator).map(|_| ())
    }

    /// The stream of a generator's work.
    fn curandSetStream(generator: usize, stream: usize) {
        let mut state = driver()?.state();
        state.stream(stream)?;
        state.generators.get_mut(generator)?.stream = stream;
        Ok(())
    }

    /// Starts a generator's sequence anew.
    fn curandSetPseudoRandomGeneratorSeed(generator: usize, seed: u64) {
        let mut state = driver()?.state();
        let generator = state.generators.get_mut(generator)?;
        (generator.seed, generator.given) = (seed, 0);
        Ok(())
    }

    /// Where a generator's sequence goes on.
    fn curandSetGeneratorOffset(generator: usize, offset: u64) {
        driver()?.state().generators.get_mut(generator)?.given = offset;
        Ok(())
    }

    /// Numbers above 0 and at most 1.
    fn curandGenerateUniform(generator: usize, out: u64, count: usize) {
        generate(generator, (out, count, Number::F32), uniform)
    }

    /// Numbers above 0 and at most 1.
    fn curandGenerateUniformDouble(generator: usize, out: u64, count: usize) {
        generate(generator, (out, count, Number::F64), uniform)
    }

    /// Numbers of a normal distribution.
    fn curandGenerateNormal(generator: usize, out: u64, count: usize, mean: f32, deviation: f32) {
        normals(generator, (out, count, Number::F32), mean.into(), deviation.into())
    }

    /// Numbers of a normal distribution.
    fn curandGenerateNormalDouble(generator: usize, out: u64, count: usize, mean: f64, deviation: f64) {
        normals(generator, (out, count, Number::F64), mean, deviation)
    }
}
