//! The mbarrier object: arrivals, transaction bytes, phases.

use crate::instruction::Pc;
use crate::judge::Clocks;
use crate::register::LANES;
use crate::warp::WarpId;
use std::collections::HashMap;

/// Largest arrival count and transaction count.
const LIMIT: i64 = (1 << 20) - 1;

/// Who did something to a barrier, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Warp in the cluster.
    pub warp: WarpId,
    /// Instruction.
    pub pc: Pc,
}

/// The arrivals of a warp so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The warp, and the last of its instructions that arrived.
    pub by: Touch,
    /// Arrivals in all phases.
    pub count: i64,
    /// Phases in which it arrived.
    pub phases: u64,
    /// The last of them.
    pub last_phase: u64,
    /// Simulated time of the last arrival.
    pub time: u64,
}

/// A look by parity that found a phase incomplete.
#[derive(Clone, Copy, Debug)]
struct Poll {
    parity: u64,
    pc: Pc,
    /// The phase that the next look finds complete, though the barrier has moved on.
    owed: Option<u64>,
}

/// What the lanes of a warp saw of a barrier. Lanes that go different ways look at different phases.
#[derive(Clone, Debug)]
struct Sight {
    /// The last phase that some lane saw complete.
    last: u64,
    /// The last phase that each lane saw complete, plus one.
    seen: [u64; LANES],
    /// The same if each lane looks at every phase in turn, however late.
    turns: [u64; LANES],
}

impl Sight {
    /// The most of some lanes.
    fn most(of: &[u64; LANES], mask: u32) -> u64 {
        let lanes = of.iter().enumerate().filter(|(lane, _)| mask >> lane & 1 != 0);
        lanes.map(|(_, phase)| *phase).max().unwrap_or(0)
    }
}

/// One mbarrier.
#[derive(Clone, Debug)]
pub struct Mbarrier {
    /// Index of the current, incomplete phase.
    pub phase: u64,
    /// Arrivals each phase needs.
    pub expected: i64,
    /// Arrivals the current phase still needs.
    pub pending: i64,
    /// Transaction bytes still to come.
    pub tx: i64,
    /// Count given to `init`.
    pub init_count: i64,
    /// Who initialised it.
    pub init: Touch,
    /// Whether a fence made the initialisation visible beyond the CTA's threads.
    pub fenced: bool,
    /// Who touched it last.
    pub last: Touch,
    /// Most arrivals seen in one phase.
    pub most_arrivals: i64,
    arrivals: i64,
    /// Arrivals by warp, in the order in which warps first came.
    arrived: Vec<Arrived>,
    /// What the lanes of each warp saw of it.
    sights: HashMap<WarpId, Sight>,
    /// Where lanes of each warp last looked in vain, by parity and without blocking.
    polls: HashMap<(WarpId, u32), Poll>,
    /// The last operation of another CTA that signalled it, and the phase it was in.
    from_afar: Option<(Touch, u64)>,
    /// Simulated time at which the last phase completed, and of the arrivals so far.
    pub done_time: u64,
    time: u64,
    /// What arrivals of the current phase published.
    pub incoming: Clocks,
    /// What completed phases published.
    pub published: Clocks,
}

/// A rule of mbarriers that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MbarrierError {
    /// Count 0 or above the limit.
    Count(i64),
    /// More arrivals than the phase needs.
    TooManyArrivals {
        /// Arrivals by this instruction.
        arrivals: i64,
        /// Arrivals left.
        pending: i64,
    },
    /// Transaction count out of range.
    Transactions(i64),
}

impl Mbarrier {
    /// Whether this is as `init` with `count` leaves it.
    pub fn is_fresh(&self, count: u32) -> bool {
        let count = i64::from(count);
        (self.phase, self.expected, self.pending, self.tx) == (0, count, count, 0)
    }

    /// An operation of another CTA signals the current phase.
    pub fn note_signal_from_afar(&mut self, by: Touch) {
        self.from_afar = Some((by, self.phase));
    }

    /// The last operation of another CTA that signalled it, unless a warp saw the phase complete.
    pub fn unseen_signal(&self) -> Option<Touch> {
        let (by, phase) = self.from_afar?;
        (!self.sights.values().any(|sight| sight.last >= phase)).then_some(by)
    }

