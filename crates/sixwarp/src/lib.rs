//! Fused attention on whatever there is: this machine's CPU, an NVIDIA GPU, a simulated one, or the
//! f64 oracle.
//!
//! A [`Problem`] says what is asked, [`HostBuffers`] where the tensors are, a [`Device`] who computes.
//!
//! ```
//! use sixwarp::{DType, Device, HostBuffers, Mask, Problem, Segment, Slot, View, attention};
//!
//! // Two sequences of 3 queries on 5 keys, 4 query heads sharing 2 KV heads, head dim 8.
//! let queries = View::bshd(DType::F32, [2, 4, 3, 8]);
//! let keys = View::bshd(DType::F32, [2, 2, 5, 8]);
//! let problem = Problem::builder(queries)
//!     .segment(Segment::new(keys, keys).mask(Mask::Causal))
//!     .return_lse()
//!     .build()?;
//!
//! let (q, k, v) = (vec![0.5f32; 192], vec![0.25f32; 160], vec![2.0f32; 160]);
//! let (mut out, mut lse) = (vec![0.0f32; 192], vec![0.0f32; 24]);
//! let mut buffers = HostBuffers::new()
//!     .input(Slot::Q, &q)
//!     .input(Slot::K, &k)
//!     .input(Slot::V, &v)
//!     .output(Slot::Out, &mut out)
//!     .output(Slot::Lse, &mut lse);
//! attention(&problem, &mut buffers, &Device::cpu())?;
//! assert!(out.iter().all(|x| (x - 2.0).abs() < 1e-6));
//! # Ok::<(), sixwarp::Error>(())
//! ```

mod device;
mod device_name;
pub mod dsv4;
mod error;
mod executable;
mod gpu;
pub mod io;
mod memory;
mod merge;
mod merge_plan;
mod plan;
mod programs;
mod stream;
mod support;
mod tensor;

pub use cpu::{Comparison, Interrupted, Isa, Reference, compare, interruptible};
pub use device::Device;
pub use device_name::{DeviceName, UnknownDevice};
pub use error::Error;
pub use executable::Executable;
pub use kernels::merge::{MOST_PARTS, MergeSlot};
pub use kernels::{Arch, FewHeads, Loads, PlanOptions, Probabilities, Split};
pub use memory::{available_bytes, ensure_memory};
pub use merge::{apply_sink, merge};
pub use merge_plan::{MergeExecutable, MergePlan, plan_merge};
pub use plan::{Plan, attention, plan, plan_with};
pub use program;
pub use sim;
pub use stream::{Graph, Stream};
pub use support::{Target, supports};
pub use tensor::{DeviceBuffers, DeviceMut, DeviceRef, DeviceTensor, Pending, Scalar};

pub use problem::{
    AttnMask, DType, Descale, Description, E4m3, Element, HostBuffers, HostMut, HostRef, HostVec,
    IndexList, InvalidProblem, KeyLengths, Mask, MaskElement, PackedRows, Paging, Problem,
    ProblemBuilder, QueryLengths, Scales, Segment, SegmentDescription, SegmentSlot, Slot, Storage,
    Unsupported, Values, View,
};

/// The example of README.md runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
