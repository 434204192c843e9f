//! The driver API called directly: memory, modules, launches, graphs, and what is written about a race.

#![cfg(target_os = "linux")]

mod common;

use serde_json::Value;
use sixwarp_standin::api::{
    context, device, event, function, graph, info, launch, memory, module, stream, tensor_map,
};
use sixwarp_standin::result::CudaResult;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

/// Calls a driver function, which must succeed.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: pointers are to locals of the sizes that the functions take.
        assert_eq!(unsafe { $call }, CudaResult::SUCCESS, stringify!($call))
    };
}

/// Calls a driver function; its result.
macro_rules! result {
    ($call:expr) => {
        // SAFETY: as for `ok`.
        unsafe { $call }
    };
}

fn start() {
    let mut handle = 0;
    ok!(info::cuInit(0));
    ok!(context::cuDevicePrimaryCtxRetain(&mut handle, 0));
    ok!(context::cuCtxSetCurrent(handle));
}

fn load(text: &CStr, kernel: &CStr) -> (usize, usize) {
    let (mut loaded, mut found) = (0, 0);
    ok!(module::cuModuleLoadData(&mut loaded, text.as_ptr().cast()));
    ok!(module::cuModuleGetFunction(&mut found, loaded, kernel.as_ptr()));
    (loaded, found)
}

fn upload(words: &[u32]) -> u64 {
    let mut address = 0;
    ok!(memory::cuMemAlloc_v2(&mut address, 4 * words.len()));
    ok!(memory::cuMemcpyHtoD_v2(address, words.as_ptr().cast(), 4 * words.len()));
    address
}

fn download(address: u64, count: usize) -> Vec<u32> {
    let mut words = vec![0u32; count];
    ok!(memory::cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), address, 4 * count));
    words
}

fn launch_one(kernel: usize, threads: u32, on: usize, arguments: &[u64]) -> CudaResult {
    let pointers: Vec<*const u8> = arguments.iter().map(|a| (&raw const *a).cast()).collect();
    let params = pointers.as_ptr();
    result!(launch::cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, on, params, null()))
}

/// Adds a variable of the module to every word, and counts launches in another.
const ADD: &CStr = c".version 8.7
.target sm_90a
.address_size 64
.global .u32 step = 5;
.global .u32 count;
.visible .entry add(.param .u64 words)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [words];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd0, %rd0, %rd1;
    ld.global.u32 %r1, [%rd0];
    ld.global.u32 %r2, [step];
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd0], %r1;
    setp.ne.u32 %p, %r0, 0;
    @%p bra done;
    ld.global.u32 %r3, [count];
    add.u32 %r3, %r3, 1;
    st.global.u32 [count], %r3;
done:
    ret;
}";

#[test]
fn launches_graphs_and_variables() {
    common::in_child("launches_graphs_and_variables", &[], || {
        start();
        let (loaded, add) = load(ADD, c"add");
        let words = upload(&[1, 2, 3, 4]);
        assert_eq!(launch_one(add, 4, 0, &[words]), CudaResult::SUCCESS);
        assert_eq!(download(words, 4), [6, 7, 8, 9]);

        // A variable keeps what was written to it from one launch to the next.
        let (mut step, mut bytes) = (0, 0);
        ok!(module::cuModuleGetGlobal_v2(&mut step, &mut bytes, loaded, c"step".as_ptr()));
        assert_eq!((download(step, 1), bytes), (vec![5], 4));
        ok!(memory::cuMemsetD32_v2(step, 100, 1));

        // What is captured is not done until the graph is launched.
        let (mut captured, mut on, mut ready) = (0, 0, 0);
        ok!(stream::cuStreamCreate(&mut on, 0));
        ok!(stream::cuStreamBeginCapture_v2(on, 0));
        assert_eq!(launch_one(add, 4, on, &[words]), CudaResult::SUCCESS);
        ok!(stream::cuStreamEndCapture(on, &mut captured));
        assert_eq!(download(words, 1), [6]);
        ok!(graph::cuGraphInstantiateWithFlags(&mut ready, captured, 0));
        ok!(graph::cuGraphLaunch(ready, on));
        ok!(graph::cuGraphLaunch(ready, on));
        ok!(stream::cuStreamSynchronize(on));
        assert_eq!(download(words, 4), [206, 207, 208, 209]);
        let mut count = 0;
        ok!(module::cuModuleGetGlobal_v2(&mut count, null_mut(), loaded, c"count".as_ptr()));
        assert_eq!(download(count, 1), [3]);

        // Registered memory of the host is used in place, and the launch has ended when it returns.
        let mut host = vec![7u32; 4];
        let pointer: *mut c_void = host.as_mut_ptr().cast();
        ok!(memory::cuMemHostRegister_v2(pointer, 16, 0));
        assert_eq!(
            launch_one(add, 4, 0, &[pointer.expose_provenance() as u64]),
            CudaResult::SUCCESS
        );
        assert_eq!(host, [107; 4]);
        ok!(memory::cuMemHostUnregister(pointer));
    });
}

