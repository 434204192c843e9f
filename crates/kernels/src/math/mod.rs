//! Arithmetic that all architectures share: the online softmax, powers of two, soft caps, mask tensors, and rows
//! that are computed again.

pub mod average;
pub mod bias;
pub mod exact;
pub mod exponential;
pub mod hyperbolic;
pub mod softmax;
pub mod weights;
