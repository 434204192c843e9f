//! The one device.

use crate::device;
use crate::driver::driver;
use crate::guard::{driver, give};
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_char, c_int, c_uint};

fn check(device: c_int) -> Outcome {
    driver()?;
    if device == 0 { Ok(()) } else { Err(CudaResult::INVALID_DEVICE) }
}

driver! {
    /// How many devices there are.
    fn [cuDeviceGetCount](count: *mut c_int) {
        driver()?;
        // SAFETY: the program's pointer.
        unsafe { give(count, 1) }
    }

    /// A device by its number.
    fn [cuDeviceGet](device: *mut c_int, ordinal: c_int) {
        check(ordinal)?;
        // SAFETY: the program's pointer.
        unsafe { give(device, ordinal) }
    }

    /// The device's name.
    fn [cuDeviceGetName](name: *mut c_char, length: c_int, device: c_int) {
        check(device)?;
        if name.is_null() || length < 1 {
            return Err(CudaResult::INVALID_VALUE);
        }
        let text = device::name();
        let bytes = &text.as_bytes()[..text.len().min(length as usize - 1)];
        // SAFETY: the program's buffer has `length` bytes, and these are fewer.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            name.cast::<u8>().add(bytes.len()).write(0);
        }
        Ok(())
    }

    /// The device's memory.
    fn [cuDeviceTotalMem_v2, cuDeviceTotalMem](bytes: *mut usize, device: c_int) {
        check(device)?;
        // SAFETY: the program's pointer.
        unsafe { give(bytes, device::total_memory() as usize) }
    }

    /// A number that identifies the device.
    fn [cuDeviceGetUuid_v2, cuDeviceGetUuid](uuid: *mut [u8; 16], device: c_int) {
        check(device)?;
        // SAFETY: the program's pointer.
        unsafe { give(uuid, device::uuid()) }
    }

    /// An attribute.
    fn [cuDeviceGetAttribute](value: *mut c_int, attribute: c_uint, device: c_int) {
        check(device)?;
        let known = device::attribute(attribute).ok_or(CudaResult::INVALID_VALUE)?;
        // SAFETY: the program's pointer.
        unsafe { give(value, known) }
    }

    /// The architecture.
    fn [cuDeviceComputeCapability](major: *mut c_int, minor: *mut c_int, device: c_int) {
        check(device)?;
        let known = |number| device::attribute(number).ok_or(CudaResult::INVALID_VALUE);
        // SAFETY: the program's pointers.
        unsafe {
            give(major, known(75)?)?;
            give(minor, known(76)?)
        }
    }

    /// There is no other device to reach.
    fn [cuDeviceCanAccessPeer](can: *mut c_int, device: c_int, peer: c_int) {
        check(device)?;
        check(peer)?;
        // SAFETY: the program's pointer.
        unsafe { give(can, 0) }
    }

    /// Where the device is: nowhere.
    fn [cuDeviceGetPCIBusId](name: *mut c_char, length: c_int, device: c_int) {
        check(device)?;
        let id = b"0000:00:00.0\0";
        if name.is_null() || (length as usize) < id.len() || length < 0 {
            return Err(CudaResult::INVALID_VALUE);
        }
        // SAFETY: the program's buffer has `length` bytes, and these are no more.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(id.as_ptr(), id.len()) };
        Ok(())
    }
}
