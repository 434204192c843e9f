//! The simulated address space.
//!
//! Generic addresses fall into windows; everything outside the windows is global memory. A shared
//! address is 32 bits: the CTA's rank in its cluster above 24 bits of offset, as on the hardware.

/// Where the shared window starts; 4 GiB long.
pub const SHARED_WINDOW: u64 = 0x0000_5A00_0000_0000;
/// Where the local window starts.
pub const LOCAL_WINDOW: u64 = 0x0000_5B00_0000_0000;
/// Where the parameter window starts.
pub const PARAM_WINDOW: u64 = 0x0000_5C00_0000_0000;
/// Where global allocations start.
pub const GLOBAL_BASE: u64 = 0x0000_7F00_0000_0000;
/// Length of each window.
pub const WINDOW: u64 = 1 << 32;

/// Offset bits of a shared address.
pub const SHARED_OFFSET: u32 = 0x00FF_FFFF;

/// The shared-window address of `offset` in the CTA of `rank`.
pub const fn shared(rank: u32, offset: u32) -> u32 {
    rank << 24 | offset
}

/// What a generic address points into, and the address inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Global memory.
    Global(u64),
    /// Shared memory of the cluster.
    Shared(u32),
    /// Local memory.
    Local(u64),
    /// Parameters.
    Param(u64),
}

/// The window of a generic address.
pub fn window(address: u64) -> Window {
    match address & !(WINDOW - 1) {
        SHARED_WINDOW => Window::Shared(address as u32),
        LOCAL_WINDOW => Window::Local(address - LOCAL_WINDOW),
        PARAM_WINDOW => Window::Param(address - PARAM_WINDOW),
        _ => Window::Global(address),
    }
}
