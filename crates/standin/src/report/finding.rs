use super::source::line_of;
use report::{Checked, Mode, Schedule, outcome_of};
use sim::{Allowed, Error, Outcome, Site};
use std::fmt;

/// Something wrong with a kernel, however often it happened.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What its files are called.
    pub name: String,
    /// `hazard`, `fault`, `deadlock`, `unsupported`, `stopped` or `load`.
    pub kind: &'static str,
    /// The rule broken.
    pub rule: &'static str,
    /// The report.
    pub message: String,
    /// Kernel.
    pub kernel: String,
    /// Mode and seed of the first time.
    pub mode: (String, u64),
    /// The launch of the first time, counted from 1.
    pub first_launch: u64,
    /// Times.
    pub times: u64,
    /// Places, the most important one first, and what happened there.
    pub sites: Vec<(String, Site)>,
    /// Where the launch was saved.
    pub launch: Option<String>,
    /// The same for all forms of reports.
    pub checked: Checked,
}

impl Finding {
    /// What an outcome holds.
    pub fn of(outcome: &Outcome, kernel: &str, launch: u64, mode: (&str, u64)) -> Vec<Finding> {
        let allowed = outcome.report.allowed.iter().map(|Allowed { finding, times, .. }| {
            (Error::from(finding.clone()), finding.to_string(), *times)
        });
        let ended = outcome.error.iter().map(|error| (error.clone(), error.to_string(), 1));
        let described = allowed.chain(ended).map(|(error, message, times)| Finding {
            name: String::new(),
            kind: error.kind(),
            rule: error.rule(),
            message,
            kernel: kernel.to_owned(),
            mode: (mode.0.to_owned(), mode.1),
            first_launch: launch,
            times,
            sites: sites(&error),
            launch: None,
            checked: checked(&error, kernel, mode),
        });
        described.collect()
    }

    /// Whether another one is the same mistake in the same places.
    pub fn is_same(&self, other: &Finding) -> bool {
        let place = |(_, site): &(String, Site)| (site.line, site.instruction.clone());
        let places = |finding: &Finding| finding.sites.iter().map(place).collect::<Vec<_>>();
        (self.kind, self.rule, &self.kernel) == (other.kind, other.rule, &other.kernel)
            && places(self) == places(other)
            && (!self.sites.is_empty() || self.message == other.message)
    }

    /// Counts another time.
    pub fn add(&mut self, other: &Finding) {
        self.times += other.times;
    }
}

/// What an error says about a launch.
fn checked(error: &Error, kernel: &str, (mode, seed): (&str, u64)) -> Checked {
    // The pedantic mode is the usual schedule with more rules.
    let mode = mode.parse().unwrap_or(Mode::Eager);
    let schedule = Schedule { mode, seed: if mode.takes_seed() { seed } else { 0 } };
    let start = Checked {
        kernel: Some(kernel.to_owned()),
        schedules: vec![schedule],
        ..Checked::default()
    };
    match outcome_of(error, schedule) {
        Ok(findings) => Checked { findings, ..start },
        Err(unchecked) => Checked { unchecked: Some(unchecked), ..start },
    }
}

/// The places an error names.
fn sites(error: &Error) -> Vec<(String, Site)> {
    let here = |site: &Site| (String::new(), site.clone());
    match error {
        Error::Fault(fault) => vec![here(&fault.site)],
        Error::Hazard(hazard) => {
            std::iter::once(here(&hazard.site)).chain(hazard.other.clone()).collect()
        }
        Error::Deadlock(deadlock) => {
            let waiting = deadlock.waiting.iter();
            let waiting = waiting.map(|w| (format!("waits for {}", w.what), w.site.clone()));
            deadlock.origin.iter().map(here).chain(waiting).collect()
        }
        Error::Stopped(stopped) => {
            stopped.running.iter().map(|r| (r.warps.clone(), r.site.clone())).collect()
        }
        Error::Invalid(_) | Error::Load(_) | Error::Unsupported(_) => Vec::new(),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, seed) = &self.mode;
        let seed = if mode == "random" { format!(", seed {seed}") } else { String::new() };
        writeln!(f, "\nsixwarp: launch {}, mode {mode}{seed}:", self.first_launch)?;
        write!(f, "{}", self.message)?;
        let mut shown = Vec::new();
        for (_, site) in &self.sites {
            let Some((file, line)) = &site.loc else { continue };
            let Some(text) = line_of(file, *line).filter(|_| !shown.contains(&(file, line))) else {
                continue;
            };
            shown.push((file, line));
            write!(f, "\n{file}:{line}\n    {}", text.trim())?;
        }
        writeln!(f)
    }
}
