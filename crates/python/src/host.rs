//! Running on host memory of the caller.

use crate::Plan;
use crate::memory::Need;
use half::{bf16, f16};
use problem::{DType, E4m3, Element, HostBuffers, HostMut, HostRef};
use sixwarp::Error;

/// Computes on host memory; `addresses` are those of the slots.
///
/// # Safety
/// The addresses must have passed the rules of [`Needs`](crate::memory::Needs), each be that of as many
/// bytes as its slot needs, and outputs not be accessed by anyone else.
pub(crate) unsafe fn run(plan: &Plan, addresses: &[u64]) -> Result<(), Error> {
    let mut buffers = HostBuffers::new();
    for (Need { slot, element, bytes }, address) in plan.needs().slots.iter().zip(addresses) {
        let count = (bytes / element.bytes()) as usize;
        // SAFETY: the caller vouches for the memory; alignment and overlap were checked.
        buffers = unsafe {
            match slot.is_output() {
                true => buffers.output(*slot, writable(*address, count, *element)),
                false => buffers.input(*slot, readable(*address, count, *element)),
            }
        };
    }
    plan.host_plan().run(&mut buffers)
}

/// # Safety
/// `count` elements at `address` must be readable and aligned, and not be written for `'a`.
pub(crate) unsafe fn readable<'a>(address: u64, count: usize, element: Element) -> HostRef<'a> {
    // SAFETY: as the caller of this function vouches.
    unsafe {
        match element {
            Element::Float(DType::F64) => HostRef::F64(slice(address, count)),
            Element::Float(DType::F32) => HostRef::F32(slice(address, count)),
            Element::Float(DType::F16) => HostRef::F16(slice::<f16>(address, count)),
            Element::Float(DType::Bf16) => HostRef::Bf16(slice::<bf16>(address, count)),
            Element::Float(DType::E4m3) => HostRef::E4m3(slice::<E4m3>(address, count)),
            Element::I32 => HostRef::I32(slice(address, count)),
            Element::U8 | Element::Bool => HostRef::U8(slice(address, count)),
        }
    }
}

/// # Safety
/// `count` elements at `address` must be writable and aligned, and not be accessed otherwise for `'a`.
pub(crate) unsafe fn writable<'a>(address: u64, count: usize, element: Element) -> HostMut<'a> {
    // SAFETY: as the caller of this function vouches.
    unsafe {
        match element {
            Element::Float(DType::F64) => HostMut::F64(slice_mut(address, count)),
            Element::Float(DType::F16) => HostMut::F16(slice_mut::<f16>(address, count)),
            Element::Float(DType::Bf16) => HostMut::Bf16(slice_mut::<bf16>(address, count)),
            _ => HostMut::F32(slice_mut(address, count)),
        }
    }
}

/// # Safety
/// As [`readable`]; no memory is needed for no elements.
pub(crate) unsafe fn slice<'a, T>(address: u64, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: as the caller vouches.
        _ => unsafe { std::slice::from_raw_parts(address as *const T, count) },
    }
}

/// # Safety
/// As [`writable`]; no memory is needed for no elements.
pub(crate) unsafe fn slice_mut<'a, T>(address: u64, count: usize) -> &'a mut [T] {
    match count {
        0 => &mut [],
        // SAFETY: as the caller vouches.
        _ => unsafe { std::slice::from_raw_parts_mut(address as *mut T, count) },
    }
}
