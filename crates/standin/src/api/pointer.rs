//! What the driver knows of an address.

use crate::driver::driver;
use crate::guard::driver;
use crate::memory::{Allocation, Kind};
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_int, c_uint, c_void};

/// Kinds of memory in the header.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// Bytes of an attribute's value.
fn value(
    attribute: c_uint,
    address: u64,
    found: (u64, &Allocation),
    context: usize,
) -> Outcome<Vec<u8>> {
    let (base, allocation) = found;
    let flag = |set: bool| vec![u8::from(set)];
    Ok(match attribute {
        1 => context.to_ne_bytes().to_vec(),
        2 if matches!(allocation.kind, Kind::Pinned | Kind::Registered) => {
            HOST.to_ne_bytes().to_vec()
        }
        2 => DEVICE.to_ne_bytes().to_vec(),
        3 => address.to_ne_bytes().to_vec(),
        4 if allocation.kind.is_host() => address.to_ne_bytes().to_vec(),
        6 => flag(false),
        7 => allocation.number.to_ne_bytes().to_vec(),
        8 => flag(allocation.kind == Kind::Managed),
        9 => (0 as c_int).to_ne_bytes().to_vec(),
        11 => base.to_ne_bytes().to_vec(),
        12 => (allocation.bytes as usize).to_ne_bytes().to_vec(),
        13 => flag(true),
        _ => return Err(CudaResult::INVALID_VALUE),
    })
}

/// # Safety
/// `data` has room for the attribute.
unsafe fn tell(data: *mut c_void, attribute: c_uint, address: u64) -> Outcome {
    if data.is_null() {
        return Err(CudaResult::INVALID_VALUE);
    }
    let state = driver()?.state();
    let found = state.memory.find(address).ok_or(CudaResult::INVALID_VALUE)?;
    let bytes = value(attribute, address, found, state.primary.0)?;
    // SAFETY: the caller vouches for the room.
    unsafe { data.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

driver! {
    /// An attribute of an address.
    fn [cuPointerGetAttribute](data: *mut c_void, attribute: c_uint, address: u64) {
        // SAFETY: the program's pointer.
        unsafe { tell(data, attribute, address) }
    }

    /// Several attributes of an address; those of an address that is not known are zero.
    fn [cuPointerGetAttributes](
        count: c_uint, attributes: *const c_uint, data: *const *mut c_void, address: u64,
    ) {
        if attributes.is_null() || data.is_null() {
            return Err(CudaResult::INVALID_VALUE);
        }
        for i in 0..count as usize {
            // SAFETY: the program's arrays have `count` elements.
            unsafe {
                let (attribute, data) = (*attributes.add(i), *data.add(i));
                if tell(data, attribute, address).is_err() && !data.is_null() {
                    let bytes = if matches!(attribute, 2 | 9) { 4 } else if matches!(attribute, 6 | 8 | 13) { 1 } else { 8 };
                    data.cast::<u8>().write_bytes(0, bytes);
                }
            }
        }
        Ok(())
    }

    /// Copies wait for their end here, whatever is asked for.
    fn [cuPointerSetAttribute](value: *const c_void, attribute: c_uint, address: u64) {
        let _ = (value, address);
        if attribute == 6 { Ok(()) } else { Err(CudaResult::INVALID_VALUE) }
    }
}
