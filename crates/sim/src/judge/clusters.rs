//! Races between clusters, which share global memory alone.
//!
//! A cluster has a time, which moves on whenever it publishes something: by an atomic or any other strong write.
//! A strong read of the same word makes known what was published there. Two ordinary accesses to a byte by
//! clusters of which neither knows the other's, one of them a write, are a race. All warps of a cluster count as
//! one here: what one of them knows they all know.
//!
//! Which of two accesses comes first is up to the host's threads, but not whether they meet. So a launch whose
//! clusters have met on several threads is run again on one ([`Meeting`]), and reports what happened there.

use super::clock::Clock;
use super::pages::PageMap;
use crate::error::Error;
use crate::instruction::Pc;
use crate::limits::Tally;
use crate::warp::WarpId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// An access to bytes of a word: the cluster, and packed: its time 30, whether a copy made it 1, the warp 9, the
/// instruction 20, and the bytes 4. An access of no bytes is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    cluster: u32,
    packed: [u32; 2],
}

/// The last time that can be told.
const LAST_TIME: u32 = (1 << 30) - 1;

impl Mark {
    fn new(by: &Toucher, bytes: u8, by_copy: bool) -> Mark {
        let Toucher { cluster, warp, pc, knows } = *by;
        let bits = u64::from(knows.time) << 34
            | u64::from(by_copy) << 33
            | (warp.0 as u64) << 24
            | u64::from(pc) << 4
            | u64::from(bytes);
        Mark { cluster, packed: [bits as u32, (bits >> 32) as u32] }
    }

    fn bits(self, from: u32, count: u32) -> u32 {
        let bits = u64::from(self.packed[1]) << 32 | u64::from(self.packed[0]);
        (bits >> from) as u32 & ((1 << count) - 1)
    }

    /// The cluster's linear number.
    pub(crate) fn cluster(self) -> u32 {
        self.cluster
    }

    /// The warp, counted in the cluster.
    pub(crate) fn warp(self) -> WarpId {
        WarpId(self.bits(24, 9) as usize)
    }

    /// The instruction.
    pub(crate) fn pc(self) -> Pc {
        self.bits(4, 20)
    }

    fn bytes(self) -> u8 {
        (self.packed[0] & 0xF) as u8
    }

    fn by_copy(self) -> bool {
        self.bits(33, 1) != 0
    }

    fn time(self) -> u32 {
        self.packed[1] >> 2
    }
}

/// The linear number of a cluster.
#[derive(Clone, Copy, Debug)]
struct ClusterId(u32);

impl From<ClusterId> for usize {
    fn from(cluster: ClusterId) -> usize {
        cluster.0 as usize
    }
}

/// What a cluster knows of others, and its own time.
#[derive(Default)]
pub(crate) struct Knowledge {
    seen: Clock<ClusterId>,
    time: u32,
}

impl Knowledge {
    /// Whether an access is known to have happened; one at the last time counts as known.
    fn covers(&self, mark: Mark) -> bool {
        let time = mark.time();
        self.seen.get(ClusterId(mark.cluster)) > time || time == LAST_TIME
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Reads.
    Read,
    /// Stores; `compared` says that a store of what is there already is found out.
    Write { compared: bool },
    /// Stores later.
    Copy,
}

/// A cluster that touches memory.
pub(crate) struct Toucher<'k> {
    pub(crate) cluster: u32,
    pub(crate) warp: WarpId,
    pub(crate) pc: Pc,
    pub(crate) knows: &'k Knowledge,
}

/// An earlier access that nothing orders with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Met {
    /// A byte of both.
    pub(crate) at: u64,
    pub(crate) other: Mark,
    /// Whether the other one wrote.
    pub(crate) wrote: bool,
}

/// How clusters have met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Meeting {
    /// Not at all.
    None,
    /// In writes, which are a race only if they differ.
    Writes,
    /// One of them read.
    Read,
}

/// Accesses to a word that no later one implies. Of reads two are enough to meet any write, unless its cluster
/// knows just those. Other writes are in a list beside the pages.
#[derive(Clone, Copy, Default)]
struct Word {
    write: Mark,
    reads: [Mark; 2],
}

