//! What every role of a kernel knows: its configuration, its parameters, the map of tensor memory.

use super::config::Config;
use super::tensor_memory::TensorMemory;
use crate::call::task::Params;

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub map: TensorMemory,
}
