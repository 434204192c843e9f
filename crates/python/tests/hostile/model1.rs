//! Packing and unpacking of rows for a hostile caller.

use crate::caller::sentence;
use crate::guard::{Guarded, Side};
use sixwarp_python::{Memory, ffi};
use std::ptr::null;

const BF16: u32 = 2;
const F32: u32 = 0;
const U8: u32 = 4;
/// Bytes of a page of three rows.
const PAGE_BYTES: usize = 4 * 576;

fn memory(of: &Guarded, element: u32, writable: bool) -> Memory {
    let (address, bytes) = (of.address(), of.len());
    Memory { slot: 0, element, device: -1, writable: writable as u32, address, bytes }
}

fn outcome(code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(sentence()) }
}

fn pack(rows: &Memory, page_rows: u64, pages: &Memory) -> Result<(), String> {
    // SAFETY: tensors are described as they are, or must be refused.
    outcome(unsafe { ffi::sixwarp_model1_pack(rows, page_rows, pages) })
}

fn unpack(pages: &Memory, page_rows: u64, rows: &Memory) -> Result<(), String> {
    // SAFETY: as `pack`.
    outcome(unsafe { ffi::sixwarp_model1_unpack(pages, page_rows, rows) })
}

/// Ways to spoil a description.
fn spoils(good: Memory, writable: bool) -> Vec<Memory> {
    let mut spoils = vec![
        Memory { address: 0, ..good },
        Memory { device: 1, ..good },
        Memory { element: 3, ..good },
        Memory { element: 99, ..good },
    ];
    if writable {
        spoils.push(Memory { writable: 0, ..good });
    }
    spoils
}

#[test]
fn rows_and_pages_stay_within_their_memory() {
    for side in [Side::Start, Side::End] {
        for count in [0usize, 1, 3, 4, 7] {
            let pages = Guarded::new(&vec![0; count.div_ceil(3) * PAGE_BYTES], side);
            let rows = Guarded::new(&vec![0; count * 1024], side).read_only();
            pack(&memory(&rows, BF16, false), 3, &memory(&pages, U8, true)).unwrap();
            let back = Guarded::new(&vec![1; count * 2048], side);
            unpack(&memory(&pages, U8, false), 3, &memory(&back, F32, true)).unwrap();
            assert!(back.contents().iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn rows_and_pages_that_are_none_are_refused() {
    let pages = Guarded::new(&[0; 2 * PAGE_BYTES], Side::End);
    let rows = Guarded::new(&[0; 4 * 1024], Side::End);
    let back = Guarded::new(&[0; 4 * 2048], Side::End);
    let (from, into) = (memory(&rows, BF16, false), memory(&pages, U8, true));
    let to = memory(&back, F32, true);
    for spoiled in spoils(from, false) {
        assert!(pack(&spoiled, 3, &into).unwrap_err().starts_with("rows: "));
    }
    for spoiled in spoils(into, true) {
        assert!(pack(&from, 3, &spoiled).unwrap_err().starts_with("pages: "));
    }
    for spoiled in spoils(to, true) {
        assert!(unpack(&into, 3, &spoiled).unwrap_err().starts_with("rows: "));
    }
    for spoiled in spoils(into, false) {
        assert!(unpack(&spoiled, 3, &to).unwrap_err().starts_with("pages: "));
    }
    // A page too few, a part of a row, pages of no or of more rows than there can be.
    let few = Memory { bytes: PAGE_BYTES as u64, ..into };
    assert_eq!(pack(&from, 3, &few).unwrap_err(), "pages: must hold 4608 bytes, but it is 2304");
    assert!(unpack(&few, 3, &to).is_err());
    let part = Memory { bytes: 4095, ..from };
    assert_eq!(
        pack(&part, 3, &into).unwrap_err(),
        "rows: must be whole rows of 1024 bytes, but it is 4095"
    );
    for page_rows in [0, 1 << 40, u64::MAX] {
        let refused = "page_rows: must lie in 1..2^40";
        assert!(pack(&from, page_rows, &into).unwrap_err().starts_with(refused));
        assert!(unpack(&into, page_rows, &to).unwrap_err().starts_with(refused));
    }
    assert!(pack(&from, (1 << 40) - 1, &into).unwrap_err().starts_with("pages: must hold"));
    let endless = Memory { bytes: u64::MAX - 1023, ..from };
    assert!(pack(&endless, 3, &into).unwrap_err().starts_with("rows: "));
    let overlapping = Memory { address: from.address, bytes: 2 * PAGE_BYTES as u64, ..into };
    let error = pack(&from, 3, &overlapping).unwrap_err();
    assert_eq!(error, "rows: must not share memory with pages, but it is the same memory");
}

#[test]
fn null_is_refused() {
    let page = Guarded::new(&[0; PAGE_BYTES], Side::End);
    let page = memory(&page, U8, true);
    // SAFETY: null is what these are to refuse.
    unsafe {
        assert_eq!(ffi::sixwarp_model1_pack(null(), 3, &page), 1);
        assert_eq!(ffi::sixwarp_model1_pack(&page, 3, null()), 1);
        assert_eq!(ffi::sixwarp_model1_unpack(null(), 3, &page), 1);
        assert_eq!(ffi::sixwarp_model1_unpack(&page, 3, null()), 1);
    }
}
