//! Tensor memory: who may free it, and what it holds.

use super::Judge;
use super::pipes::{Memory, Moment};
use crate::instruction::{Op, Tcgen05};
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::{TMEM_COLUMNS, TmemRect};
use crate::rules::Rule;
use crate::warp::WarpId;

impl Judge<'_> {
    /// Whether a warp cannot know yet that the tensor memory it uses was freed. Kernels that have the
    /// processor to themselves do that without harm: what was freed stays as it is until someone else
    /// asks for it.
    pub(crate) fn outlives(&self, w: WarpId, freed: Option<Option<Moment>>) -> bool {
        let Some(moment) = freed else { return false };
        let known = self.checker.as_ref().zip(moment).is_some_and(|(c, at)| c.knows(w, at));
        !self.launch.options.pedantic && !known
    }

    /// In pedantic mode, who frees tensor memory must know that nobody uses it any more.
    pub(crate) fn note_tmem_free(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        start: usize,
        columns: usize,
    ) -> Run<()> {
        let pc = machine.pc(w);
        if self.checker.as_ref().is_none_or(|checker| checker.ordered.is_none()) {
            return Ok(());
        }
        let memory = Memory::Tensor(cta);
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let lanes = (0..128).map(|lane| (4 * (lane * TMEM_COLUMNS + start), 4 * columns));
            let outcome = checker.by_ranges(w, pc, memory, lanes, true);
            if self.settle(machine, w, memory, outcome, true)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Operand A of 16 bits or fewer cannot be what a matrix instruction left: accumulators are
    /// one number per column.
    pub(crate) fn check_tensor_operand(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        rect: &TmemRect,
    ) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let at = 4 * (rect.lanes.start * TMEM_COLUMNS + rect.columns.start) as u64;
        let Some(write) = checker.last_write(Memory::Tensor(cta), at) else { return Ok(()) };
        let Op::Tcgen05(op) = &machine.kernel.code[write.pc() as usize].op else { return Ok(()) };
        if !matches!(**op, Tcgen05::Mma(_)) {
            return Ok(());
        }
        let site = machine.site(checker.warp_of(write.agent()), write.pc(), None);
        let column = rect.columns.start;
        let message = format!(
            "operand A is read at tensor-memory column {column}, which holds accumulators of a tcgen05.mma"
        );
        let help = "A takes packed elements that tcgen05.st or tcgen05.cp stored: add the column offset at \
                    which they are";
        self.hazard(
            machine,
            w,
            Rule::AccumulatorAsOperand,
            message,
            Some(("accumulated:".into(), site)),
            Some(help),
        )
    }
}
