use super::{CtaRank, Machine};
use crate::error::{Error, Fault, Site, Unsupported};
use crate::instruction::Pc;
use crate::register::Lane;
use crate::warp::WarpId;

/// Results of executing instructions; errors are rare and large.
pub type Run<T> = Result<T, Box<Error>>;

impl Machine<'_> {
    /// Where `warp` is when it executes `pc`.
    pub(crate) fn site(&self, warp: WarpId, pc: Pc, lane: Option<Lane>) -> Site {
        let warp = &self.warps[warp];
        let is_there = warp.fragments.first().is_some_and(|fragment| fragment.pc == pc);
        let cycle = if is_there { Some(warp.time) } else { warp.recent.time_of(pc) };
        let (cta, warp) = (self.ctas[warp.cta].id, warp.index);
        Site { cta, warp, cycle, lane: lane.map(|l| l.0 as u32), ..self.source_of(pc) }
    }

    /// Where a warp of another cluster is when it executes `pc`.
    pub(crate) fn site_in(&self, cluster: u32, warp: WarpId, pc: Pc) -> Site {
        let per_cta = self.ctas[CtaRank(0)].warps.len();
        let cta = self.launch.cta(cluster, (warp.0 / per_cta) as u32);
        Site { cta, warp: (warp.0 % per_cta) as u32, ..self.source_of(pc) }
    }

    /// An instruction, whoever executes it.
    fn source_of(&self, pc: Pc) -> Site {
        let index = self.kernel.code[pc as usize].source as usize;
        let (instruction, line, loc) = match self.kernel.sources.get(index) {
            Some(s) => (s.text.clone(), s.line, s.loc.clone()),
            None => ("(end of kernel)".into(), 0, None),
        };
        Site { kernel: self.kernel.name.clone(), instruction, line, loc, ..Site::default() }
    }

    /// Instruction the warp's running fragment is at.
    pub(crate) fn pc(&self, warp: WarpId) -> Pc {
        self.warps[warp].fragments[0].pc
    }

    /// A fault at the warp's current instruction from which there is no going on.
    pub(crate) fn fault<T>(
        &self,
        warp: WarpId,
        lane: Option<Lane>,
        rule: &'static str,
        message: String,
        help: Option<&str>,
    ) -> Run<T> {
        let site = self.site(warp, self.pc(warp), lane);
        let help = help.map(String::from);
        let fault = Fault { rule, message, site, help, survivable: false };
        Err(Box::new(Error::Fault(Box::new(fault))))
    }

    /// The warp's current instruction is beyond this simulator.
    pub(crate) fn unsupported<T>(&self, warp: WarpId, reason: String) -> Run<T> {
        let site = self.site(warp, self.pc(warp), None);
        let unsupported = Unsupported { instruction: site.instruction, line: site.line, reason };
        Err(Box::new(Error::Unsupported(unsupported)))
    }
}
