//! The device that programs see: an H100 or a B200 as far as its limits go.

use crate::memory::TOTAL;
use crate::settings::settings;
use program::Limits;
use std::ffi::c_int;

/// Name of the device.
pub fn name() -> String {
    let model = if settings().sm == 90 { "H100" } else { "B200" };
    format!("sixwarp simulator (sm_{}a, limits of an {model})", settings().sm)
}

/// A number that no real device has, the same in every run.
pub fn uuid() -> [u8; 16] {
    let mut uuid = *b"sixwarp-sim-sm\0\0";
    uuid[14..].copy_from_slice(&(settings().sm as u16).to_le_bytes());
    uuid
}

/// Processors.
pub fn processors() -> u32 {
    if settings().sm == 90 { 132 } else { 148 }
}

/// Shared memory of a processor.
pub const SHARED_OF_PROCESSOR: u32 = 228 << 10;
/// Shared memory that the system keeps of every CTA.
pub const RESERVED_SHARED: u32 = 1 << 10;
/// Threads of a processor.
pub const THREADS_OF_PROCESSOR: u32 = 2048;
/// CTAs of a processor.
pub const CTAS_OF_PROCESSOR: u32 = 32;
/// Registers of a processor.
pub const REGISTERS_OF_PROCESSOR: u32 = 65536;

/// Shared memory that a CTA can have when it asks for it.
pub fn shared_of_cta() -> u32 {
    Limits::of(&format!("sm_{}a", settings().sm)).map_or(227 << 10, |limits| limits.shared_bytes)
}

/// An attribute of the device by its number in the driver's header; `None` for one not known here.
pub fn attribute(number: u32) -> Option<c_int> {
    let (major, minor) = (settings().sm / 10, settings().sm % 10);
    let value: u32 = match number {
        // Threads of a CTA, and its extents.
        1..=3 => 1024,
        4 => 64,
        // Extents of a grid.
        5 => i32::MAX as u32,
        6 | 7 => 65535,
        // Shared memory of a CTA that asks for nothing, constants, warp, pitch, registers of a CTA.
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => i32::MAX as u32,
        12 | 82 => REGISTERS_OF_PROCESSOR,
        // Clock in kHz.
        13 => 1_980_000,
        // Alignment of textures; overlap of copies.
        14 => 512,
        15 => 1,
        16 => processors(),
        // Mapped host memory, several kernels and copies at a time, unified addresses.
        19 | 31 | 40 | 41 => 1,
        // Memory: clock in kHz, width in bits, L2.
        36 => 2_619_000,
        37 => 5120,
        38 => 50 << 20,
        39 => THREADS_OF_PROCESSOR,
        75 => major,
        76 => minor,
        // Priorities, cached globals and locals.
        78..=80 => 1,
        81 => SHARED_OF_PROCESSOR,
        // Managed memory.
        83 => 1,
        // Registered memory under the host's address, cooperative launches.
        91 | 95 => 1,
        97 => shared_of_cta(),
        106 => CTAS_OF_PROCESSOR,
        111 => RESERVED_SHARED,
        // Without memory pools programs take `cuMemAlloc`.
        115 => 0,
        // Clusters, tensor maps, unified function pointers.
        120 | 127 | 129 => 1,
        _ => 0,
    };
    (1..=160).contains(&number).then_some(value as c_int)
}

/// Bytes of memory.
pub fn total_memory() -> u64 {
    TOTAL
}

/// CTAs of a kernel that fit a processor at one time.
pub fn ctas_per_processor(threads: u32, shared: u64, registers: u32) -> u32 {
    let warps = threads.div_ceil(32).max(1);
    let by_threads = THREADS_OF_PROCESSOR / (32 * warps);
    let by_shared = u64::from(SHARED_OF_PROCESSOR) / (shared + u64::from(RESERVED_SHARED));
    let by_registers = REGISTERS_OF_PROCESSOR / (registers.next_multiple_of(8).max(8) * 32 * warps);
    by_threads.min(by_registers).min(CTAS_OF_PROCESSOR).min(by_shared as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_limits_a_processor_is_what_runs_out_first() {
        assert_eq!(ctas_per_processor(1024, 0, 32), 2);
        assert_eq!(ctas_per_processor(32, 0, 32), 32);
        assert_eq!(ctas_per_processor(128, 227 << 10, 32), 1);
        assert_eq!(ctas_per_processor(256, 0, 255), 1);
        assert_eq!(ctas_per_processor(1024, 0, 128), 0);
    }

    #[test]
    fn attributes_are_those_of_the_architecture() {
        assert_eq!((attribute(75), attribute(76)), (Some(9), Some(0)));
        assert_eq!(attribute(97), Some(232_448));
        assert_eq!((attribute(0), attribute(1000)), (None, None));
    }
}