/// An im2col map as a program asks for it, read back as the simulator reads it.
#[test]
fn im2col_maps_are_encoded_or_refused() {
    common::in_child("im2col_maps_are_encoded_or_refused", &[], || {
        start();
        let address = upload(&[0; 16]);
        let encode = |rank: u32, lower: [i32; 2], upper: [i32; 2], pixels: u32, interleave: u32| {
            let (dims, strides) = ([64u64, 16, 12, 4], [128u64, 2048, 24576]);
            let (steps, mut map) = ([1u32, 2, 3, 1], [0; 128]);
            let to = std::ptr::without_provenance(address as usize);
            // f16 is 6, the swizzle of 128 bytes 3, L2 promotion to 128 bytes 2, NaN outside 1.
            let code = result!(tensor_map::cuTensorMapEncodeIm2col(
                &mut map,
                6,
                rank,
                to,
                dims.as_ptr(),
                strides.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                64,
                pixels,
                steps.as_ptr(),
                interleave,
                3,
                2,
                1,
            ));
            (code, program::TensorDescriptor::decode(&map))
        };
        let (code, map) = encode(4, [-1, -2], [1, -3], 1000, 0);
        assert_eq!(code, CudaResult::SUCCESS);
        let map = map.unwrap();
        let corners = program::PixelBox { lower: [-1, -2, 0], upper: [1, -3, 0] };
        assert_eq!((map.address, map.rank, map.im2col), (address, 4, Some(corners)));
        assert_eq!((map.dims, map.box_dims), ([64, 16, 12, 4, 1], [64, 1000, 1, 1, 1]));
        assert_eq!(map.element_strides, [1, 2, 3, 1, 1]);
        assert_eq!((map.swizzle, map.oob_fill), (program::Swizzle::B128, program::OobFill::Nan));
        assert_eq!(encode(4, [-129, 0], [0, 0], 64, 0).0, CudaResult::INVALID_VALUE);
        assert_eq!(encode(4, [0, 8], [0, -4], 64, 0).0, CudaResult::INVALID_VALUE);
        assert_eq!(encode(4, [0, 0], [0, 0], 1025, 0).0, CudaResult::INVALID_VALUE);
        assert_eq!(encode(2, [0, 0], [0, 0], 64, 0).0, CudaResult::INVALID_VALUE);
        assert_eq!(encode(4, [0, 0], [0, 0], 64, 1).0, CudaResult::NOT_SUPPORTED);
    });
}