/// Words of a page.
const PAGE: u64 = 256;
/// Further writes that are remembered of a word.
const MOST_WRITES: usize = 7;
/// Words whose publications are told apart.
const MOST_PLACES: usize = 4096;
/// Host threads rarely meet in one of so many.
const SHARDS: u64 = 64;

#[derive(Default)]
struct Shard {
    pages: PageMap<Box<[Word; PAGE as usize]>>,
    more_writes: PageMap<Vec<Mark>>,
}

/// What the clusters of a launch did to global memory.
pub(crate) struct Clusters {
    shards: Vec<Mutex<Shard>>,
    /// What was published where.
    places: Mutex<HashMap<u64, Clock<ClusterId>>>,
    meeting: AtomicU8,
    pages: AtomicU64,
    /// Bytes that were taken of the memory a run may use.
    held: AtomicU64,
}

impl Default for Clusters {
    fn default() -> Clusters {
        Clusters {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            places: Mutex::default(),
            meeting: AtomicU8::new(Meeting::None as u8),
            pages: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }
}

impl Clusters {
    /// A strong write: what a cluster has done so far can be known to others.
    pub(crate) fn publish(&self, cluster: u32, knowledge: &mut Knowledge, at: u64) {
        let mut places = self.places.lock().expect("no one panics with the lock");
        let place = place(&places, at);
        let published = places.entry(place).or_default();
        published.join(&knowledge.seen);
        knowledge.time = (knowledge.time + 1).min(LAST_TIME);
        published.raise(ClusterId(cluster), knowledge.time);
    }

    /// A strong read: a cluster learns what was published.
    pub(crate) fn learn(&self, knowledge: &mut Knowledge, at: u64) {
        let places = self.places.lock().expect("no one panics with the lock");
        if let Some(published) = places.get(&place(&places, at)) {
            knowledge.seen.join(published);
        }
    }

    /// Records an access to a range of bytes; the first earlier one that it races with.
    pub(crate) fn touch(&self, by: &Toucher, (at, bytes): (u64, u64), touch: Touch) -> Option<Met> {
        let (mut word, last) = (at / 4, (at + bytes).div_ceil(4));
        while word < last {
            let end = (word / PAGE * PAGE + PAGE).min(last);
            let met = self.touch_page(by, word..end, (at, at + bytes), touch);
            if met.is_some() {
                return met;
            }
            word = end;
        }
        None
    }

    /// The same for words of one page.
    fn touch_page(
        &self,
        by: &Toucher,
        words: std::ops::Range<u64>,
        (start, end): (u64, u64),
        touch: Touch,
    ) -> Option<Met> {
        let number = words.start / PAGE;
        let shard = &self.shards[(number % SHARDS) as usize];
        let mut shard = shard.lock().expect("no one panics with the lock");
        let Shard { pages, more_writes } = &mut *shard;
        let page = pages.entry(number).or_insert_with(|| {
            self.pages.fetch_add(1, Relaxed);
            Box::new([Word::default(); PAGE as usize])
        });
        for word in words {
            let (from, to) = (start.max(4 * word) - 4 * word, end.min(4 * word + 4) - 4 * word);
            let bytes = (0xFu8 >> (4 - (to - from))) << from;
            let mark = Mark::new(by, bytes, touch == Touch::Copy);
            let cell = &mut page[(word % PAGE) as usize];
            let met = cell.meet(by.knows, mark, touch, more_writes.get(&word));
            match touch {
                Touch::Read => cell.remember_read(by.knows, mark),
                Touch::Write { .. } | Touch::Copy => {
                    cell.remember_write(by.knows, mark, || more_writes.entry(word).or_default());
                }
            }
            if let Some((other, wrote)) = met {
                self.note_meeting(touch, wrote);
                let byte = u64::from((other.bytes() & bytes).trailing_zeros());
                return Some(Met { at: 4 * word + byte, other, wrote });
            }
        }
        None
    }

