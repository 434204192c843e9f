//! Tensor memory for the time of a kernel.

use crate::call::task::Params;
use ptx::build::{Builder, Cmp, CtaGroup, SmemPtr, TensorMemory, TmemPtr, Warp};

/// What is allocated, and by whom.
pub struct Allocation {
    /// One CTA, or a CTA pair that allocates together.
    group: CtaGroup,
    memory: TensorMemory,
}

impl Allocation {
    /// Reserves the place of the address.
    pub fn reserve(
        b: &mut Builder,
        shared: SmemPtr,
        group: CtaGroup,
        owner: u32,
        columns: u32,
    ) -> Self {
        Allocation { group, memory: TensorMemory::reserve(b, shared, group, owner, columns) }
    }

    /// A kernel around its `roles`. One thread initialises the barriers (`init`), the owning warp
    /// allocates; everyone waits for both, and finds the CTA's work. When all roles are done the memory is freed.
    pub fn around(
        &self,
        b: &mut Builder,
        params: &Params,
        init: impl FnOnce(&mut Builder),
        roles: impl FnOnce(&mut Builder, Warp, TmemPtr),
    ) {
        let warp = b.warp();
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            init(b);
            b.fence_mbarrier_init();
        });
        self.memory.allocate(b, warp);
        self.begin(b, params);
        let tmem = self.memory.pointer(b);
        roles(b, warp, tmem);
        b.tcgen05_fence_before();
        self.meet(b);
        self.memory.free(b, warp, tmem);
    }

    /// Everyone waits for everyone else, and a CTA finds its work.
    fn begin(&self, b: &mut Builder, params: &Params) {
        b.warp_sync();
        match self.group {
            CtaGroup::One => params.share_out(b),
            CtaGroup::Two => b.cluster_barrier(),
        }
    }

    /// Everyone who shares the memory waits for everyone else.
    fn meet(&self, b: &mut Builder) {
        b.warp_sync();
        match self.group {
            CtaGroup::One => b.barrier_all(),
            CtaGroup::Two => b.cluster_barrier(),
        }
    }
}
