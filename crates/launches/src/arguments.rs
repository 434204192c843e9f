//! The arguments of a launch, as the driver API passes them.

use program::check::variable_bytes;
use ptx::ast::{Function, Variable};
use std::ffi::c_void;

/// Where parameters lie when they are passed as one piece of memory.
pub fn places(params: &[Variable]) -> Vec<usize> {
    let mut end = 0;
    let place = |param: &Variable| {
        let align = param.align.unwrap_or(param.ty.bits().div_ceil(8)).max(1) as usize;
        let start = usize::next_multiple_of(end, align);
        end = start + variable_bytes(param) as usize;
        start
    };
    params.iter().map(place).collect()
}

/// The cluster that the kernel itself demands, or one CTA.
pub fn required_cluster(kernel: &Function) -> [u32; 3] {
    let directive = kernel.directives.iter().find(|d| d.name == "reqnctapercluster");
    let value = |i: usize| directive.and_then(|d| d.values.get(i)).map_or(1, |n| *n as u32);
    std::array::from_fn(value)
}

/// The bytes of all arguments; nothing if there are none where the kernel needs some.
///
/// # Safety
/// `params` points to as many pointers as the kernel has parameters, or `extra` is a list as the manual of
/// `cuLaunchKernel` describes it; either may be null.
pub unsafe fn arguments(
    kernel: &Function,
    params: *const *const u8,
    extra: *const *const c_void,
) -> Option<Vec<Vec<u8>>> {
    let sizes = kernel.params.iter().map(|param| variable_bytes(param) as usize);
    if kernel.params.is_empty() {
        return Some(Vec::new());
    }
    if !params.is_null() {
        // SAFETY: one pointer for each parameter, to as many bytes as that has.
        let argument = |(i, bytes): (usize, usize)| unsafe {
            let argument = *params.add(i);
            (!argument.is_null()).then(|| std::slice::from_raw_parts(argument, bytes).to_vec())
        };
        return sizes.enumerate().map(argument).collect();
    }
    // SAFETY: the caller's contract.
    let all = unsafe { packed(extra)? };
    let argument =
        |(place, bytes): (usize, usize)| all.get(place..place + bytes).map(<[u8]>::to_vec);
    places(&kernel.params).into_iter().zip(sizes).map(argument).collect()
}

/// The one piece of memory that `extra` names: pairs of a key and a value, until key 0.
///
/// # Safety
/// As the manual describes it.
unsafe fn packed<'a>(extra: *const *const c_void) -> Option<&'a [u8]> {
    let (mut pointer, mut bytes) = (std::ptr::null::<u8>(), 0);
    let mut at = extra;
    if at.is_null() {
        return None;
    }
    // SAFETY: the list ends with key 0, and a size is the address of a number.
    unsafe {
        loop {
            match (*at).addr() {
                0 => break,
                1 => pointer = (*at.add(1)).cast(),
                2 => bytes = *(*at.add(1)).cast::<usize>(),
                _ => return None,
            }
            at = at.add(2);
        }
        (!pointer.is_null()).then(|| std::slice::from_raw_parts(pointer, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.7 .target sm_90a .address_size 64
        .entry f(.param .u32 a, .param .u64 b, .param .u8 c, .param .align 64 .b8 d[128])
        .reqnctapercluster 2, 1, 1 { ret; }";

    #[test]
    fn parameters_lie_on_their_alignment() {
        let module = ptx::parse(TEXT).unwrap();
        let kernel = module.entry("f").unwrap();
        assert_eq!(places(&kernel.params), [0, 8, 16, 64]);
        assert_eq!(required_cluster(kernel), [2, 1, 1]);
        let all: Vec<u8> = (0..192u8).collect();
        let (bytes, size) = (all.as_ptr().cast::<c_void>(), all.len());
        let key = |n: usize| std::ptr::without_provenance::<c_void>(n);
        let extra = [key(1), bytes, key(2), (&raw const size).cast(), key(0)];
        // SAFETY: the list is as the manual describes it.
        let arguments = unsafe { arguments(kernel, std::ptr::null(), extra.as_ptr()).unwrap() };
        assert_eq!(arguments[1], (8..16).collect::<Vec<u8>>());
        assert_eq!(arguments[2], [16]);
        assert_eq!(arguments[3][0], 64);
    }

    #[test]
    fn a_kernel_with_parameters_needs_some() {
        let module = ptx::parse(TEXT).unwrap();
        let kernel = module.entry("f").unwrap();
        // SAFETY: null is allowed.
        assert!(unsafe { arguments(kernel, std::ptr::null(), std::ptr::null()) }.is_none());
    }
}
