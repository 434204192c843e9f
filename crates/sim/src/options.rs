//! How a program is run.

use crate::limits::Limits;
use crate::rules::Rule;

/// When asynchronous work completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Soon after it was issued, as on an idle machine.
    Eager,
    /// Only when a wait cannot be satisfied otherwise.
    Latest,
    /// At random, by the seed.
    Random,
}

/// Which warp runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Each for a few instructions in turn.
    RoundRobin,
    /// One warp as long as it can, the others starve; youngest first.
    Adversarial,
    /// At random, by the seed; a warp released from a wait may oversleep until nobody else can run.
    Random,
}

/// How a program is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// When asynchronous work completes.
    pub completion: Completion,
    /// Which warp runs next.
    pub schedule: Schedule,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether races, missing fences and uninitialised reads are looked for.
    pub checks: bool,
    /// Whether rules of the manual are applied that shipped kernels break without harm:
    /// `tcgen05.fence` on both sides of every barrier, `tcgen05.wait::ld` before a loaded register is
    /// used, `fence.proxy.async` by the writing threads themselves, also where a copy only
    /// overwrites what they wrote and where `cp.async` wrote it, tensor memory freed when no warp uses
    /// it any more, the lane base in every address of tensor memory, generic addresses where an
    /// instruction names no state space, and a CTA that ends only when it knows that others are done
    /// with its shared memory.
    pub pedantic: bool,
    /// Rules that may be broken: the run goes on as [`Rule`] says, and its report counts them.
    pub allow: Vec<Rule>,
    /// Whether a timeline is recorded.
    pub trace: bool,
    /// Whether it is recorded what every cluster did, for a model of time.
    pub record: bool,
    /// Linear numbers of the clusters that run; none is all. Others leave no trace, so results are incomplete.
    pub clusters: Vec<u32>,
    /// Host threads; 0 is one per core.
    pub threads: usize,
    /// What it may use of the host.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            completion: Completion::Eager,
            schedule: Schedule::RoundRobin,
            seed: 0,
            checks: true,
            pedantic: false,
            allow: Vec::new(),
            trace: false,
            record: false,
            clusters: Vec::new(),
            threads: 0,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// The named combinations of the command line: `eager`, `latest`, `random`, `adversarial`,
    /// `pedantic`.
    pub fn mode(name: &str, seed: u64) -> Option<Options> {
        if name == "pedantic" {
            return Some(Options { pedantic: true, seed, ..Options::default() });
        }
        let (completion, schedule) = match name {
            "eager" => (Completion::Eager, Schedule::RoundRobin),
            "latest" => (Completion::Latest, Schedule::RoundRobin),
            "random" => (Completion::Random, Schedule::Random),
            "adversarial" => (Completion::Latest, Schedule::Adversarial),
            _ => return None,
        };
        Some(Options { completion, schedule, seed, ..Options::default() })
    }
}

/// A small fast generator (xorshift64*), so that a seed means the same run everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
}
