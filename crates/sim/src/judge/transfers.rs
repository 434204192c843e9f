//! Loads and stores of tensor memory (`tcgen05.ld`, `tcgen05.st`) and their completion.
//!
//! Shipped kernels rely on more than the manual promises, as if the warps of a quarter of the lanes
//! shared one port that takes transfers in order:
//!
//! - A warp's load sees its own earlier stores, and behind a barrier those of another warp that nobody
//!   waited for (CUTLASS's attention hands its row maxima over like that).
//! - A load is over when its registers are used: `tcgen05.wait::ld` is nothing but that in machine code.
//! - When a load is over, so is every store that the port took before it.
//!
//! - A load is over when another warp, told by the one that loads, has told a third (CUTLASS's attention
//!   frees its row sums like that).
//!
//! What multiplies do is not in that order: they need the `tcgen05.wait::st` or `tcgen05.wait::ld` of
//! the warp that tells their own. Pedantic mode wants each wait that the manual does.

use super::agent::{AgentId, Pipe};
use super::clock::{Clock, Clocks};
use super::pipes::{Checker, Operation, Proxy};
use super::touched::rect_ranges;
use crate::instruction::Inst;
use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::TmemRect;
use crate::register::{R32, Reg};
use crate::rules::Rule;
use crate::warp::WarpId;

/// A load of tensor memory that nobody has waited for yet.
pub(crate) struct TmemLoad {
    time: u32,
    registers: Vec<R32>,
    /// What has happened when it is over.
    before: Clock,
}

impl Checker {
    /// What is ordered before a transfer by `w` because the port takes both in turn.
    fn order_transfer(&self, w: WarpId, clocks: &mut Clocks) {
        if self.ordered.is_some() {
            return;
        }
        let Clocks { all, tensor, .. } = clocks;
        all.join(tensor);
        let own_stores = self.pipe(Pipe::TmemStore, w);
        all.raise(own_stores, self.time(own_stores));
    }

    /// Warp `w` tells others what it knows, and that the loads it heard of are over.
    pub(super) fn publish(&self, w: WarpId, to: &mut Clocks) {
        to.join(&self.known[w]);
        to.all.join(&self.known[w].heard);
        to.heard.join(&self.loading[w]);
    }

    /// Warp `w` issues a transfer with the knowledge `before`.
    fn issue_transfer(
        &mut self,
        w: WarpId,
        (agent, time): (AgentId, u32),
        write: bool,
        before: &Clock,
    ) {
        if self.ordered.is_some() {
            return;
        }
        match write {
            true => self.known[w].tensor.raise(agent, time),
            false => self.loading[w].join(before),
        }
    }

    /// A warp knows that a load of its own is over.
    fn finish_load(&mut self, w: WarpId, load: &TmemLoad) {
        if self.ordered.is_none() {
            self.known[w].all.join(&load.before);
        }
    }
}

impl Judge<'_> {
    pub(crate) fn note_tmem_load(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        rects: &[TmemRect],
        d: &[R32],
    ) -> Run<()> {
        if let Some((time, before)) =
            self.tmem_access(machine, w, cta, rects, Pipe::TmemLoad, false)?
        {
            self.tmem_loads[w].push(TmemLoad { time, registers: d.to_vec(), before });
        }
        Ok(())
    }

    pub(crate) fn note_tmem_store(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        rects: &[TmemRect],
    ) -> Run<()> {
        self.tmem_access(machine, w, cta, rects, Pipe::TmemStore, true).map(|_| ())
    }

    /// Checks a transfer; its time, and what is ordered before it.
    fn tmem_access(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        rects: &[TmemRect],
        pipe: Pipe,
        write: bool,
    ) -> Run<Option<(u32, Clock)>> {
        let pc = machine.pc(w);
        let Some(checker) = &mut self.checker else { return Ok(None) };
        let agent = checker.pipe(pipe, w);
        let mut clocks = checker.known[w].clone();
        checker.order_transfer(w, &mut clocks);
        let time = checker.advance(agent);
        clocks.all.raise(agent, time);
        for touched in rect_ranges(cta, rects, write) {
            let range = (touched.memory, touched.start, touched.len);
            let proxy = Proxy::Tensor(w);
            let operation = Operation { agent, time, pc, proxy, strong: false };
            self.access_as(machine, w, operation, &mut clocks, range, write)?;
        }
        let checker = self.checker.as_mut().expect("checked above");
        checker.issue_transfer(w, (agent, time), write, &clocks.all);
        checker.step(w);
        Ok(Some((time, clocks.all)))
    }

    /// `tcgen05.wait`: the warp's loads or stores are done.
    pub(crate) fn tmem_wait(&mut self, w: WarpId, loads: bool) {
        let Some(checker) = &mut self.checker else { return };
        let agent = checker.pipe(if loads { Pipe::TmemLoad } else { Pipe::TmemStore }, w);
        checker.finish_pipe(w, agent);
        if loads && let Some(last) = self.tmem_loads[w].drain(..).next_back() {
            checker.finish_load(w, &last);
        }
    }

    /// An instruction may use what loads of tensor memory gave.
    pub(crate) fn use_tmem_loads(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        inst: &Inst,
    ) -> Run<()> {
        if self.tmem_loads[w].is_empty() {
            return Ok(());
        }
        let mut used = Vec::new();
        inst.op.registers(&mut |reg, _| {
            if let Reg::R32(r) = reg {
                used.push(r);
            }
        });
        self.use_tmem_load(machine, w, |d| used.iter().any(|r| d.contains(r)))
    }

    /// A register a `tcgen05.ld` gave is used: the hardware waits for that load, though the manual
    /// (pedantic mode) wants a `tcgen05.wait::ld` first.
    fn use_tmem_load(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        uses: impl Fn(&[R32]) -> bool,
    ) -> Run<()> {
        let loads = &mut self.tmem_loads[w];
        let Some(latest) = loads.iter().rposition(|load| uses(&load.registers)) else {
            return Ok(());
        };
        let Some(used) = loads.drain(..=latest).next_back() else { return Ok(()) };
        if self.checker.as_ref().is_some_and(|checker| checker.ordered.is_some()) {
            let message = "a register that tcgen05.ld gives is used before it is there".to_owned();
            let help = "tcgen05.wait::ld.sync.aligned behind the load";
            self.hazard(machine, w, Rule::MissingTcgen05Wait, message, None, Some(help))?;
        }
        let Some(checker) = &mut self.checker else { return Ok(()) };
        let agent = checker.pipe(Pipe::TmemLoad, w);
        checker.known[w].all.raise(agent, used.time);
        checker.finish_load(w, &used);
        Ok(())
    }
}
