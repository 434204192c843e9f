//! What is left when a CTA or the cluster ends.

use super::Judge;
use crate::engine::Pending;
use crate::error::Site;
use crate::exec::{End, Work};
use crate::machine::{CtaRank, Machine, Run};
use crate::rules::Rule;

impl Judge<'_> {
    /// A CTA ends: no copy may still be writing its shared memory.
    pub(crate) fn check_in_flight(&self, machine: &Machine<'_>, cta: CtaRank) -> Run<()> {
        let into = |p: &&Pending| match &p.work {
            Work::TensorLoad { ends, .. }
            | Work::Bulk { ends, .. }
            | Work::CancelResponse { ends, .. } => {
                ends.iter().any(|end| matches!(end, End::Shared(rank, _) if *rank == cta))
            }
            Work::TensorStore { .. }
            | Work::CpAsync(_)
            | Work::Arrive(_)
            | Work::StoreAsync { .. }
            | Work::Wgmma(_)
            | Work::Mma(_)
            | Work::TmemCopy { .. }
            | Work::Shift { .. } => false,
        };
        let Some(pending) = machine.engines.pending().find(into) else { return Ok(()) };
        let message = "the CTA ends while this copy is still writing its shared memory".into();
        let site = machine.site(pending.warp, pending.pc, None);
        let help = "wait for the copy's mbarrier phase before the last warp exits";
        self.survivable_at(site, Rule::InFlightAtExit, message, Some(help))
    }

    /// A cluster ends: no tensor memory may still be allocated.
    pub(crate) fn check_tensor_memory_left(&self, machine: &Machine<'_>) -> Run<()> {
        for (rank, cta) in machine.ctas.pairs() {
            let Some((column, n)) = cta.tensor.allocations.first() else { continue };
            let message = format!(
                "CTA rank {rank} exits with {n} tensor-memory columns allocated at column {column}"
            );
            let kernel = machine.kernel.name.clone();
            let site = Site { kernel, cta: cta.id, ..Site::default() };
            let help = "tcgen05.dealloc everything before the last warp exits";
            self.survivable_at(site, Rule::TmemLeak, message, Some(help))?;
        }
        Ok(())
    }
}
