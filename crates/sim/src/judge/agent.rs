//! Who does something to memory: warps, and the pipes and copies that work for them.

use crate::warp::WarpId;
use std::ops::Range;

/// The number of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AgentId(pub(super) u16);

impl From<AgentId> for usize {
    fn from(agent: AgentId) -> usize {
        agent.0.into()
    }
}

/// Pipes of a warp, each an agent of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipe {
    Wgmma = 1,
    Tcgen05 = 2,
    TmemLoad = 3,
    TmemStore = 4,
    CpAsync = 5,
}

/// What an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// A warp itself.
    Warp(WarpId),
    /// A pipe of a warp.
    Pipe(Pipe, WarpId),
    /// All launches before this one.
    EarlierGrids,
    /// A bulk copy.
    Slot(usize),
}

/// Agents of a warp: itself and its pipes.
const PER_WARP: usize = 6;

/// How the agents of a cluster are numbered: warps, their pipes kind by kind, earlier grids, copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agents {
    pub(super) warps: usize,
}

impl Agents {
    /// Agents beside copies.
    pub(super) fn fixed(self) -> usize {
        PER_WARP * self.warps + 1
    }

    pub(super) fn id(self, agent: Agent) -> AgentId {
        AgentId(match agent {
            Agent::Warp(w) => w.0,
            Agent::Pipe(pipe, w) => pipe as usize * self.warps + w.0,
            Agent::EarlierGrids => PER_WARP * self.warps,
            Agent::Slot(slot) => self.fixed() + slot,
        } as u16)
    }

    pub(super) fn of(self, id: AgentId) -> Agent {
        let number = usize::from(id);
        let w = WarpId(number % self.warps);
        match number / self.warps {
            0 => Agent::Warp(w),
            1 => Agent::Pipe(Pipe::Wgmma, w),
            2 => Agent::Pipe(Pipe::Tcgen05, w),
            3 => Agent::Pipe(Pipe::TmemLoad, w),
            4 => Agent::Pipe(Pipe::TmemStore, w),
            5 => Agent::Pipe(Pipe::CpAsync, w),
            _ => match number.checked_sub(self.fixed()) {
                None => Agent::EarlierGrids,
                Some(slot) => Agent::Slot(slot),
            },
        }
    }

    /// The loads and stores of tensor memory of all warps.
    pub(super) fn transfers(self) -> Range<AgentId> {
        let first = |pipe| self.id(Agent::Pipe(pipe, WarpId(0)));
        first(Pipe::TmemLoad)..first(Pipe::CpAsync)
    }
}

impl Agent {
    /// What kind of agent, for messages.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Agent::Warp(_) => "",
            Agent::Pipe(Pipe::Wgmma, _) => "asynchronous wgmma ",
            Agent::Pipe(Pipe::Tcgen05, _) => "asynchronous tcgen05 ",
            Agent::Pipe(Pipe::TmemLoad, _) => "tcgen05.ld ",
            Agent::Pipe(Pipe::TmemStore, _) => "tcgen05.st ",
            Agent::Pipe(Pipe::CpAsync, _) => "cp.async ",
            Agent::EarlierGrids | Agent::Slot(_) => "asynchronous copy ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_agents_are_one_to_one() {
        for warps in [1, 3, 512] {
            let agents = Agents { warps };
            for number in 0..(agents.fixed() + 5) as u16 {
                assert_eq!(agents.id(agents.of(AgentId(number))), AgentId(number));
            }
            assert_eq!(agents.of(agents.id(Agent::EarlierGrids)), Agent::EarlierGrids);
            assert_eq!(agents.of(agents.id(Agent::Slot(0))), Agent::Slot(0));
        }
    }
}
