//! `clusterlaunchcontrol`: a running cluster takes over the work of one that has not started.
//!
//! The response is opaque to programs. Here its low 96 bits are the `%ctaid` of the first CTA of the
//! cluster that will not be launched, and [`CANCELED`] is set; a refusal is 0.

use crate::engine::{Group, Stream};
use crate::exec::Execution;
use crate::exec::Flow;
use crate::exec::Work;
use crate::instruction::{Addr, LaunchControl, MemSpace};
use crate::machine::{Machine, Run};
use crate::options::{Completion, Schedule};
use crate::register::lanes;
use crate::register::{Lane, R32, R64, Reg};
use crate::warp::WarpId;

/// Bytes of a response.
pub(crate) const RESPONSE_BYTES: u32 = 16;
/// Set in the response to a request that was granted.
const CANCELED: u128 = 1 << 96;
/// What a refusal says of the first CTA, where nothing is defined: beyond every grid.
const NO_CTA: u64 = 0xFFFF_FFFF;

impl Execution<'_, '_> {
    pub(crate) fn launch_control(&mut self, w: WarpId, op: &LaunchControl, mask: u32) -> Run<Flow> {
        match op {
            LaunchControl::TryCancel { dst, mbar, multicast } => {
                lanes(mask)
                    .try_for_each(|lane| self.try_cancel(w, lane, (*dst, *mbar), *multicast))?;
            }
            LaunchControl::IsCanceled { d, response } => {
                self.is_canceled(w, Reg::P(*d), *response, mask)
            }
            LaunchControl::FirstCta { d, response } => {
                self.machine.first_cta(w, d, *response, mask)
            }
        }
        Ok(Flow::Next)
    }

    fn try_cancel(
        &mut self,
        w: WarpId,
        lane: Lane,
        (dst, mbar): (Addr, Addr),
        multicast: bool,
    ) -> Run<()> {
        self.judge.check_refusals(self.machine, w, lane)?;
        let to =
            self.machine.bulk_end(self.judge, w, lane, dst, MemSpace::Shared, RESPONSE_BYTES)?;
        let signal = self.machine.barrier_at(self.judge, w, lane, mbar, MemSpace::Shared)?;
        let all = multicast.then(|| (1u32 << self.machine.ctas.len()) - 1);
        let (ends, signals) = self.multicast(w, lane, to, signal, all, false)?;
        let response = self.machine.cancel_cluster();
        self.issue(w, Stream::Free, Group::None, Work::CancelResponse { ends, response, signals })
    }

    fn is_canceled(&mut self, w: WarpId, d: Reg, response: R64, mask: u32) {
        for lane in lanes(mask) {
            let registers = &mut self.machine.warps[w].registers;
            let canceled = registers.lane128(response, lane) & CANCELED != 0;
            registers.set_lane(d, lane, canceled.into());
            if !canceled {
                self.judge.note_refusal(self.machine, w);
            }
        }
    }
}

impl Machine<'_> {
    /// Takes a cluster off the grid, if one is left and the mode grants it: hardware may refuse at any
    /// time.
    fn cancel_cluster(&mut self) -> u128 {
        let granted = match (self.launch.options.completion, self.launch.options.schedule) {
            (_, Schedule::Adversarial) => false,
            (Completion::Random, _) => self.whims.below(4) != 0,
            _ => true,
        };
        let number = if granted { self.launch.start_next() } else { None };
        number.map_or(0, |number| {
            let cta = self.launch.first_cta(number);
            (0..3).fold(CANCELED, |sum, i| sum | u128::from(cta[i]) << (32 * i))
        })
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