    fn note_meeting(&self, touch: Touch, wrote: bool) {
        let meeting = match touch {
            Touch::Write { .. } if wrote => Meeting::Writes,
            _ => Meeting::Read,
        };
        self.meeting.fetch_max(meeting as u8, Relaxed);
    }

    /// How clusters have met so far.
    pub(crate) fn meeting(&self) -> Meeting {
        match self.meeting.load(Relaxed) {
            0 => Meeting::None,
            1 => Meeting::Writes,
            _ => Meeting::Read,
        }
    }

    /// Bytes of host memory, about.
    fn bytes(&self) -> u64 {
        self.pages.load(Relaxed) * PAGE * size_of::<Word>() as u64
    }

    /// Takes the memory that the tables have come to use.
    pub(crate) fn hold(&self, tally: &Tally) -> Result<(), Error> {
        let bytes = self.bytes();
        let held = self.held.fetch_max(bytes, Relaxed);
        let more = bytes.saturating_sub(held);
        let taken = tally.take("what is known of global memory", more);
        taken.inspect_err(|_| {
            self.held.fetch_sub(more, Relaxed);
        })
    }

    /// Gives the memory back.
    pub(crate) fn give_back(&self, tally: &Tally) {
        tally.give_back(self.held.swap(0, Relaxed));
    }
}

/// The key of a word's publications: many words share one when there are very many.
fn place(places: &HashMap<u64, Clock<ClusterId>>, at: u64) -> u64 {
    let word = at / 4;
    match places.len() < MOST_PLACES || places.contains_key(&word) {
        true => word,
        false => u64::MAX - word % MOST_PLACES as u64,
    }
}

impl Word {
    /// An earlier access that an access races with, and whether it wrote.
    fn meet(
        &self,
        knows: &Knowledge,
        mark: Mark,
        touch: Touch,
        more_writes: Option<&Vec<Mark>>,
    ) -> Option<(Mark, bool)> {
        let unordered = |other: &Mark| {
            let overlaps = other.bytes() & mark.bytes() != 0;
            overlaps && other.cluster != mark.cluster && !knows.covers(*other)
        };
        let writes =
            || std::iter::once(self.write).chain(more_writes.into_iter().flatten().copied());
        let read = || self.reads.into_iter().find(unordered).map(|other| (other, false));
        match touch {
            Touch::Read => writes().find(unordered).map(|other| (other, true)),
            Touch::Copy | Touch::Write { compared: false } => read(),
            Touch::Write { compared: true } => {
                let compared = |other: &Mark| unordered(other) && !other.by_copy();
                read().or_else(|| writes().find(compared).map(|other| (other, true)))
            }
        }
    }

    fn remember_read(&mut self, knows: &Knowledge, mark: Mark) {
        if let Some(read) = self.reads.iter_mut().find(|read| implies(knows, mark, **read)) {
            *read = mark;
        }
    }

    fn remember_write<'m>(
        &mut self,
        knows: &Knowledge,
        mark: Mark,
        more: impl FnOnce() -> &'m mut Vec<Mark>,
    ) {
        if implies(knows, mark, self.write) {
            self.write = mark;
            return;
        }
        let more = more();
        match more.iter().position(|write| implies(knows, mark, *write)) {
            Some(at) => more[at] = mark,
            None if more.len() < MOST_WRITES => more.push(mark),
            None => {}
        }
    }
}

