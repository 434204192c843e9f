//! Functions by name and version.

use super::{
    context, device, event, function, graph, info, launch, library, link, memory, module,
    occupancy, pointer, stream, tensor_map, text,
};
use crate::guard::{driver, give, give_if_wanted};
use crate::result::CudaResult;
use std::ffi::{c_char, c_int, c_void};

/// A function, since the version of the API that has it in this form.
struct Entry {
    name: &'static str,
    since: c_int,
    address: *const c_void,
}

macro_rules! entries {
    ($($name:literal $since:literal $module:ident::$function:ident;)*) => {
        vec![$(Entry { name: $name, since: $since, address: $module::$function as *const c_void },)*]
    };
}

/// Every function under the name that programs ask for, in the order of names and versions.
fn entries() -> Vec<Entry> {
    use super::proc_address;
    entries! {
        "cuCtxCreate" 2000 context::cuCtxCreate_v2;
        "cuCtxCreate" 13000 context::cuCtxCreate_v4;
        "cuCtxDestroy" 4000 context::cuCtxDestroy_v2;
        "cuCtxGetApiVersion" 2000 context::cuCtxGetApiVersion;
        "cuCtxGetCacheConfig" 2000 context::cuCtxGetCacheConfig;
        "cuCtxGetCurrent" 2000 context::cuCtxGetCurrent;
        "cuCtxGetDevice" 2000 context::cuCtxGetDevice;
        "cuCtxGetDevice" 13000 context::cuCtxGetDevice_v2;
        "cuCtxGetFlags" 2000 context::cuCtxGetFlags;
        "cuCtxGetLimit" 2000 context::cuCtxGetLimit;
        "cuCtxGetStreamPriorityRange" 2000 context::cuCtxGetStreamPriorityRange;
        "cuCtxPopCurrent" 4000 context::cuCtxPopCurrent_v2;
        "cuCtxPushCurrent" 4000 context::cuCtxPushCurrent_v2;
        "cuCtxSetCacheConfig" 2000 context::cuCtxSetCacheConfig;
        "cuCtxSetCurrent" 2000 context::cuCtxSetCurrent;
        "cuCtxSetFlags" 2000 context::cuCtxSetFlags;
        "cuCtxSetLimit" 2000 context::cuCtxSetLimit;
        "cuCtxSynchronize" 2000 context::cuCtxSynchronize;
        "cuCtxSynchronize" 13000 context::cuCtxSynchronize_v2;
        "cuDeviceCanAccessPeer" 2000 device::cuDeviceCanAccessPeer;
        "cuDeviceComputeCapability" 2000 device::cuDeviceComputeCapability;
        "cuDeviceGet" 2000 device::cuDeviceGet;
        "cuDeviceGetAttribute" 2000 device::cuDeviceGetAttribute;
        "cuDeviceGetCount" 2000 device::cuDeviceGetCount;
        "cuDeviceGetName" 2000 device::cuDeviceGetName;
        "cuDeviceGetPCIBusId" 2000 device::cuDeviceGetPCIBusId;
        "cuDeviceGetUuid" 9020 device::cuDeviceGetUuid_v2;
        "cuDevicePrimaryCtxGetState" 2000 context::cuDevicePrimaryCtxGetState;
        "cuDevicePrimaryCtxRelease" 7000 context::cuDevicePrimaryCtxRelease_v2;
        "cuDevicePrimaryCtxReset" 7000 context::cuDevicePrimaryCtxReset_v2;
        "cuDevicePrimaryCtxRetain" 2000 context::cuDevicePrimaryCtxRetain;
        "cuDevicePrimaryCtxSetFlags" 7000 context::cuDevicePrimaryCtxSetFlags_v2;
        "cuDeviceTotalMem" 2000 device::cuDeviceTotalMem_v2;
        "cuDriverGetVersion" 2000 info::cuDriverGetVersion;
        "cuEventCreate" 2000 event::cuEventCreate;
        "cuEventDestroy" 4000 event::cuEventDestroy_v2;
        "cuEventElapsedTime" 2000 event::cuEventElapsedTime_v2;
        "cuEventQuery" 2000 event::cuEventQuery;
        "cuEventRecord" 2000 event::cuEventRecord;
        "cuEventRecordWithFlags" 2000 event::cuEventRecordWithFlags;
        "cuEventSynchronize" 2000 event::cuEventSynchronize;
        "cuFuncGetAttribute" 2000 function::cuFuncGetAttribute;
        "cuFuncGetModule" 2000 function::cuFuncGetModule;
        "cuFuncGetName" 2000 function::cuFuncGetName;
        "cuFuncGetParamInfo" 2000 function::cuFuncGetParamInfo;
        "cuFuncLoad" 2000 function::cuFuncLoad;
        "cuFuncSetAttribute" 2000 function::cuFuncSetAttribute;
        "cuFuncSetCacheConfig" 2000 function::cuFuncSetCacheConfig;
        "cuFuncSetSharedMemConfig" 2000 function::cuFuncSetSharedMemConfig;
        "cuGetErrorName" 2000 info::cuGetErrorName;
        "cuGetErrorString" 2000 info::cuGetErrorString;
        "cuGetExportTable" 2000 info::cuGetExportTable;
        "cuGetProcAddress" 11030 proc_address::cuGetProcAddress;
        "cuGetProcAddress" 12000 proc_address::cuGetProcAddress_v2;
        "cuGraphCreate" 2000 graph::cuGraphCreate;
        "cuGraphDestroy" 2000 graph::cuGraphDestroy;
        "cuGraphExecDestroy" 2000 graph::cuGraphExecDestroy;
        "cuGraphGetNodes" 2000 graph::cuGraphGetNodes;
        "cuGraphInstantiate" 10000 graph::cuGraphInstantiate_v2;
        "cuGraphInstantiate" 12000 graph::cuGraphInstantiate;
        "cuGraphInstantiateWithFlags" 11040 graph::cuGraphInstantiateWithFlags;
        "cuGraphLaunch" 2000 graph::cuGraphLaunch;
        "cuGraphUpload" 2000 graph::cuGraphUpload;
        "cuInit" 2000 info::cuInit;
        "cuKernelGetAttribute" 2000 library::cuKernelGetAttribute;
        "cuKernelGetFunction" 2000 library::cuKernelGetFunction;
        "cuKernelSetAttribute" 2000 library::cuKernelSetAttribute;
        "cuLaunchCooperativeKernel" 2000 launch::cuLaunchCooperativeKernel;
        "cuLaunchHostFunc" 2000 launch::cuLaunchHostFunc;
        "cuLaunchKernel" 2000 launch::cuLaunchKernel;
        "cuLaunchKernelEx" 2000 launch::cuLaunchKernelEx;
        "cuLibraryGetGlobal" 2000 library::cuLibraryGetGlobal;
        "cuLibraryGetKernel" 2000 library::cuLibraryGetKernel;
        "cuLibraryGetModule" 2000 library::cuLibraryGetModule;
        "cuLibraryLoadData" 2000 library::cuLibraryLoadData;
        "cuLibraryUnload" 2000 library::cuLibraryUnload;
        "cuLinkAddData" 5050 link::cuLinkAddData_v2;
        "cuLinkAddFile" 5050 link::cuLinkAddFile_v2;
        "cuLinkComplete" 2000 link::cuLinkComplete;
        "cuLinkCreate" 5050 link::cuLinkCreate_v2;
        "cuLinkDestroy" 2000 link::cuLinkDestroy;
        "cuMemAdvise" 2000 memory::cuMemAdvise;
        "cuMemAlloc" 2000 memory::cuMemAlloc_v2;
        "cuMemAllocAsync" 2000 memory::cuMemAllocAsync;
        "cuMemAllocHost" 2000 memory::cuMemAllocHost_v2;
        "cuMemAllocManaged" 2000 memory::cuMemAllocManaged;
        "cuMemAllocPitch" 2000 memory::cuMemAllocPitch_v2;
        "cuMemFree" 2000 memory::cuMemFree_v2;
        "cuMemFreeAsync" 2000 memory::cuMemFreeAsync;
        "cuMemFreeHost" 2000 memory::cuMemFreeHost;
        "cuMemGetAddressRange" 2000 memory::cuMemGetAddressRange_v2;
        "cuMemGetInfo" 2000 memory::cuMemGetInfo_v2;
        "cuMemHostAlloc" 2000 memory::cuMemHostAlloc;
        "cuMemHostGetDevicePointer" 2000 memory::cuMemHostGetDevicePointer_v2;
        "cuMemHostRegister" 4000 memory::cuMemHostRegister_v2;
        "cuMemHostUnregister" 2000 memory::cuMemHostUnregister;
        "cuMemPrefetchAsync" 2000 memory::cuMemPrefetchAsync;
        "cuMemcpy" 2000 memory::cuMemcpy;
        "cuMemcpy2D" 2000 memory::cuMemcpy2D_v2;
        "cuMemcpy2DAsync" 2000 memory::cuMemcpy2DAsync_v2;
        "cuMemcpy2DUnaligned" 2000 memory::cuMemcpy2DUnaligned_v2;
        "cuMemcpyAsync" 2000 memory::cuMemcpyAsync;
        "cuMemcpyDtoD" 2000 memory::cuMemcpyDtoD_v2;
        "cuMemcpyDtoDAsync" 2000 memory::cuMemcpyDtoDAsync_v2;
        "cuMemcpyDtoH" 2000 memory::cuMemcpyDtoH_v2;
        "cuMemcpyDtoHAsync" 2000 memory::cuMemcpyDtoHAsync_v2;
        "cuMemcpyHtoD" 2000 memory::cuMemcpyHtoD_v2;
        "cuMemcpyHtoDAsync" 2000 memory::cuMemcpyHtoDAsync_v2;
        "cuMemcpyPeerAsync" 2000 memory::cuMemcpyPeerAsync;
        "cuMemsetD16" 2000 memory::cuMemsetD16_v2;
        "cuMemsetD16Async" 2000 memory::cuMemsetD16Async;
        "cuMemsetD2D32" 2000 memory::cuMemsetD2D32_v2;
        "cuMemsetD2D8" 2000 memory::cuMemsetD2D8_v2;
        "cuMemsetD32" 2000 memory::cuMemsetD32_v2;
        "cuMemsetD32Async" 2000 memory::cuMemsetD32Async;
        "cuMemsetD8" 2000 memory::cuMemsetD8_v2;
        "cuMemsetD8Async" 2000 memory::cuMemsetD8Async;
        "cuModuleGetFunction" 2000 module::cuModuleGetFunction;
        "cuModuleGetFunctionCount" 2000 module::cuModuleGetFunctionCount;
        "cuModuleGetGlobal" 2000 module::cuModuleGetGlobal_v2;
        "cuModuleGetLoadingMode" 2000 info::cuModuleGetLoadingMode;
        "cuModuleLoad" 2000 module::cuModuleLoad;
        "cuModuleLoadData" 2000 module::cuModuleLoadData;
        "cuModuleLoadDataEx" 2000 module::cuModuleLoadDataEx;
        "cuModuleLoadFatBinary" 2000 module::cuModuleLoadFatBinary;
        "cuModuleUnload" 2000 module::cuModuleUnload;
        "cuOccupancyAvailableDynamicSMemPerBlock" 2000 occupancy::cuOccupancyAvailableDynamicSMemPerBlock;
        "cuOccupancyMaxActiveBlocksPerMultiprocessor" 2000 occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessor;
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" 2000 occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
        "cuOccupancyMaxActiveClusters" 2000 occupancy::cuOccupancyMaxActiveClusters;
        "cuOccupancyMaxPotentialBlockSize" 2000 occupancy::cuOccupancyMaxPotentialBlockSize;
        "cuOccupancyMaxPotentialBlockSizeWithFlags" 2000 occupancy::cuOccupancyMaxPotentialBlockSizeWithFlags;
        "cuOccupancyMaxPotentialClusterSize" 2000 occupancy::cuOccupancyMaxPotentialClusterSize;
        "cuPointerGetAttribute" 2000 pointer::cuPointerGetAttribute;
        "cuPointerGetAttributes" 2000 pointer::cuPointerGetAttributes;
        "cuPointerSetAttribute" 2000 pointer::cuPointerSetAttribute;
        "cuProfilerStart" 2000 info::cuProfilerStart;
        "cuProfilerStop" 2000 info::cuProfilerStop;
        "cuStreamAddCallback" 2000 stream::cuStreamAddCallback;
        "cuStreamBeginCapture" 10000 stream::cuStreamBeginCapture_v2;
        "cuStreamCreate" 2000 stream::cuStreamCreate;
        "cuStreamCreateWithPriority" 2000 stream::cuStreamCreateWithPriority;
        "cuStreamDestroy" 4000 stream::cuStreamDestroy_v2;
        "cuStreamEndCapture" 2000 stream::cuStreamEndCapture;
        "cuStreamGetCaptureInfo" 10000 stream::cuStreamGetCaptureInfo_v2;
        "cuStreamGetCtx" 2000 stream::cuStreamGetCtx;
        "cuStreamGetFlags" 2000 stream::cuStreamGetFlags;
        "cuStreamGetId" 2000 stream::cuStreamGetId;
        "cuStreamGetPriority" 2000 stream::cuStreamGetPriority;
        "cuStreamIsCapturing" 2000 stream::cuStreamIsCapturing;
        "cuStreamQuery" 2000 stream::cuStreamQuery;
        "cuStreamSynchronize" 2000 stream::cuStreamSynchronize;
        "cuStreamWaitEvent" 2000 stream::cuStreamWaitEvent;
        "cuTensorMapEncodeIm2col" 2000 tensor_map::cuTensorMapEncodeIm2col;
        "cuTensorMapEncodeTiled" 2000 tensor_map::cuTensorMapEncodeTiled;
        "cuTensorMapReplaceAddress" 2000 tensor_map::cuTensorMapReplaceAddress;
        "cuThreadExchangeStreamCaptureMode" 2000 stream::cuThreadExchangeStreamCaptureMode;
    }
}

