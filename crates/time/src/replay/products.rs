//! Tensor cores: products one after the other, in the order in which they are issued.

use super::work::SHARED;
use super::{Job, OperationKind, Owner, Replay, Row, Timed};

impl Replay<'_> {
    /// A warp issues an operation; the last one of those that take part begins it.
    pub(super) fn issue(&mut self, id: u32) {
        let operation = &self.recording.operations[id as usize];
        self.operations[id as usize].issued += 1;
        if self.operations[id as usize].issued < operation.issuers {
            return;
        }
        if let Some(stream) = operation.stream {
            self.streams.entry(stream).or_default().push_back(id);
        }
        match operation.kind {
            OperationKind::Product { .. } | OperationKind::Tensor => {
                let cta = operation.cta as usize;
                self.processors[cta].products.push_back(id);
                self.multiply(cta);
            }
            OperationKind::Load { global, .. } => {
                let memory = self.share.misses * self.machine.memory_latency;
                let latency = self.machine.copy_latency;
                self.later(if global { latency + memory } else { latency / 2.0 }, Timed::Copy(id));
            }
            OperationKind::Store { bytes } => self.store(id, bytes),
            OperationKind::Signal => {
                if let Some(stream) = operation.stream {
                    self.stream_goes_on(stream);
                }
            }
        }
    }

    /// The next product of a multiprocessor, if the last one is done.
    fn multiply(&mut self, cta: usize) {
        if self.processors[cta].multiplies {
            return;
        }
        let Some(id) = self.processors[cta].products.pop_front() else { return };
        self.processors[cta].multiplies = true;
        let (cycles, shared) = match self.recording.operations[id as usize].kind {
            OperationKind::Product { flops, bits, shared, .. } => {
                let rate = self.machine.tensor_flops * 16.0 / f64::from(bits);
                (flops as f64 / rate, f64::from(shared) / self.machine.shared_bytes)
            }
            _ => (32.0, 0.0),
        };
        let alone = cycles.max(shared).max(1.0);
        // Each multiprocessor of a pair works on its part.
        let ctas = match self.recording.operations[id as usize].kind {
            OperationKind::Product { ctas, .. } => f64::from(ctas),
            _ => 1.0,
        };
        self.out.tensor += ctas * cycles;
        self.processors[cta].jobs.push(Job::new(Owner::Product(id), alone, &[(SHARED, shared)]));
    }

    /// A product is done.
    pub(super) fn multiplied(&mut self, cta: usize, id: u32, job: &Job) {
        let kind = self.recording.operations[id as usize].kind;
        if let OperationKind::Product { flops, ctas, .. } = kind {
            self.out.flops += flops as f64 * f64::from(ctas);
        }
        self.span(Row::Tensor(cta), None, self.now - job.alone, self.now);
        self.processors[cta].multiplies = false;
        self.done(id);
        self.multiply(cta);
    }
}
