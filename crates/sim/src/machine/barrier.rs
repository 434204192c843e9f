use crate::judge::Clocks;

/// A named barrier (`bar.sync 0..15`).
#[derive(Clone, Debug, Default)]
pub struct NamedBarrier {
    /// Threads counted so far.
    pub arrived: u32,
    /// Threads needed, as the first arrival said; `None` is the whole CTA.
    pub expected: Option<u32>,
    /// Running results of a reduction: all, any, exclusive or, count.
    pub votes: Votes,
    /// What arrivals published.
    pub clocks: Clocks,
    /// Latest arrival's simulated time.
    pub time: u64,
}

/// Reduction of a predicate over the threads of a barrier.
#[derive(Clone, Copy, Debug)]
pub struct Votes {
    /// All true so far.
    pub all: bool,
    /// Some true.
    pub any: bool,
    /// True ones.
    pub count: u32,
}

impl Default for Votes {
    fn default() -> Votes {
        Votes { all: true, any: false, count: 0 }
    }
}

/// The barrier of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterBarrier {
    /// Index of the current phase.
    pub phase: u64,
    /// Threads that arrived at it.
    pub arrived: u32,
    /// What they published.
    pub incoming: Clocks,
    /// What completed phases published.
    pub published: Clocks,
    /// Latest arrival's simulated time.
    pub time: u64,
}
