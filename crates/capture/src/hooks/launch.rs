//! Launches.

use super::interpose;
use crate::capture::{Passed, launch};
use crate::state::noted;
use launches::LaunchConfig;
use std::ffi::{c_uint, c_void};

interpose! {
    /// Launches a kernel.
    fn [cuLaunchKernel, cuLaunchKernel_ptsz](
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, params: *const *const u8,
        extra: *const *const c_void
    ) |call| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let config = LaunchConfig::plain(grid, block, shared_bytes, stream);
        // SAFETY: the program's arguments.
        unsafe { launch(&config, function, Passed { params, extra }, call) }
    }

    /// Launches a kernel whose CTAs run at the same time.
    fn [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz](
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, params: *const *const u8
    ) |call| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let config = LaunchConfig::plain(grid, block, shared_bytes, stream);
        // SAFETY: the program's arguments.
        unsafe { launch(&config, function, Passed { params, extra: std::ptr::null() }, call) }
    }

    /// Launches a kernel with attributes.
    fn [cuLaunchKernelEx, cuLaunchKernelEx_ptsz](
        config: *const LaunchConfig, function: usize, params: *const *const u8,
        extra: *const *const c_void
    ) |call| {
        // SAFETY: the program's configuration and arguments.
        unsafe {
            match config.as_ref() {
                Some(config) => launch(config, function, Passed { params, extra }, call),
                None => call(),
            }
        }
    }

    /// Launches a graph, whose kernels are not written.
    fn [cuGraphLaunch, cuGraphLaunch_ptsz](graph: usize, stream: usize) |call| {
        noted(call, |state| {
            let text = "kernels of CUDA graphs are not captured: run the program without graphs";
            state.record.tell(state.counter.launches, text.into());
        })
    }
}
