//! Which clusters touched a word of global memory.

use std::collections::HashMap;
use std::sync::Mutex;

/// Words of a shard's table are found by their address.
type Words = HashMap<u64, Owners>;

#[derive(Clone, Copy, Default)]
struct Owners {
    /// Cluster number plus one of the last writer and of the last reader.
    writer: u32,
    reader: u32,
}

/// Last writer and reader of each word that ordinary instructions touched.
pub(crate) struct WordOwners {
    shards: Vec<Mutex<Words>>,
}

/// Host threads rarely meet in one of so many.
const SHARDS: usize = 64;

impl Default for WordOwners {
    fn default() -> WordOwners {
        WordOwners { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl WordOwners {
    /// Records an access; the other cluster if the two conflict.
    ///
    /// Writes alone do not count: clusters that all store the same value harm nobody.
    pub(crate) fn touch(&self, at: u64, cluster: u32, write: bool) -> Option<u32> {
        let (word, me) = (at / 4, cluster + 1);
        let shard = &self.shards[(word / 64) as usize % SHARDS];
        let mut words = shard.lock().expect("no one panics with the lock");
        let owners = words.entry(word).or_default();
        let foreign = owners.writer != 0 && owners.writer != me;
        let conflict = foreign && (!write || owners.reader == me);
        let other = owners.writer;
        if write {
            owners.writer = me;
        } else {
            owners.reader = me;
        }
        conflict.then(|| other - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_what_another_cluster_wrote_is_a_conflict() {
        let owners = WordOwners::default();
        assert_eq!(owners.touch(8, 0, true), None);
        assert_eq!(owners.touch(8, 1, true), None);
        assert_eq!(owners.touch(8, 0, false), Some(1));
        assert_eq!(owners.touch(16, 0, false), None);
        assert_eq!(owners.touch(16, 1, true), None);
        assert_eq!(owners.touch(16, 0, true), Some(1));
    }
}
