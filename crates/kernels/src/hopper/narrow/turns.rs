//! Warpgroups take turns on the tensor cores: one issues its multiplies while the other one
//! exponentiates. The turn is a token that goes round by named barriers, each of two warpgroups: the
//! one that waits and the one that passes.

use ptx::build::{Builder, Cmp, Reg};

/// First named barrier of the turns; barrier 0 is the CTA's.
const FIRST_BARRIER: u32 = 1;
/// Threads of a waiting and a passing warpgroup.
const THREADS: u32 = 2 * 128;

/// The turn, as warpgroup `number` of `warpgroups` sees it; `None` where nobody takes turns.
pub struct Turns {
    number: Reg<u32>,
    warpgroups: u32,
}

impl Turns {
    /// Turns of `warpgroups` warpgroups; the last one lets the first one begin.
    #[track_caller]
    pub fn start(b: &mut Builder, number: Reg<u32>, warpgroups: u32) -> Self {
        let last = b.setp(Cmp::Eq, number, warpgroups - 1);
        b.if_(last, |b| b.barrier_arrive(FIRST_BARRIER, THREADS));
        Turns { number, warpgroups }
    }

    /// Waits for the turn.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        b.barrier_sync(self.number + FIRST_BARRIER, THREADS);
    }

    /// Passes the turn on.
    #[track_caller]
    pub fn pass(&self, b: &mut Builder) {
        let next = b.eval(self.number + 1);
        let wraps = b.setp(Cmp::Eq, next, self.warpgroups);
        let next = b.select::<u32>(wraps, 0, next);
        let barrier = b.eval(next + FIRST_BARRIER);
        b.barrier_arrive(barrier, THREADS);
    }

    /// The first warpgroup takes the turn that was passed to it last, so that every arrival meets its
    /// wait.
    #[track_caller]
    pub fn end(&self, b: &mut Builder) {
        let first = b.setp(Cmp::Eq, self.number, 0);
        b.if_(first, |b| b.barrier_sync(FIRST_BARRIER, THREADS));
    }
}
