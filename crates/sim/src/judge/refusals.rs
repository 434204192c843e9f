//! Requests to cancel a cluster that were refused: whoever has seen one must not ask again.

use super::Judge;
use crate::machine::{Machine, Run};
use crate::mbarrier::Touch;
use crate::register::Lane;
use crate::rules::Rule;
use crate::warp::WarpId;

impl Judge<'_> {
    /// Whoever has seen a refusal must not ask again.
    pub(crate) fn check_refusals(&self, machine: &Machine<'_>, w: WarpId, lane: Lane) -> Run<()> {
        let knows = |(by, moment): &&(Touch, _)| match (&self.checker, moment) {
            (Some(checker), Some(moment)) => checker.knows(w, *moment),
            _ => by.warp == w,
        };
        let Some((by, _)) = self.refusals[machine.warps[w].cta].iter().find(knows) else {
            return Ok(());
        };
        let line = machine.site(by.warp, by.pc, None).line;
        let message =
            format!("a request to cancel a cluster, though PTX line {line} has seen one fail");
        let help = "after a response that is not `is_canceled` a CTA issues no further try_cancel";
        self.survivable(machine, w, Some(lane), Rule::CancelAfterRefusal, message, Some(help))
    }

    /// A warp sees that a request to cancel a cluster was refused.
    pub(crate) fn note_refusal(&mut self, machine: &Machine<'_>, w: WarpId) {
        let (by, cta) = (Touch { warp: w, pc: machine.pc(w) }, machine.warps[w].cta);
        let moment = self.checker.as_ref().map(|checker| checker.now(w));
        let refusals = &mut self.refusals[cta];
        if !refusals.iter().any(|(earlier, _)| earlier.warp == w) {
            refusals.push((by, moment));
        }
    }
}
