//! Accesses to the shared memory of another CTA, which must not end before them.

use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::mbarrier::Touch;
use crate::rules::Rule;
use crate::warp::WarpId;

impl Judge<'_> {
    /// A warp touches the shared memory of `cta`.
    pub(crate) fn note_visit(&mut self, machine: &Machine<'_>, w: WarpId, cta: CtaRank) {
        if machine.warps[w].cta == cta || !self.launch.options.pedantic {
            return;
        }
        let Some(checker) = &self.checker else { return };
        let visit = (Touch { warp: w, pc: machine.pc(w) }, checker.now(w));
        let visits = &mut self.visits[cta];
        match visits.iter_mut().find(|(by, _)| by.warp == w) {
            Some(last) => *last = visit,
            None => visits.push(visit),
        }
    }

    /// The last warp of `cta` ends: in pedantic mode one of its warps must know of every visit. Whether a
    /// visitor really comes too late is a matter of luck.
    pub(crate) fn check_visits(&self, machine: &Machine<'_>, w: WarpId, cta: CtaRank) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let (warps, visits) = (&machine.ctas[cta].warps, &self.visits[cta]);
        let known = |moment| warps.clone().any(|warp| checker.knows(WarpId(warp), moment));
        let Some((by, _)) = visits.iter().find(|(_, moment)| !known(*moment)) else {
            return Ok(());
        };
        let message = format!(
            "CTA rank {cta} ends, and nothing orders that after an access to its shared memory by another CTA"
        );
        let site = machine.site(by.warp, by.pc, None);
        let help = "behind the last access to another CTA's shared memory all threads of the cluster execute \
                    barrier.cluster.arrive and barrier.cluster.wait";
        self.hazard(machine, w, Rule::Race, message, Some(("the access:".into(), site)), Some(help))
    }
}
