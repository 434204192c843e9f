//! Registers of `wgmma`s: written before a fence, used behind a wait.

use super::Judge;
use crate::instruction::{MatrixSource, WgmmaOp};
use crate::machine::{Machine, Run};
use crate::register::R32;
use crate::rules::Rule;
use crate::warp::WarpId;

impl Judge<'_> {
    /// A register of a `wgmma` in flight is used.
    pub(crate) fn early_accumulator(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        r: R32,
        read: bool,
    ) -> Run<()> {
        let live = machine.warps[w].wgmma.live.iter().rev().find(|live| live.op.d.contains(&r));
        let other =
            live.map(|live| ("the wgmma in flight:".to_string(), machine.site(w, live.pc, None)));
        let verb = if read { "read" } else { "overwritten" };
        let message = format!("an accumulator register of a wgmma in flight is {verb}");
        let help =
            "wgmma.wait_group must come between the wgmma and the first use of its registers";
        self.hazard(machine, w, Rule::WgmmaInFlight, message, other, Some(help))
    }

    /// A `wgmma` must not use registers that were written since the last `wgmma.fence`.
    pub(crate) fn check_wgmma_fence(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        op: &WgmmaOp,
    ) -> Run<()> {
        let wgmma = &machine.warps[w].wgmma;
        // Registers that change between a fence and the first wgmma behind it are common.
        if wgmma.fenced && !self.launch.options.pedantic || !self.launch.options.checks {
            return Ok(());
        }
        let a: &[R32] = match &op.a {
            MatrixSource::Registers(rows) => rows,
            _ => &[],
        };
        let dirty = op.d.iter().chain(a).any(|r| wgmma.is_dirty(*r));
        if wgmma.ever_fenced && !dirty {
            return Ok(());
        }
        let message = match wgmma.ever_fenced {
            true => "registers of this wgmma were written since the last wgmma.fence",
            false => "the first wgmma of this warp has no wgmma.fence before it",
        };
        let message = message.to_string();
        let help = "execute wgmma.fence.sync.aligned after writing accumulator or A registers and before the \
                    first wgmma that uses them";
        self.hazard(machine, w, Rule::MissingWgmmaFence, message, None, Some(help))
    }
}
