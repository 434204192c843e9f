//! Asynchronous work between issue and completion.
//!
//! Every asynchronous operation is queued with what it will do. When it happens is the mode's
//! choice; operations of one stream (a warp's wgmmas, its tcgen05 operations, its cp.asyncs) happen
//! in order, others in any.

use crate::exec::Work;
use crate::instruction::Pc;
use crate::judge::Clocks;
use crate::warp::WarpId;

/// Operations of the same stream complete in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Not ordered with anything.
    Free,
    /// `cp.async` of a warp.
    CpAsync(WarpId),
    /// `wgmma` of a warp.
    Wgmma(WarpId),
    /// `tcgen05` of a warp.
    Tcgen05(WarpId),
}

/// A group that a wait counts: kind, warp, number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// None: completion is signalled by an mbarrier.
    None,
    /// `cp.async` group of a warp.
    CpAsync(WarpId, u64),
    /// Bulk group of a warp.
    Bulk(WarpId, u64),
    /// `wgmma` group of a warp.
    Wgmma(WarpId, u64),
}

/// One operation in flight.
pub struct Pending {
    /// Who issued it.
    pub warp: WarpId,
    /// Where.
    pub pc: Pc,
    /// Its stream.
    pub stream: Stream,
    /// Its group.
    pub group: Group,
    /// Step from which [`crate::Completion::Eager`] completes it.
    pub ready: u64,
    /// Simulated time of issue.
    pub time: u64,
    /// Its number in a recording.
    pub operation: crate::record::OperationId,
    /// What it knows, its own work included.
    pub clocks: Clocks,
    /// What it does.
    pub work: Work,
}

/// Operations in flight; hardware has room for a limited number, too, and lets a thread wait to issue more.
const MOST_IN_FLIGHT: usize = 4096;

/// All work in flight of a cluster.
#[derive(Default)]
pub struct Engines {
    queue: Vec<Pending>,
}

impl Engines {
    /// Adds an operation.
    pub fn issue(&mut self, pending: Pending) {
        self.queue.push(pending);
    }

    /// Whether as much is in flight as can be.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= MOST_IN_FLIGHT
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the oldest operation is due.
    pub fn ripe(&self, step: u64) -> bool {
        self.queue.first().is_some_and(|p| p.ready <= step)
    }

    /// Indices of the operations that may complete next.
    fn eligible(&self) -> impl Iterator<Item = usize> + '_ {
        self.queue.iter().enumerate().filter_map(|(i, p)| {
            let ordered = p.stream != Stream::Free;
            let blocked = ordered && self.queue[..i].iter().any(|q| q.stream == p.stream);
            (!blocked).then_some(i)
        })
    }

    /// Takes the oldest operation, or one by a random number, among those `accept` admits.
    pub fn take(
        &mut self,
        pick: Option<usize>,
        accept: impl Fn(&Pending) -> bool,
    ) -> Option<Pending> {
        let index = {
            let mut candidates = self.eligible().filter(|i| accept(&self.queue[*i]));
            match pick {
                None => candidates.next()?,
                Some(number) => {
                    let candidates: Vec<usize> = candidates.collect();
                    candidates[number.checked_rem(candidates.len())?]
                }
            }
        };
        Some(self.queue.remove(index))
    }

    /// Takes the oldest operation of which `wanted` is true.
    pub fn take_first(&mut self, wanted: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let index = self.queue.iter().position(wanted)?;
        Some(self.queue.remove(index))
    }

    /// The operations in flight.
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.queue.iter()
    }
}
