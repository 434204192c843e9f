//! How many CTAs and clusters fit.

use super::launch::Config;
use super::register::kernel;
use super::runtime;
use crate::api::occupancy as cu;
use crate::result::CudaResult;
use std::ffi::{c_int, c_uint, c_void};

runtime! {
    /// CTAs of a processor.
    fn [cudaOccupancyMaxActiveBlocksPerMultiprocessor](
        count: *mut c_int, symbol: *const c_void, threads: c_int, shared: usize,
    ) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel(symbol)?, threads, shared) }.outcome()
    }

    /// CTAs of a processor; flags mean nothing here.
    fn [cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags](
        count: *mut c_int, symbol: *const c_void, threads: c_int, shared: usize, flags: c_uint,
    ) {
        let _ = flags;
        // SAFETY: the program's pointer.
        unsafe { cu::cuOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel(symbol)?, threads, shared) }.outcome()
    }

    /// Dynamic shared memory with which this many CTAs fit a processor.
    fn [cudaOccupancyAvailableDynamicSMemPerBlock](
        bytes: *mut usize, symbol: *const c_void, count: c_int, threads: c_int,
    ) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel(symbol)?, count, threads) }.outcome()
    }

    /// Clusters of a launch that fit the device.
    fn [cudaOccupancyMaxActiveClusters](count: *mut c_int, symbol: *const c_void, config: *const Config) {
        // SAFETY: the program's configuration and pointer.
        unsafe {
            let config = config.as_ref().ok_or(CudaResult::INVALID_VALUE)?.of_driver()?;
            cu::cuOccupancyMaxActiveClusters(count, kernel(symbol)?, &config).outcome()
        }
    }

    /// The largest cluster that every device of the architecture has.
    fn [cudaOccupancyMaxPotentialClusterSize](size: *mut c_int, symbol: *const c_void, config: *const Config) {
        // SAFETY: the program's configuration and pointer.
        unsafe {
            let config = config.as_ref().ok_or(CudaResult::INVALID_VALUE)?.of_driver()?;
            cu::cuOccupancyMaxPotentialClusterSize(size, kernel(symbol)?, &config).outcome()
        }
    }
}
