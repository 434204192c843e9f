//! A hostile caller of the C interface.
//!
//! Every tensor lies between pages that cannot be touched, and inputs cannot be written: a read or a write
//! beyond a tensor is a segmentation fault, which ends the test. `cargo xtask asan` runs the same under
//! AddressSanitizer, which also sees the library's own memory.
#![cfg(unix)]

mod caller;
mod guard;
mod merging;
mod model1;

use caller::{Planned, Tensors, description, sentence};
use cases::{Case, CaseData};
use guard::{Guarded, Side};
use sixwarp_python::{Memory, ffi};
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// Small cases that together have every slot of the table, in every element type.
fn hostile_cases() -> Vec<CaseData> {
    let mut all = cases::table();
    all.sort_by_key(|case| sizes(case).sum::<u64>());
    let mut seen = Vec::new();
    all.retain(|case| {
        let problem = case.problem().unwrap();
        let kinds = problem.slots().into_iter().map(|slot| (slot, problem.slot_element(slot)));
        let new: Vec<_> = kinds.filter(|kind| !seen.contains(kind)).collect();
        let kept = !new.is_empty() && sizes(case).all(|bytes| bytes > 0);
        if kept {
            seen.extend(new);
        }
        kept
    });
    all.iter().map(|case| CaseData::new(case).unwrap()).collect()
}

/// Bytes of each of a case's tensors.
fn sizes(case: &Case) -> impl Iterator<Item = u64> {
    let problem = case.problem().unwrap();
    problem.slots().into_iter().map(move |slot| problem.slot_bytes(slot))
}

