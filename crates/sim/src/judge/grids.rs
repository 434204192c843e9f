//! Launches that overlap: a grid that may begin before the ones before it have ended must wait
//! (`griddepcontrol.wait`) before it touches what they wrote.
//!
//! Waiting is for the launch just before: an older one has ended, too, only if that launch waited for it,
//! at whatever place. Launches run one after the other here, so the data is always there; what is checked
//! is that the warp, or one it has synchronised with since, has waited. Only buffers that began as poison
//! are watched: of those it is known which bytes were written.

use super::pipes::Memory;
use crate::judge::Judge;
use crate::machine::{Machine, Run};
use crate::memory::Global;
use crate::rules::Rule;
use crate::warp::WarpId;
use std::sync::atomic::{AtomicBool, Ordering};

/// What launches wrote: a bit per byte of each allocation.
pub(crate) struct Written(Vec<Vec<u64>>);

/// The launches before one that overlaps them.
pub(crate) struct Earlier {
    all: Written,
    /// Of those that the last one did not wait for.
    behind: Option<Written>,
    /// Whether a thread has waited.
    pub(crate) awaited: AtomicBool,
}

impl Written {
    fn covers(&self, allocation: usize, offset: u64, bytes: u64) -> bool {
        let written = &self.0[allocation];
        let bit =
            |at: u64| written.get((at / 64) as usize).is_some_and(|w| w >> (at % 64) & 1 == 1);
        !written.is_empty() && (offset..offset + bytes).any(bit)
    }
}

impl Earlier {
    /// Everything written so far, and `behind`, what the last launch did not wait for.
    pub(crate) fn of(global: &Global, behind: Option<Written>) -> Earlier {
        let all = Written(global.allocations().map(|allocation| allocation.written()).collect());
        Earlier { all, behind, awaited: AtomicBool::new(false) }
    }

    /// What may still be at work when the launch has ended.
    pub(crate) fn left_behind(self) -> Option<Written> {
        if self.awaited.into_inner() { self.behind } else { Some(self.all) }
    }
}

impl Judge<'_> {
    /// A warp executes `griddepcontrol.wait`.
    pub(super) fn await_earlier_grids(&mut self, w: WarpId) {
        if let Some(earlier) = &self.launch.earlier {
            earlier.awaited.store(true, Ordering::Relaxed);
        }
        if let Some(checker) = &mut self.checker {
            checker.await_grids(w);
        }
    }

    /// An access to global memory, where an earlier grid may still be at work.
    pub(super) fn check_earlier_grids(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        (at, bytes): (u64, u64),
        write: bool,
    ) -> Run<()> {
        let (Some(earlier), Some(checker)) = (&self.launch.earlier, &self.checker) else {
            return Ok(());
        };
        let waited = checker.awaited_grids(w);
        let Some(watched) = (if waited { earlier.behind.as_ref() } else { Some(&earlier.all) })
        else {
            return Ok(());
        };
        let mut index = 0;
        let Ok((_, offset)) = self.launch.global.find(at, bytes, &mut index) else {
            return Ok(());
        };
        if !watched.covers(index, offset, bytes) {
            return Ok(());
        }
        let verb = super::report::verb(write);
        let place = machine.name_place(Memory::Global, at);
        let (message, help) = match waited {
            false => (
                format!(
                    "{verb} of {place}, which the launch before this one writes and may not have \
                     finished with"
                ),
                "griddepcontrol.wait before the first access, in this thread or in one that it \
                 synchronises with afterwards; or launch without overlap",
            ),
            true => (
                format!(
                    "{verb} of {place}, written two launches ago or earlier: the launch before this \
                     one never waited for that"
                ),
                "griddepcontrol.wait in some thread of the launch before, at its end if need be",
            ),
        };
        self.hazard(machine, w, Rule::MissingGridWait, message, None, Some(help))
    }
}