/// Whether whoever races with `old` races with `new` as well.
fn implies(knows: &Knowledge, new: Mark, old: Mark) -> bool {
    let covered = old.bytes() & !new.bytes() == 0;
    covered && (old.bytes() == 0 || old.cluster == new.cluster || knows.covers(old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Access;

    const STORE: Touch = Touch::Write { compared: true };

    fn by(cluster: u32, knows: &Knowledge) -> Toucher<'_> {
        Toucher { cluster, warp: WarpId(0), pc: 0, knows }
    }

    /// Cluster and kind of what an access met.
    fn met(met: Option<Met>) -> Option<(u64, u32, bool)> {
        met.map(|met| (met.at, met.other.cluster(), met.wrote))
    }

    #[test]
    fn a_mark_holds_the_largest_of_each() {
        let knows = Knowledge { time: LAST_TIME, ..Knowledge::default() };
        let by =
            Toucher { cluster: u32::MAX, warp: WarpId(511), pc: Access::LAST_PC, knows: &knows };
        let mark = Mark::new(&by, 15, true);
        assert_eq!(
            (mark.cluster(), mark.warp(), mark.pc()),
            (u32::MAX, WarpId(511), Access::LAST_PC)
        );
        assert_eq!((mark.time(), mark.by_copy(), mark.bytes()), (LAST_TIME, true, 15));
    }

    #[test]
    fn a_read_and_a_write_meet_in_either_order() {
        let (clusters, none) = (Clusters::default(), Knowledge::default());
        assert_eq!(clusters.touch(&by(0, &none), (8, 4), STORE), None);
        assert_eq!(met(clusters.touch(&by(1, &none), (8, 4), Touch::Read)), Some((8, 0, true)));
        assert_eq!(clusters.meeting(), Meeting::Read);
        assert_eq!(clusters.touch(&by(0, &none), (16, 4), Touch::Read), None);
        assert_eq!(met(clusters.touch(&by(1, &none), (16, 4), STORE)), Some((16, 0, false)));
    }

    #[test]
    fn writes_meet_where_they_are_compared() {
        let (clusters, none) = (Clusters::default(), Knowledge::default());
        let [store, copy, plain] = [STORE, Touch::Copy, Touch::Write { compared: false }];
        assert_eq!(clusters.touch(&by(0, &none), (0, 4), store), None);
        assert_eq!(clusters.touch(&by(1, &none), (0, 4), plain), None);
        assert_eq!(met(clusters.touch(&by(2, &none), (0, 4), store)), Some((0, 0, true)));
        assert_eq!(clusters.meeting(), Meeting::Writes);
        assert_eq!(clusters.touch(&by(0, &none), (4, 4), copy), None);
        assert_eq!(clusters.touch(&by(1, &none), (4, 4), store), None);
    }

    #[test]
    fn neighbouring_bytes_do_not_meet() {
        let (clusters, none) = (Clusters::default(), Knowledge::default());
        for cluster in 0..4 {
            assert_eq!(clusters.touch(&by(cluster, &none), (cluster.into(), 1), STORE), None);
        }
        let read = |at| met(clusters.touch(&by(4, &none), (at, 1), Touch::Read));
        assert_eq!([0, 3].map(read), [Some((0, 0, true)), Some((3, 3, true))]);
    }

    #[test]
    fn every_word_of_a_range_counts() {
        let (clusters, none) = (Clusters::default(), Knowledge::default());
        assert_eq!(clusters.touch(&by(0, &none), (1000, 64), STORE), None);
        assert_eq!(
            met(clusters.touch(&by(1, &none), (1060, 4), Touch::Read)),
            Some((1060, 0, true))
        );
        assert_eq!(clusters.touch(&by(1, &none), (1064, 64), Touch::Read), None);
        assert_eq!(clusters.bytes(), 2 * PAGE * size_of::<Word>() as u64);
    }

    #[test]
    fn what_is_published_orders_what_came_before() {
        let clusters = Clusters::default();
        let [mut writer, mut reader] = [Knowledge::default(), Knowledge::default()];
        assert_eq!(clusters.touch(&by(0, &writer), (0, 4), STORE), None);
        clusters.publish(0, &mut writer, 100);
        assert_eq!(clusters.touch(&by(0, &writer), (4, 4), STORE), None);
        clusters.learn(&mut reader, 104);
        assert!(clusters.touch(&by(1, &reader), (0, 4), Touch::Read).is_some());
        clusters.learn(&mut reader, 100);
        assert_eq!(clusters.touch(&by(1, &reader), (0, 4), STORE), None);
        assert!(clusters.touch(&by(1, &reader), (4, 4), Touch::Read).is_some());
    }
}
