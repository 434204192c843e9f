//! Launches that overlap: a grid that may begin before the ones before it have ended must wait
//! (`griddepcontrol.wait`) before it touches what they wrote.
//!
//! Launches run one after the other here, so the data is always there; what is checked is that the
//! warp, or one it has synchronised with since, has waited. Only buffers that began as poison are
//! watched: of those it is known which bytes were written.

use super::pipes::Memory;
use crate::cluster::{Cluster, Run};
use crate::memory::Global;

/// What the launches before this one wrote: a bit per byte of each allocation.
pub(crate) struct Earlier(Vec<Vec<u64>>);

impl Earlier {
    /// Everything written so far.
    pub(crate) fn of(global: &Global) -> Earlier {
        Earlier(global.allocations().map(|allocation| allocation.written()).collect())
    }

    fn wrote(&self, allocation: usize, offset: u64, bytes: u64) -> bool {
        let written = &self.0[allocation];
        let bit =
            |at: u64| written.get((at / 64) as usize).is_some_and(|w| w >> (at % 64) & 1 == 1);
        !written.is_empty() && (offset..offset + bytes).any(bit)
    }
}

impl Cluster<'_> {
    /// An access to global memory, where an earlier grid may still be at work.
    pub(super) fn check_earlier_grids(
        &self,
        w: usize,
        (at, bytes): (u64, u64),
        write: bool,
    ) -> Run<()> {
        let (Some(earlier), Some(checker)) = (&self.launch.earlier, &self.checker) else {
            return Ok(());
        };
        if checker.awaited_grids(w) {
            return Ok(());
        }
        let mut index = 0;
        let Ok((_, offset)) = self.launch.global.find(at, bytes, &mut index) else { return Ok(()) };
        if !earlier.wrote(index, offset, bytes) {
            return Ok(());
        }
        let place = self.name_place(Memory::Global, at);
        let message = format!(
            "{} of {place}, which the launch before this one writes and may not have finished with",
            super::report::verb(write)
        );
        let help = "griddepcontrol.wait before the first access, in this thread or in one that it \
                    synchronises with afterwards; or launch without overlap";
        self.hazard(w, "missing-grid-wait", message, None, Some(help))
    }
}
