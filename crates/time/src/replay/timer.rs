//! Things that happen at a known time.

use std::cmp::Ordering;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timed {
    /// A warp goes on.
    Wake(usize),
    /// The first bytes of a copy come.
    Copy(u32),
    /// An operation is done.
    Done(u32),
}

/// Something at a time; the earliest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timer {
    /// When.
    pub at: f64,
    /// What.
    pub what: Timed,
}

impl Eq for Timer {}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
