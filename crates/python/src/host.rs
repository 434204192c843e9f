//! Running on host memory of the caller.

use crate::Plan;
use half::{bf16, f16};
use problem::{DType, Element, HostBuffers, HostMut, HostRef, InvalidProblem, Slot};
use sixwarp::Error;
use std::ops::Range;

/// Computes on host memory; `addresses` are those of the slots.
///
/// # Safety
/// Each address must be that of as many bytes as the plan's information says, readable, and for
/// outputs writable and not accessed by anyone else.
pub(crate) unsafe fn run(plan: &Plan, addresses: &[u64]) -> Result<(), Error> {
    let problem = plan.problem();
    let bytes: Vec<u64> = plan.slots.iter().map(|slot| problem.slot_bytes(*slot)).collect();
    check_overlap(&plan.slots, addresses, &bytes)?;
    let mut buffers = HostBuffers::new();
    for ((slot, address), bytes) in plan.slots.iter().zip(addresses).zip(bytes) {
        let element = problem.slot_element(*slot);
        check_alignment(*slot, *address, element)?;
        let count = (bytes / element.bytes()) as usize;
        // SAFETY: the caller vouches for the memory; alignment and overlap were checked.
        buffers = unsafe {
            match slot.is_output() {
                true => buffers.output(*slot, writable(*address, count, element)),
                false => buffers.input(*slot, readable(*address, count, element)),
            }
        };
    }
    plan.host_plan().run(&mut buffers)
}

fn check_alignment(slot: Slot, address: u64, element: Element) -> Result<(), InvalidProblem> {
    let bytes = element.bytes();
    match address.is_multiple_of(bytes) {
        true => Ok(()),
        false => {
            let rule = format!("must lie at a multiple of {bytes} bytes");
            Err(InvalidProblem::new(slot, rule, format!("at {address:#x}")))
        }
    }
}

/// Outputs must lie apart from everything else.
fn check_overlap(slots: &[Slot], addresses: &[u64], bytes: &[u64]) -> Result<(), InvalidProblem> {
    let range = |i: usize| addresses[i]..addresses[i].saturating_add(bytes[i]);
    let overlap = |a: Range<u64>, b: Range<u64>| a.start.max(b.start) < a.end.min(b.end);
    for out in (0..slots.len()).filter(|i| slots[*i].is_output()) {
        for other in (0..slots.len()).filter(|i| *i != out) {
            if overlap(range(out), range(other)) {
                let rule = format!("must not share memory with {}", slots[other]);
                return Err(InvalidProblem::new(slots[out], rule, "the same memory"));
            }
        }
    }
    Ok(())
}

/// # Safety
/// `count` elements at `address` must be readable and aligned, and not be written for `'a`.
pub(crate) unsafe fn readable<'a>(address: u64, count: usize, element: Element) -> HostRef<'a> {
    // SAFETY: as the caller of this function vouches.
    unsafe {
        match element {
            Element::Float(DType::F32) => HostRef::F32(slice(address, count)),
            Element::Float(DType::F16) => HostRef::F16(slice::<f16>(address, count)),
            Element::Float(DType::Bf16) => HostRef::Bf16(slice::<bf16>(address, count)),
            Element::I32 => HostRef::I32(slice(address, count)),
            Element::U8 => HostRef::U8(slice(address, count)),
        }
    }
}

/// # Safety
/// `count` elements at `address` must be writable and aligned, and not be accessed otherwise for `'a`.
pub(crate) unsafe fn writable<'a>(address: u64, count: usize, element: Element) -> HostMut<'a> {
    // SAFETY: as the caller of this function vouches.
    unsafe {
        match element {
            Element::Float(DType::F16) => HostMut::F16(slice_mut::<f16>(address, count)),
            Element::Float(DType::Bf16) => HostMut::Bf16(slice_mut::<bf16>(address, count)),
            _ => HostMut::F32(slice_mut(address, count)),
        }
    }
}

/// # Safety
/// As [`readable`]; no memory is needed for no elements.
unsafe fn slice<'a, T>(address: u64, count: usize) -> &'a [T] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_in_an_input_is_refused() {
        let slots = [Slot::Q, Slot::Out, Slot::Lse];
        assert!(check_overlap(&slots, &[0, 64, 128], &[64, 64, 8]).is_ok());
        let error = check_overlap(&slots, &[0, 60, 128], &[64, 64, 8]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "out: must not share memory with q, but it is the same memory"
        );
        assert!(check_overlap(&slots, &[0, 64, 100], &[64, 64, 8]).is_err());
        assert!(check_overlap(&slots, &[0, 0, 0], &[64, 0, 0]).is_ok());
    }
}
