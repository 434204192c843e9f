//! What a run may use of the host: memory, instructions, time.

use crate::error::Error;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What a run may use of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory: buffers and variables, and whatever CTAs that run at one time have of registers, of
    /// local, shared and tensor memory, and of notes about who touched what.
    pub memory: u64,
    /// Warp instructions of a launch, those of loops that poll included.
    pub instructions: u64,
    /// Wall-clock time of a launch; `None` is any.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory: 8 << 30, instructions: 1 << 36, time: None }
    }
}

impl Limits {
    /// Whether there is memory for buffers of these names and sizes: a question to ask before their contents
    /// are made.
    pub fn check_buffers<'a>(
        &self,
        buffers: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<(), Error> {
        let tally = Tally::new(self);
        buffers
            .into_iter()
            .try_for_each(|(name, bytes)| tally.take(format_args!("`{name}`"), bytes))
    }
}

/// What no limit can mean more than: all of it has addresses.
const MOST_MEMORY: u64 = 1 << 46;

/// Memory taken so far, and how much there may be.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: u64,
    taken: AtomicU64,
}

impl Tally {
    /// Nothing taken yet.
    pub(crate) fn new(limits: &Limits) -> Tally {
        Tally { limit: limits.memory.min(MOST_MEMORY), taken: AtomicU64::new(0) }
    }

    /// Takes `bytes` for `what`, before they are allocated.
    pub(crate) fn take(&self, what: impl Display, bytes: u64) -> Result<(), Error> {
        let sum = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.limit);
        match self.taken.fetch_update(Relaxed, Relaxed, sum) {
            Ok(_) => Ok(()),
            Err(taken) => Err(Error::Load(format!(
                "{what} takes {bytes} bytes of memory, beside {taken} that are taken: the limit is {} \
                 (`--memory`)",
                self.limit
            ))),
        }
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }

    /// Takes `bytes` for something that does not last.
    pub(crate) fn hold(&self, what: impl Display, bytes: u64) -> Result<Held<'_>, Error> {
        self.take(what, bytes)?;
        Ok(Held { tally: self, bytes })
    }
}

/// Memory that is given back when this is dropped.
pub(crate) struct Held<'a> {
    tally: &'a Tally,
    bytes: u64,
}

impl Held<'_> {
    /// Takes what is missing to `bytes`.
    pub(crate) fn grow(&mut self, what: impl Display, bytes: u64) -> Result<(), Error> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.tally.take(what, more)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.tally.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_at_its_limit() {
        let tally = Tally::new(&Limits { memory: 100, ..Limits::default() });
        let mut held = tally.hold("a", 50).unwrap();
        held.grow("a", 60).unwrap();
        let error = tally.take("`b`", 41).unwrap_err().to_string();
        assert_eq!(
            error,
            "error: `b` takes 41 bytes of memory, beside 60 that are taken: the limit is 100 (`--memory`)"
        );
        tally.take("c", u64::MAX).unwrap_err();
        tally.take("d", 40).unwrap();
        drop(held);
        tally.take("e", 60).unwrap();
    }
}
