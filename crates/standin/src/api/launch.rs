//! Launches: arguments are taken out of the program's memory, then the launch is queued.

use super::context::ensure_current;
use crate::driver::{Submitted, driver};
use crate::guard::driver;
use crate::job::{HostCall, Job, KernelLaunch};
use crate::module::most_threads;
use crate::result::{CudaResult, Outcome};
pub use launches::{LaunchAttribute, LaunchConfig};
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// Threads of a CTA and its dynamic shared memory.
pub fn cta(config: &LaunchConfig) -> (u32, u64) {
    let threads = config.block.iter().fold(1u32, |product, extent| product.saturating_mul(*extent));
    (threads, config.shared_bytes.into())
}

/// Queues a launch.
///
/// # Safety
/// As for [`launches::arguments`], and the configuration's attributes are there.
unsafe fn launch(
    config: &LaunchConfig,
    function: usize,
    params: *const *const u8,
    extra: *const *const c_void,
) -> Outcome {
    ensure_current()?;
    let driver = driver()?;
    let state = driver.state();
    let (known, module) = state.function(function)?;
    let kernel = module.kernel(&known.name).ok_or(CudaResult::INVALID_HANDLE)?;
    let (threads, shared) = cta(config);
    if config.grid.contains(&0) || config.block.contains(&0) || threads > most_threads(kernel) {
        return Err(CudaResult::INVALID_VALUE);
    }
    if shared > u64::from(known.dynamic_shared) {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: the caller's contract.
    let (params, cluster) =
        unsafe { (launches::arguments(kernel, params, extra), config.cluster()) };
    let params = params.ok_or(CudaResult::INVALID_VALUE)?;
    let job = KernelLaunch {
        module: module.clone(),
        kernel: known.name.clone(),
        grid: config.grid,
        block: config.block,
        cluster: cluster.unwrap_or_else(|| launches::required_cluster(kernel)),
        shared_bytes: config.shared_bytes,
        params,
    };
    // The program may look at registered memory as soon as the call returns.
    let waits = state.memory.has_registered();
    drop(state);
    match driver.submit(config.stream, Job::Launch(Arc::new(job)))? {
        Submitted::Queued(number) if waits => driver.queue.wait_for(number),
        _ => Ok(()),
    }
}

driver! {
    /// Launches a kernel.
    fn [cuLaunchKernel, cuLaunchKernel_ptsz](
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, params: *const *const u8,
        extra: *const *const c_void,
    ) {
        let config = LaunchConfig::plain([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes, stream);
        // SAFETY: the program's arguments.
        unsafe { launch(&config, function, params, extra) }
    }

    /// Launches a kernel whose CTAs run at the same time.
    fn [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz](
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, params: *const *const u8,
    ) {
        let config = LaunchConfig::plain([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes, stream);
        // SAFETY: the program's arguments.
        unsafe { launch(&config, function, params, std::ptr::null()) }
    }

    /// Launches a kernel with attributes: clusters count, the others change no result.
    fn [cuLaunchKernelEx, cuLaunchKernelEx_ptsz](
        config: *const LaunchConfig, function: usize, params: *const *const u8, extra: *const *const c_void,
    ) {
        // SAFETY: the program's configuration and arguments.
        unsafe {
            let config = config.as_ref().ok_or(CudaResult::INVALID_VALUE)?;
            launch(config, function, params, extra)
        }
    }

    /// Calls the program when the work before has ended.
    fn [cuLaunchHostFunc, cuLaunchHostFunc_ptsz](
        stream: usize, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void,
    ) {
        let function = function.ok_or(CudaResult::INVALID_VALUE)?;
        driver()?.submit(stream, Job::Call(HostCall { function, data })).map(|_| ())
    }
}