    /// Lanes of a warp saw `phase`, or an earlier one of its parity, complete.
    pub fn observe(&mut self, w: WarpId, mask: u32, phase: u64) {
        let next = self.next_in_turn(w, mask, phase & 1).min(phase);
        let none = || Sight { last: 0, seen: [0; LANES], turns: [0; LANES] };
        let sight = self.sights.entry(w).or_insert_with(none);
        sight.last = phase;
        for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
            sight.seen[lane] = phase + 1;
            sight.turns[lane] = next + 1;
        }
        self.polls.retain(|(by, lanes), _| *by != w || lanes & mask == 0);
    }

    /// The last phase that one of some lanes saw complete.
    pub fn seen(&self, w: WarpId, mask: u32) -> Option<u64> {
        Sight::most(&self.sights.get(&w)?.seen, mask).checked_sub(1)
    }

    /// Whether completing a phase now would make a regular waiter miss the one before.
    pub fn would_alias(&self) -> bool {
        self.phase >= 2 && self.sights.values().any(|sight| sight.last + 2 == self.phase)
    }

    /// Lanes of a warp looked by parity, found the phase incomplete and did not block.
    pub fn note_poll(&mut self, w: WarpId, mask: u32, parity: u64, pc: Pc) {
        let owed = self.polls.get(&(w, mask)).and_then(|poll| poll.owed);
        self.polls.insert((w, mask), Poll { parity, pc, owed });
    }

    /// Where some of the lanes of a warp looked in vain, if they did not look for anything else since.
    pub fn polled(&self, w: WarpId, mask: u32) -> Option<Pc> {
        let by = |((by, lanes), _): &(&(WarpId, u32), &Poll)| *by == w && lanes & mask != 0;
        self.polls.iter().find(by).map(|(_, poll)| poll.pc)
    }

    /// The phase of a parity that lanes are to find complete though the barrier has moved on.
    pub fn owed(&self, w: WarpId, mask: u32, parity: u64) -> Option<u64> {
        let owed = self.polls.get(&(w, mask))?.owed?;
        (owed == self.next_in_turn(w, mask, parity)).then_some(owed)
    }

    /// Lets all lanes that poll find the next phase in their turn complete, where that is one the barrier has
    /// left behind; gives warp, instruction and phase of those that were not promised it before.
    pub fn owe_polls(&mut self) -> Vec<(WarpId, Pc, u64)> {
        let late = |((w, mask), poll): (&(WarpId, u32), &Poll)| {
            let next = self.next_in_turn(*w, *mask, poll.parity);
            (next < self.phase && poll.owed != Some(next)).then_some((*w, *mask, poll.pc, next))
        };
        let mut late: Vec<_> = self.polls.iter().filter_map(late).collect();
        late.sort_unstable();
        for (w, mask, _, phase) in &late {
            self.polls.entry((*w, *mask)).and_modify(|poll| poll.owed = Some(*phase));
        }
        late.into_iter().map(|(w, _, pc, phase)| (w, pc, phase)).collect()
    }

    /// The phase of a parity that lanes look at next if they leave none out.
    pub fn next_in_turn(&self, w: WarpId, mask: u32, parity: u64) -> u64 {
        let next = self.sights.get(&w).map_or(0, |sight| Sight::most(&sight.turns, mask));
        next + (next & 1 ^ parity)
    }

    /// A fresh barrier for `count` arrivals.
    pub fn new(count: u32, by: Touch) -> Result<Mbarrier, MbarrierError> {
        let count = i64::from(count);
        if !(1..=LIMIT).contains(&count) {
            return Err(MbarrierError::Count(count));
        }
        Ok(Mbarrier {
            phase: 0,
            expected: count,
            pending: count,
            tx: 0,
            init_count: count,
            init: by,
            fenced: false,
            last: by,
            most_arrivals: 0,
            arrivals: 0,
            arrived: Vec::new(),
            sights: HashMap::new(),
            polls: HashMap::new(),
            from_afar: None,
            done_time: 0,
            time: 0,
            incoming: Clocks::default(),
            published: Clocks::default(),
        })
    }

    /// Whether the phase of `parity` is complete, as a wait sees it.
    pub fn complete(&self, parity: u32) -> bool {
        (self.phase & 1) as u32 != parity & 1
    }

    /// `count` arrivals; whether the phase completed.
    pub fn arrive(&mut self, count: i64, by: Touch, time: u64) -> Result<bool, MbarrierError> {
        if count > self.pending {
            return Err(MbarrierError::TooManyArrivals { arrivals: count, pending: self.pending });
        }
        self.last = by;
        self.note_arrival(count, by, time);
        self.pending -= count;
        self.arrivals += count;
        self.most_arrivals = self.most_arrivals.max(self.arrivals);
        Ok(self.settle(time))
    }

    fn note_arrival(&mut self, count: i64, by: Touch, time: u64) {
        let phase = self.phase;
        match self.arrived.iter_mut().find(|arrived| arrived.by.warp == by.warp) {
            Some(arrived) => {
                arrived.by = by;
                arrived.count += count;
                arrived.phases += u64::from(arrived.last_phase != phase);
                arrived.last_phase = phase;
                arrived.time = time;
            }
            None => {
                let first = Arrived { by, count, phases: 1, last_phase: phase, time };
                self.arrived.push(first);
            }
        }
    }

    /// Arrivals by warp, in the order in which warps first came.
    pub fn arrived(&self) -> &[Arrived] {
        &self.arrived
    }

    /// Adds to the transaction count (negative completes); whether the phase completed.
    pub fn transact(&mut self, bytes: i64, by: Touch, time: u64) -> Result<bool, MbarrierError> {
        self.last = by;
        self.tx += bytes;
        if self.tx.abs() > LIMIT {
            return Err(MbarrierError::Transactions(self.tx));
        }
        Ok(self.settle(time))
    }

    /// One arrival fewer in every later phase (`arrive_drop`).
    pub fn drop_participant(&mut self, count: i64) {
        self.expected -= count;
    }

    /// One more arrival needed (`cp.async.mbarrier.arrive` without `.noinc`).
    pub fn add_pending(&mut self) {
        self.pending += 1;
    }

    fn settle(&mut self, time: u64) -> bool {
        self.time = self.time.max(time);
        if self.pending != 0 || self.tx != 0 {
            return false;
        }
        self.phase += 1;
        self.pending = self.expected;
        self.arrivals = 0;
        self.done_time = self.time;
        let incoming = std::mem::take(&mut self.incoming);
        self.published.join(&incoming);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Touch = Touch { warp: WarpId(0), pc: 0 };

    #[test]
    fn a_phase_needs_arrivals_and_bytes() {
        let mut bar = Mbarrier::new(1, BY).unwrap();
        assert!(bar.complete(1) && !bar.complete(0));
        assert!(!bar.transact(256, BY, 0).unwrap());
        assert!(!bar.arrive(1, BY, 0).unwrap());
        assert!(!bar.transact(-128, BY, 0).unwrap());
        assert!(bar.transact(-128, BY, 0).unwrap());
        assert!(bar.complete(0) && !bar.complete(1));
        assert_eq!(bar.pending, 1);
    }

    #[test]
    fn counts_have_limits() {
        assert_eq!(Mbarrier::new(0, BY).unwrap_err(), MbarrierError::Count(0));
        let mut bar = Mbarrier::new(2, BY).unwrap();
        let error = bar.arrive(3, BY, 0).unwrap_err();
        assert_eq!(error, MbarrierError::TooManyArrivals { arrivals: 3, pending: 2 });
    }

    #[test]
    fn lanes_that_go_different_ways_see_phases_of_their_own() {
        let mut bar = Mbarrier::new(1, BY).unwrap();
        for phase in 0..3 {
            assert!(bar.arrive(1, BY, 0).unwrap());
            bar.observe(WarpId(5), 0x1, phase);
        }
        assert_eq!(
            (bar.seen(WarpId(5), 0x1), bar.seen(WarpId(5), !0x1), bar.seen(WarpId(4), 1)),
            (Some(2), None, None)
        );
        assert_eq!(
            (bar.next_in_turn(WarpId(5), 0x1, 1), bar.next_in_turn(WarpId(5), !0x1, 0)),
            (3, 0)
        );
    }

    #[test]
    fn arrivals_are_counted_by_warp() {
        let mut bar = Mbarrier::new(2, BY).unwrap();
        let other = Touch { warp: WarpId(1), pc: 7 };
        for (by, time) in [(BY, 1), (other, 2), (BY, 3)] {
            bar.arrive(1, by, time).unwrap();
        }
        let [first, second] = bar.arrived() else { panic!("{:?}", bar.arrived()) };
        assert_eq!((first.count, first.phases, first.last_phase, first.time), (2, 2, 1, 3));
        assert_eq!((second.by, second.count, second.last_phase), (other, 1, 0));
    }

    #[test]
    fn data_may_come_before_it_is_expected() {
        let mut bar = Mbarrier::new(1, BY).unwrap();
        assert!(!bar.transact(-64, BY, 0).unwrap());
        assert!(!bar.transact(64, BY, 0).unwrap());
        assert!(bar.arrive(1, BY, 0).unwrap());
    }
}
