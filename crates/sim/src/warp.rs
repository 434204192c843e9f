//! A warp: its registers and the groups of lanes that run together.
//!
//! Lanes that took different branches form fragments, each with its own instruction pointer. The
//! fragment with the lowest one runs first, so that the others are met where paths join; a fragment
//! that waits lets the others run, as independent thread scheduling promises.

use crate::instruction::{Pc, WgmmaOp};
use crate::machine::CtaRank;
use crate::memory::Shared;
use crate::register::{P, R32, Reg, Registers};
use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::sync::Arc;

/// The number of a warp in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WarpId(pub usize);

impl WarpId {
    /// The four warps of the warpgroup that starts with this one.
    pub fn warpgroup(self) -> impl Iterator<Item = WarpId> {
        (self.0..self.0 + 4).map(WarpId)
    }
}

/// Something of each warp of a cluster.
#[derive(Clone, Debug)]
pub struct PerWarp<T>(Vec<T>);

impl<T> Default for PerWarp<T> {
    fn default() -> Self {
        PerWarp(Vec::new())
    }
}

impl<T> PerWarp<T> {
    /// The warps.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = WarpId> + use<T> {
        (0..self.0.len()).map(WarpId)
    }

    /// The warps, and what each has.
    pub fn pairs(&self) -> impl Iterator<Item = (WarpId, &T)> {
        self.ids().zip(&self.0)
    }

    /// Adds the next warp's.
    pub fn push(&mut self, of_warp: T) {
        self.0.push(of_warp);
    }
}

impl<T> FromIterator<T> for PerWarp<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        PerWarp(all.into_iter().collect())
    }
}

impl<T> Index<WarpId> for PerWarp<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, w: WarpId) -> &T {
        &self.0[w.0]
    }
}

impl<T> IndexMut<WarpId> for PerWarp<T> {
    #[inline(always)]
    fn index_mut(&mut self, w: WarpId) -> &mut T {
        &mut self.0[w.0]
    }
}

impl<T> Deref for PerWarp<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for PerWarp<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// What a fragment waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// Nothing: it can run.
    Ready,
    /// A phase of an mbarrier.
    Mbarrier {
        /// CTA in the cluster.
        cta: CtaRank,
        /// Offset in its shared memory.
        offset: u32,
        /// Index of the phase.
        phase: u64,
        /// The predicate that takes the result.
        done: P,
    },
    /// A named barrier.
    Named {
        /// Number.
        id: u32,
        /// Where a reduction's result goes.
        result: Option<Reg>,
    },
    /// The cluster barrier's phase.
    Cluster(u64),
    /// The other lanes of the warp, before an instruction they execute together.
    Lanes(u32),
    /// Free tensor memory.
    TensorMemory,
    /// The other warps of its warpgroup, which have not issued the `wgmma` it waits for.
    Warpgroup,
    /// This many registers for each of its threads.
    Registers(u32),
}

/// Lanes that run together.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Next instruction.
    pub pc: Pc,
    /// Its lanes.
    pub mask: u32,
    /// Whether it can run.
    pub wait: Wait,
    /// The instruction at which it waits.
    pub wait_pc: Pc,
}

/// A `wgmma` that a warp has not waited for.
pub struct LiveWgmma {
    /// Its group.
    pub group: u64,
    /// The instruction.
    pub pc: Pc,
    /// What it does.
    pub op: Arc<WgmmaOp>,
}

/// A warp's `wgmma`s in flight, and the registers that are theirs.
#[derive(Default)]
pub struct WgmmaState {
    /// Number of the open group.
    pub group: u64,
    /// Each `wgmma` not waited for.
    pub live: Vec<LiveWgmma>,
    /// Whether a `wgmma.fence` came since the last wait.
    pub fenced: bool,
    /// Whether there was a `wgmma.fence` at all: the first `wgmma` of a kernel needs one.
    pub ever_fenced: bool,
    /// Registers written since the last `wgmma.fence`, as bits.
    pub dirty: Vec<u64>,
    flying: Vec<u64>,
}

fn bit(bits: &[u64], r: R32) -> bool {
    bits.get(r.0 as usize / 64).is_some_and(|word| word >> (r.0 % 64) & 1 != 0)
}

fn set_bit(bits: &mut Vec<u64>, r: R32) {
    let word = r.0 as usize / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (r.0 % 64);
}

impl WgmmaState {
    /// Whether a register belongs to a `wgmma` that was not waited for.
    pub fn in_flight(&self, r: R32) -> bool {
        !self.live.is_empty() && bit(&self.flying, r)
    }

    /// Whether a register was written since the last `wgmma.fence`.
    pub fn is_dirty(&self, r: R32) -> bool {
        bit(&self.dirty, r)
    }

    /// Records a write.
    pub fn mark_dirty(&mut self, r: R32) {
        set_bit(&mut self.dirty, r);
    }

