//! Schedules: when asynchronous work completes and which warp runs, by a mode and a seed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// When asynchronous work completes, and which warp runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Work completes soon, warps take turns.
    Eager,
    /// Work completes only when a wait needs it, warps take turns.
    Latest,
    /// Work completes only when a wait needs it, one warp runs as long as it can.
    Adversarial,
    /// Both by chance.
    Random,
}

impl Mode {
    /// Every mode, in the order in which they are tried.
    pub const ALL: [Mode; 4] = [Mode::Eager, Mode::Latest, Mode::Adversarial, Mode::Random];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Eager => "eager",
            Mode::Latest => "latest",
            Mode::Adversarial => "adversarial",
            Mode::Random => "random",
        }
    }

    /// Whether another seed is another run.
    pub fn takes_seed(self) -> bool {
        self == Mode::Random
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = ScheduleError;

    fn from_str(name: &str) -> Result<Mode, ScheduleError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| ScheduleError(format!("no mode `{name}`: there are {}", names())))
    }
}

fn names() -> String {
    Mode::ALL.map(Mode::name).join(", ")
}

/// One run: the same on every host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Schedule {
    /// The mode.
    pub mode: Mode,
    /// The seed; modes without chance take none, and have 0.
    pub seed: u64,
}

impl Schedule {
    /// The options of the simulator, with the rest as in `base`.
    pub fn options(self, base: &sim::Options) -> sim::Options {
        let (completion, schedule) = match self.mode {
            Mode::Eager => (sim::Completion::Eager, sim::Schedule::RoundRobin),
            Mode::Latest => (sim::Completion::Latest, sim::Schedule::RoundRobin),
            Mode::Adversarial => (sim::Completion::Latest, sim::Schedule::Adversarial),
            Mode::Random => (sim::Completion::Random, sim::Schedule::Random),
        };
        sim::Options { completion, schedule, seed: self.seed, ..base.clone() }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode.takes_seed() {
            true => write!(f, "{}:{}", self.mode, self.seed),
            false => write!(f, "{}", self.mode),
        }
    }
}

/// A text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError(String);

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScheduleError {}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleError> {
        let (mode, seed) = text.split_once(':').unwrap_or((text, "0"));
        let mode: Mode = mode.parse()?;
        let wrong = || ScheduleError(format!("`{seed}` is no seed: a number from 0 on"));
        let seed: u64 = seed.parse().map_err(|_| wrong())?;
        Ok(Schedule { mode, seed: if mode.takes_seed() { seed } else { 0 } })
    }
}

/// Schedules in the order in which they count: modes as given, seeds from the lowest. Modes without chance have one
/// each.
pub fn schedules(modes: &[Mode], seeds: Range<u64>) -> Vec<Schedule> {
    let mut all = Vec::new();
    for mode in modes {
        let seeds = if mode.takes_seed() { seeds.clone() } else { 0..1 };
        all.extend(seeds.map(|seed| Schedule { mode: *mode, seed }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_back() {
        for schedule in schedules(&Mode::ALL, 0..3) {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        assert_eq!("eager:7".parse(), Ok(Schedule { mode: Mode::Eager, seed: 0 }));
        let error = |text: &str| text.parse::<Schedule>().unwrap_err().to_string();
        assert_eq!(error("lazy"), "no mode `lazy`: there are eager, latest, adversarial, random");
        assert_eq!(error("random:-1"), "`-1` is no seed: a number from 0 on");
    }

    #[test]
    fn only_chance_takes_seeds() {
        let all: Vec<String> =
            schedules(&Mode::ALL, 2..4).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["eager", "latest", "adversarial", "random:2", "random:3"]);
    }
}
