//! Which functions the driver's library must have. One that lacks a function (a stub, a broken
//! installation) is found out before it is called: the call would panic.

#[cfg(not(feature = "linked-driver"))]
use cudarc::driver::sys;

/// What it takes to ask a driver for its version and its devices.
pub(crate) const FIRST: &[&str] =
    &["cuDeviceGetCount", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuInit"];

/// Everything else that is called.
pub(crate) const FURTHER: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernelEx",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeTiled",
    "cuTensorMapReplaceAddress",
];

/// Whether the driver's library is there.
#[cfg(not(feature = "linked-driver"))]
pub(crate) fn is_present() -> bool {
    // SAFETY: loading libcuda runs its initialisers, which have no preconditions.
    unsafe { sys::is_culib_present() }
}

/// The first of `names` that the library, which must be present, does not have.
#[cfg(not(feature = "linked-driver"))]
pub(crate) fn missing(names: &[&'static str]) -> Option<&'static str> {
    // SAFETY: loading libcuda runs its initialisers, which have no preconditions.
    let library = unsafe { sys::culib() };
    // SAFETY: the address is looked up and not used.
    let has = |name: &str| unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok();
    names.iter().find(|name| !has(name)).copied()
}

/// A program that has the library linked would not have started without it.
#[cfg(feature = "linked-driver")]
pub(crate) fn is_present() -> bool {
    true
}

/// Nor would it have started without a function that it calls.
#[cfg(feature = "linked-driver")]
pub(crate) fn missing(_: &[&'static str]) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions that a source file of `driver/` calls.
    fn called(source: &str) -> Vec<String> {
        let calls = source.split("sys::cu").skip(1);
        let names = calls.map(|call| {
            call.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
        });
        names.filter(|name| name != "lib").map(|name| format!("cu{name}")).collect()
    }

    #[test]
    fn every_function_that_is_called_is_listed() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/driver");
        let sources = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<String> =
            sources.flat_map(|path| called(&std::fs::read_to_string(path).unwrap())).collect();
        all.retain(|name| name != "cu");
        all.sort();
        all.dedup();
        let mut listed = [FIRST, FURTHER].concat();
        listed.sort();
        assert_eq!(all, listed);
    }
}
