//! The runtime API called directly: registration, launches, variables, errors, and what programs ask of the device.

#![cfg(target_os = "linux")]

mod common;

use sixwarp_standin::result::CudaResult;
use sixwarp_standin::runtime::launch::Dim3;
use sixwarp_standin::runtime::{
    device, entry_point, error, function, graph, launch, memory, occupancy, pointer, properties,
    register, stream, symbol,
};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{from_ref, null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Calls a runtime function, which must succeed.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: pointers are to locals of the sizes that the functions take.
        assert_eq!(unsafe { $call }, CudaResult::SUCCESS, stringify!($call))
    };
}

/// Calls a runtime function; its result.
macro_rules! result {
    ($call:expr) => {
        // SAFETY: as for `ok`.
        unsafe { $call }
    };
}

const SCALE: &str = ".version 8.7
.target sm_90a
.address_size 64
.const .u32 factor[2] = {2, 3};
.visible .global .attribute(.managed) .u32 limit = 40;
.visible .entry scale(.param .u64 words) .maxntid 128, 1, 1
{
    .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [words];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd0, %rd0, %rd1;
    ld.global.u32 %r1, [%rd0];
    ld.const.u32 %r2, [factor+4];
    mul.lo.u32 %r1, %r1, %r2;
    st.global.u32 [%rd0], %r1;
    ret;
}\0";

/// Addresses of the program that stand for what is on the device.
static SCALE_HOST: u8 = 0;
static MISSING_HOST: u8 = 0;
static FACTOR_HOST: u8 = 0;

fn host(place: &'static u8) -> *const c_void {
    from_ref(place).cast()
}

