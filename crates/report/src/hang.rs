use crate::place::Place;
use serde::{Deserialize, Serialize};

/// Who waits for what when no warp can go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hang {
    /// Warps that wait, one entry for each place and reason.
    pub waiters: Vec<Waiter>,
    /// Kinds of waiters that are not listed.
    pub unlisted: usize,
    /// The mbarriers that they wait for.
    pub barriers: Vec<Barrier>,
    /// The last thing that each warp did before it waited or exited.
    pub last_deeds: Vec<LastDeed>,
}

/// Warps that wait at one place for one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiter {
    /// Where; the thread is the first of them.
    pub place: Place,
    /// How many warps.
    pub count: usize,
    /// Which: `CTA (0,0,0) warps 0 to 3`.
    pub warps: String,
    /// For what.
    pub awaits: String,
}

/// An mbarrier that warps wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Barrier {
    /// The shared variable that it is in, and its place there.
    pub name: String,
    /// The phase that is incomplete.
    pub phase: u64,
    /// Arrivals that the phase has.
    pub arrived: i64,
    /// Arrivals that the phase needs.
    pub expected: i64,
    /// Bytes that `expect_tx` announced and no copy brought; negative if copies brought more.
    pub missing_bytes: i64,
    /// Where it was initialised.
    pub initialised: Place,
    /// Who arrived at it so far.
    pub arrivals: Vec<Arrivals>,
    /// Kinds of arrivals that are not listed.
    pub unlisted: usize,
}

/// Arrivals of some warps at an mbarrier, the same of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Which: `CTA (0,0,0) warps 0 to 3`.
    pub warps: String,
    /// The last of their instructions that arrived, and when.
    pub place: Place,
    /// How many arrivals each of them made in all phases.
    pub count: i64,
    /// Phases in which they arrived.
    pub phases: u64,
    /// The last of these.
    pub last_phase: u64,
    /// Whether they have exited, so that no more will come.
    pub exited: bool,
}

/// The last thing that some warps did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastDeed {
    /// Which: `CTA (0,0,0) warps 0 to 3`.
    pub warps: String,
    /// Whether they have exited; else they wait.
    pub exited: bool,
    /// The instruction, and the latest cycle.
    pub place: Place,
}

impl Hang {
    /// Every place in it.
    pub(crate) fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        let waiters = self.waiters.iter_mut().map(|waiter| &mut waiter.place);
        let barriers =
            self.barriers.iter_mut().flat_map(|Barrier { initialised, arrivals, .. }| {
                let arrivals = arrivals.iter_mut().map(|arrival| &mut arrival.place);
                std::iter::once(initialised).chain(arrivals)
            });
        let deeds = self.last_deeds.iter_mut().map(|deed| &mut deed.place);
        waiters.chain(barriers).chain(deeds)
    }
}