    /// A `wgmma` was issued: its accumulators hold what it makes of them, no longer what the warp
    /// wrote before.
    pub fn enter(&mut self, group: u64, pc: Pc, op: &Arc<WgmmaOp>) {
        self.live.push(LiveWgmma { group, pc, op: op.clone() });
        for r in &op.d {
            set_bit(&mut self.flying, *r);
            if let Some(word) = self.dirty.get_mut(r.0 as usize / 64) {
                *word &= !(1 << (r.0 % 64));
            }
        }
    }

    /// Groups below `below` were waited for.
    pub fn leave(&mut self, below: u64) {
        self.live.retain(|live| live.group >= below);
        self.fenced = false;
        self.flying.fill(0);
        for live in &self.live {
            live.op.d.iter().for_each(|r| set_bit(&mut self.flying, *r));
        }
    }
}

/// Instructions of a warp that are remembered.
const REMEMBERED: usize = 64;

/// The last instructions of a warp, each with its simulated time.
pub(crate) struct Recent {
    ring: [(Pc, u64); REMEMBERED],
    count: usize,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { ring: [(0, 0); REMEMBERED], count: 0 }
    }
}

impl Recent {
    /// Remembers an instruction, and forgets the oldest.
    #[inline]
    pub(crate) fn note(&mut self, pc: Pc, time: u64) {
        // A loop that looks at one place again and again takes one entry.
        let again = self.count > 0 && self.ring[(self.count - 1) % REMEMBERED].0 == pc;
        self.count += usize::from(!again);
        self.ring[(self.count - 1) % REMEMBERED] = (pc, time);
    }

    /// The latest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = (Pc, u64)> + '_ {
        let kept = self.count.min(REMEMBERED);
        (1..=kept).map(|back| self.ring[(self.count - back) % REMEMBERED])
    }

    /// When an instruction was last executed, if that is not long ago.
    pub(crate) fn time_of(&self, pc: Pc) -> Option<u64> {
        self.latest().find(|(at, _)| *at == pc).map(|(_, time)| time)
    }
}

/// One warp.
pub struct Warp {
    /// CTA in the cluster.
    pub cta: CtaRank,
    /// Number in the CTA.
    pub index: u32,
    /// Registers.
    pub registers: Registers,
    /// How many of the CTA's registers each of its threads has, if that is known.
    pub register_count: Option<u32>,
    /// Groups of lanes; the first one is running.
    pub fragments: Vec<Fragment>,
    /// Lanes that have not exited.
    pub live: u32,
    /// Local memory, lane after lane.
    pub local: Shared,
    /// Phase of the cluster barrier it arrived at.
    pub cluster_phase: u64,
    /// Allocation its last global access hit.
    pub global_hint: usize,
    /// Simulated time of its last instruction.
    pub time: u64,
    /// Instructions since its last event.
    pub(crate) mix: crate::record::Mix,
    /// Simulated time at which it last began to run.
    pub running_since: u64,
    /// Its last instructions that were more than arithmetic, branches and looks at an mbarrier.
    pub(crate) recent: Recent,
    /// Number of the open `cp.async` group.
    pub cp_group: u64,
    /// Number of the open bulk group.
    pub bulk_group: u64,
    /// Its `wgmma`s.
    pub wgmma: WgmmaState,
    /// Its last multiply, copy or shift of tensor memory, if no commit came since.
    pub(crate) uncommitted: Option<Pc>,
    /// Instructions since another fragment last had its turn.
    since_switch: u32,
    /// Steps of the cluster when it last looked at what others may change.
    pub(crate) polled_at: u64,
}

/// Instructions a fragment may run while another one of its warp could.
const FRAGMENT_TURN: u32 = 4096;

impl Warp {
    /// A warp whose lanes all start at instruction 0.
    pub fn new(
        cta: CtaRank,
        index: u32,
        registers: Registers,
        live: u32,
        local_bytes: usize,
    ) -> Warp {
        let start = Fragment { pc: 0, mask: live, wait: Wait::Ready, wait_pc: 0 };
        Warp {
            cta,
            index,
            registers,
            register_count: None,
            fragments: vec![start],
            live,
            local: Shared::new(local_bytes * 32),
            cluster_phase: 0,
            global_hint: 0,
            time: 0,
            mix: crate::record::Mix::default(),
            running_since: 0,
            recent: Recent::default(),
            cp_group: 0,
            bulk_group: 0,
            wgmma: WgmmaState::default(),
            uncommitted: None,
            since_switch: 0,
            polled_at: 0,
        }
    }

    /// Whether all lanes have exited.
    pub fn done(&self) -> bool {
        self.live == 0
    }

    /// Whether some fragment can run.
    pub fn ready(&self) -> bool {
        self.fragments.iter().any(|f| f.wait == Wait::Ready)
    }

