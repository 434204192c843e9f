//! What a kernel's time is made of.

use crate::replay::Replayed;
use std::fmt;

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Tensor cores.
    Tensor,
    /// Special functions.
    Mufu,
    /// Issue slots, multiply-add or integer units of a partition.
    Issue,
    /// Shared memory.
    Shared,
    /// L2.
    L2,
    /// Memory.
    Memory,
    /// The last wave leaves multiprocessors idle.
    Tail,
    /// Nothing is busy: steps wait for each other.
    Chain,
}

/// Share of the time from which on a unit is what a kernel waits for.
const BUSY: f64 = 0.85;
/// Idle share of multiprocessors from which on the last wave is.
const IDLE: f64 = 0.2;

impl Bound {
    pub(super) fn of(run: &Replayed, us: f64, memory_us: f64, l2_us: f64, idle: f64) -> Bound {
        let cycles = run.cycles.max(1.0);
        let issue =
            [0, 1, 2, 4].map(|unit| run.partition_share(unit)).into_iter().fold(0.0, f64::max);
        let shares = [
            (memory_us / us, Bound::Memory),
            (l2_us / us, Bound::L2),
            (run.tensor / cycles, Bound::Tensor),
            (run.shared_share(), Bound::Shared),
            (run.partition_share(3), Bound::Mufu),
            (issue, Bound::Issue),
        ];
        let most = shares.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match most {
            Some((share, bound)) if *share >= BUSY => *bound,
            _ if idle > IDLE && idle < 0.5 => Bound::Tail,
            _ => Bound::Chain,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Tensor => "tensor cores",
            Bound::Mufu => "special functions",
            Bound::Issue => "instructions",
            Bound::Shared => "shared memory",
            Bound::L2 => "L2",
            Bound::Memory => "memory",
            Bound::Tail => "last wave",
            Bound::Chain => "chain of steps",
        })
    }
}
