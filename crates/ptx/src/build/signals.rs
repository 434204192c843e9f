//! One-way signals between roles: rings of mbarriers that only ever say "done".
//!
//! A [`Pipeline`](super::Pipeline) guards buffers in both directions. Where the way back is implied by
//! something else (a later signal of another ring, or the order of one thread's own instructions), a
//! ring of [`Signals`] is enough: one side arrives, the other waits for each arrival in turn.

use super::arith::Cmp;
use super::builder::Builder;
use super::memory::SmemPtr;
use super::sync::{MBARRIER_BYTES, Mbarrier, Parity};
use super::value::{Arg, Reg};

/// A ring of `stages` mbarriers.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    at: SmemPtr,
    /// Barriers in the ring.
    pub stages: u32,
}

/// A place in a ring of signals: the barrier it is at and the parity of the phase it stands for.
#[derive(Clone, Copy, Debug)]
pub struct SignalCursor {
    signals: Signals,
    /// Index of the barrier it is at.
    pub stage: Reg<u32>,
    parity: Parity,
}

impl Signals {
    /// Reserves the barriers of a ring.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, stages: u32) -> Self {
        let at = shared.plus(b.reserve_shared(stages * MBARRIER_BYTES, MBARRIER_BYTES));
        Signals { at, stages }
    }

    /// Initialises every barrier (one thread): a signal is complete after `arrivals` arrivals.
    #[track_caller]
    pub fn init(&self, b: &mut Builder, arrivals: u32) {
        for stage in 0..self.stages {
            Mbarrier(self.at.plus(stage * MBARRIER_BYTES)).init(b, arrivals);
        }
    }

    /// Barrier `index` alone, as a ring of one.
    #[track_caller]
    pub fn only(&self, b: &mut Builder, index: impl Into<Arg<u32>>) -> Signals {
        let index = b.value::<u32>(index);
        let base = b.mad(index, MBARRIER_BYTES, self.at.base);
        Signals { at: SmemPtr { base, offset: self.at.offset }, stages: 1 }
    }

    /// A cursor at the first signal.
    #[track_caller]
    pub fn cursor(&self, b: &mut Builder) -> SignalCursor {
        let (stage, parity) = (b.value::<u32>(0), Parity::first(b));
        SignalCursor { signals: *self, stage, parity }
    }

    /// A cursor one round before the first signal: waiting succeeds at once until the ring wraps.
    #[track_caller]
    pub fn cursor_one_round_before(&self, b: &mut Builder) -> SignalCursor {
        let (stage, parity) = (b.value::<u32>(0), Parity::before_first(b));
        SignalCursor { signals: *self, stage, parity }
    }
}

impl SignalCursor {
    /// The cursor at another barrier, for the same parity.
    pub fn at_stage(&self, stage: Reg<u32>) -> SignalCursor {
        SignalCursor { stage, ..*self }
    }

    /// The barrier the cursor is at.
    #[track_caller]
    pub fn barrier(&self, b: &mut Builder) -> Mbarrier {
        let at = self.signals.at;
        if self.signals.stages == 1 {
            return Mbarrier(at);
        }
        let base = b.mad(self.stage, MBARRIER_BYTES, at.base);
        Mbarrier(SmemPtr { base, offset: at.offset })
    }

    /// Waits for the signal the cursor is at.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        let barrier = self.barrier(b);
        barrier.wait(b, self.parity);
    }

    /// Steps to the next signal; the parity flips when the ring wraps.
    #[track_caller]
    pub fn advance(&self, b: &mut Builder) {
        if self.signals.stages == 1 {
            return self.parity.flip(b);
        }
        let next = b.add(self.stage, 1);
        let wraps = b.setp(Cmp::Eq, next, self.signals.stages);
        self.parity.flip_if(b, wraps);
        let stage = b.select::<u32>(wraps, 0, next);
        b.assign(self.stage, stage);
    }
}
