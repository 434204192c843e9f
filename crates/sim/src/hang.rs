//! A machine that cannot go on: who waits for what, which arrivals came, and what each warp did last.

use crate::error::{Place, Site};
use std::fmt::{self, Display, Formatter};

/// Warps that cannot go on, at one place and for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where they wait; the first of them.
    pub site: Site,
    /// How many there are.
    pub warps: usize,
    /// Which: `CTA (0,0,0) warps 0 to 3`.
    pub who: String,
    /// For what.
    pub what: String,
}

/// Arrivals of some warps at an mbarrier, the same of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The last of their instructions that arrived; the first of the warps.
    pub site: Site,
    /// Which: `CTA (0,0,0) warps 0 to 3`.
    pub who: String,
    /// How many arrivals each of them made in all phases.
    pub count: i64,
    /// In how many phases.
    pub phases: u64,
    /// The last of these.
    pub last_phase: u64,
    /// Whether they have exited, so that no more will come.
    pub exited: bool,
}

/// An mbarrier that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierState {
    /// The shared variable that it is in, and its place there.
    pub name: String,
    /// The phase that is incomplete.
    pub phase: u64,
    /// Arrivals that it still needs.
    pub pending: i64,
    /// Arrivals that each phase needs.
    pub expected: i64,
    /// Bytes that were announced and did not come; negative if more came.
    pub missing_bytes: i64,
    /// Where it was initialised.
    pub init: Site,
    /// The last instruction that arrived, announced bytes or brought them.
    pub last: Site,
    /// Arrivals by warp, in the order in which warps first came.
    pub arrivals: Vec<Arrivals>,
    /// Kinds of arrivals that are not listed.
    pub unlisted: usize,
}

/// The last thing that some warps did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastDeed {
    /// Which: `CTA (0,0,0) warps 0 to 3`.
    pub who: String,
    /// Whether they have exited; else they wait.
    pub exited: bool,
    /// The instruction, that is more than arithmetic, a branch or a wait for an mbarrier; the first of the warps.
    pub site: Site,
}

/// No warp can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// What is the matter, as far as it can be told.
    pub cause: String,
    /// Where that is, if not where warps wait.
    pub origin: Option<Site>,
    /// Who waits for what; those that the cause is about come first.
    pub waiting: Vec<Waiting>,
    /// Kinds of waiters that are not listed.
    pub unlisted: usize,
    /// The mbarriers waited for.
    pub barriers: Vec<BarrierState>,
    /// The last thing that each warp did.
    pub deeds: Vec<LastDeed>,
    /// What to do.
    pub help: Vec<String>,
}

impl Display for Waiting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Waiting { site, warps, who, what } = self;
        let wait = if *warps == 1 { "warp waits" } else { "warps wait" };
        write!(f, "{warps} {wait} for {what}: {who}\n  --> {}", Place(site))?;
        write!(f, "\n   | {}", site.instruction)
    }
}

impl Display for Arrivals {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Arrivals { site, who, count, phases, last_phase, exited } = self;
        let s = if *count == 1 { "" } else { "s" };
        write!(f, "{who}: {count} arrival{s}")?;
        if *phases > 1 {
            write!(f, " in {phases} phases")?;
        }
        write!(f, ", the last in phase {last_phase}{}", At(site))?;
        if *exited {
            f.write_str(", and exited since")?;
        }
        write!(f, "; PTX line {}: {}", site.line, site.instruction)
    }
}

/// ` at cycle 7`, where that is known.
struct At<'s>(&'s Site);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.cycle.map_or(Ok(()), |cycle| write!(f, " at cycle {cycle}"))
    }
}

impl Display for BarrierState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let BarrierState { name, phase, pending, expected, missing_bytes, init, last, .. } = self;
        write!(
            f,
            "mbarrier {name}: phase {phase} is incomplete, {pending} of {expected} arrivals pending, \
             {missing_bytes} transaction bytes outstanding; initialised at PTX line {}, last touched by warp {} \
             at PTX line {}: {}",
            init.line, last.warp, last.line, last.instruction
        )?;
        for arrivals in &self.arrivals {
            write!(f, "\n   = note: arrived at {name}: {arrivals}")?;
        }
        match (self.arrivals.is_empty(), self.unlisted) {
            (true, _) => write!(f, "\n   = note: arrived at {name}: no warp so far"),
            (false, 0) => Ok(()),
            (false, more) => {
                write!(f, "\n   = note: arrived at {name}: {more} more kinds of warps")
            }
        }
    }
}

impl Display for LastDeed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let LastDeed { who, exited, site } = self;
        let now = if *exited { "exited" } else { "in a wait" };
        let (at, line) = (At(site), site.line);
        write!(f, "{who}, now {now}: last did{at}, PTX line {line}: {}", site.instruction)
    }
}

impl Display for Deadlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock: {}", self.cause)?;
        if let Some(origin) = &self.origin {
            write!(f, "\n  --> {origin}")?;
        }
        self.waiting.iter().try_for_each(|waiting| write!(f, "\n  {waiting}"))?;
        self.barriers.iter().try_for_each(|barrier| write!(f, "\n   = note: {barrier}"))?;
        if self.unlisted > 0 {
            write!(f, "\n   = note: {} more kinds of waiters are not listed", self.unlisted)?;
        }
        self.deeds.iter().try_for_each(|deed| write!(f, "\n   = note: {deed}"))?;
        self.help.iter().try_for_each(|line| write!(f, "\n   = help: {line}"))
    }
}