#[test]
fn every_case_of_the_table_stays_within_its_memory() {
    for case in cases::table() {
        let data = CaseData::new(&case).unwrap();
        let cpu = sixwarp::Device::cpu();
        let (result, out, lse) =
            data.with_outputs(|mut buffers| sixwarp::attention(&data.problem, &mut buffers, &cpu));
        result.unwrap();
        let lse = lse.map(|lse| lse.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let want: Vec<Vec<u8>> = [Some(out.to_bytes()), lse].into_iter().flatten().collect();
        let planned = Planned::new(&data.problem);
        for side in [Side::Start, Side::End] {
            let tensors = Tensors::new(&planned, &data, side);
            planned.run(&tensors.given).unwrap();
            assert!(tensors.outputs() == want, "{}: another result", case.name);
        }
    }
}

/// Ways to spoil one tensor's description, each with a part of the sentence it must be refused with.
fn spoils(good: Memory, output: bool) -> Vec<(Memory, &'static str)> {
    let mut spoils = vec![
        (Memory { bytes: 0, ..good }, "must hold"),
        (Memory { address: 0, ..good }, "must have memory, but it is at 0x0"),
        (Memory { address: good.address + 1, bytes: 1 << 40, ..good }, "must lie at a multiple"),
        (Memory { address: u64::MAX - 15, bytes: u64::MAX, ..good }, "must have memory"),
        (Memory { device: 0, ..good }, "must be on the CPU, but it is on GPU 0"),
        (Memory { device: i32::MIN, ..good }, "must be on the CPU"),
        (Memory { element: 8, ..good }, "of an unknown type"),
        (Memory { element: u32::MAX, ..good }, "of an unknown type"),
    ];
    let others = (0..8).filter(|element| *element != good.element);
    spoils.extend(others.map(|element| (Memory { element, ..good }, "must hold")));
    if output {
        spoils.push((Memory { writable: 0, ..good }, "must be writable, but it is read-only"));
    }
    // Bytes, booleans and e4m3 numbers lie anywhere.
    let bytes = [4, 6, 7].contains(&good.element);
    spoils.retain(|(_, sentence)| !(bytes && sentence.contains("multiple")));
    spoils
}

#[test]
fn tensors_that_are_not_what_the_plan_needs_are_refused() {
    for data in hostile_cases() {
        let planned = Planned::new(&data.problem);
        let tensors = Tensors::new(&planned, &data, Side::End);
        let untouched = tensors.outputs();
        for (at, (slot, _)) in tensors.slots.iter().enumerate() {
            for (spoiled, sentence) in spoils(tensors.given[at], slot.is_output()) {
                let mut given = tensors.given.clone();
                given[at] = spoiled;
                let error = planned.run(&given).unwrap_err();
                assert!(
                    error.starts_with(&format!("{slot}: ")) && error.contains(sentence),
                    "{spoiled:?}: {error}"
                );
            }
        }
        assert_eq!(tensors.outputs(), untouched);
        planned.run(&tensors.given).unwrap();
    }
}

#[test]
fn short_tensors_are_refused_however_little_they_lack() {
    for data in hostile_cases() {
        let planned = Planned::new(&data.problem);
        let tensors = Tensors::new(&planned, &data, Side::End);
        for (at, (slot, memory)) in tensors.slots.iter().enumerate() {
            let contents = memory.contents();
            for missing in [1, data.problem.slot_element(*slot).bytes() as usize, contents.len()] {
                let short = Guarded::new(&contents[..contents.len() - missing], Side::End);
                let mut given = tensors.given.clone();
                (given[at].address, given[at].bytes) = (short.address(), short.len());
                let error = planned.run(&given).unwrap_err();
                let want = format!("{slot}: must hold {} bytes, but it is", contents.len());
                assert!(error.starts_with(&want), "{error}");
            }
        }
    }
}

#[test]
fn tensors_are_named_and_not_counted() {
    for data in hostile_cases() {
        let planned = Planned::new(&data.problem);
        let tensors = Tensors::new(&planned, &data, Side::End);
        let mut turned = tensors.given.clone();
        turned.reverse();
        planned.run(&turned).unwrap();
        for (at, (slot, _)) in tensors.slots.iter().enumerate() {
            let mut given = tensors.given.clone();
            let left_out = given.remove(at);
            let error = planned.run(&given).unwrap_err();
            assert_eq!(error, format!("{slot}: is needed by the plan, but it is missing"));
            for other in [15, 31, 47, 4000, u32::MAX] {
                given.push(Memory { slot: other, ..left_out });
                let error = planned.run(&given).unwrap_err();
                assert_eq!(error, format!("slot {other}: is none of the plan's, but it is given"));
                given.pop();
            }
            given.extend([left_out, left_out]);
            let error = planned.run(&given).unwrap_err();
            assert_eq!(error, format!("{slot}: is given once, but it is given again"));
        }
    }
}

#[test]
fn outputs_share_memory_with_nothing() {
    for data in hostile_cases() {
        let planned = Planned::new(&data.problem);
        // At the start of a page any output may lie.
        let tensors = Tensors::new(&planned, &data, Side::Start);
        let outputs = (0..tensors.slots.len()).filter(|at| tensors.slots[*at].0.is_output());
        for output in outputs {
            for other in (0..tensors.slots.len()).filter(|other| *other != output) {
                let mut given = tensors.given.clone();
                let bytes = given[output].bytes.max(given[other].bytes);
                (given[output].address, given[output].bytes) = (given[other].address, bytes);
                let error = planned.run(&given).unwrap_err();
                assert!(error.contains("must not share memory with"), "{error}");
            }
        }
    }
}

#[test]
fn null_is_refused_everywhere() {
    let data = &hostile_cases()[0];
    let planned = Planned::new(&data.problem);
    // SAFETY: null is what these are to refuse.
    unsafe {
        assert!(ffi::sixwarp_plan(null(), -1, null_mut()).is_null());
        assert_eq!(sentence(), "description: must be given, but it is null");
        let mut kind = 0;
        assert!(ffi::sixwarp_plan(null(), -1, &mut kind).is_null());
        assert_eq!(kind, 1);
        assert_eq!(ffi::sixwarp_supports(null(), c"cpu".as_ptr()), 1);
        assert_eq!(ffi::sixwarp_supports(c"{}".as_ptr(), null()), 1);
        assert!(ffi::sixwarp_dsv4(null(), &mut kind).is_null());
        assert!(ffi::sixwarp_dsv4(c"{}".as_ptr(), null_mut()).is_null());
        assert!(sentence().starts_with("tensors: must be JSON"), "{}", sentence());
        assert!(ffi::sixwarp_plan_info(null()).is_null());
        ffi::sixwarp_plan_free(null_mut());
        assert_eq!(ffi::sixwarp_run(null(), null(), 0, null(), 0), 1);
        assert_eq!(sentence(), "plan: must be given, but it is null");
        assert_eq!(ffi::sixwarp_run(planned.plan, null(), 5, null(), 0), 1);
        assert_eq!(sentence(), "tensors: must be given, but it is null");
        assert_eq!(ffi::sixwarp_run(planned.plan, null(), 0, null(), 0), 1);
        assert_eq!(sentence(), "q: is needed by the plan, but it is missing");
    }
}

#[test]
fn descriptions_that_are_none_are_refused() {
    let good = description(&hostile_cases()[0].problem).to_string();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let huge = good.replacen("[", "[18446744073709551615,", 1);
    let texts = ["", "null", "{}", "[]", "\"", &nested, &huge, &good[..good.len() - 1]];
    let bytes = texts.iter().map(|text| text.as_bytes()).chain([&b"\xff\xfe{}"[..]]);
    for bytes in bytes {
        let text = CString::new(bytes).unwrap();
        let mut kind = 0;
        // SAFETY: a C string and a place for the kind.
        let plan = unsafe { ffi::sixwarp_plan(text.as_ptr(), -1, &mut kind) };
        assert!(plan.is_null() && kind == 1, "{kind}: {}", sentence());
        assert!(sentence().starts_with("description: must be "), "{}", sentence());
    }
    let text = CString::new(good).unwrap();
    for device in [-2, i32::MIN, 1 << 20] {
        let mut kind = 0;
        // SAFETY: as above.
        assert!(unsafe { ffi::sixwarp_plan(text.as_ptr(), device, &mut kind) }.is_null());
        assert_eq!(kind, 4, "{}", sentence());
    }
}
