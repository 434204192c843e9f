//! Which names lead to functions here.

use crate::hooks::{launch, memory, module, proc_address};
use std::ffi::{c_int, c_void};

/// A function here.
struct Entry {
    /// Its name in the library.
    symbol: &'static str,
    /// The name that `cuGetProcAddress` is asked for, and the version that has it in this form.
    name: &'static str,
    since: c_int,
    address: *const c_void,
}

macro_rules! entries {
    ($($name:literal $since:literal $module:ident::$function:ident;)*) => {
        [$(Entry {
            symbol: stringify!($function),
            name: $name,
            since: $since,
            address: $module::$function as *const c_void,
        },)*]
    };
}

/// Every function. Forms for the per-thread default stream end with `_ptsz`.
fn entries() -> [Entry; 41] {
    entries! {
        "cuGetProcAddress" 11030 proc_address::cuGetProcAddress;
        "cuGetProcAddress" 12000 proc_address::cuGetProcAddress_v2;
        "cuGraphLaunch" 10000 launch::cuGraphLaunch;
        "cuGraphLaunch" 10000 launch::cuGraphLaunch_ptsz;
        "cuKernelGetFunction" 12000 module::cuKernelGetFunction;
        "cuLaunchCooperativeKernel" 9000 launch::cuLaunchCooperativeKernel;
        "cuLaunchCooperativeKernel" 9000 launch::cuLaunchCooperativeKernel_ptsz;
        "cuLaunchKernel" 4000 launch::cuLaunchKernel;
        "cuLaunchKernel" 7000 launch::cuLaunchKernel_ptsz;
        "cuLaunchKernelEx" 11060 launch::cuLaunchKernelEx;
        "cuLaunchKernelEx" 11060 launch::cuLaunchKernelEx_ptsz;
        "cuLibraryGetKernel" 12000 module::cuLibraryGetKernel;
        "cuLibraryGetModule" 12000 module::cuLibraryGetModule;
        "cuLibraryLoadData" 12000 module::cuLibraryLoadData;
        "cuLibraryLoadFromFile" 12000 module::cuLibraryLoadFromFile;
        "cuLibraryUnload" 12000 module::cuLibraryUnload;
        "cuLinkAddData" 6050 module::cuLinkAddData_v2;
        "cuLinkComplete" 5050 module::cuLinkComplete;
        "cuMemAlloc" 3020 memory::cuMemAlloc_v2;
        "cuMemAllocAsync" 11020 memory::cuMemAllocAsync;
        "cuMemAllocAsync" 11020 memory::cuMemAllocAsync_ptsz;
        "cuMemAllocFromPoolAsync" 11020 memory::cuMemAllocFromPoolAsync;
        "cuMemAllocFromPoolAsync" 11020 memory::cuMemAllocFromPoolAsync_ptsz;
        "cuMemAllocHost" 3020 memory::cuMemAllocHost_v2;
        "cuMemAllocManaged" 6000 memory::cuMemAllocManaged;
        "cuMemAllocPitch" 3020 memory::cuMemAllocPitch_v2;
        "cuMemFree" 3020 memory::cuMemFree_v2;
        "cuMemFreeAsync" 11020 memory::cuMemFreeAsync;
        "cuMemFreeAsync" 11020 memory::cuMemFreeAsync_ptsz;
        "cuMemFreeHost" 2000 memory::cuMemFreeHost;
        "cuMemHostAlloc" 2020 memory::cuMemHostAlloc;
        "cuMemHostRegister" 6050 memory::cuMemHostRegister_v2;
        "cuMemHostUnregister" 4000 memory::cuMemHostUnregister;
        "cuMemMap" 10020 memory::cuMemMap;
        "cuMemUnmap" 10020 memory::cuMemUnmap;
        "cuModuleGetFunction" 2000 module::cuModuleGetFunction;
        "cuModuleLoad" 2000 module::cuModuleLoad;
        "cuModuleLoadData" 2000 module::cuModuleLoadData;
        "cuModuleLoadDataEx" 2010 module::cuModuleLoadDataEx;
        "cuModuleLoadFatBinary" 2000 module::cuModuleLoadFatBinary;
        "cuModuleUnload" 2000 module::cuModuleUnload;
    }
}

/// The function here of a name in the library.
pub fn by_symbol(symbol: &[u8]) -> Option<*const c_void> {
    if !symbol.starts_with(b"cu") {
        return None;
    }
    let found = entries().into_iter().find(|entry| entry.symbol.as_bytes() == symbol);
    found.map(|entry| entry.address)
}

/// The function here that `cuGetProcAddress` leads to, in its newest form up to a version.
pub fn by_name(name: &[u8], version: c_int, per_thread: bool) -> Option<*const c_void> {
    let of_version = entries().into_iter().filter(|entry| entry.since <= version);
    let named = of_version.filter(|entry| entry.name.as_bytes() == name);
    let form = |entry: &Entry| (entry.symbol.ends_with("_ptsz") == per_thread, entry.since);
    let mut found: Vec<Entry> = named.collect();
    // A function without a form for the per-thread stream has one form for both.
    let plain = |entry: &&Entry| per_thread || !entry.symbol.ends_with("_ptsz");
    found.sort_by_key(form);
    found.iter().rev().find(plain).map(|entry| entry.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_go_by_version_and_stream() {
        let address = |function: &str| by_symbol(function.as_bytes()).unwrap();
        assert_eq!(by_name(b"cuMemAlloc", 12000, false), Some(address("cuMemAlloc_v2")));
        assert_eq!(by_name(b"cuMemAlloc", 12000, true), Some(address("cuMemAlloc_v2")));
        assert_eq!(by_name(b"cuMemAlloc", 2000, false), None);
        assert_eq!(by_name(b"cuLaunchKernel", 13000, false), Some(address("cuLaunchKernel")));
        assert_eq!(by_name(b"cuLaunchKernel", 13000, true), Some(address("cuLaunchKernel_ptsz")));
        assert_eq!(by_name(b"cuGetProcAddress", 11030, false), Some(address("cuGetProcAddress")));
        assert_eq!(by_name(b"cuGetProcAddress", 12080, true), Some(address("cuGetProcAddress_v2")));
        assert_eq!((by_symbol(b"cuMemAlloc"), by_symbol(b"dlsym")), (None, None));
    }
}
