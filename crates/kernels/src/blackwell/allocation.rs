//! Tensor memory for the time of a kernel.

use crate::call::task::Params;
use ptx::build::{Builder, Cmp, CtaGroup, SharedArray, SmemPtr, TmemPtr, Warp};

/// What is allocated, and by whom.
pub struct Allocation {
    /// One CTA, or a CTA pair that allocates together.
    group: CtaGroup,
    /// The warp that owns it.
    owner: u32,
    columns: u32,
    /// Where the allocator leaves the address.
    address: SmemPtr,
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
        Allocation { group, owner, columns, address: SharedArray::<u32>::one(b, shared).at() }
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
        let allocates = b.setp(Cmp::Eq, warp.index(), self.owner);
        b.if_(allocates, |b| {
            b.tmem_alloc(self.group, self.address, self.columns);
            b.tmem_relinquish(self.group);
        });
        self.begin(b, params);
        let tmem = TmemPtr { base: b.ld_shared::<u32>(self.address), column: 0 };
        roles(b, warp, tmem);
        b.tcgen05_fence_before();
        self.meet(b);
        let frees = b.setp(Cmp::Eq, warp.index(), self.owner);
        b.if_(frees, |b| {
            b.tcgen05_fence_after();
            b.tmem_dealloc(self.group, tmem.base, self.columns);
        });
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
