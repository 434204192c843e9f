//! Ends launches that run too long.

use crate::limits::Limits;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Why a cluster must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Another one failed: the launch has its error already.
    Failed,
    /// The launch has executed this many instructions.
    Instructions(u64),
    /// It has taken this long.
    Time(Duration),
    /// A warp has synchronised more often than the checks can count.
    Clock,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Failed => f.write_str("another cluster failed"),
            Stop::Instructions(limit) => {
                write!(
                    f,
                    "the launch has executed {limit} warp instructions (`--max-instructions`)"
                )
            }
            Stop::Time(limit) => {
                write!(f, "the launch has taken {} seconds (`--timeout`)", limit.as_secs_f64())
            }
            Stop::Clock => f.write_str(
                "a warp of the launch has synchronised more often than the checks can count (`--no-checks`)",
            ),
        }
    }
}

/// What all clusters of a launch have used.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limits: Limits,
    start: Instant,
    executed: AtomicU64,
    /// The lowest number of a cluster that failed.
    failed: AtomicU32,
}

impl Watchdog {
    /// The launch starts now.
    pub(crate) fn new(limits: Limits) -> Watchdog {
        let (executed, failed) = (AtomicU64::new(0), AtomicU32::new(u32::MAX));
        Watchdog { limits, start: Instant::now(), executed, failed }
    }

    /// A cluster failed, and those of higher numbers can stop. Others go on: one of them may fail, too, and the
    /// first by number is reported, whatever the host's threads do.
    pub(crate) fn fail(&self, number: u32) {
        self.failed.fetch_min(number, Relaxed);
    }

    /// Whether a cluster before `number` failed.
    pub(crate) fn has_failed_before(&self, number: u32) -> bool {
        self.failed.load(Relaxed) < number
    }

    /// Adds `instructions` of cluster `number` to what the launch has executed; why it must stop, if it must.
    pub(crate) fn count(&self, number: u32, instructions: u64) -> Option<Stop> {
        let Limits { instructions: most, time, .. } = self.limits;
        let executed = self.executed.fetch_add(instructions, Relaxed) + instructions;
        if self.has_failed_before(number) {
            return Some(Stop::Failed);
        }
        if executed > most {
            return Some(Stop::Instructions(most));
        }
        time.filter(|limit| self.start.elapsed() > *limit).map(Stop::Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_stops_a_launch() {
        let dog = Watchdog::new(Limits { instructions: 10, ..Limits::default() });
        assert_eq!(dog.count(0, 10), None);
        assert_eq!(dog.count(0, 1), Some(Stop::Instructions(10)));
        let dog = Watchdog::new(Limits { time: Some(Duration::ZERO), ..Limits::default() });
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(dog.count(0, 0), Some(Stop::Time(Duration::ZERO)));
    }

    #[test]
    fn a_failure_stops_the_clusters_behind_it() {
        let dog = Watchdog::new(Limits::default());
        [7, 3, 5].into_iter().for_each(|number| dog.fail(number));
        assert_eq!([2, 3, 4].map(|number| dog.count(number, 0)), [None, None, Some(Stop::Failed)]);
    }
}
