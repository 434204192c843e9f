//! Accesses to the shared memory of another CTA, which must not end before them.

use crate::cluster::{Cluster, Cta, CtaRank, Run};
use crate::mbarrier::Touch;
use crate::rules::Rule;
use crate::warp::WarpId;

impl Cluster<'_> {
    /// A warp touches the shared memory of `cta`.
    pub(super) fn note_visit(&mut self, w: WarpId, cta: CtaRank) {
        if self.warps[w].cta == cta || !self.launch.options.pedantic {
            return;
        }
        let Some(checker) = &self.checker else { return };
        let visit = (Touch { warp: w, pc: self.pc(w) }, checker.now(w));
        let visits = &mut self.ctas[cta].visits;
        match visits.iter_mut().find(|(by, _)| by.warp == w) {
            Some(last) => *last = visit,
            None => visits.push(visit),
        }
    }

    /// The last warp of `cta` ends: in pedantic mode one of its warps must know of every visit. Whether a
    /// visitor really comes too late is a matter of luck.
    pub(crate) fn check_visits(&self, w: WarpId, cta: CtaRank) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let Cta { warps, visits, .. } = &self.ctas[cta];
        let known = |moment| warps.clone().any(|warp| checker.knows(WarpId(warp), moment));
        let Some((by, _)) = visits.iter().find(|(_, moment)| !known(*moment)) else {
            return Ok(());
        };
        let message = format!(
            "CTA rank {cta} ends, and nothing orders that after an access to its shared memory by another CTA"
        );
        let site = self.site(by.warp, by.pc, None);
        let help = "behind the last access to another CTA's shared memory all threads of the cluster execute \
                    barrier.cluster.arrive and barrier.cluster.wait";
        self.hazard(w, Rule::Race, message, Some(("the access:".into(), site)), Some(help))
    }
}