/// Found, not in this version, not at all: as the header numbers them.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;
const TOO_OLD: c_int = 2;

/// The newest form of a function that a program of some version knows.
fn find(name: &str, version: c_int) -> Result<*const c_void, c_int> {
    let entries = entries();
    let named = entries.iter().filter(|entry| entry.name == name);
    let known =
        named.clone().filter(|entry| entry.since <= version).max_by_key(|entry| entry.since);
    match known {
        Some(entry) => Ok(entry.address),
        None if named.count() > 0 => Err(TOO_OLD),
        None => Err(NOT_FOUND),
    }
}

driver! {
    /// The address of a function, and whether it is there.
    fn [cuGetProcAddress_v2](
        name: *const c_char, address: *mut *const c_void, version: c_int, flags: u64, status: *mut c_int,
    ) {
        let _ = flags;
        // SAFETY: the program's text and pointers.
        unsafe {
            let found = find(text(name)?, version);
            give(address, found.unwrap_or(std::ptr::null()))?;
            give_if_wanted(status, found.err().unwrap_or(FOUND));
            found.map(|_| ()).map_err(|_| CudaResult::NOT_FOUND)
        }
    }

    /// The address of a function.
    fn [cuGetProcAddress](name: *const c_char, address: *mut *const c_void, version: c_int, flags: u64) {
        // SAFETY: the same contract.
        match unsafe { cuGetProcAddress_v2(name, address, version, flags, std::ptr::null_mut()) } {
            CudaResult::SUCCESS => Ok(()),
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_function_goes_by_the_version() {
        let of = |version| find("cuCtxGetDevice", version).unwrap();
        assert_eq!(of(2000), context::cuCtxGetDevice as *const c_void);
        assert_eq!(of(13000), context::cuCtxGetDevice_v2 as *const c_void);
        assert_eq!(find("cuMemAlloc", 12000).unwrap(), memory::cuMemAlloc_v2 as *const c_void);
        assert_eq!(find("cuGetProcAddress", 11030).unwrap(), cuGetProcAddress as *const c_void);
        assert_eq!(find("cuTensorMapEncodeTiled", 12000).map(|_| ()), Ok(()));
        assert_eq!(find("cuCtxSynchronize_v2", 13000), Err(NOT_FOUND));
        assert_eq!(find("cuGetProcAddress", 10000), Err(TOO_OLD));
        assert_eq!(find("", 0), Err(NOT_FOUND));
    }

    /// The functions that the sources declare, without their other names.
    fn declared() -> Vec<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api");
        let sources = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let text: String = sources.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let lines = text.lines().filter_map(|line| line.strip_prefix("    fn [cu"));
        lines.map(|line| format!("cu{}", line.split([',', ']']).next().unwrap())).collect()
    }

    #[test]
    fn every_function_can_be_asked_for() {
        let source = include_str!("proc_address.rs");
        for name in declared() {
            assert!(source.contains(&format!("::{name};")), "{name} is not in the table");
        }
    }
}
