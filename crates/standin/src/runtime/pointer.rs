//! What the runtime knows of an address.

use super::runtime;
use crate::driver::driver;
use crate::guard::give;
use crate::memory::Kind;
use std::ffi::{c_int, c_uint};

/// Attributes of an address, as the header has them; what a release has behind them is not written.
#[repr(C)]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Memory that nobody registered 0, of the host 1, of the device 2, managed 3.
    pub kind: c_uint,
    /// Its device.
    pub device: c_int,
    /// Its address for kernels.
    pub device_pointer: u64,
    /// Its address for the host.
    pub host_pointer: u64,
}

runtime! {
    /// What is known of an address; memory that nobody registered is no error.
    fn [cudaPointerGetAttributes](attributes: *mut Attributes, address: u64) {
        let state = driver()?.state();
        let found = state.memory.find(address).map(|(_, allocation)| allocation.kind);
        let known = match found {
            None => Attributes { device: -2, host_pointer: address, ..Attributes::default() },
            Some(kind) => Attributes {
                kind: match kind {
                    Kind::Pinned | Kind::Registered => 1,
                    Kind::Device | Kind::Variable => 2,
                    Kind::Managed => 3,
                },
                device: 0,
                device_pointer: address,
                host_pointer: if kind.is_host() { address } else { 0 },
            },
        };
        // SAFETY: the program's pointer.
        unsafe { give(attributes, known) }
    }
}
