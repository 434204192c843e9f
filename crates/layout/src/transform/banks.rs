//! Shared-memory banks: how many passes one warp access takes.
//!
//! Shared memory has 32 banks of 4 bytes. A warp access moves at most 128 bytes per pass: all
//! lanes at once for 4 bytes or less per lane, half a warp for 8, a quarter for 16 (CUDA C++
//! Programming Guide, "Shared memory"). Within a pass, lanes that touch different words of one
//! bank take turns; lanes that touch the same word do not.

use std::collections::BTreeSet;

/// Number of shared-memory banks.
pub const BANKS: u64 = 32;
/// Bytes per bank word.
pub const WORD_BYTES: u64 = 4;

/// The cost of one warp-wide access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarpAccess {
    /// For each lane in order, the first byte it touches.
    pub addresses: Vec<u64>,
    /// Bytes per lane.
    pub bytes: u64,
    /// Passes the hardware takes.
    pub passes: u64,
    /// Passes it would take without any bank conflict.
    pub ideal: u64,
}

impl WarpAccess {
    /// The access of `bytes` bytes per lane at these addresses.
    ///
    /// ```
    /// use layout::WarpAccess;
    /// let rows: Vec<u64> = (0..32).map(|lane| lane * 128).collect();
    /// let column = WarpAccess::new(rows, 4);
    /// assert_eq!((column.passes, column.conflict_degree()), (32, 32));
    /// ```
    pub fn new(addresses: Vec<u64>, bytes: u64) -> WarpAccess {
        let lanes_per_pass = (BANKS * WORD_BYTES / bytes.max(WORD_BYTES)).max(1) as usize;
        let groups = || addresses.chunks(lanes_per_pass);
        let passes =
            groups().map(|group| words_by_bank(group, bytes).into_iter().max().unwrap_or(0)).sum();
        let ideal = groups().map(|group| {
            let words: u64 = words_by_bank(group, bytes).into_iter().sum();
            words.div_ceil(BANKS)
        });
        let ideal = ideal.sum();
        WarpAccess { passes, ideal, bytes, addresses }
    }

    /// How many times longer the access takes than without conflicts.
    pub fn conflict_degree(&self) -> u64 {
        self.passes.div_ceil(self.ideal.max(1))
    }

    /// Whether no lane waits for another.
    pub fn is_conflict_free(&self) -> bool {
        self.passes == self.ideal
    }
}

/// The bank of a byte address.
pub fn bank_of(address: u64) -> u64 {
    address / WORD_BYTES % BANKS
}

/// Number of distinct words each bank must deliver for a group of lanes.
fn words_by_bank(addresses: &[u64], bytes: u64) -> Vec<u64> {
    let words: BTreeSet<u64> = addresses
        .iter()
        .flat_map(|&first| first / WORD_BYTES..=first.saturating_add(bytes.max(1) - 1) / WORD_BYTES)
        .collect();
    let mut counts = vec![0; BANKS as usize];
    for word in words {
        counts[(word % BANKS) as usize] += 1;
    }
    counts
}
