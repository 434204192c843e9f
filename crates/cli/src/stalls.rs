//! Why warps wait, by the model of time.

use serde::Serialize;
use sim::record::Recording;
use time::{Cause, Machine, Share, replay};

/// What the warps of a cluster wait for.
#[derive(Clone, Debug, Serialize)]
pub struct Stalls {
    /// The machine of the model.
    machine: &'static str,
    /// Cycles until the last warp ends.
    cycles: u64,
    /// Share of the time that tensor cores are busy, in percent.
    tensor: f64,
    /// Cause, and the share of all warps' time, in percent.
    waits: Vec<(&'static str, f64)>,
}

impl Stalls {
    /// Replays a cluster with an equal share of bandwidth.
    pub fn of(machine: &'static Machine, recording: &Recording) -> Stalls {
        let per_cycle =
            |bytes: f64| bytes / f64::from(machine.processors) / (machine.clock_ghz * 1e9);
        let (l2, memory) = (per_cycle(machine.l2_bytes), per_cycle(machine.memory_bytes));
        let replayed = replay(machine, recording, Share { l2, memory, misses: 0.0 }, false);
        let all = replayed.cycles * recording.warps.len() as f64;
        let share = |cause: Cause| (cause.name(), 100.0 * replayed.waits[cause as usize] / all);
        Stalls {
            machine: machine.name,
            cycles: replayed.cycles as u64,
            tensor: 100.0 * replayed.tensor / replayed.cycles,
            waits: Cause::ALL.into_iter().map(share).collect(),
        }
    }
}

impl std::fmt::Display for Stalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waits = self.waits.iter().map(|(name, share)| format!("{name} {share:.0} %"));
        let waits = waits.collect::<Vec<_>>().join(", ");
        writeln!(
            f,
            "By the model of time, on an {}: {} cycles, tensor cores busy {:.0} %.\nWarps wait for: {waits}.",
            self.machine, self.cycles, self.tensor
        )
    }
}
