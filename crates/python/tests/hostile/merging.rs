//! Merging for a hostile caller.

use crate::caller::sentence;
use crate::guard::{Guarded, Side};
use sixwarp_python::{Memory, ffi};
use std::ffi::CString;
use std::ptr::null;

const SHAPE: &str = r#"{"shape": [2, 3, 4, 8], "strides": [96, 32, 8, 1], "dtype": "f32"}"#;
const OUT_BYTES: usize = 2 * 3 * 4 * 8 * 4;
const LSE_BYTES: usize = 2 * 3 * 4 * 4;

/// Memory of a merge of two parts: out, lse, sinks, then both parts.
struct Merge {
    _memory: Vec<Guarded>,
    given: Vec<Memory>,
}

const NAMES: [&str; 7] = ["out", "lse", "sinks", "outs[0]", "lses[0]", "outs[1]", "lses[1]"];

impl Merge {
    fn new(side: Side) -> Self {
        let sizes = [OUT_BYTES, LSE_BYTES, 12, OUT_BYTES, LSE_BYTES, OUT_BYTES, LSE_BYTES];
        let (mut all, mut given) = (Vec::new(), Vec::new());
        for (at, bytes) in sizes.into_iter().enumerate() {
            let memory = Guarded::new(&vec![0; bytes], side);
            let memory = if at < 2 { memory } else { memory.read_only() };
            let (address, bytes) = (memory.address(), memory.len());
            given.push(Memory {
                slot: 0,
                element: 0,
                device: -1,
                writable: (at < 2) as u32,
                address,
                bytes,
            });
            all.push(memory);
        }
        Merge { _memory: all, given }
    }
}

fn merge(shape: &str, given: &[Memory]) -> Result<(), String> {
    let text = CString::new(shape).unwrap();
    let parts = [[given[3], given[4]], [given[5], given[6]]];
    // SAFETY: tensors are described as they are, or must be refused.
    let code = unsafe {
        ffi::sixwarp_merge(text.as_ptr(), &given[0], &given[1], &given[2], parts.as_ptr(), 2, 0)
    };
    if code == 0 { Ok(()) } else { Err(sentence()) }
}

#[test]
fn merged_tensors_are_within_their_memory_and_checked() {
    for side in [Side::Start, Side::End] {
        let good = Merge::new(side);
        merge(SHAPE, &good.given).unwrap();
        for (at, name) in NAMES.iter().enumerate() {
            let memory = good.given[at];
            let spoils = [
                Memory { bytes: memory.bytes - 1, ..memory },
                Memory { bytes: 0, ..memory },
                Memory { address: 0, ..memory },
                Memory { address: memory.address + 1, bytes: memory.bytes, ..memory },
                Memory { element: 3, ..memory },
                Memory { element: 9, ..memory },
                Memory { device: 0, ..memory },
            ];
            let frozen = (at < 2).then_some(Memory { writable: 0, ..memory });
            for spoiled in spoils.into_iter().chain(frozen) {
                let mut given = good.given.clone();
                given[at] = spoiled;
                let error = merge(SHAPE, &given).unwrap_err();
                assert!(error.starts_with(&format!("{name}: ")), "{spoiled:?}: {error}");
            }
            for written in (0..2).filter(|written| *written != at) {
                let mut given = good.given.clone();
                given[at].address = given[written].address;
                let error = merge(SHAPE, &given).unwrap_err();
                assert!(error.contains("must not share memory with"), "{error}");
            }
        }
    }
}

#[test]
fn shapes_that_are_none_are_refused() {
    let good = Merge::new(Side::End);
    let replaced = |from: &str, to: &str| SHAPE.replace(from, to);
    let shapes = [
        "{}".to_string(),
        replaced("f32", "f64"),
        replaced("[2,", "[18446744073709551615,"),
        replaced("[96,", "[18446744073709551615,"),
        replaced("[2, 3,", "[4294967296, 4294967296,").replace("[96, 32,", "[0, 0,"),
        replaced("8, 1]", "8, 0]"),
        replaced("[2,", "[3,"),
    ];
    for shape in shapes {
        assert!(merge(&shape, &good.given).is_err(), "{shape}");
    }
}

#[test]
fn null_is_refused() {
    let text = CString::new(SHAPE).unwrap();
    let Merge { given, .. } = &Merge::new(Side::End);
    let refused = |code: i32, name: &str| {
        assert_eq!((code, sentence()), (1, format!("{name}: must be given, but it is null")));
    };
    // SAFETY: null is what these are to refuse.
    unsafe {
        let (out, lse) = (&given[0], &given[1]);
        refused(ffi::sixwarp_merge(null(), out, lse, null(), null(), 0, 0), "description");
        refused(ffi::sixwarp_merge(text.as_ptr(), null(), lse, null(), null(), 0, 0), "out");
        refused(ffi::sixwarp_merge(text.as_ptr(), out, null(), null(), null(), 0, 0), "lse");
        refused(ffi::sixwarp_merge(text.as_ptr(), out, lse, null(), null(), 1, 0), "parts");
        assert_eq!(ffi::sixwarp_merge(text.as_ptr(), out, lse, null(), null(), 0, 0), 0);
    }
}
