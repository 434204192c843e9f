//! Warps: from one event to the next.

use super::work::{PARTITIONS, matrix_cycles};
use super::{Cause, Event, Job, PhaseId, Replay, Row, Unit};

impl Replay<'_> {
    /// A warp goes on until it runs instructions, waits, or ends.
    pub(super) fn advance(&mut self, w: usize) {
        loop {
            let log = &self.recording.warps[w];
            let Some(event) = log.events.get(self.warps[w].next) else { return };
            self.warps[w].next += 1;
            match *event {
                Event::Run(mix) => {
                    let job = Job::of_warp(self.machine, w, log.index, &mix);
                    self.out.written += f64::from(mix.of(Unit::Global));
                    self.out.read += f64::from(mix.of(Unit::Loaded));
                    self.out.tensor += matrix_cycles(self.machine, &mix) / PARTITIONS as f64;
                    self.processors[log.cta as usize].jobs.push(job);
                    return;
                }
                Event::Issue(id) => self.issue(id),
                Event::Arrive(phase) => self.arrive(phase, Cause::Warp),
                Event::Wait(phase) => return self.wait(w, phase),
                Event::WaitFor(id) => return self.wait_for(w, id),
                Event::Load(_) => {
                    let latency =
                        self.machine.load_latency + self.share.misses * self.machine.memory_latency;
                    self.warps[w].loads.push(self.now + latency);
                }
                Event::Use(number) => {
                    let there = self.warps[w].loads.get(number as usize).copied();
                    let left = there.map_or(0.0, |there| there - self.now);
                    if left > 0.0 {
                        self.waited(w, Cause::Memory, self.now + left);
                        self.later(left, super::Timed::Wake(w));
                        return;
                    }
                }
                Event::WaitTensor => return self.pause(w, self.machine.tensor_memory_latency),
                Event::Prefetch(bytes) => self.out.prefetched += f64::from(bytes),
                Event::WaitGrid => {}
                Event::Clock => self.out.clocks[w].push(self.now),
            }
        }
    }

    fn wait(&mut self, w: usize, phase: PhaseId) {
        let latency = self.latency(phase);
        let Some((done, _)) = self.phases[phase as usize].done else {
            return self.phases[phase as usize].waiting.push(w);
        };
        let left = (done + latency - self.now).max(self.machine.mbarrier_look);
        self.pause(w, left);
    }

    fn wait_for(&mut self, w: usize, id: u32) {
        match self.operations[id as usize].done {
            Some(done) => self.pause(w, done + self.machine.product_latency - self.now),
            None => self.awaited.entry(id).or_default().push(w),
        }
    }

    /// A warp has executed its instructions.
    pub(super) fn ran(&mut self, w: usize, job: &Job) {
        let since = self.warps[w].since;
        let worked = (since + job.alone).min(self.now);
        self.warps[w].since = worked;
        self.span(Row::Warp(w), None, since, worked);
        self.waited(w, Cause::Units, self.now);
        self.ready.push(w);
    }
}
