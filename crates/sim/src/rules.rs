//! The rules that a program may break and still go on, and how a run lets one pass.

use crate::error::Finding;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A rule whose violation a kernel can survive.
///
/// Rules about order, initialisation or layout make a [`crate::Hazard`]; the others, from
/// [`Rule::OutOfBounds`] on, a [`crate::Fault`]. A run lets pass what [`crate::Options::allow`] lists:
/// it goes on as [`Rule::summary`] says, or as if all were in order, and its report counts what it
/// passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Two accesses of which one is a write, and nothing orders them.
    Race,
    /// A generic write that the asynchronous proxy reads without a fence between.
    MissingProxyFence,
    /// Tensor memory used by two threads without `tcgen05.fence`.
    MissingTcgen05Fence,
    /// A register used before `tcgen05.wait::ld`.
    MissingTcgen05Wait,
    /// A `wgmma` without the `wgmma.fence` it needs.
    MissingWgmmaFence,
    /// A register of a `wgmma` that was not waited for.
    WgmmaInFlight,
    /// Lanes that exchange data without `bar.warp.sync`.
    MissingWarpSync,
    /// Memory of an earlier launch without `griddepcontrol.wait`.
    MissingGridWait,
    /// An mbarrier used by someone who cannot know of its initialisation.
    BarrierInitNotPublished,
    /// An mbarrier signalled asynchronously whose initialisation has no fence.
    BarrierInitNotFenced,
    /// Something that nobody wrote to memory is loaded and used.
    Uninitialised,
    /// A register that nobody wrote is used.
    UninitialisedRegister,
    /// Operand A taken from where accumulators are.
    AccumulatorAsOperand,
    /// A matrix operand that was written in another layout than it is read in.
    OperandLayout,
    /// Copies of a result that warps store to one place, and that differ by rounding.
    UnequalReplicas,
    /// A shared-window offset where the instruction, naming no state space, takes a generic address.
    GenericAddress,
    /// An access to global memory outside every buffer.
    OutOfBounds,
    /// A write to a buffer that the program only reads.
    ReadOnly,
    /// `mbarrier.init` of an mbarrier that is already initialised.
    DoubleInit,
    /// An mbarrier used after `mbarrier.inval`.
    BarrierAfterInval,
    /// A copy whose data goes to another CTA than its signal.
    CopyBarrier,
    /// Shared memory of a CTA that has exited.
    ExitedCta,
    /// A copy that still writes the shared memory of a CTA that ends.
    InFlightAtExit,
    /// A request to cancel a cluster after one was refused.
    CancelAfterRefusal,
    /// A lane that executes a warp-wide instruction whose member mask lacks it.
    MemberMask,
    /// Tensor memory that is not allocated.
    TmemBounds,
    /// Tensor-memory lanes of another warp.
    TmemLanes,
    /// `tcgen05.alloc` after `tcgen05.relinquish_alloc_permit`.
    TmemPermit,
    /// `tcgen05.dealloc` of what is not allocated.
    TmemDealloc,
    /// Tensor memory that nobody freed.
    TmemLeak,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 30] = [
        Rule::Race,
        Rule::MissingProxyFence,
        Rule::MissingTcgen05Fence,
        Rule::MissingTcgen05Wait,
        Rule::MissingWgmmaFence,
        Rule::WgmmaInFlight,
        Rule::MissingWarpSync,
        Rule::MissingGridWait,
        Rule::BarrierInitNotPublished,
        Rule::BarrierInitNotFenced,
        Rule::Uninitialised,
        Rule::UninitialisedRegister,
        Rule::AccumulatorAsOperand,
        Rule::OperandLayout,
        Rule::UnequalReplicas,
        Rule::GenericAddress,
        Rule::OutOfBounds,
        Rule::ReadOnly,
        Rule::DoubleInit,
        Rule::BarrierAfterInval,
        Rule::CopyBarrier,
        Rule::ExitedCta,
        Rule::InFlightAtExit,
        Rule::CancelAfterRefusal,
        Rule::MemberMask,
        Rule::TmemBounds,
        Rule::TmemLanes,
        Rule::TmemPermit,
        Rule::TmemDealloc,
        Rule::TmemLeak,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.description().0
    }

    /// What it says.
    pub fn summary(self) -> &'static str {
        self.description().1
    }

    /// Whether breaking it is counted and listed, and ends a run in pedantic mode only.
    pub(crate) fn is_listed_only(self) -> bool {
        self == Rule::UnequalReplicas
    }

    fn description(self) -> (&'static str, &'static str) {
        match self {
            Rule::Race => ("race", "accesses to the same bytes, one a write, are ordered"),
            Rule::MissingProxyFence => (
                "missing-proxy-fence",
                "fence.proxy.async between a thread's write and a read by a copy or matrix unit",
            ),
            Rule::MissingTcgen05Fence => (
                "missing-tcgen05-fence",
                "tcgen05.fence on both sides of a barrier (only with --pedantic)",
            ),
            Rule::MissingTcgen05Wait => (
                "missing-tcgen05-wait",
                "tcgen05.wait::ld before a loaded register is used (only with --pedantic)",
            ),
            Rule::MissingWgmmaFence => {
                ("missing-wgmma-fence", "wgmma.fence between a register's change and its wgmma")
            }
            Rule::WgmmaInFlight => {
                ("wgmma-in-flight", "wgmma.wait_group before accumulators are touched")
            }
            Rule::MissingWarpSync => (
                "missing-warp-sync",
                "bar.warp.sync between lanes that exchange data (only with --pedantic)",
            ),
            Rule::MissingGridWait => {
                ("missing-grid-wait", "griddepcontrol.wait before memory of an earlier launch")
            }
            Rule::BarrierInitNotPublished => {
                ("barrier-init-not-published", "mbarrier.init, a barrier of threads, then use")
            }
            Rule::BarrierInitNotFenced => (
                "barrier-init-not-fenced",
                "fence.mbarrier_init before asynchronous signals (only with --pedantic)",
            ),
            Rule::Uninitialised => {
                ("uninitialised", "what is loaded and used was written to memory before")
            }
            Rule::UninitialisedRegister => (
                "uninitialised-register",
                "registers and predicates are written before they are used",
            ),
            Rule::AccumulatorAsOperand => {
                ("accumulator-as-operand", "operand A of 16 bits is not read from accumulators")
            }
            Rule::OperandLayout => {
                ("operand-layout", "a matrix operand is written as its descriptor reads it")
            }
            Rule::UnequalReplicas => (
                "unequal-replicas",
                "warps that store one result to one place store the same bits (allowed but with --pedantic)",
            ),
            Rule::GenericAddress => (
                "generic-address",
                "an instruction without a state space gets a generic address (only with --pedantic)",
            ),
            Rule::OutOfBounds => (
                "out-of-bounds",
                "global memory is accessed inside buffers (allowed: reads give 0, writes are lost)",
            ),
            Rule::ReadOnly => ("read-only", "buffers that are only read are not written"),
            Rule::DoubleInit => ("double-init", "mbarrier.inval before an mbarrier's next init"),
            Rule::BarrierAfterInval => (
                "barrier-after-inval",
                "no use of an mbarrier after mbarrier.inval (allowed: it was not invalidated)",
            ),
            Rule::CopyBarrier => {
                ("copy-barrier", "a copy's data and signal go to the same CTA, or to a pair")
            }
            Rule::ExitedCta => {
                ("exited-cta", "no access to shared memory of a CTA that has exited")
            }
            Rule::InFlightAtExit => (
                "in-flight-at-exit",
                "copies and signals to a CTA's shared memory end before the CTA does",
            ),
            Rule::CancelAfterRefusal => {
                ("cancel-after-refusal", "no try_cancel by who has seen one refused")
            }
            Rule::MemberMask => ("member-mask", "a lane is in the member mask it executes with"),
            Rule::TmemBounds => {
                ("tmem-bounds", "tensor memory is used while it is allocated (allowed: any column)")
            }
            Rule::TmemLanes => (
                "tmem-lanes",
                "a warp uses its own quarter of tensor-memory lanes, and names it with --pedantic",
            ),
            Rule::TmemPermit => ("tmem-permit", "no tcgen05.alloc after relinquish_alloc_permit"),
            Rule::TmemDealloc => (
                "tmem-dealloc",
                "tcgen05.dealloc frees what alloc gave, once (allowed: it does nothing)",
            ),
            Rule::TmemLeak => ("tmem-leak", "tensor memory is freed before the CTA ends"),
        }
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(String);

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Rule, UnknownRule> {
        let found = Rule::ALL.into_iter().find(|rule| rule.name() == name);
        found.ok_or_else(|| UnknownRule(name.to_owned()))
    }
}

