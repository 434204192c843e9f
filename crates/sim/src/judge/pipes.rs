use super::agent::{Agent, AgentId, Agents, Pipe};
use super::clock::{Clock, Clocks};
use super::lanes::Lanes;
use super::shadow::{Access, Conflict, Shadow, Viewer};
use super::slots::Slots;
use super::swizzles::Swizzles;
use crate::engine::Group;
use crate::instruction::Pc;
use crate::machine::CtaRank;
use crate::warp::{PerWarp, WarpId};
use std::collections::HashMap;

/// A memory the checker shadows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    /// Shared memory of a CTA.
    Shared(CtaRank),
    /// Tensor memory of a CTA; the address is `4 * (lane * 512 + column)`.
    Tensor(CtaRank),
    /// Global memory.
    Global,
}

/// The shadows of a cluster's memories: so few that looking through them is faster than hashing.
#[derive(Default)]
struct Shadows(Vec<(Memory, Shadow)>);

impl Shadows {
    fn get(&self, memory: Memory) -> Option<&Shadow> {
        self.0.iter().find(|(m, _)| *m == memory).map(|(_, shadow)| shadow)
    }

    fn of(&mut self, memory: Memory) -> &mut Shadow {
        let at = self.0.iter().position(|(m, _)| *m == memory).unwrap_or_else(|| {
            self.0.push((memory, Shadow::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

/// Host memory of what was published at an address, about.
const LOCATION_BYTES: usize = 512;

/// A group of work and when its reads and writes are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issued {
    pub(crate) group: Group,
    pub(crate) agent: AgentId,
    pub(crate) time: u32,
}

/// A point in an agent's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    agent: AgentId,
    time: u32,
}

/// The checker's state for one cluster.
pub(crate) struct Checker {
    agents: Agents,
    /// What each warp knows.
    pub(crate) known: PerWarp<Clocks>,
    /// Time of each agent.
    pub(super) times: Vec<u32>,
    /// The agents of copies.
    slots: Slots,
    /// Whether an agent has reached the last time that an [`Access`] can hold.
    exhausted: bool,
    shadows: Shadows,
    /// Knowledge published at addresses by strong operations.
    locations: HashMap<(Memory, u64), Clocks>,
    /// How copies were swizzled.
    pub(super) swizzles: Swizzles,
    /// Work that group waits refer to.
    pub(crate) issued: Vec<Issued>,
    /// What each warp knew at its last `tcgen05.fence::after_thread_sync`, where that is checked.
    pub(crate) ordered: Option<PerWarp<Clock>>,
    /// What has happened when the loads of tensor memory that each warp issued are over.
    pub(super) loading: PerWarp<Clock>,
    /// What the lanes of each warp did, where that is checked.
    pub(crate) lanes: Option<PerWarp<Lanes>>,
}

impl Checker {
    pub(crate) fn new(warps: usize, pedantic: bool) -> Checker {
        let agents = Agents { warps };
        let none = || (0..warps).map(|_| Clock::default()).collect::<PerWarp<Clock>>();
        let mut known: PerWarp<Clocks> = (0..warps).map(|_| Clocks::default()).collect();
        for w in known.ids() {
            known[w].all.raise(agents.id(Agent::Warp(w)), 1);
        }
        Checker {
            agents,
            known,
            times: vec![1; agents.fixed()],
            slots: Slots::default(),
            exhausted: false,
            shadows: Shadows::default(),
            locations: HashMap::new(),
            swizzles: Swizzles::default(),
            issued: Vec::new(),
            loading: none(),
            ordered: pedantic.then(none),
            lanes: pedantic.then(|| (0..warps).map(|_| Lanes::default()).collect()),
        }
    }

    /// Bytes of host memory that its notes take, about.
    pub(crate) fn bytes(&self) -> u64 {
        let locations = self.locations.len() * LOCATION_BYTES;
        self.shadows.0.iter().map(|(_, shadow)| shadow.bytes()).sum::<u64>() + locations as u64
    }

    /// Whether an agent's time has reached the last one that an [`Access`] can hold.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// The moment of what a warp does next.
    pub(crate) fn now(&self, w: WarpId) -> Moment {
        let agent = self.warp(w);
        Moment { agent, time: self.time(agent) }
    }

    /// Whether a warp knows that a moment has passed.
    pub(crate) fn knows(&self, w: WarpId, moment: Moment) -> bool {
        self.known[w].all.get(moment.agent) >= moment.time
    }

    /// The agent that is a warp itself.
    fn warp(&self, w: WarpId) -> AgentId {
        self.agents.id(Agent::Warp(w))
    }

    /// The agent of a warp's pipe.
    pub(crate) fn pipe(&self, pipe: Pipe, w: WarpId) -> AgentId {
        self.agents.id(Agent::Pipe(pipe, w))
    }

    /// The time of an agent.
    pub(super) fn time(&self, agent: AgentId) -> u32 {
        self.times[usize::from(agent)]
    }

    /// An agent for a copy of its own, issued by `w`: one whose last copy `w` knows to be over, since
    /// whoever hears of the new copy then hears of that one, too.
    pub(crate) fn slot(&mut self, w: WarpId) -> AgentId {
        let Checker { slots, times, known, agents, .. } = self;
        let all = &known[w].all;
        let id = |slot: usize| agents.id(Agent::Slot(slot));
        let is_over = |slot: usize| all.get(id(slot)) >= times[usize::from(id(slot))];
        let agent = id(slots.take(w, Access::AGENTS - agents.fixed(), is_over));
        if times.len() <= agent.into() {
            times.push(1);
        }
        agent
    }

    /// A warp executes `griddepcontrol.wait`.
    pub(crate) fn await_grids(&mut self, w: WarpId) {
        let agent = self.agents.id(Agent::EarlierGrids);
        self.known[w].all.raise(agent, 1);
    }

    /// Whether a warp knows that the launches before this one have ended.
    pub(crate) fn awaited_grids(&self, w: WarpId) -> bool {
        self.known[w].all.get(self.agents.id(Agent::EarlierGrids)) > 0
    }

    /// The next time of an agent; copies take two, one for reads and one for writes.
    pub(crate) fn advance(&mut self, agent: AgentId) -> u32 {
        self.tick(agent, 2)
    }

    /// Moves an agent's time on. At the last time it stands still: what happens until the launch is stopped
    /// counts as known.
    fn tick(&mut self, agent: AgentId, by: u32) -> u32 {
        let time = &mut self.times[usize::from(agent)];
        *time = (*time + by).min(Access::LAST_TIME);
        self.exhausted |= *time == Access::LAST_TIME;
        *time
    }

    /// The warp behind an agent; behind earlier grids, the first.
    pub(crate) fn warp_of(&self, agent: AgentId) -> WarpId {
        match self.agents.of(agent) {
            Agent::Warp(w) | Agent::Pipe(_, w) => w,
            Agent::EarlierGrids => WarpId(0),
            Agent::Slot(slot) => self.slots.owner(slot),
        }
    }

    /// What kind of agent, for messages.
    pub(crate) fn describe(&self, agent: AgentId) -> &'static str {
        self.agents.of(agent).describe()
    }

    /// Remembers work for the waits of its group; of what an agent does in one group, the last.
    pub(crate) fn note_group(&mut self, issued: Issued) {
        let same = |other: &&mut Issued| (other.group, other.agent) == (issued.group, issued.agent);
        match self.issued.iter_mut().rev().find(same) {
            Some(other) => other.time = issued.time,
            None => self.issued.push(issued),
        }
    }

    /// Everything a pipe did so far is done, as its warp knows.
    pub(crate) fn finish_pipe(&mut self, w: WarpId, agent: AgentId) {
        let time = self.time(agent);
        self.known[w].all.raise(agent, time);
    }

    /// A warp's own time moves on: what it does from here is not part of what it published.
    pub(crate) fn step(&mut self, w: WarpId) {
        let agent = self.warp(w);
        let time = self.tick(agent, 1);
        self.known[w].all.raise(agent, time);
    }

    /// An access by a warp itself.
    pub(crate) fn by_warp(
        &mut self,
        w: WarpId,
        pc: Pc,
        memory: Memory,
        range: (u64, u64),
        write: bool,
    ) -> Outcome {
        let agent = self.warp(w);
        let time = self.time(agent);
        let Checker { known, shadows, .. } = self;
        let viewer = Viewer::of_warp(agent, time, pc, &known[w].all);
        shadows.of(memory).access(&viewer, range.0, range.1, write)
    }

    /// A strong access by a warp: it learns what was published at that place, or publishes there.
    pub(crate) fn strongly(
        &mut self,
        w: WarpId,
        pc: Pc,
        memory: Memory,
        range: (u64, u64),
        write: bool,
    ) -> Outcome {
        let agent = self.warp(w);
        let time = self.time(agent);
        let Checker { known, shadows, locations, .. } = self;
        let location = locations.entry((memory, range.0 / 4)).or_default();
        match write {
            true => location.join(&known[w]),
            false => known[w].join(location),
        }
        let viewer = Viewer { strong: true, ..Viewer::of_warp(agent, time, pc, &known[w].all) };
        let outcome = shadows.of(memory).access(&viewer, range.0, range.1, write);
        if write {
            self.step(w);
        }
        outcome
    }

    /// What an atomic operation of a warp reads.
    ///
    /// It learns what was published at that place, but that orders no ordinary store to the word itself: had the
    /// operation come first, the store would have undone it.
    pub(crate) fn atomically(
        &mut self,
        w: WarpId,
        pc: Pc,
        memory: Memory,
        range: (u64, u64),
    ) -> Outcome {
        let agent = self.warp(w);
        let time = self.time(agent);
        let Checker { known, shadows, .. } = self;
        let viewer = Viewer { strong: true, ..Viewer::of_warp(agent, time, pc, &known[w].all) };
        shadows.of(memory).look_behind_strong(&viewer, range.0, range.1)?;
        self.strongly(w, pc, memory, range, false)
    }

    /// A warp's own accesses to several ranges by one instruction.
    pub(crate) fn by_ranges(
        &mut self,
        w: WarpId,
        pc: Pc,
        memory: Memory,
        ranges: impl Iterator<Item = (usize, usize)>,
        write: bool,
    ) -> Outcome {
        let agent = self.warp(w);
        let time = self.time(agent);
        let Checker { known, shadows, .. } = self;
        let viewer = Viewer::of_warp(agent, time, pc, &known[w].all);
        let shadow = shadows.of(memory);
        for (at, len) in ranges {
            shadow.access(&viewer, at as u64, len as u64, write)?;
        }
        Ok(())
    }

    /// A warp goes on as if an earlier access were ordered before it.
    pub(super) fn take_as_ordered(&mut self, w: WarpId, conflict: &Conflict) {
        conflict.teach(&mut self.known[w]);
        if let Some(ordered) = &mut self.ordered {
            ordered[w].raise(conflict.other.agent(), conflict.other.time());
        }
    }

    /// Who last wrote the cell at a byte address.
    pub(crate) fn last_write(&self, memory: Memory, at: u64) -> Option<Access> {
        self.shadows.get(memory)?.last_write(at)
    }

    /// A warp executes `fence.proxy.async`: what it knows is visible to the asynchronous proxy; in pedantic
    /// mode only what it stored, and what `cp.async` brought, for which the storing thread has no place to
    /// fence where an mbarrier tells of it.
    pub(crate) fn proxy_fence(&mut self, w: WarpId) {
        if self.ordered.is_none() {
            let all = self.known[w].all.clone();
            self.known[w].fenced.join(&all);
            return;
        }
        let copies = self.known.ids().map(|w| Agent::Pipe(Pipe::CpAsync, w));
        for agent in std::iter::once(Agent::Warp(w)).chain(copies) {
            let agent = self.agents.id(agent);
            let time = self.known[w].all.get(agent);
            self.known[w].fenced.raise(agent, time);
        }
    }

    /// A warp executes `tcgen05.fence::before_thread_sync`: its loads and stores of tensor memory that
    /// are done will be known to whoever synchronises with it. (A commit does this for multiplies.)
    pub(crate) fn publish_tensor_memory(&mut self, w: WarpId) {
        for agent in [self.pipe(Pipe::TmemLoad, w), self.pipe(Pipe::TmemStore, w)] {
            let time = self.known[w].all.get(agent);
            self.known[w].tensor.raise(agent, time);
        }
    }

    /// A warp executes `tcgen05.fence::after_thread_sync`: what was published to it orders what it does
    /// next to tensor memory.
    pub(crate) fn order_tensor_memory(&mut self, w: WarpId) {
        let Some(ordered) = &mut self.ordered else { return };
        let transfers = self.agents.transfers();
        let Clocks { all, tensor, .. } = &self.known[w];
        ordered[w] = all.with(transfers, tensor);
    }

    /// A check of a warp's view without an access.
    pub(crate) fn look(&self, w: WarpId, memory: Memory, range: (u64, u64)) -> Outcome {
        let Some(shadow) = self.shadows.get(memory) else { return Ok(()) };
        let agent = self.warp(w);
        let viewer = Viewer::of_warp(agent, self.time(agent), 0, &self.known[w].all);
        shadow.look(&viewer, range.0, range.1)
    }

    /// An access by a pipe or copy with the knowledge `clocks`.
    pub(crate) fn by_agent(
        &mut self,
        operation: Operation,
        clocks: &Clocks,
        memory: Memory,
        range: (u64, u64),
        write: bool,
    ) -> Outcome {
        let Operation { agent, time, pc, proxy, strong } = operation;
        let own = match proxy {
            Proxy::Tensor(w) => {
                Some([Pipe::TmemLoad, Pipe::TmemStore].map(|pipe| self.pipe(pipe, w)))
            }
            Proxy::Generic | Proxy::Async => None,
        };
        let tensor = matches!(memory, Memory::Tensor(_));
        let (w, agents) = (self.warp_of(agent), self.agents);
        let pedantic = self.ordered.is_some();
        let generic = |agent: AgentId| match (agents.of(agent), tensor) {
            (Agent::Warp(other) | Agent::Pipe(_, other), true) => other != w,
            (Agent::EarlierGrids | Agent::Slot(_), true) => true,
            (Agent::Warp(_), false) => true,
            // CUTLASS and FlashAttention 3 let wgmma read what cp.async wrote behind a wait and no fence.
            (Agent::Pipe(Pipe::CpAsync, _), false) => pedantic,
            (Agent::Pipe(..) | Agent::EarlierGrids | Agent::Slot(_), false) => false,
        };
        let fenced = match (tensor, &self.ordered) {
            (true, Some(ordered)) => Some(&ordered[w]),
            (true, None) => None,
            (false, _) => (proxy == Proxy::Async).then_some(&clocks.fenced),
        };
        let viewer = Viewer {
            agent,
            time,
            pc,
            all: &clocks.all,
            fenced,
            fence_writes: tensor || pedantic,
            fence_after_reads: tensor,
            generic: &generic,
            own,
            strong,
        };
        self.shadows.of(memory).access(&viewer, range.0, range.1, write)
    }
}

/// What an agent other than a warp itself does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) agent: AgentId,
    pub(crate) time: u32,
    pub(crate) pc: Pc,
    pub(crate) proxy: Proxy,
    /// Whether it combines with what is there, atomically.
    pub(crate) strong: bool,
}

/// Where a conflict was found.
pub(crate) type Outcome = Result<(), (u64, Conflict)>;

/// How an agent sees memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// As warps do.
    Generic,
    /// Through the asynchronous proxy.
    Async,
    /// Tensor memory, by this warp.
    Tensor(WarpId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_at_the_last_that_can_be_told() {
        let mut checker = Checker::new(2, false);
        let (warp, copy) = (checker.warp(WarpId(0)), checker.slot(WarpId(0)));
        for agent in [warp, copy] {
            checker.times[usize::from(agent)] = Access::LAST_TIME - 3;
        }
        assert_eq!(checker.advance(copy), Access::LAST_TIME - 1);
        assert!(!checker.is_exhausted());
        assert_eq!([0; 2].map(|_| checker.advance(copy)), [Access::LAST_TIME; 2]);
        assert!(checker.is_exhausted());
        (0..9).for_each(|_| checker.step(WarpId(0)));
        let access = Access::new(warp, checker.time(warp), 7, 15);
        assert_eq!((access.agent(), access.time()), (warp, Access::LAST_TIME));
    }

    #[test]
    fn the_largest_cluster_has_room_for_copies() {
        let mut checker = Checker::new(16 * 32, false);
        let last = (0..2000).map(|_| checker.slot(WarpId(511))).max();
        assert!(last.is_some_and(|agent| usize::from(agent) < Access::AGENTS), "{last:?}");
    }
}
