use super::agent::AgentId;
use std::marker::PhantomData;
use std::ops::Range;

/// A vector clock: for each agent, how much of what it did is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock<Id = AgentId>(Vec<u32>, PhantomData<Id>);

impl<Id> Default for Clock<Id> {
    fn default() -> Self {
        Clock(Vec::new(), PhantomData)
    }
}

impl<Id: Into<usize>> Clock<Id> {
    /// What is known of `agent`.
    #[inline(always)]
    pub fn get(&self, agent: Id) -> u32 {
        self.0.get(agent.into()).copied().unwrap_or(0)
    }

    /// Raises what is known of `agent`.
    pub fn raise(&mut self, agent: Id, time: u32) {
        let agent = agent.into();
        if self.0.len() <= agent {
            self.0.resize(agent + 1, 0);
        }
        self.0[agent] = self.0[agent].max(time);
    }

    /// The same, but of `agents` what `other` knows.
    pub fn with(&self, agents: Range<Id>, other: &Self) -> Self {
        let agents = agents.start.into()..agents.end.into();
        let known = |clock: &Self, agent: usize| clock.0.get(agent).copied().unwrap_or(0);
        let time = |agent| known(if agents.contains(&agent) { other } else { self }, agent);
        Clock((0..self.0.len()).map(time).collect(), PhantomData)
    }

    /// Learns all that `other` knows.
    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// What an agent knows: all that happened before it, and the parts of it that fences made visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Everything.
    pub all: Clock,
    /// Generic writes behind a `fence.proxy.async`.
    pub fenced: Clock,
    /// Loads and stores of tensor memory behind a `tcgen05.fence::before_thread_sync`, and (but in
    /// pedantic mode) the stores that were only issued.
    pub tensor: Clock,
    /// What has happened when loads of tensor memory are over that other warps issued before they told
    /// this agent (nothing in pedantic mode).
    pub heard: Clock,
}

impl Clocks {
    /// Learns all that `other` knows.
    pub fn join(&mut self, other: &Clocks) {
        self.all.join(&other.all);
        self.fenced.join(&other.fenced);
        self.tensor.join(&other.tensor);
        self.heard.join(&other.heard);
    }
}
