//! How many CTAs and clusters fit.

use super::launch::LaunchConfig;
use crate::device::{
    RESERVED_SHARED, SHARED_OF_PROCESSOR, ctas_per_processor, processors, shared_of_cta,
};
use crate::driver::driver;
use crate::guard::{driver, give};
use crate::module::{most_threads, registers};
use crate::result::{CudaResult, Outcome};
use program::check::static_shared_bytes;
use std::ffi::{c_int, c_uint};

/// What a kernel takes: threads at most, registers, static shared memory.
fn needs(function: usize) -> Outcome<(u32, u32, u64)> {
    let state = driver()?.state();
    let (known, module) = state.function(function)?;
    let kernel = module.kernel(&known.name).ok_or(CudaResult::NOT_FOUND)?;
    Ok((most_threads(kernel), registers(kernel), static_shared_bytes(&module.ptx, kernel)))
}

/// CTAs of a processor.
fn ctas(function: usize, threads: u32, dynamic: u64) -> Outcome<u32> {
    let (most, registers, fixed) = needs(function)?;
    if threads == 0 || threads > most || dynamic + fixed > u64::from(shared_of_cta()) {
        return Ok(0);
    }
    Ok(ctas_per_processor(threads, dynamic + fixed, registers))
}

/// Dynamic shared memory of a CTA by its number of threads.
type SharedOf = unsafe extern "C" fn(c_int) -> usize;

/// The number of threads with which most of them fit, and the CTAs that fill the device then.
fn best(
    function: usize,
    shared_of: Option<SharedOf>,
    shared: usize,
    limit: c_int,
) -> Outcome<(u32, u32)> {
    let (most, ..) = needs(function)?;
    let most = if limit > 0 { most.min(limit as u32) } else { most };
    let mut best = (0, 0);
    for threads in (1..=most.div_ceil(32)).rev().map(|warps| (32 * warps).min(most)) {
        // SAFETY: the program passed a function that takes a number of threads.
        let shared = shared_of.map_or(shared, |shared_of| unsafe { shared_of(threads as c_int) });
        let fit = ctas(function, threads, shared as u64)?;
        if fit * threads > best.0 * best.1 {
            best = (fit, threads);
        }
    }
    Ok((best.0 * processors(), best.1))
}

driver! {
    /// CTAs of a processor.
    fn [cuOccupancyMaxActiveBlocksPerMultiprocessor](count: *mut c_int, function: usize, threads: c_int, shared: usize) {
        // SAFETY: the program's pointer.
        unsafe { give(count, ctas(function, threads.max(0) as u32, shared as u64)? as c_int) }
    }

    /// CTAs of a processor.
    fn [cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags](
        count: *mut c_int, function: usize, threads: c_int, shared: usize, flags: c_uint,
    ) {
        let _ = flags;
        // SAFETY: the program's pointer.
        unsafe { give(count, ctas(function, threads.max(0) as u32, shared as u64)? as c_int) }
    }

    /// The number of threads that fills the device best.
    fn [cuOccupancyMaxPotentialBlockSize](
        grid: *mut c_int, block: *mut c_int, function: usize, shared_of: Option<SharedOf>, shared: usize,
        limit: c_int,
    ) {
        let (ctas, threads) = best(function, shared_of, shared, limit)?;
        // SAFETY: the program's pointers.
        unsafe {
            give(grid, ctas as c_int)?;
            give(block, threads as c_int)
        }
    }

    /// The number of threads that fills the device best.
    fn [cuOccupancyMaxPotentialBlockSizeWithFlags](
        grid: *mut c_int, block: *mut c_int, function: usize, shared_of: Option<SharedOf>, shared: usize,
        limit: c_int, flags: c_uint,
    ) {
        let _ = flags;
        let (ctas, threads) = best(function, shared_of, shared, limit)?;
        // SAFETY: the program's pointers.
        unsafe {
            give(grid, ctas as c_int)?;
            give(block, threads as c_int)
        }
    }

    /// Dynamic shared memory with which this many CTAs fit a processor.
    fn [cuOccupancyAvailableDynamicSMemPerBlock](bytes: *mut usize, function: usize, count: c_int, threads: c_int) {
        let (_, _, fixed) = needs(function)?;
        let _ = threads;
        if count < 1 {
            return Err(CudaResult::INVALID_VALUE);
        }
        let each = u64::from(SHARED_OF_PROCESSOR / count as u32).saturating_sub(RESERVED_SHARED.into());
        let each = each.min(shared_of_cta().into()).saturating_sub(fixed);
        // SAFETY: the program's pointer.
        unsafe { give(bytes, each as usize) }
    }

    /// Clusters of a launch that fit the device.
    fn [cuOccupancyMaxActiveClusters](count: *mut c_int, function: usize, config: *const LaunchConfig) {
        // SAFETY: the program's configuration.
        let (config, cluster) = unsafe {
            let config = config.as_ref().ok_or(CudaResult::INVALID_VALUE)?;
            (config, config.cluster().unwrap_or([1; 3]))
        };
        let size: u32 = cluster.iter().product();
        let (threads, shared) = super::launch::cta(config);
        let all = ctas(function, threads, shared)? * processors();
        // SAFETY: the program's pointer.
        unsafe { give(count, all.checked_div(size).unwrap_or(0) as c_int) }
    }

    /// The largest cluster that every device of the architecture has.
    fn [cuOccupancyMaxPotentialClusterSize](size: *mut c_int, function: usize, config: *const LaunchConfig) {
        let _ = config;
        needs(function)?;
        // SAFETY: the program's pointer.
        unsafe { give(size, 8) }
    }
}
