//! Properties of the device: one structure of the header, which each release lays out in its own way.

use super::{check_device, runtime};
use crate::device;
use crate::result::{CudaResult, Outcome};
use std::ffi::c_int;

/// A number in the structure.
struct Field {
    /// Its place in release 12, 0 if it is not there.
    in_12: usize,
    /// Its place in release 13, 0 if it is not there.
    in_13: usize,
    /// Its bytes.
    bytes: usize,
    /// The device's attribute that it is.
    attribute: u32,
}

const fn word(in_12: usize, in_13: usize, attribute: u32) -> Field {
    Field { in_12, in_13, bytes: 4, attribute }
}

const fn long(in_12: usize, in_13: usize, attribute: u32) -> Field {
    Field { in_12, in_13, bytes: 8, attribute }
}

/// Fields that the attributes of the driver API tell.
const FIELDS: [Field; 51] = [
    // Shared memory and registers of a CTA, warp, pitch.
    long(296, 296, 8),
    word(304, 304, 12),
    word(308, 308, 10),
    long(312, 312, 11),
    // Threads of a CTA, its extents, extents of a grid.
    word(320, 320, 1),
    word(324, 324, 2),
    word(328, 328, 3),
    word(332, 332, 4),
    word(336, 336, 5),
    word(340, 340, 6),
    word(344, 344, 7),
    // Clock, constants, architecture, textures.
    word(348, 0, 13),
    long(352, 352, 9),
    word(360, 360, 75),
    word(364, 364, 76),
    long(368, 368, 14),
    long(376, 376, 51),
    // Overlap, processors, time limit, integrated, mapped memory, mode.
    word(384, 0, 15),
    word(388, 384, 16),
    word(392, 0, 17),
    word(396, 388, 18),
    word(400, 392, 19),
    word(404, 0, 20),
    // Surfaces, concurrent kernels, ECC, cluster driver, copies, unified addresses.
    long(568, 552, 30),
    word(576, 560, 31),
    word(580, 564, 32),
    word(596, 580, 35),
    word(600, 584, 40),
    word(604, 588, 41),
    // Memory: clock, width, L2 and what of it can be kept.
    word(608, 0, 36),
    word(612, 592, 37),
    word(616, 596, 38),
    word(620, 600, 108),
    // Threads of a processor, priorities, L1.
    word(624, 604, 39),
    word(628, 608, 78),
    word(632, 612, 79),
    word(636, 616, 80),
    // Shared memory and registers of a processor, managed memory.
    long(640, 624, 81),
    word(648, 632, 82),
    word(652, 636, 83),
    // Access to the host's memory, preemption, registered memory, cooperative launches.
    word(672, 652, 88),
    word(676, 656, 89),
    word(680, 660, 90),
    word(684, 664, 91),
    word(688, 668, 95),
    // Shared memory of a CTA that asks for it, CTAs of a processor, reserved shared memory.
    long(696, 672, 97),
    word(712, 688, 106),
    long(720, 696, 111),
    // Registration, memory pools, clusters.
    word(728, 704, 99),
    word(744, 720, 115),
    word(772, 748, 120),
];

/// The structure of release 12.
const SIZE_IN_12: usize = 1032;
/// The structure of release 13.
const SIZE_IN_13: usize = 1008;

const UUID: usize = 256;
const TOTAL_MEMORY: usize = 288;

/// The structure's bytes; `place` chooses the release.
fn properties<const SIZE: usize>(place: impl Fn(&Field) -> usize) -> [u8; SIZE] {
    let mut all = [0; SIZE];
    let name = device::name();
    let length = name.len().min(UUID - 1);
    all[..length].copy_from_slice(&name.as_bytes()[..length]);
    all[UUID..UUID + 16].copy_from_slice(&device::uuid());
    all[TOTAL_MEMORY..TOTAL_MEMORY + 8].copy_from_slice(&device::total_memory().to_le_bytes());
    for field in FIELDS.iter().filter(|field| place(field) > 0) {
        let value = i64::from(device::attribute(field.attribute).unwrap_or(0));
        let start = place(field);
        all[start..start + field.bytes].copy_from_slice(&value.to_le_bytes()[..field.bytes]);
    }
    all
}

/// # Safety
/// `to` is null or has room for all bytes.
unsafe fn tell<const SIZE: usize>(to: *mut u8, bytes: [u8; SIZE]) -> Outcome {
    if to.is_null() {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the room.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), SIZE) };
    Ok(())
}

runtime! {
    /// Properties as release 13 lays them out.
    fn [cudaGetDeviceProperties](to: *mut u8, device: c_int) {
        check_device(device)?;
        // SAFETY: the program's structure; only programs of release 13 call this name.
        unsafe { tell(to, properties::<SIZE_IN_13>(|field| field.in_13)) }
    }

    /// Properties as release 12 lays them out.
    fn [cudaGetDeviceProperties_v2](to: *mut u8, device: c_int) {
        check_device(device)?;
        // SAFETY: the program's structure; only programs of release 12 call this name.
        unsafe { tell(to, properties::<SIZE_IN_12>(|field| field.in_12)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Place = fn(&Field) -> usize;

    #[test]
    fn fields_lie_apart_and_inside_in_both_releases() {
        let places: [(usize, Place); 2] =
            [(SIZE_IN_12, |field| field.in_12), (SIZE_IN_13, |field| field.in_13)];
        for (size, place) in places {
            let there: Vec<&Field> = FIELDS.iter().filter(|field| place(field) > 0).collect();
            for pair in there.windows(2) {
                assert!(place(pair[0]) + pair[0].bytes <= place(pair[1]));
                assert_eq!(place(pair[1]) % pair[1].bytes, 0);
            }
            assert!(there.iter().all(|field| place(field) + field.bytes <= size));
        }
    }
}
