//! From a few clusters to a whole program: waves, bandwidth over all multiprocessors, clock, launches.

mod bound;
mod waves;

pub use bound::Bound;

use crate::machine::Machine;
use crate::replay::{Replayed, Share, replay, replay_together};
use program::{Access, Launch, Program};
use sim::record::Recording;

/// What is predicted of one launch.
#[derive(Clone, Debug)]
pub struct Launched {
    /// Kernel.
    pub kernel: String,
    /// Microseconds from its first CTA's start to its last one's end.
    pub microseconds: f64,
    /// Clock in GHz.
    pub clock_ghz: f64,
    /// Share of the time that tensor cores are busy.
    pub tensor: f64,
    /// What it takes at least for the bandwidth of memory, in microseconds.
    pub memory_us: f64,
    /// The same for L2.
    pub l2_us: f64,
    /// Share of multiprocessors' time in which they have no CTA.
    pub idle: f64,
    /// FLOP of its products, masked or not.
    pub flops: f64,
    /// What bounds it.
    pub bound: Bound,
    /// The slowest cluster of those that were recorded.
    pub slowest: Replayed,
}

/// What is predicted of a program.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Microseconds of one call among many in a graph.
    pub microseconds: f64,
    /// Its launches.
    pub launches: Vec<Launched>,
}

impl Prediction {
    /// The launch that takes longest.
    pub fn longest(&self) -> Option<&Launched> {
        self.launches.iter().max_by(|a, b| a.microseconds.total_cmp(&b.microseconds))
    }
}

/// Clusters that stand for all clusters of a launch: the first, one in the middle, and the last.
pub fn sample(launch: &Launch) -> Vec<u32> {
    spread(launch, 3)
}

/// The golden ratio, whose multiples fall between all multiples before them.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// `count` clusters that stand for all of a launch: the first, the last, and one in each of as many equal ranges as
/// are left, at another place in each. Ranges of work that repeat are met everywhere so.
pub fn spread(launch: &Launch, count: u32) -> Vec<u32> {
    let clusters = clusters(launch);
    let ranges = f64::from(count.saturating_sub(2));
    let place = |range: u32| (0.5 + GOLDEN * f64::from(range)).fract();
    let inner = |range| (f64::from(range) + place(range)) / ranges * f64::from(clusters);
    let mut sample = vec![0];
    sample.extend((0..count.saturating_sub(2)).map(|range| inner(range) as u32));
    sample.extend((count > 1).then(|| clusters.saturating_sub(1)));
    sample.sort_unstable();
    sample.dedup();
    sample
}

/// Predicts a program of which clusters of every launch were recorded. Where they were recorded with fewer sequences,
/// each of its clusters does `more` times what theirs do.
pub fn predict(
    machine: &Machine,
    program: &Program,
    recordings: &[Recording],
    more: f64,
) -> Prediction {
    predict_with(machine, program, recordings, more, None)
}

/// The same for kernels whose threads have so many registers: CTAs that fit a multiprocessor share it.
pub fn predict_with_registers(
    machine: &Machine,
    program: &Program,
    recordings: &[Recording],
    registers: u32,
) -> Prediction {
    predict_with(machine, program, recordings, 1.0, Some(registers))
}

fn predict_with(
    machine: &Machine,
    program: &Program,
    recordings: &[Recording],
    more: f64,
    registers: Option<u32>,
) -> Prediction {
    let mut launches = Vec::new();
    let mut microseconds = 0.0;
    for (number, launch) in program.launches.iter().enumerate() {
        let of_launch: Vec<&Recording> =
            recordings.iter().filter(|recording| recording.launch == number).collect();
        let launched = predict_launch(machine, program, launch, (&of_launch, more), registers);
        let overlaps = number > 0 && launch.overlaps_previous;
        microseconds += launched.microseconds;
        microseconds += if overlaps { machine.dependent_us } else { machine.launch_us };
        launches.push(launched);
    }
    Prediction { microseconds, launches }
}

fn clusters(launch: &Launch) -> u32 {
    (0..3).map(|i| launch.grid[i] / launch.cluster[i].max(1)).product()
}