impl Display for UnknownRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let near = near(&self.0);
        let (which, rules) = match near.is_empty() {
            true => ("there are", Rule::ALL.to_vec()),
            false => ("near it", near),
        };
        let names: Vec<&str> = rules.into_iter().map(Rule::name).collect();
        write!(f, "no rule `{}`; {which}: {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownRule {}

/// Rules that share a word with a name.
fn near(name: &str) -> Vec<Rule> {
    let words: Vec<&str> = name.split(['-', '_', ' ']).filter(|word| word.len() > 2).collect();
    let shares = |rule: &Rule| {
        let mut parts = rule.name().split('-');
        parts.any(|part| words.iter().any(|word| part.starts_with(word) || word.starts_with(part)))
    };
    Rule::ALL.into_iter().filter(shares).collect()
}

/// Violations of an allowed rule at one place, or pair of places.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// The first of them.
    pub finding: Finding,
    /// How many there were.
    pub times: u64,
}

/// Adds a finding to those so far.
pub(crate) fn count(found: &mut Vec<Allowed>, finding: Finding) {
    add_allowed(found, Allowed { finding, times: 1 });
}

/// Adds what was found several times.
pub(crate) fn add_allowed(found: &mut Vec<Allowed>, more: Allowed) {
    match found.iter_mut().find(|allowed| allowed.finding.is_at(&more.finding)) {
        Some(allowed) => allowed.times += more.times,
        None => found.push(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for rule in Rule::ALL {
            assert_eq!(rule.name().parse(), Ok(rule));
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_near_ones() {
        let error = |name: &str| name.parse::<Rule>().unwrap_err().to_string();
        assert_eq!(
            error("proxy_fence"),
            "no rule `proxy_fence`; near it: missing-proxy-fence, missing-tcgen05-fence, missing-wgmma-fence, barrier-init-not-fenced"
        );
        assert!(error("x").starts_with("no rule `x`; there are: race, missing-proxy-fence, "));
    }
}
