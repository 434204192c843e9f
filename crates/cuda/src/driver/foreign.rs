//! Memory and streams of others, whose validity only the caller knows.

use crate::{Device, DevicePtr, Stream};

impl DevicePtr {
    /// Memory that someone else manages.
    ///
    /// # Safety
    /// `bytes` bytes at `address` must be memory of the device the pointer is used on, and stay so
    /// until all work launched with it has ended.
    pub const unsafe fn from_raw(address: u64, bytes: u64) -> Self {
        DevicePtr::new(address, bytes)
    }
}

impl Stream {
    /// A stream that someone else manages, by its `CUstream` handle.
    ///
    /// # Safety
    /// The handle must be a stream of this device and outlive the value.
    pub unsafe fn from_raw(device: &Device, handle: usize) -> Self {
        Stream::borrowed(device, handle)
    }
}