fn product(extent: [u32; 3]) -> u32 {
    extent.iter().product()
}

/// Threads that fit a multiprocessor with 64 registers each.
const THREADS: u32 = 1024;

/// The same where warps multiply by themselves, and keep accumulators and scores in 255 registers.
const MULTIPLYING_THREADS: u32 = 256;

/// Registers of a multiprocessor, those that a warp gets at once, the most threads, and the most CTAs.
const REGISTERS: u32 = 65_536;
const REGISTERS_AT_ONCE: u32 = 256;
const MOST_THREADS: u32 = 2048;
const MOST_CTAS: u32 = 32;

/// CTAs that run on a multiprocessor at one time. Where registers are not known, threads are taken to have 64 or, where
/// they multiply, 255.
fn ctas_together(
    machine: &Machine,
    launch: &Launch,
    multiplies: bool,
    registers: Option<u32>,
) -> u32 {
    let threads = product(launch.block).max(1);
    let by_threads = match registers {
        None if multiplies => MULTIPLYING_THREADS / threads,
        None => THREADS / threads,
        Some(registers) => {
            let of_warp = (32 * registers).next_multiple_of(REGISTERS_AT_ONCE).max(1);
            let warps = (REGISTERS / of_warp).min(MOST_THREADS / 32);
            (warps / threads.div_ceil(32)).min(MOST_CTAS)
        }
    };
    let by_shared = machine.shared_size / (launch.shared_bytes + 1024);
    by_threads.min(by_shared).max(1)
}

/// Clusters that run at one time, with so many CTAs on a multiprocessor.
fn resident(machine: &Machine, launch: &Launch, together: u32) -> u32 {
    let places = (machine.processors / product(launch.cluster).max(1)).max(1);
    places * together
}

/// Bytes that a program touches, each counted once.
fn footprint(program: &Program, read: bool) -> f64 {
    let counts = |access: Access| match access {
        Access::Read => read,
        Access::Write => !read,
        _ => true,
    };
    let buffers = program.buffers.iter().filter(|buffer| counts(buffer.access));
    buffers.map(|buffer| buffer.bytes as f64).sum()
}

/// Share of the data that is not in L2 when a call begins, of many like it.
fn cold(machine: &Machine, program: &Program) -> f64 {
    let all: f64 = program.buffers.iter().map(|buffer| buffer.bytes as f64).sum();
    ((all / machine.l2_size - 0.6) / 0.6).clamp(0.0, 1.0)
}

