//! Which clusters touched a word of global memory.

use super::pages::PageMap;
use crate::error::Error;
use crate::limits::Tally;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Cluster number plus one of the last writer and of the last reader of a word.
#[derive(Clone, Copy, Default)]
struct Owners {
    writer: u32,
    reader: u32,
}

/// Words of a page.
const PAGE: u64 = 256;

type Page = [Owners; PAGE as usize];

/// Last writer and reader of each word that ordinary instructions touched.
pub(crate) struct WordOwners {
    shards: Vec<Mutex<PageMap<Box<Page>>>>,
    pages: AtomicU64,
    /// Bytes that were taken of the memory a run may use.
    held: AtomicU64,
}

/// Host threads rarely meet in one of so many.
const SHARDS: u64 = 64;

impl Default for WordOwners {
    fn default() -> WordOwners {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        WordOwners { shards, pages: AtomicU64::new(0), held: AtomicU64::new(0) }
    }
}

impl WordOwners {
    /// Records an access to the words of a range; the first of them that another cluster is in conflict
    /// about, and that cluster.
    ///
    /// Writes alone do not count: clusters that all store the same value harm nobody.
    pub(crate) fn touch(
        &self,
        (at, bytes): (u64, u64),
        cluster: u32,
        write: bool,
    ) -> Option<(u64, u32)> {
        let (mut word, end) = (at / 4, (at + bytes).div_ceil(4));
        while word < end {
            let page_end = (word / PAGE * PAGE + PAGE).min(end);
            let conflict = self.touch_page(word..page_end, cluster + 1, write);
            if conflict.is_some() {
                return conflict;
            }
            word = page_end;
        }
        None
    }

    /// The same for words of one page.
    fn touch_page(&self, words: std::ops::Range<u64>, me: u32, write: bool) -> Option<(u64, u32)> {
        let number = words.start / PAGE;
        let shard = &self.shards[(number % SHARDS) as usize];
        let mut pages = shard.lock().expect("no one panics with the lock");
        let page = pages.entry(number).or_insert_with(|| {
            self.pages.fetch_add(1, Relaxed);
            Box::new([Owners::default(); PAGE as usize])
        });
        for word in words {
            let owners = &mut page[(word % PAGE) as usize];
            let foreign = owners.writer != 0 && owners.writer != me;
            let conflict = foreign && (!write || owners.reader == me);
            let other = owners.writer;
            match write {
                true => owners.writer = me,
                false => owners.reader = me,
            }
            if conflict {
                return Some((4 * word, other - 1));
            }
        }
        None
    }

    /// Bytes of host memory, about.
    fn bytes(&self) -> u64 {
        self.pages.load(Relaxed) * size_of::<Page>() as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_what_another_cluster_wrote_is_a_conflict() {
        let owners = WordOwners::default();
        assert_eq!(owners.touch((8, 4), 0, true), None);
        assert_eq!(owners.touch((8, 4), 1, true), None);
        assert_eq!(owners.touch((8, 4), 0, false), Some((8, 1)));
        assert_eq!(owners.touch((16, 4), 0, false), None);
        assert_eq!(owners.touch((16, 4), 1, true), None);
        assert_eq!(owners.touch((16, 4), 0, true), Some((16, 1)));
    }

    #[test]
    fn every_word_of_a_range_counts() {
        let owners = WordOwners::default();
        assert_eq!(owners.touch((1000, 64), 0, true), None);
        assert_eq!(owners.touch((1060, 4), 1, false), Some((1060, 0)));
        assert_eq!(owners.touch((1064, 64), 1, false), None);
        assert_eq!(owners.bytes(), 2 * 2048);
    }
}
