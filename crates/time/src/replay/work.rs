//! What is under way at one time on a multiprocessor, and how much of each unit it takes.

use crate::machine::Machine;
use sim::record::{Mix, Unit};

/// Partitions of a multiprocessor: warp `w` of a CTA runs on partition `w mod 4`.
pub const PARTITIONS: usize = 4;
/// Units of a partition: issue slots, multiply-add, integer, special functions, register ports, and the tensor core
/// where warps multiply by themselves (`mma.sync`).
pub const OF_PARTITION: usize = 6;
/// Shared memory, behind the units of all partitions.
pub const SHARED: usize = PARTITIONS * OF_PARTITION;
/// What the multiprocessor sends to L2.
pub const OUT: usize = SHARED + 1;
/// All units of a multiprocessor that work is shared out on.
pub const RESOURCES: usize = OUT + 1;

/// Who waits for a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A warp executes instructions.
    Warp(usize),
    /// The tensor cores work on a product.
    Product(u32),
    /// A copy comes in.
    Copy(u32),
}

/// A piece of work: how long it takes alone, and the share of each unit it takes then.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who waits for it.
    pub owner: Owner,
    /// Cycles alone.
    pub alone: f64,
    /// Cycles left, as if alone.
    pub left: f64,
    /// Speed, 1 as if alone.
    pub speed: f64,
    /// Shares of units.
    pub shares: Vec<(usize, f64)>,
}

impl Job {
    /// A job that takes `alone` cycles, and of each unit the given cycles.
    pub fn new(owner: Owner, alone: f64, cycles: &[(usize, f64)]) -> Job {
        let used = cycles.iter().filter(|(_, cycles)| *cycles > 0.0);
        let shares = used.map(|(unit, cycles)| (*unit, cycles / alone)).collect();
        Job { owner, alone, left: alone, speed: 1.0, shares }
    }

    /// Instructions of a warp.
    pub fn of_warp(machine: &Machine, warp: usize, index: u32, mix: &Mix) -> Job {
        let first = OF_PARTITION * (index as usize % PARTITIONS);
        let count = |unit| f64::from(mix.of(unit));
        let fma = count(Unit::Fma) * machine.fma + count(Unit::FmaPair) * machine.fma_pair;
        let alu = count(Unit::Alu) * machine.alu + count(Unit::Convert) * machine.convert;
        let transfers = count(Unit::Tensor) / machine.tensor_registers;
        let slots = f64::from(mix.slots) - count(Unit::Tensor) + count(Unit::Tensor) / 32.0;
        let shared = count(Unit::Shared) + count(Unit::Shuffle);
        let matrix = matrix_cycles(machine, mix);
        let ports = slots
            + (fma - count(Unit::Fma) - count(Unit::FmaPair))
            + alu / 2.0
            + count(Unit::Mufu) * (machine.mufu_ports - 1.0);
        let cycles = [
            (first, slots),
            (first + 1, fma),
            (first + 2, alu),
            (first + 3, count(Unit::Mufu) * machine.mufu),
            (first + 4, ports),
            (first + 5, matrix),
            (SHARED, shared),
            (OUT, (count(Unit::Global) + count(Unit::Loaded)) / machine.link_bytes),
        ];
        let longest = cycles.iter().map(|(_, cycles)| *cycles).fold(transfers, f64::max);
        let mufu = count(Unit::Mufu) * machine.mufu;
        let units = fma + alu + mufu + shared + transfers;
        let all = units.max(slots - count(Unit::Mufu) + mufu);
        let alone = (longest + machine.alone * (all - longest)).max(0.5);
        // Operands of the next product are loaded while one is multiplied; softmax waits for products.
        let multiplied = if matrix > 0.0 { units - shared + matrix.max(shared) } else { 0.0 };
        Job::new(Owner::Warp(warp), alone.max(multiplied), &cycles)
    }
}

/// Cycles of a partition's tensor core for a warp's own matrix instructions.
pub fn matrix_cycles(machine: &Machine, mix: &Mix) -> f64 {
    1024.0 * f64::from(mix.of(Unit::Matrix)) * PARTITIONS as f64 / machine.mma_flops
}

/// Passes in which units are shared out.
const PASSES: usize = 3;

/// Sets the speed of every job so that no unit gives more than it has.
pub fn share_out(jobs: &mut [Job]) {
    jobs.iter_mut().for_each(|job| job.speed = 1.0);
    for _ in 0..PASSES {
        let mut asked = [0.0f64; RESOURCES];
        for job in jobs.iter() {
            job.shares.iter().for_each(|(unit, share)| asked[*unit] += share * job.speed);
        }
        for job in jobs.iter_mut() {
            let most = job.shares.iter().map(|(unit, _)| asked[*unit]).fold(1.0, f64::max);
            job.speed /= most;
        }
    }
}