#[test]
fn wrong_calls_are_errors() {
    common::in_child("wrong_calls_are_errors", &[], || {
        let mut count = 0;
        assert_eq!(result!(device::cuDeviceGetCount(&mut count)), CudaResult::NOT_INITIALIZED);
        ok!(info::cuInit(0));
        let (mut address, mut handle) = (0, 0);
        let no_context = CudaResult::INVALID_CONTEXT;
        assert_eq!(result!(memory::cuMemAlloc_v2(&mut address, 16)), no_context);
        start();
        let refused = result!(module::cuModuleLoadData(&mut handle, c"\x7fELF".as_ptr().cast()));
        assert_eq!(refused, CudaResult::NO_BINARY_FOR_GPU);
        let (_, add) = load(ADD, c"add");
        let words = upload(&[0; 4]);
        assert_eq!(launch_one(add + 1, 4, 0, &[words]), CudaResult::INVALID_HANDLE);
        assert_eq!(launch_one(add, 2048, 0, &[words]), CudaResult::INVALID_VALUE);
        let too_much = result!(function::cuFuncSetAttribute(add, 8, 1 << 20));
        assert_eq!(too_much, CudaResult::INVALID_VALUE);
        let outside = result!(memory::cuMemcpyDtoH_v2((&raw mut address).cast(), words + 12, 8));
        assert_eq!(outside, CudaResult::INVALID_VALUE);
        assert_eq!(result!(memory::cuMemFree_v2(words + 4)), CudaResult::INVALID_VALUE);
        assert_eq!(result!(event::cuEventRecord(add, 0)), CudaResult::INVALID_HANDLE);
        // None of these is an error that stays.
        assert_eq!(launch_one(add, 4, 0, &[words]), CudaResult::SUCCESS);
        assert_eq!(download(words, 4), [5; 4]);
    });
}

/// Every lane but the first reads what its neighbour may not have written yet.
const RACE: &CStr = c".version 8.7
.target sm_90a
.address_size 64
.file 1 \"neighbours.cu\"
.visible .entry neighbours(.param .u64 words)
{
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    .shared .align 4 .b8 shared[512];
    ld.param.u64 %rd0, [words];
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, shared;
    add.u32 %r1, %r1, %r2;
    .loc 1 7 5
    st.shared.u32 [%r1], %r0;
    .loc 1 8 9
    xor.b32 %r1, %r1, 128;
    ld.shared.u32 %r3, [%r1];
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd0, %rd0, %rd1;
    st.global.u32 [%rd0], %r3;
    ret;
}";

#[test]
fn a_race_is_told_and_written_with_its_launch() {
    let scratch = files::Scratch::new().unwrap();
    let named = std::path::Path::new("neighbours");
    let variables = [("SIXWARP_CHECK_REPORT", scratch.path()), ("SIXWARP_CHECK_LAUNCHES", named)];
    let output = common::in_child("a_race_is_told_and_written_with_its_launch", &variables, || {
        start();
        let (_, race) = load(RACE, c"neighbours");
        let words = upload(&[9; 64]);
        for _ in 0..2 {
            // The program goes on: it gets what a GPU may give.
            assert_eq!(launch_one(race, 64, 0, &[words]), CudaResult::SUCCESS);
        }
        assert_eq!(download(words, 64)[63], 31);
    });
    let Some(output) = output else { return };
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches("hazard[race]").count(), 1, "told once:\n{told}");
    let read = |path: &std::path::Path| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let saved = std::fs::read_dir(scratch.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().contains("-launch-000")
    });
    assert_eq!(saved.count(), 2, "both launches are saved");
    let mut paths: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let summary = read(&paths.pop().unwrap());
    let findings: Vec<Value> = paths.iter().map(|path| read(path)).collect();
    assert_eq!((&summary["launches"], &summary["findings"]), (&2.into(), &findings.len().into()));
    let races: Vec<&Value> = findings.iter().filter(|finding| finding["rule"] == "race").collect();
    let [finding] = races[..] else { panic!("{findings:?}") };
    assert_eq!(finding["kind"], "hazard");
    let sites = finding["sites"].as_array().unwrap();
    let mut lines: Vec<u64> = sites.iter().map(|site| site["line"].as_u64().unwrap()).collect();
    lines.sort();
    assert_eq!((&sites[0]["file"], lines), (&"neighbours.cu".into(), vec![7, 8]));
    assert!(finding["times"].as_u64() > Some(1));
    let launch = read(&scratch.path().join(finding["launch"].as_str().unwrap()));
    assert_eq!((&launch["kernel"], &launch["block"][0]), (&"neighbours".into(), &64.into()));
    assert_eq!(
        (&launch["relocs"][0]["buffer"], &launch["buffers"][0]["bytes"]),
        (&0.into(), &256.into())
    );
}
