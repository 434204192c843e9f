//! `setmaxnreg`: the registers of a CTA, which its threads share out anew.

use crate::exec::Flow;
use crate::machine::{Machine, Run};
use crate::warp::{Wait, WarpId};

impl Machine<'_> {
    /// A warp goes to `count` registers: what it gives back others can take, and for more it waits until
    /// enough were given back. Without effect where the number at launch is not known.
    pub(crate) fn set_registers(&mut self, w: WarpId, count: u32) -> Run<Flow> {
        if let Some(wait) = self.converge(w, self.warps[w].live) {
            return Ok(Flow::Retry(wait));
        }
        let warp = &self.warps[w];
        let Some(has) = warp.register_count else { return Ok(Flow::Next) };
        let pool = &mut self.ctas[warp.cta].spare_registers;
        if *pool + has < count {
            return Ok(Flow::Retry(Wait::Registers(count)));
        }
        *pool = *pool + has - count;
        self.warps[w].register_count = Some(count);
        self.event();
        self.retry(|wait| matches!(wait, Wait::Registers(_)));
        Ok(Flow::Next)
    }

    /// A warp ends, and others can have its registers: the manual does not say so, but does not deny it
    /// either, and nobody is accused for less.
    pub(crate) fn return_registers(&mut self, w: WarpId) {
        if let Some(has) = self.warps[w].register_count.take() {
            self.ctas[self.warps[w].cta].spare_registers += has;
            self.retry(|wait| matches!(wait, Wait::Registers(_)));
        }
    }
}
