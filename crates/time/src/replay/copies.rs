//! Copies into and out of shared memory.

use super::work::SHARED;
use super::{Job, OUT, OperationKind, Owner, Replay, Row};

impl Replay<'_> {
    /// The first bytes of a copy come: it waits for the copies before it, at each of its destinations.
    pub(super) fn copy_begins(&mut self, id: u32) {
        let OperationKind::Load { bytes, to, global, .. } =
            self.recording.operations[id as usize].kind
        else {
            return;
        };
        self.operations[id as usize].left = to.count_ones();
        if global {
            self.out.read += f64::from(bytes);
        }
        if to == 0 {
            return self.done(id);
        }
        for cta in (0..self.processors.len()).filter(|cta| to >> cta & 1 != 0) {
            self.processors[cta].copies.push_back(id);
            self.copy(cta);
        }
    }

    /// The next copy of a multiprocessor, if the last one is done.
    fn copy(&mut self, cta: usize) {
        if self.processors[cta].copying {
            return;
        }
        let Some(id) = self.processors[cta].copies.pop_front() else { return };
        let OperationKind::Load { bytes, to, global, .. } =
            self.recording.operations[id as usize].kind
        else {
            return;
        };
        self.processors[cta].copying = true;
        let bytes = f64::from(bytes);
        let read = if global { bytes / f64::from(to.count_ones().max(1)) } else { 0.0 };
        let l2 = read / self.share.l2;
        let memory = self.share.misses * read / self.share.memory;
        let alone = (bytes / self.machine.link_bytes).max(l2).max(memory).max(1.0);
        let shared = bytes / self.machine.shared_bytes;
        self.out.copies += alone;
        self.processors[cta].jobs.push(Job::new(Owner::Copy(id), alone, &[(SHARED, shared)]));
    }

    /// A copy out of shared memory begins.
    pub(super) fn store(&mut self, id: u32, bytes: u32) {
        let cta = self.recording.operations[id as usize].cta as usize;
        let bytes = f64::from(bytes);
        let alone = (bytes / self.machine.link_bytes).max(1.0);
        let cycles = [(SHARED, bytes / self.machine.shared_bytes), (OUT, alone)];
        self.out.written += bytes;
        self.operations[id as usize].left = 1;
        self.processors[cta].jobs.push(Job::new(Owner::Copy(id), alone, &cycles));
    }

    /// A copy has arrived at one of its destinations.
    pub(super) fn copied(&mut self, cta: usize, id: u32, job: &Job) {
        self.span(Row::Copy(cta), None, self.now - job.alone, self.now);
        if matches!(self.recording.operations[id as usize].kind, OperationKind::Load { .. }) {
            self.processors[cta].copying = false;
        }
        self.operations[id as usize].left -= 1;
        if self.operations[id as usize].left == 0 {
            self.done(id);
        }
        if !self.processors[cta].copying {
            self.copy(cta);
        }
    }
}
