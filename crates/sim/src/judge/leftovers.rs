//! What is left when a CTA or the cluster ends.

use super::Judge;
use crate::engine::Pending;
use crate::error::Site;
use crate::exec::{End, Work};
use crate::machine::{CtaRank, Machine, Run};
use crate::rules::Rule;

const AWAIT_SIGNALS: &str = "a warp of the CTA waits for the last phase of each mbarrier that another CTA signals, as \
                             a producer waits for every slot of its ring to be empty";

/// Whether an operation writes the shared memory of a CTA.
fn writes(work: &Work, cta: CtaRank) -> bool {
    let into = |end: &End| matches!(end, End::Shared(rank, _) if *rank == cta);
    match work {
        Work::TensorLoad { ends, .. }
        | Work::Bulk { ends, .. }
        | Work::CancelResponse { ends, .. } => ends.iter().any(into),
        Work::StoreAsync { to, .. } => into(to),
        Work::TensorStore { .. }
        | Work::CpAsync(_)
        | Work::Arrive(_)
        | Work::Wgmma(_)
        | Work::Mma(_)
        | Work::TmemCopy { .. }
        | Work::Shift { .. } => false,
    }
}

impl Judge<'_> {
    /// A CTA ends: no copy may still be writing its shared memory, nothing of another CTA be about to signal its
    /// mbarriers.
    pub(crate) fn check_in_flight(&self, machine: &Machine<'_>, cta: CtaRank) -> Run<()> {
        if let Some(pending) = machine.engines.pending().find(|p| writes(&p.work, cta)) {
            let message = "the CTA ends while this copy is still writing its shared memory".into();
            let site = machine.site(pending.warp, pending.pc, None);
            let help = "wait for the copy's mbarrier phase before the last warp exits";
            self.survivable_at(site, Rule::InFlightAtExit, message, Some(help))?;
        }
        let from_afar = |p: &&Pending| {
            let signals = p.work.signals().iter().any(|(rank, _)| *rank == cta);
            signals && machine.warps[p.warp].cta != cta
        };
        let Some(pending) = machine.engines.pending().find(from_afar) else { return Ok(()) };
        let message = format!(
            "CTA rank {cta} ends while this operation of another CTA has yet to signal its mbarrier"
        );
        let site = machine.site(pending.warp, pending.pc, None);
        self.survivable_at(site, Rule::InFlightAtExit, message, Some(AWAIT_SIGNALS))
    }

    /// A CTA ends: in pedantic mode one of its warps must have waited for every phase that an operation of another CTA
    /// signalled. Whether the signal has come by then is a matter of luck.
    pub(crate) fn check_signals_awaited(&self, machine: &Machine<'_>, cta: CtaRank) -> Run<()> {
        if !self.launch.options.pedantic {
            return Ok(());
        }
        let barriers = &machine.ctas[cta].mbarriers;
        let missed = barriers.iter().filter_map(|(at, bar)| Some((at, bar.unseen_signal()?)));
        let Some((at, by)) = missed.min_by_key(|(at, _)| **at) else { return Ok(()) };
        let message = format!(
            "CTA rank {cta} ends, and none of its warps has waited for what this operation of another CTA signals on \
             mbarrier {}",
            machine.mbarrier_name(cta, *at)
        );
        let site = machine.site(by.warp, by.pc, None);
        self.survivable_at(site, Rule::InFlightAtExit, message, Some(AWAIT_SIGNALS))
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