    /// Brings the fragment to run next to the front, joined with all others at its place, and
    /// returns the instruction at which it meets the next one.
    pub fn select(&mut self) -> Option<Pc> {
        if let [only] = &self.fragments[..] {
            return (only.wait == Wait::Ready).then_some(Pc::MAX);
        }
        self.join();
        let ready = |f: &&Fragment| f.wait == Wait::Ready;
        let lowest = self.fragments.iter().filter(ready).map(|f| f.pc).min()?;
        let pick = if self.since_switch > FRAGMENT_TURN {
            self.since_switch = 0;
            self.fragments.iter().filter(ready).map(|f| f.pc).max()?
        } else {
            lowest
        };
        let at = self.fragments.iter().position(|f| f.wait == Wait::Ready && f.pc == pick)?;
        self.fragments.swap(0, at);
        let behind = self.fragments[1..].iter().filter(|f| meets(f) && f.pc > pick);
        Some(behind.map(|f| f.pc).min().unwrap_or(Pc::MAX))
    }

    /// Counts instructions for [`FRAGMENT_TURN`].
    pub fn ran(&mut self, instructions: u32) {
        self.since_switch =
            if self.fragments.len() > 1 { self.since_switch + instructions } else { 0 };
    }

    /// Joins fragments at the same instruction.
    fn join(&mut self) {
        self.fragments.sort_by_key(|f| (f.pc, f.wait != Wait::Ready));
        let mut joined: Vec<Fragment> = Vec::with_capacity(self.fragments.len());
        for fragment in self.fragments.drain(..) {
            match joined.last_mut() {
                Some(last) if last.pc == fragment.pc && meets(last) && meets(&fragment) => {
                    last.mask |= fragment.mask;
                    // Lanes that waited for these look again.
                    last.wait = Wait::Ready;
                }
                _ => joined.push(fragment),
            }
        }
        self.fragments = joined;
    }

    /// Removes exited lanes of the running fragment.
    pub fn exit(&mut self, mask: u32) {
        self.live &= !mask;
        self.fragments[0].mask &= !mask;
        if self.fragments[0].mask == 0 {
            self.fragments.swap_remove(0);
        }
        // Whoever waits for lanes that are gone must look again.
        for fragment in &mut self.fragments {
            if matches!(fragment.wait, Wait::Lanes(_)) {
                fragment.wait = Wait::Ready;
            }
        }
    }

    /// Splits `taken` lanes of the running fragment off to `target`.
    pub fn diverge(&mut self, taken: u32, target: Pc) {
        let fragment = &mut self.fragments[0];
        fragment.mask &= !taken;
        let wait_pc = fragment.wait_pc;
        self.fragments.push(Fragment { pc: target, mask: taken, wait: Wait::Ready, wait_pc });
    }

    /// Threads a fragment of `mask` counts for in a barrier: exited lanes count with the lowest
    /// live one, so that a warp always counts 32.
    pub fn barrier_threads(&self, mask: u32) -> u32 {
        let first = self.live & self.live.wrapping_neg();
        let gone = if mask & first != 0 { 32 - self.live.count_ones() } else { 0 };
        mask.count_ones() + gone
    }
}

/// Whether another fragment arriving at the same instruction may join this one.
fn meets(fragment: &Fragment) -> bool {
    matches!(fragment.wait, Wait::Ready | Wait::Lanes(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warp() -> Warp {
        Warp::new(CtaRank(0), 0, Registers::new(0, 0, 0), u32::MAX, 0)
    }

    #[test]
    fn fragments_join_where_paths_meet() {
        let mut warp = warp();
        warp.fragments[0].pc = 5;
        warp.diverge(0xFF, 9);
        assert_eq!(warp.select(), Some(9));
        warp.fragments[0].pc = 9;
        assert_eq!(warp.select(), Some(Pc::MAX));
        assert_eq!((warp.fragments.len(), warp.fragments[0].mask), (1, u32::MAX));
    }

    #[test]
    fn a_waiting_fragment_lets_the_other_run() {
        let mut warp = warp();
        warp.diverge(1, 20);
        warp.fragments[0].wait = Wait::Cluster(1);
        assert_eq!(warp.select(), Some(Pc::MAX));
        assert_eq!((warp.fragments[0].pc, warp.fragments[0].mask), (20, 1));
    }

    #[test]
    fn the_latest_instructions_are_remembered() {
        let mut recent = Recent::default();
        assert_eq!(recent.latest().count(), 0);
        (0..100).for_each(|i| recent.note(i % 80, u64::from(i)));
        assert_eq!(recent.latest().next(), Some((19, 99)));
        assert_eq!((recent.latest().count(), recent.time_of(19)), (REMEMBERED, Some(99)));
        assert_eq!((recent.time_of(40), recent.time_of(30)), (Some(40), None));
    }

    #[test]
    fn exited_lanes_count_in_barriers_once() {
        let mut warp = warp();
        warp.diverge(0xF, 7);
        warp.exit(0xFFF0_0000);
        let counted: u32 = warp.fragments.iter().map(|f| warp.barrier_threads(f.mask)).sum();
        assert_eq!(counted, 32);
    }
}
