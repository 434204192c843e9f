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
        let mut access = WarpAccess { addresses, bytes, passes: 0, ideal: 0 };
        let loads: Vec<Vec<BankLoad>> = access.phases().collect();
        access.passes = loads.iter().map(|banks| most_words(banks)).sum();
        access.ideal = loads.iter().map(|banks| all_words(banks).div_ceil(BANKS)).sum();
        access
    }

    /// What each bank must deliver in each group of lanes that the hardware serves together.
    pub fn phases(&self) -> impl Iterator<Item = Vec<BankLoad>> + '_ {
        let lanes = (BANKS * WORD_BYTES / self.bytes.max(WORD_BYTES)).max(1) as usize;
        let groups = self.addresses.chunks(lanes).enumerate();
        groups.map(move |(phase, group)| bank_loads(group, self.bytes, (phase * lanes) as u64))
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

/// What one bank delivers to a group of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankLoad {
    /// Distinct words asked for; each takes one pass.
    pub words: u64,
    /// The first lane that asks.
    pub first_lane: u64,
}

fn most_words(banks: &[BankLoad]) -> u64 {
    banks.iter().map(|bank| bank.words).max().unwrap_or(0)
}

fn all_words(banks: &[BankLoad]) -> u64 {
    banks.iter().map(|bank| bank.words).sum()
}

fn bank_loads(addresses: &[u64], bytes: u64, first_lane: u64) -> Vec<BankLoad> {
    let mut seen = BTreeSet::new();
    let mut banks = vec![BankLoad::default(); BANKS as usize];
    for (&address, lane) in addresses.iter().zip(first_lane..) {
        let last = address.saturating_add(bytes.max(1) - 1);
        for word in address / WORD_BYTES..=last / WORD_BYTES {
            let bank = &mut banks[(word % BANKS) as usize];
            if bank.words == 0 {
                bank.first_lane = lane;
            }
            bank.words += u64::from(seen.insert(word));
        }
    }
    banks
}
