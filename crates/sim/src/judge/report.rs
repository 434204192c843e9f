//! Conflicts in words.

use super::pipes::{Memory, Outcome};
use super::shadow::Conflict;
use crate::demangle::readable;
use crate::instruction::Place;
use crate::judge::Judge;
use crate::machine::{Machine, Run};
use crate::matrix::TMEM_COLUMNS;
use crate::rules::Rule;
use crate::warp::WarpId;

impl Machine<'_> {
    /// The place of a store, in words.
    pub(crate) fn name_stored(&self, place: Place) -> String {
        match place {
            Place::Shared(cta, offset) => self.name_place(Memory::Shared(cta), offset.into()),
            Place::Global(at) => self.name_place(Memory::Global, at),
            Place::Local(_) => "local memory".into(),
            Place::Param(_) => "a parameter".into(),
        }
    }

    pub(super) fn name_place(&self, memory: Memory, at: u64) -> String {
        match memory {
            Memory::Shared(cta) => {
                let of =
                    if self.ctas.len() > 1 { format!(" of CTA rank {cta}") } else { String::new() };
                match self.shared_variable(at) {
                    Some(v) => {
                        let (name, inside) = (readable(&v.name), at - u64::from(v.offset));
                        format!("shared memory{of} `{name}+{inside:#x}`")
                    }
                    None => format!("shared memory{of} at {at:#x}"),
                }
            }
            Memory::Tensor(_) => {
                let cell = at / 4;
                let (lane, column) = (cell / TMEM_COLUMNS as u64, cell % TMEM_COLUMNS as u64);
                format!("tensor memory lane {lane} column {column}")
            }
            Memory::Global => match self.launch.global.find(at, 1, &mut 0) {
                Ok((allocation, offset)) => {
                    format!("`{}` byte {offset}", readable(&allocation.name))
                }
                Err(_) => format!("global memory at {at:#x}"),
            },
        }
    }
}

impl Judge<'_> {
    /// What becomes of an access: a conflict is reported, or where that is allowed counts as ordered
    /// from now on, and the access is to be tried again.
    pub(super) fn settle(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        memory: Memory,
        outcome: Outcome,
        write: bool,
    ) -> Run<Option<Conflict>> {
        let Err((at, conflict)) = outcome else { return Ok(None) };
        self.judge(machine, w, memory, at, &conflict, write)?;
        if let Some(checker) = &mut self.checker {
            checker.take_as_ordered(w, &conflict);
        }
        Ok(Some(conflict))
    }

    /// Turns a conflict into a report.
    fn judge(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        memory: Memory,
        at: u64,
        conflict: &Conflict,
        write: bool,
    ) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let agent = conflict.other.agent();
        let site = machine.site(checker.warp_of(agent), conflict.other.pc(), None);
        let place = machine.name_place(memory, at);
        let (mine, theirs) = (verb(write), verb(conflict.wrote));
        let who = checker.describe(agent);
        if conflict.only_unfenced && matches!(memory, Memory::Tensor(_)) {
            let message = format!("{mine} of {place} without a tcgen05.fence at the barrier");
            let help =
                "tcgen05.fence::before_thread_sync; barrier; tcgen05.fence::after_thread_sync";
            let other = Some((format!("the other {theirs}:"), site));
            return self.hazard(machine, w, Rule::MissingTcgen05Fence, message, other, Some(help));
        }
        if conflict.only_unfenced {
            let message = format!(
                "{place} is {} through the asynchronous proxy; a generic write to it has no fence.proxy.async behind it",
                if write { "written" } else { "read" }
            );
            let help = "the writing threads execute fence.proxy.async.shared::cta after their stores and \
                        before the barrier that tells the reader";
            return self.hazard(
                machine,
                w,
                Rule::MissingProxyFence,
                message,
                Some(("written:".into(), site)),
                Some(help),
            );
        }
        let message = format!(
            "{mine} of {place} is not ordered after the {who}{theirs} by warp {}",
            site.warp
        );
        let help = advice(conflict, who, write);
        self.hazard(
            machine,
            w,
            Rule::Race,
            message,
            Some((format!("the other {theirs}:"), site)),
            Some(help),
        )
    }
}

pub(super) fn verb(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}

fn advice(conflict: &Conflict, who: &str, write: bool) -> &'static str {
    match (who, conflict.wrote, write) {
        ("asynchronous copy ", true, _) => {
            "wait for the copy's mbarrier phase before touching its destination"
        }
        ("asynchronous copy ", false, true) => {
            "wait with cp.async.bulk.wait_group.read before the source is overwritten"
        }
        ("asynchronous wgmma ", ..) => {
            "wgmma.wait_group, then tell the writer (mbarrier or barrier), before the operand is overwritten"
        }
        ("asynchronous tcgen05 ", ..) => {
            "tcgen05.commit to an mbarrier and wait for its phase before touching what the operation uses"
        }
        ("tcgen05.ld ", ..) => {
            "tcgen05.wait::ld before telling others that the tensor memory may be overwritten"
        }
        ("tcgen05.st ", ..) => "tcgen05.wait::st before telling others that the data is there",
        ("cp.async ", ..) => {
            "cp.async.wait_group and a barrier before other threads touch the data"
        }
        (_, false, true) => {
            "the reader must tell (barrier or mbarrier) that it is done before the memory is reused"
        }
        _ => "put a barrier (bar.sync, mbarrier, cluster barrier) between the two",
    }
}
