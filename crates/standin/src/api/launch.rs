//! Launches: arguments are taken out of the program's memory, then the launch is queued.

use super::context::ensure_current;
use crate::driver::{Submitted, driver};
use crate::guard::driver;
use crate::job::{HostCall, Job, KernelLaunch};
use crate::module::most_threads;
use crate::result::{CudaResult, Outcome};
use program::check::variable_bytes;
use ptx::ast::{Function, Variable};
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// The configuration of a launch, as the header has it.
#[repr(C)]
pub struct LaunchConfig {
    /// CTAs.
    pub grid: [c_uint; 3],
    /// Threads.
    pub block: [c_uint; 3],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: usize,
    /// Attributes, `count` of them.
    pub attributes: *const LaunchAttribute,
    /// How many attributes there are.
    pub count: c_uint,
}

/// An attribute of a launch, as the header has it.
#[repr(C)]
pub struct LaunchAttribute {
    id: c_uint,
    pad: [u8; 4],
    value: [u32; 16],
}

/// Dimensions of clusters among the attributes.
const CLUSTER: c_uint = 4;

impl LaunchConfig {
    /// The cluster that the attributes ask for.
    ///
    /// # Safety
    /// There are `count` attributes.
    pub unsafe fn cluster(&self) -> Option<[u32; 3]> {
        if self.attributes.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for their number.
        let attributes =
            unsafe { std::slice::from_raw_parts(self.attributes, self.count as usize) };
        let cluster = attributes.iter().find(|attribute| attribute.id == CLUSTER)?;
        Some([cluster.value[0], cluster.value[1], cluster.value[2]])
    }

    /// Threads of a CTA and its dynamic shared memory.
    pub fn cta(&self) -> (u32, u64) {
        let threads =
            self.block.iter().fold(1u32, |product, extent| product.saturating_mul(*extent));
        (threads, self.shared_bytes.into())
    }
}

/// Where parameters lie when they are passed as one piece of memory.
pub fn places(params: &[Variable]) -> Vec<usize> {
    let mut end = 0;
    let place = |param: &Variable| {
        let align = param.align.unwrap_or(param.ty.bits().div_ceil(8)).max(1) as usize;
        let start = usize::next_multiple_of(end, align);
        end = start + variable_bytes(param) as usize;
        start
    };
    params.iter().map(place).collect()
}

/// The bytes of all arguments.
///
/// # Safety
/// `params` points to as many pointers as the kernel has parameters, or `extra` is a list as the manual describes.
unsafe fn arguments(
    kernel: &Function,
    params: *const *const u8,
    extra: *const *const c_void,
) -> Outcome<Vec<Vec<u8>>> {
    let sizes = kernel.params.iter().map(|param| variable_bytes(param) as usize);
    if kernel.params.is_empty() {
        return Ok(Vec::new());
    }
    if !params.is_null() {
        // SAFETY: one pointer for each parameter, to as many bytes as that has.
        let argument = |(i, bytes): (usize, usize)| unsafe {
            let argument = *params.add(i);
            match argument.is_null() {
                true => Err(CudaResult::INVALID_VALUE),
                false => Ok(std::slice::from_raw_parts(argument, bytes).to_vec()),
            }
        };
        return sizes.enumerate().map(argument).collect();
    }
    // SAFETY: the caller's contract.
    let all = unsafe { packed(extra)? };
    let places = places(&kernel.params);
    let argument =
        |(place, bytes): (usize, usize)| all.get(place..place + bytes).map(<[u8]>::to_vec);
    let arguments: Option<Vec<_>> = places.into_iter().zip(sizes).map(argument).collect();
    arguments.ok_or(CudaResult::INVALID_VALUE)
}

/// The one piece of memory that `extra` names: pairs of a key and a value, until key 0.
///
/// # Safety
/// As the manual describes it.
unsafe fn packed<'a>(extra: *const *const c_void) -> Outcome<&'a [u8]> {
    let (mut pointer, mut bytes) = (std::ptr::null::<u8>(), 0);
    let mut at = extra;
    if at.is_null() {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: the list ends with key 0, and a size is the address of a number.
    unsafe {
        loop {
            match (*at).addr() {
                0 => break,
                1 => pointer = (*at.add(1)).cast(),
                2 => bytes = *(*at.add(1)).cast::<usize>(),
                _ => return Err(CudaResult::INVALID_VALUE),
            }
            at = at.add(2);
        }
        match pointer.is_null() {
            true => Err(CudaResult::INVALID_VALUE),
            false => Ok(std::slice::from_raw_parts(pointer, bytes)),
        }
    }
}

/// The cluster that the kernel itself demands, or one CTA.
fn required_cluster(kernel: &Function) -> [u32; 3] {
    let directive = kernel.directives.iter().find(|d| d.name == "reqnctapercluster");
    let value = |i: usize| directive.and_then(|d| d.values.get(i)).map_or(1, |n| *n as u32);
    std::array::from_fn(value)
}

/// Queues a launch.
///
/// # Safety
/// As for [`arguments`], and the configuration's attributes are there.
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
    let (threads, shared) = config.cta();
    if config.grid.contains(&0) || config.block.contains(&0) || threads > most_threads(kernel) {
        return Err(CudaResult::INVALID_VALUE);
    }
    if shared > u64::from(known.dynamic_shared) {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: the caller's contract.
    let (params, cluster) = unsafe { (arguments(kernel, params, extra)?, config.cluster()) };
    let job = KernelLaunch {
        module: module.clone(),
        kernel: known.name.clone(),
        grid: config.grid,
        block: config.block,
        cluster: cluster.unwrap_or_else(|| required_cluster(kernel)),
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
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            attributes: std::ptr::null(),
            count: 0,
        };
        // SAFETY: the program's arguments.
        unsafe { launch(&config, function, params, extra) }
    }

    /// Launches a kernel whose CTAs run at the same time.
    fn [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz](
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, params: *const *const u8,
    ) {
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            attributes: std::ptr::null(),
            count: 0,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_lie_on_their_alignment() {
        let text = ".version 8.7 .target sm_90a .address_size 64
            .entry f(.param .u32 a, .param .u64 b, .param .u8 c, .param .align 64 .b8 d[128]) { ret; }";
        let module = ptx::parse(text).unwrap();
        let kernel = module.entry("f").unwrap();
        assert_eq!(places(&kernel.params), [0, 8, 16, 64]);
        let all: Vec<u8> = (0..192u8).collect();
        let (bytes, size) = (all.as_ptr().cast::<c_void>(), all.len());
        let key = |n: usize| std::ptr::without_provenance::<c_void>(n);
        let extra = [key(1), bytes, key(2), (&raw const size).cast(), key(0)];
        // SAFETY: the list is as the manual describes it.
        let arguments = unsafe { arguments(kernel, std::ptr::null(), extra.as_ptr()).unwrap() };
        assert_eq!(arguments[1], (8..16).collect::<Vec<u8>>());
        assert_eq!(arguments[2], [16]);
        assert_eq!(arguments[3][0], 64);
    }
}