fn predict_launch(
    machine: &Machine,
    program: &Program,
    launch: &Launch,
    (recordings, more): (&[&Recording], f64),
    registers: Option<u32>,
) -> Launched {
    let clusters = f64::from(clusters(launch));
    let multiplies = recordings.iter().any(|recording| recording.has_warp_products());
    let fit = ctas_together(machine, launch, multiplies, registers);
    let resident = f64::from(resident(machine, launch, fit));
    let size = f64::from(product(launch.cluster));
    // CTAs of kernels whose registers are not known, and that do not multiply, are short and taken to be alone.
    let together = match (multiplies || registers.is_some()) && size == 1.0 {
        true => (clusters.min(resident) / f64::from(machine.processors)).ceil() as u32,
        false => 1,
    };
    let cold = cold(machine, program);
    let mut share = Share { l2: 30.0, memory: 20.0, misses: 0.0 };
    let mut clock = machine.clock(0.7);
    let mut runs: Vec<Replayed> = Vec::new();
    let mut result = None;
    for _ in 0..2 {
        let active = (clusters.min(resident) * size).min(f64::from(machine.processors)).max(1.0);
        let per_cycle = |bytes: f64| bytes / active / (clock * 1e9);
        share.l2 = per_cycle(machine.l2_bytes);
        share.memory = per_cycle(machine.memory_bytes);
        runs = recordings
            .iter()
            .map(|recording| match together {
                1 => replay(machine, recording, share, false),
                _ => replay_together(machine, recording, together, share),
            })
            .collect();
        let mean = |of: &dyn Fn(&Replayed) -> f64| {
            more * runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
        };
        let (read, written) =
            (mean(&|run| run.read) * clusters, mean(&|run| run.written) * clusters);
        let from_memory = (footprint(program, true) * cold).min(read);
        let ahead = mean(&|run| run.prefetched) * clusters;
        share.misses = if read > 0.0 { (from_memory - ahead).max(0.0) / read } else { 0.0 };
        let to_memory = (footprint(program, false) * cold).min(written);
        let memory_us =
            (from_memory / machine.memory_bytes + to_memory / machine.memory_written) * 1e6;
        let l2_us = (read + written) / machine.l2_bytes * 1e6;
        let slowest = more * runs.iter().map(|run| run.cycles).fold(0.0, f64::max);
        let waves = clusters / resident;
        let cycles = if waves <= 1.0 {
            slowest
        } else {
            let numbers = recordings.iter().map(|recording| recording.cluster);
            let samples: Vec<(u32, f64)> =
                numbers.zip(&runs).map(|(number, run)| (number, more * run.cycles)).collect();
            waves::schedule(&samples, clusters as u32, resident as u32)
        };
        let work = mean(&|run| run.tensor) * (clusters / resident).max(1.0);
        let busy = waves / waves.ceil().max(1.0);
        // Power is the whole chip's.
        let chip = active / f64::from(machine.processors);
        clock = machine.clock(chip * work / cycles.max(1.0));
        let microseconds = (cycles / clock / 1e3).max(memory_us).max(l2_us);
        let tensor = work / (microseconds * clock * 1e3);
        result = Some((microseconds, clock, tensor, memory_us, l2_us, 1.0 - busy));
    }
    let (microseconds, clock_ghz, tensor, memory_us, l2_us, idle) = result.unwrap_or_default();
    let of_samples: f64 = runs.iter().map(|run| run.flops).sum();
    let flops = more * of_samples / runs.len().max(1) as f64 * clusters * size;
    let slowest = runs.into_iter().max_by(|a, b| a.cycles.total_cmp(&b.cycles)).unwrap_or_default();
    let bound = Bound::of(&slowest, microseconds, memory_us.max(0.0), l2_us, idle);
    let kernel = launch.kernel.to_string();
    Launched {
        kernel,
        microseconds,
        clock_ghz,
        tensor,
        memory_us,
        l2_us,
        idle,
        flops,
        bound,
        slowest,
    }
}

#[cfg(test)]
mod tests {
    use super::{ctas_together, sample, spread};
    use crate::machine::H200;
    use program::Launch;

    fn launch(ctas: u32) -> Launch {
        Launch {
            kernel: "kernel".into(),
            grid: [ctas, 1, 1],
            block: [32, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            args: Vec::new(),
            overlaps_previous: false,
        }
    }

    #[test]
    fn the_first_the_middle_and_the_last_stand_for_all() {
        assert_eq!(sample(&launch(100)), [0, 50, 99]);
        assert_eq!(sample(&launch(2)), [0, 1]);
        assert_eq!(spread(&launch(100), 1), [0]);
    }

    #[test]
    fn registers_say_how_many_ctas_fit() {
        // What `cuOccupancyMaxActiveBlocksPerMultiprocessor` says on an H200 for CTAs of 128 threads.
        let launch = Launch { block: [128, 1, 1], ..launch(1000) };
        let fit = |registers| ctas_together(&H200, &launch, false, Some(registers));
        assert_eq!([196, 92, 43, 30].map(fit), [2, 5, 10, 16]);
        let large = Launch { shared_bytes: 100_000, ..launch.clone() };
        assert_eq!(ctas_together(&H200, &large, false, Some(30)), 2);
    }

    #[test]
    fn a_spread_meets_repeated_work_at_all_its_places() {
        // Work that repeats every 64 clusters, and a number of samples that divides their number.
        let sample = spread(&launch(1024), 66);
        assert_eq!(sample.len(), 66);
        let mean = sample.iter().map(|cluster| f64::from(cluster % 64)).sum::<f64>() / 66.0;
        assert!((mean - 31.5).abs() < 3.0, "{mean}");
    }
}
