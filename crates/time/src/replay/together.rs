//! Several CTAs on one multiprocessor.

use super::timer::Timed;
use super::{Replay, Replayed, Share, finished};
use crate::machine::Machine;
use sim::record::{Event, Recording};

/// What `count` CTAs take that share a multiprocessor and each do what was recorded of one. Bytes and waits are those
/// of one of them.
pub fn replay_together(
    machine: &Machine,
    recording: &Recording,
    count: u32,
    share: Share,
) -> Replayed {
    let all = repeated(recording, count);
    let mut replay = Replay::new(machine, &all, share, false);
    replay.stagger(recording.warps.len());
    let mut out = finished(replay, &all);
    let count = f64::from(count.max(1));
    let sums = [&mut out.read, &mut out.prefetched, &mut out.written, &mut out.flops];
    sums.into_iter().for_each(|sum| *sum /= count);
    out.waits.iter_mut().for_each(|sum| *sum /= count);
    out
}

impl Replay<'_> {
    /// Lets the `warps` warps of each CTA begin later than those of the CTA before: CTAs that multiply in step would ask
    /// for the same unit at the same time, and drift apart on a GPU.
    fn stagger(&mut self, warps: usize) {
        if !self.recording.multiplies() {
            return;
        }
        self.ready.retain(|w| *w < warps);
        for w in warps..self.warps.len() {
            let begin = self.machine.stagger * (w / warps.max(1)) as f64;
            self.warps[w].since += begin;
            self.later(begin, Timed::Wake(w));
        }
    }
}

/// A recording of a CTA with everything `count` times, on the same multiprocessor.
fn repeated(recording: &Recording, count: u32) -> Recording {
    let mut all = recording.clone();
    let (operations, phases) = (recording.operations.len() as u32, recording.phases.len() as u32);
    let streams = recording.operations.iter().filter_map(|op| op.stream).max().map_or(0, |n| n + 1);
    for n in 1..count {
        all.phases.extend(&recording.phases);
        all.operations.extend(recording.operations.iter().cloned().map(|mut operation| {
            operation.stream = operation.stream.map(|stream| stream + n * streams);
            operation.signals.iter_mut().for_each(|phase| *phase += n * phases);
            operation
        }));
        all.warps.extend(recording.warps.iter().cloned().map(|mut warp| {
            for event in &mut warp.events {
                match event {
                    Event::Issue(id) | Event::WaitFor(id) => *id += n * operations,
                    Event::Arrive(phase) | Event::Wait(phase) => *phase += n * phases,
                    _ => {}
                }
            }
            warp
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::H200;
    use crate::replay::replay;
    use sim::record::{Mix, Phase, UNITS, Unit, WarpEvents};

    const SHARE: Share = Share { l2: 30.0, memory: 20.0, misses: 0.0 };

    /// Four warps that each execute as much of every unit, and meet.
    fn recording(units: &[(Unit, u32)]) -> Recording {
        let mut mix = Mix { slots: 10, units: [0; UNITS] };
        units.iter().for_each(|(unit, amount)| mix.units[*unit as usize] = *amount);
        let events = vec![Event::Run(mix), Event::Arrive(0), Event::Wait(0), Event::Run(mix)];
        let warp = |index| WarpEvents { cta: 0, index, events: events.clone() };
        let phases = vec![Phase { arrivals: 4, ..Phase::default() }];
        Recording { ctas: 1, warps: (0..4).map(warp).collect(), phases, ..Recording::default() }
    }

    fn cycles(recording: &Recording) -> [f64; 2] {
        let machine = Machine { stagger: 0.0, ..H200 };
        let alone = replay(&machine, recording, SHARE, false).cycles;
        [alone, replay_together(&machine, recording, 2, SHARE).cycles]
    }

    #[test]
    fn ctas_share_the_tensor_cores() {
        let [alone, together] = cycles(&recording(&[(Unit::Matrix, 64_000)]));
        assert!((together / alone - 2.0).abs() < 0.01, "{alone} and {together}");
    }

    #[test]
    fn one_cta_multiplies_while_the_other_computes_exponentials() {
        let recording = recording(&[(Unit::Matrix, 64_000), (Unit::Mufu, 12_000)]);
        let [alone, together] = cycles(&recording);
        assert!(together > alone && together < 1.7 * alone, "{alone} and {together}");
    }

    #[test]
    fn larger_clusters_start_later() {
        let pair = Recording { ctas: 2, ..recording(&[(Unit::Fma, 100)]) };
        let eight = Recording { ctas: 8, ..pair.clone() };
        let [pair, eight] = [pair, eight].map(|r| replay(&H200, &r, SHARE, false).cycles);
        assert_eq!(eight - pair, 6.0 * H200.cluster_start);
    }

    #[test]
    fn bytes_are_those_of_one_cta() {
        let recording = recording(&[(Unit::Global, 4096), (Unit::Loaded, 1024)]);
        let of = |run: Replayed| [run.written, run.read];
        let together = of(replay_together(&H200, &recording, 3, SHARE));
        assert_eq!(together, of(replay(&H200, &recording, SHARE, false)));
        assert_eq!(together, [4.0 * 2.0 * 4096.0, 4.0 * 2.0 * 1024.0]);
    }
}
