//! Launches, with their configuration beside them or pushed before.

use super::error::{INVALID_CONFIGURATION, MISSING_CONFIGURATION};
use super::register::kernel;
use super::runtime;
use crate::api::launch::{LaunchAttribute, LaunchConfig, cuLaunchHostFunc, cuLaunchKernelEx};
use crate::guard::give;
use crate::result::{CudaResult, Outcome};
use std::cell::RefCell;
use std::ffi::{c_uint, c_void};

/// Extents, as the header has them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    /// Along x.
    pub x: c_uint,
    /// Along y.
    pub y: c_uint,
    /// Along z.
    pub z: c_uint,
}

impl Dim3 {
    fn extents(self) -> [c_uint; 3] {
        [self.x, self.y, self.z]
    }
}

/// The configuration of a launch, as the header has it.
#[repr(C)]
pub struct Config {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: usize,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

impl Config {
    fn new(grid: Dim3, block: Dim3, shared_bytes: usize, stream: usize) -> Config {
        Config { grid, block, shared_bytes, stream, attributes: std::ptr::null(), count: 0 }
    }

    /// The same for the driver, if a device can have such CTAs.
    pub fn of_driver(&self) -> Outcome<LaunchConfig> {
        let threads = self.block.extents().iter().map(|extent| u64::from(*extent)).product::<u64>();
        if !(1..=1024).contains(&threads) || self.grid.extents().contains(&0) {
            return Err(INVALID_CONFIGURATION);
        }
        Ok(LaunchConfig {
            grid: self.grid.extents(),
            block: self.block.extents(),
            shared_bytes: self.shared_bytes.try_into().map_err(|_| CudaResult::INVALID_VALUE)?,
            stream: self.stream,
            attributes: self.attributes,
            count: self.count,
        })
    }
}

/// # Safety
/// The attributes are there, and `arguments` points to a pointer for every parameter.
unsafe fn launch(config: &Config, symbol: *const c_void, arguments: *const *const u8) -> Outcome {
    let (kernel, config) = (kernel(symbol)?, config.of_driver()?);
    // SAFETY: the caller's contract.
    unsafe { cuLaunchKernelEx(&config, kernel, arguments, std::ptr::null()) }.outcome()
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Config>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what stands between `<<<` and `>>>` until the kernel's arguments are known.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: usize,
) -> c_uint {
    let config = Config::new(grid, block, shared_bytes, stream);
    let pushed = CONFIGURATIONS.try_with(|all| all.borrow_mut().push(config));
    c_uint::from(pushed.is_err())
}

runtime! {
    /// Gives back what was kept last.
    fn [__cudaPopCallConfiguration](
        grid: *mut Dim3, block: *mut Dim3, shared_bytes: *mut usize, stream: *mut usize,
    ) {
        let popped = CONFIGURATIONS.try_with(|all| all.borrow_mut().pop());
        let config = popped.ok().flatten().ok_or(MISSING_CONFIGURATION)?;
        // SAFETY: the compiler's pointers.
        unsafe {
            give(grid, config.grid)?;
            give(block, config.block)?;
            give(shared_bytes, config.shared_bytes)?;
            give(stream, config.stream)
        }
    }

    /// A handle for `__cudaLaunchKernel`. It is looked up there, where an error can be told.
    fn [__cudaGetKernel](handle: *mut *const c_void, symbol: *const c_void) {
        // SAFETY: the compiler's pointer.
        unsafe { give(handle, symbol) }
    }

    /// Launches a kernel.
    fn [cudaLaunchKernel, cudaLaunchKernel_ptsz, __cudaLaunchKernel, __cudaLaunchKernel_ptsz](
        symbol: *const c_void, grid: Dim3, block: Dim3, arguments: *const *const u8, shared_bytes: usize, stream: usize,
    ) {
        // SAFETY: the program's arguments.
        unsafe { launch(&Config::new(grid, block, shared_bytes, stream), symbol, arguments) }
    }

    /// Launches a kernel whose CTAs run at the same time.
    fn [cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz](
        symbol: *const c_void, grid: Dim3, block: Dim3, arguments: *const *const u8, shared_bytes: usize, stream: usize,
    ) {
        // SAFETY: the program's arguments.
        unsafe { launch(&Config::new(grid, block, shared_bytes, stream), symbol, arguments) }
    }

    /// Launches a kernel with attributes.
    fn [cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz](
        config: *const Config, symbol: *const c_void, arguments: *const *const u8,
    ) {
        // SAFETY: the program's configuration and arguments.
        unsafe { launch(config.as_ref().ok_or(CudaResult::INVALID_VALUE)?, symbol, arguments) }
    }

    /// Calls the program when the work before has ended.
    fn [cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz](
        stream: usize, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void,
    ) {
        // SAFETY: the program's function and its argument.
        unsafe { cuLaunchHostFunc(stream, function, data) }.outcome()
    }
}
