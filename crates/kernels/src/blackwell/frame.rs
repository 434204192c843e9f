//! What every role of a kernel knows: its configuration, its parameters, the map of tensor memory.

use super::config::Config;
use super::tensor_memory::TensorMemory;
use crate::call::task::Params;
use ptx::build::{Builder, CtaGroup, Mbarrier, Reg};

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub map: TensorMemory,
}

/// Arrives, where `p` holds, on the barrier at this place in the CTA that multiplies for `group`.
#[track_caller]
pub fn arrive_if(b: &mut Builder, barrier: Mbarrier, group: CtaGroup, p: Reg<bool>) {
    match group {
        CtaGroup::One => barrier.arrive_if(b, p),
        CtaGroup::Two => barrier.in_cta(b, 0).arrive_if(b, p),
    }
}
