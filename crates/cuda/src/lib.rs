//! Runs a [`Program`](program::Program) on a GPU through the NVIDIA driver; no toolkit is needed.
//!
//! ```no_run
//! use sixwarp_cuda::{Device, Error};
//!
//! /// Runs a program over two buffers, `q` and `out`.
//! fn run(program: &program::Program, q: &[u8], out_bytes: usize) -> Result<Vec<u8>, Error> {
//!     let device = Device::open(0)?;
//!     let loaded = device.load(program)?;
//!     let (q, out) = (device.upload(q)?, device.alloc(out_bytes)?);
//!     loaded.launch(&device.default_stream(), &[q.pointer(), out.pointer()])?;
//!     out.read()
//! }
//! ```
//!
//! [`Device::load`] compiles (or takes machine code from the [cache](CubinCache)), sets the kernels'
//! attributes and keeps everything a launch needs. [`Loaded::bind`] adds the addresses of buffers;
//! [`Bound::launch`] then only queues kernels: it neither allocates device memory nor waits, so it
//! can be captured in a CUDA graph.
//!
//! All `unsafe` is in the `driver` module.

#![deny(unsafe_code)]

mod cache;
mod device;
#[allow(unsafe_code, reason = "the one place that calls the driver")]
mod driver;
mod error;
mod host;
mod jit;
mod loaded;
mod memory;
mod stream;
mod timing;

pub use cache::CubinCache;
pub use device::{Device, DeviceInfo, driver_version};
pub use error::{DriverError, Error};
pub use host::RUN_LIMIT;
pub use jit::Origin;
pub use loaded::{Bound, KernelInfo, Loaded};
pub use memory::{DeviceBuffer, DevicePtr};
pub use stream::{Graph, Stream};
pub use timing::{Samples, Timer};

use program::TensorMap;

/// What the driver makes of `map` over a buffer at `address`: the judge of
/// [`TensorMap::encode`] and of [`TensorMap::check`].
///
/// Needs a driver ([`Device::open`] was asked); a map of the wrong shape (rules T1, T2) panics.
pub fn encode_with_driver(map: &TensorMap, address: u64) -> Result<[u8; 128], Error> {
    Ok(driver::encode_tensor_map(map, address)?)
}
