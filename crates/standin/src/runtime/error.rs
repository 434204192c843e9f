//! Errors of the runtime: their names, and the last one of each thread.

use crate::result::CudaResult;
use std::cell::Cell;
use std::ffi::{CStr, c_char};

/// More threads or CTAs than a launch can have.
pub const INVALID_CONFIGURATION: CudaResult = CudaResult(9);
/// No variable was registered under this address.
pub const INVALID_SYMBOL: CudaResult = CudaResult(13);
/// A copy between kinds of memory that there are not.
pub const INVALID_DIRECTION: CudaResult = CudaResult(21);
/// A kernel was called without a configuration.
pub const MISSING_CONFIGURATION: CudaResult = CudaResult(52);
/// No kernel was registered under this address.
pub const INVALID_FUNCTION: CudaResult = CudaResult(98);

thread_local! {
    static LAST: Cell<CudaResult> = const { Cell::new(CudaResult::SUCCESS) };
}

/// Keeps an error for `cudaGetLastError`; work that goes on is none.
pub fn remember(result: CudaResult) -> CudaResult {
    if !matches!(result, CudaResult::SUCCESS | CudaResult::NOT_READY) {
        // A thread that ends asks no more.
        let _ = LAST.try_with(|last| last.set(result));
    }
    result
}

/// The runtime's name of an error.
fn name(error: CudaResult) -> &'static CStr {
    match error.0 {
        0 => c"cudaSuccess",
        1 => c"cudaErrorInvalidValue",
        2 => c"cudaErrorMemoryAllocation",
        3 => c"cudaErrorInitializationError",
        4 => c"cudaErrorCudartUnloading",
        9 => c"cudaErrorInvalidConfiguration",
        13 => c"cudaErrorInvalidSymbol",
        21 => c"cudaErrorInvalidMemcpyDirection",
        52 => c"cudaErrorMissingConfiguration",
        98 => c"cudaErrorInvalidDeviceFunction",
        100 => c"cudaErrorNoDevice",
        101 => c"cudaErrorInvalidDevice",
        200 => c"cudaErrorInvalidKernelImage",
        201 => c"cudaErrorDeviceUninitialized",
        209 => c"cudaErrorNoKernelImageForDevice",
        218 => c"cudaErrorInvalidPtx",
        222 => c"cudaErrorUnsupportedPtxVersion",
        301 => c"cudaErrorFileNotFound",
        400 => c"cudaErrorInvalidResourceHandle",
        401 => c"cudaErrorIllegalState",
        500 => c"cudaErrorSymbolNotFound",
        600 => c"cudaErrorNotReady",
        700 => c"cudaErrorIllegalAddress",
        701 => c"cudaErrorLaunchOutOfResources",
        702 => c"cudaErrorLaunchTimeout",
        712 => c"cudaErrorHostMemoryAlreadyRegistered",
        713 => c"cudaErrorHostMemoryNotRegistered",
        719 => c"cudaErrorLaunchFailure",
        801 => c"cudaErrorNotSupported",
        900 => c"cudaErrorStreamCaptureUnsupported",
        903 => c"cudaErrorStreamCaptureUnmatched",
        999 => c"cudaErrorUnknown",
        _ => c"unrecognized error code",
    }
}

/// A sentence about an error.
fn text(error: CudaResult) -> &'static CStr {
    match error {
        INVALID_CONFIGURATION => c"invalid configuration argument",
        INVALID_SYMBOL => c"invalid device symbol",
        INVALID_DIRECTION => c"invalid copy direction for memcpy",
        MISSING_CONFIGURATION => c"__global__ function call is not configured",
        INVALID_FUNCTION => c"invalid device function",
        other => other.describe().map_or(c"unrecognized error code", |(_, text)| text),
    }
}

/// The last error of this thread, which is forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> CudaResult {
    LAST.try_with(|last| last.replace(CudaResult::SUCCESS)).unwrap_or(CudaResult::SUCCESS)
}

/// The last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> CudaResult {
    LAST.try_with(Cell::get).unwrap_or(CudaResult::SUCCESS)
}

/// The name of an error.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(error: CudaResult) -> *const c_char {
    name(error).as_ptr()
}

/// A sentence about an error.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: CudaResult) -> *const c_char {
    text(error).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_once_and_waiting_is_none() {
        remember(INVALID_SYMBOL);
        remember(CudaResult::NOT_READY);
        remember(CudaResult::SUCCESS);
        assert_eq!(cudaPeekAtLastError(), INVALID_SYMBOL);
        assert_eq!(cudaGetLastError(), INVALID_SYMBOL);
        assert_eq!(cudaGetLastError(), CudaResult::SUCCESS);
    }

    #[test]
    fn every_error_of_the_driver_has_a_name_here() {
        let known = (0..1000).map(CudaResult).filter(|error| error.describe().is_some());
        let unnamed = known.filter(|error| name(*error) == c"unrecognized error code");
        assert_eq!(unnamed.collect::<Vec<_>>(), []);
        assert_eq!(text(INVALID_FUNCTION), c"invalid device function");
        assert_eq!(text(CudaResult(5000)), c"unrecognized error code");
    }
}