/// A fat binary with one entry, and the wrapper around it, which stay.
fn fat_binary(kind: u16, data: &[u8]) -> *const c_void {
    let padded = data.len().next_multiple_of(8);
    let mut entry = vec![0u8; 64];
    entry[0..2].copy_from_slice(&kind.to_le_bytes());
    entry[4..8].copy_from_slice(&64u32.to_le_bytes());
    entry[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
    entry.extend(data);
    entry.resize(64 + padded, 0);
    let mut image = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    image.extend([1, 0, 16, 0]);
    image.extend((entry.len() as u64).to_le_bytes());
    image.extend(entry);
    let image = image.leak().as_ptr().expose_provenance() as u64;
    let wrapper: Box<[u64; 3]> = Box::new([0x1_4662_43B1, image, 0]);
    Box::leak(wrapper).as_ptr().cast()
}

fn register_kernel(binary: *mut *mut c_void, place: &'static u8, name: &CStr) {
    let (text, none) = (name.as_ptr(), null_mut());
    let device = text.cast_mut();
    // SAFETY: texts end with zeros.
    unsafe {
        register::__cudaRegisterFunction(
            binary,
            host(place),
            device,
            text,
            -1,
            none,
            none,
            none,
            none,
            null_mut(),
        );
    }
}

fn register_all() -> *mut *mut c_void {
    let name = c"factor".as_ptr();
    // SAFETY: the wrapper stays, and texts end with zeros.
    unsafe {
        let binary = register::__cudaRegisterFatBinary(fat_binary(1, SCALE.as_bytes()));
        register_kernel(binary, &SCALE_HOST, c"scale");
        register_kernel(binary, &MISSING_HOST, c"missing");
        let variable = host(&FACTOR_HOST);
        register::__cudaRegisterVar(binary, variable, name.cast_mut(), name, 0, 8, 1, 0);
        register::__cudaRegisterFatBinaryEnd(binary);
        binary
    }
}

#[test]
fn a_managed_variable_is_shared_with_the_host() {
    common::in_child("a_managed_variable_is_shared_with_the_host", &[], || {
        let binary = register_all();
        // What the compiler makes of the variable: a pointer that the runtime fills.
        static POINTER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        let (name, place) = (c"limit".as_ptr(), POINTER.as_ptr());
        // SAFETY: the pointer stays, and texts end with zeros.
        unsafe {
            register::__cudaRegisterManagedVar(binary, place, name.cast_mut(), name, 0, 4, 0, 0);
            assert_eq!(register::__cudaInitModule(binary), 1);
        }
        let limit: *mut u32 = POINTER.load(Ordering::Relaxed).cast();
        // SAFETY: the runtime has told where the variable is.
        assert_eq!(unsafe { limit.read() }, 40);
        let (mut address, value) = (0, 50u32);
        ok!(symbol::cudaGetSymbolAddress(&mut address, place.cast()));
        assert_eq!(address, limit.expose_provenance() as u64);
        ok!(symbol::cudaMemcpyToSymbol(place.cast(), from_ref(&value).cast(), 4, 0, 1));
        // SAFETY: as above.
        assert_eq!(unsafe { limit.read() }, 50);
        // SAFETY: handles are looked up.
        assert_eq!(unsafe { register::__cudaInitModule(null_mut()) }, 0);
    });
}

const ONE: Dim3 = Dim3 { x: 1, y: 1, z: 1 };

fn threads(x: u32) -> Dim3 {
    Dim3 { x, ..ONE }
}

fn launch_scale(place: &'static u8, block: Dim3, words: u64, on: usize) -> CudaResult {
    let arguments = [from_ref(&words).cast::<u8>()];
    result!(launch::cudaLaunchKernel(host(place), ONE, block, arguments.as_ptr(), 0, on))
}

fn upload(words: &[u32]) -> u64 {
    let mut address = 0;
    ok!(memory::cudaMalloc(&mut address, size_of_val(words)));
    ok!(memory::cudaMemcpy(pointer_to(address), words.as_ptr().cast(), size_of_val(words), 1));
    address
}

fn download(address: u64, count: usize) -> Vec<u32> {
    let mut words = vec![0u32; count];
    ok!(memory::cudaMemcpy(words.as_mut_ptr().cast(), pointer_to(address), 4 * count, 2));
    words
}

fn pointer_to(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

#[test]
fn launches_variables_and_graphs() {
    common::in_child("launches_variables_and_graphs", &[], || {
        let binary = register_all();
        let words = upload(&[1, 2, 3, 4]);
        assert_eq!(launch_scale(&SCALE_HOST, threads(4), words, 0), CudaResult::SUCCESS);
        assert_eq!(download(words, 4), [3, 6, 9, 12]);

        // A part of a constant, by its namesake on the host.
        let (factor, mut bytes, mut both) = (host(&FACTOR_HOST), 0, [0u32; 2]);
        let ten = 10u32;
        ok!(symbol::cudaMemcpyToSymbol(factor, from_ref(&ten).cast(), 4, 4, 1));
        ok!(symbol::cudaMemcpyFromSymbol((&raw mut both).cast(), factor, 8, 0, 2));
        ok!(symbol::cudaGetSymbolSize(&mut bytes, factor));
        assert_eq!((both, bytes), ([2, 10], 8));
        let beyond = result!(symbol::cudaMemcpyToSymbol(factor, from_ref(&ten).cast(), 8, 4, 1));
        assert_eq!(beyond, CudaResult::INVALID_VALUE);

        // What is captured is done when the graph is launched, twice here.
        let (mut on, mut captured, mut ready) = (0, 0, 0);
        ok!(stream::cudaStreamCreate(&mut on));
        ok!(stream::cudaStreamBeginCapture(on, 0));
        assert_eq!(launch_scale(&SCALE_HOST, threads(1), words, on), CudaResult::SUCCESS);
        ok!(stream::cudaStreamEndCapture(on, &mut captured));
        ok!(graph::cudaGraphInstantiate(&mut ready, captured, 0));
        ok!(graph::cudaGraphLaunch(ready, on));
        ok!(graph::cudaGraphLaunch(ready, on));
        ok!(stream::cudaStreamSynchronize(on));
        assert_eq!(download(words, 2), [300, 6]);
        ok!(memory::cudaFree(words));
        // SAFETY: a handle is looked up.
        unsafe { register::__cudaUnregisterFatBinary(binary) };
        assert_eq!(launch_scale(&SCALE_HOST, threads(1), words, 0), error::INVALID_FUNCTION);
    });
}

#[test]
fn what_is_wrong_is_told_by_errors_of_the_runtime() {
    common::in_child("what_is_wrong_is_told_by_errors_of_the_runtime", &[], || {
        register_all();
        let words = upload(&[1]);
        let last = || error::cudaGetLastError();
        assert_eq!(launch_scale(&MISSING_HOST, ONE, words, 0), error::INVALID_FUNCTION);
        assert_eq!((last(), last()), (error::INVALID_FUNCTION, CudaResult::SUCCESS));
        let unknown = launch_scale(&FACTOR_HOST, ONE, words, 0);
        assert_eq!(unknown, error::INVALID_FUNCTION);
        for wrong in [threads(0), threads(2048)] {
            let refused = launch_scale(&SCALE_HOST, wrong, words, 0);
            assert_eq!(refused, error::INVALID_CONFIGURATION);
        }
        let (mut grid, mut block, mut shared, mut on) = (ONE, ONE, 0, 0);
        let popped = result!(launch::__cudaPopCallConfiguration(
            &mut grid,
            &mut block,
            &mut shared,
            &mut on
        ));
        assert_eq!(popped, error::MISSING_CONFIGURATION);
        let mut address = 0;
        let no_variable = result!(symbol::cudaGetSymbolAddress(&mut address, host(&SCALE_HOST)));
        assert_eq!(no_variable, error::INVALID_SYMBOL);
        // The host's memory is not the device's, whatever the program says.
        let mut here = 0u32;
        let to_host = result!(memory::cudaMemcpy((&raw mut here).cast(), pointer_to(words), 4, 3));
        assert_eq!(to_host, CudaResult::INVALID_VALUE);
        let direction =
            result!(memory::cudaMemcpy((&raw mut here).cast(), pointer_to(words), 4, 9));
        assert_eq!(direction, error::INVALID_DIRECTION);
        assert_eq!(result!(device::cudaSetDevice(1)), CudaResult::INVALID_DEVICE);
        assert_eq!(last(), CudaResult::INVALID_DEVICE);
        // SAFETY: names are constants.
        let name = unsafe { CStr::from_ptr(error::cudaGetErrorName(error::INVALID_FUNCTION)) };
        assert_eq!(name, c"cudaErrorInvalidDeviceFunction");
    });
}

#[test]
fn machine_code_alone_is_refused_when_it_is_launched() {
    let output = common::in_child("machine_code_alone_is_refused_when_it_is_launched", &[], || {
        // SAFETY: the wrapper stays.
        let binary = unsafe { register::__cudaRegisterFatBinary(fat_binary(2, b"\x7fELF code")) };
        register_kernel(binary, &SCALE_HOST, c"scale");
        let words = upload(&[1]);
        for _ in 0..2 {
            let refused = launch_scale(&SCALE_HOST, ONE, words, 0);
            assert_eq!(refused, CudaResult::NO_BINARY_FOR_GPU);
        }
    });
    let Some(output) = output else { return };
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches("machine code").count(), 1, "{told}");
}

#[test]
fn programs_learn_about_device_kernels_pointers_and_driver() {
    common::in_child("programs_learn_about_device_kernels_pointers_and_driver", &[], || {
        register_all();
        // Structures of both releases, with a byte behind that must stay.
        let word = |all: &[u8], at: usize| i32::from_le_bytes(all[at..at + 4].try_into().unwrap());
        let (mut old, mut new) = (vec![7u8; 1033], vec![7u8; 1009]);
        ok!(properties::cudaGetDeviceProperties_v2(old.as_mut_ptr(), 0));
        ok!(properties::cudaGetDeviceProperties(new.as_mut_ptr(), 0));
        // Architecture, processors, shared memory that a CTA can ask for.
        assert_eq!([360, 364, 388, 696].map(|at| word(&old, at)), [9, 0, 132, 232_448]);
        assert_eq!([360, 364, 384, 672].map(|at| word(&new, at)), [9, 0, 132, 232_448]);
        assert_eq!((old[1032], new[1008]), (7, 7));
        assert!(new.starts_with(b"sixwarp simulator"));

        let (kernel, mut attributes) = (host(&SCALE_HOST), [0u8; 144]);
        ok!(function::cudaFuncGetAttributes(attributes.as_mut_ptr().cast(), kernel));
        assert_eq!(word(&attributes, 24), 128);
        ok!(function::cudaFuncSetAttribute(kernel, 8, 100_000));
        let (mut fit, mut name) = (0, null::<c_char>());
        let count = &mut fit;
        ok!(occupancy::cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel, 128, 100_000));
        assert_eq!(fit, 2);
        ok!(function::cudaFuncGetName(&mut name, kernel));
        // SAFETY: the name that was just given.
        assert_eq!(unsafe { CStr::from_ptr(name) }, c"scale");

        let (words, mut known) = (upload(&[1]), pointer::Attributes::default());
        ok!(pointer::cudaPointerGetAttributes(&mut known, words));
        assert_eq!((known.kind, known.device_pointer, known.host_pointer), (2, words, 0));
        let here = (&raw const known).expose_provenance() as u64;
        ok!(pointer::cudaPointerGetAttributes(&mut known, here));
        assert_eq!((known.kind, known.host_pointer), (0, here));

        let (mut address, mut status) = (null(), 9);
        let encode = c"cuTensorMapEncodeTiled".as_ptr();
        let by_version = entry_point::cudaGetDriverEntryPointByVersion;
        ok!(by_version(encode, &mut address, 12000, 0, &mut status));
        assert!(!address.is_null() && status == 0);
        let unknown = c"cuNothing".as_ptr();
        ok!(entry_point::cudaGetDriverEntryPoint(unknown, &mut address, 0, &mut status));
        assert!(address.is_null() && status == 1);
        let untold = result!(by_version(unknown, &mut address, 12000, 0, null_mut()));
        assert_eq!(untold, CudaResult::NOT_FOUND);
    });
}
