//! `clusterlaunchcontrol`: a running cluster takes over the work of one that has not started.
//!
//! The response is opaque to programs. Here its low 96 bits are the `%ctaid` of the first CTA of the
//! cluster that will not be launched, and [`CANCELED`] is set; a refusal is 0.

use crate::cluster::{Cluster, Run};
use crate::engine::{Group, Stream};
use crate::exec::Flow;
use crate::exec::Work;
use crate::instruction::{Addr, LaunchControl, MemSpace};
use crate::mbarrier::Touch;
use crate::options::{Completion, Schedule};
use crate::register::lanes;
use crate::register::{R32, R64, Reg};
use crate::rules::Rule;
use crate::warp::WarpId;

/// Bytes of a response.
pub(crate) const RESPONSE_BYTES: u32 = 16;
/// Set in the response to a request that was granted.
const CANCELED: u128 = 1 << 96;
/// What a refusal says of the first CTA, where nothing is defined: beyond every grid.
const NO_CTA: u64 = 0xFFFF_FFFF;

impl Cluster<'_> {
    pub(crate) fn launch_control(&mut self, w: WarpId, op: &LaunchControl, mask: u32) -> Run<Flow> {
        match op {
            LaunchControl::TryCancel { dst, mbar, multicast } => {
                lanes(mask)
                    .try_for_each(|lane| self.try_cancel(w, lane, (*dst, *mbar), *multicast))?;
            }
            LaunchControl::IsCanceled { d, response } => {
                self.is_canceled(w, Reg::P(*d), *response, mask)
            }
            LaunchControl::FirstCta { d, response } => self.first_cta(w, d, *response, mask),
        }
        Ok(Flow::Next)
    }

    fn try_cancel(
        &mut self,
        w: WarpId,
        lane: usize,
        (dst, mbar): (Addr, Addr),
        multicast: bool,
    ) -> Run<()> {
        self.check_refusals(w, lane)?;
        let to = self.bulk_end(w, lane, dst, MemSpace::Shared, RESPONSE_BYTES)?;
        let signal = self.barrier_at(w, lane, mbar, MemSpace::Shared)?;
        let all = multicast.then(|| (1u32 << self.ctas.len()) - 1);
        let (ends, signals) = self.multicast(w, lane, to, signal, all, false)?;
        let response = self.cancel_cluster();
        self.issue(w, Stream::Free, Group::None, Work::CancelResponse { ends, response, signals })
    }

    /// Takes a cluster off the grid, if one is left and the mode grants it: hardware may refuse at any
    /// time.
    fn cancel_cluster(&mut self) -> u128 {
        let granted = match (self.launch.options.completion, self.launch.options.schedule) {
            (_, Schedule::Adversarial) => false,
            (Completion::Random, _) => self.random.below(4) != 0,
            _ => true,
        };
        let number = if granted { self.launch.start_next() } else { None };
        number.map_or(0, |number| {
            let cta = self.launch.first_cta(number);
            (0..3).fold(CANCELED, |sum, i| sum | u128::from(cta[i]) << (32 * i))
        })
    }

    /// Whoever has seen a refusal must not ask again.
    fn check_refusals(&self, w: WarpId, lane: usize) -> Run<()> {
        let knows = |(by, moment): &&(Touch, _)| match (&self.checker, moment) {
            (Some(checker), Some(moment)) => checker.knows(w, *moment),
            _ => by.warp == w,
        };
        let Some((by, _)) = self.ctas[self.warps[w].cta].refusals.iter().find(knows) else {
            return Ok(());
        };
        let line = self.site(by.warp, by.pc, None).line;
        let message =
            format!("a request to cancel a cluster, though PTX line {line} has seen one fail");
        let help = "after a response that is not `is_canceled` a CTA issues no further try_cancel";
        self.survivable(w, Some(lane), Rule::CancelAfterRefusal, message, Some(help))
    }

    fn is_canceled(&mut self, w: WarpId, d: Reg, response: R64, mask: u32) {
        for lane in lanes(mask) {
            let registers = &mut self.warps[w].registers;
            let canceled = registers.lane128(response, lane) & CANCELED != 0;
            registers.set_lane(d, lane, canceled.into());
            if !canceled {
                self.note_refusal(w);
            }
        }
    }

    fn note_refusal(&mut self, w: WarpId) {
        let (by, cta) = (Touch { warp: w, pc: self.pc(w) }, self.warps[w].cta);
        let moment = self.checker.as_ref().map(|checker| checker.now(w));
        let refusals = &mut self.ctas[cta].refusals;
        if !refusals.iter().any(|(earlier, _)| earlier.warp == w) {
            refusals.push((by, moment));
        }
    }

    fn first_cta(&mut self, w: WarpId, d: &[Option<R32>; 3], response: R64, mask: u32) {
        for lane in lanes(mask) {
            let value = self.warps[w].registers.lane128(response, lane);
            for (axis, d) in d.iter().enumerate().filter_map(|(axis, d)| Some((axis, (*d)?))) {
                let id = match value & CANCELED {
                    0 => NO_CTA,
                    _ => u64::from((value >> (32 * axis)) as u32),
                };
                self.warps[w].registers.set_lane(Reg::R32(d), lane, id);
            }
        }
    }
}
