//! Tensor memory for the time of a kernel (sm_100a): one warp allocates it, and frees it.

use super::arith::Cmp;
use super::builder::Builder;
use super::memory::SmemPtr;
use super::roles::Warp;
use super::shared::SharedArray;
use super::tcgen05::{CtaGroup, TmemPtr};
use crate::Symbol;

/// Columns of tensor memory, and the warp that owns them.
///
/// All warps call [`TensorMemory::allocate`]; behind a barrier they find the memory by
/// [`TensorMemory::pointer`]. When all are done, and behind another barrier, they call
/// [`TensorMemory::free`]. Fences (`tcgen05.fence`) around barriers are the caller's.
#[derive(Clone, Copy, Debug)]
pub struct TensorMemory {
    group: CtaGroup,
    owner: u32,
    columns: u32,
    /// Where the allocator leaves the address.
    address: SmemPtr,
}

impl TensorMemory {
    /// Memory of `columns` columns (a power of two from 32 to 512) that warp `owner` of each CTA of
    /// the group allocates. Reserves the place of its address in shared memory.
    pub fn reserve(
        b: &mut Builder,
        shared: SmemPtr,
        group: CtaGroup,
        owner: u32,
        columns: u32,
    ) -> Self {
        let legal = (32..=512).contains(&columns) && columns.is_power_of_two();
        assert!(
            legal,
            "{columns} columns: tensor memory is allocated in powers of two from 32 to 512"
        );
        TensorMemory { group, owner, columns, address: SharedArray::<u32>::one(b, shared).at() }
    }

    /// Allocates, in the owning warp; others pass by. No further allocation is asked for.
    #[track_caller]
    pub fn allocate(&self, b: &mut Builder, warp: Warp) {
        let others = self.unless_owner(b, warp);
        b.tmem_alloc(self.group, self.address, self.columns);
        b.tmem_relinquish(self.group);
        b.place(others);
    }

    /// Where the memory is, behind the barrier that follows the allocation.
    #[track_caller]
    pub fn pointer(&self, b: &mut Builder) -> TmemPtr {
        TmemPtr { base: b.ld_shared::<u32>(self.address), column: 0 }
    }

    /// Frees, in the owning warp, what all warps are done with.
    #[track_caller]
    pub fn free(&self, b: &mut Builder, warp: Warp, memory: TmemPtr) {
        let others = self.unless_owner(b, warp);
        b.tcgen05_fence_after();
        b.tmem_dealloc(self.group, memory.base, self.columns);
        b.place(others);
    }

    /// Sends the other warps to the label returned. A closure would hide the caller's line.
    #[track_caller]
    fn unless_owner(&self, b: &mut Builder, warp: Warp) -> Symbol {
        let owns = b.setp(Cmp::Eq, warp.index(), self.owner);
        let others = b.label();
        b.branch_unless(owns, others);
        others
    }
}
