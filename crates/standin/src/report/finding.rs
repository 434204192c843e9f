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
        let places = |finding: &Finding| -> Vec<_> {
            finding.sites.iter().map(|(_, site)| Place::of(site)).collect()
        };
        (self.kind, self.rule, &self.kernel) == (other.kind, other.rule, &other.kernel)
            && places(self) == places(other)
            && (!self.sites.is_empty() || self.message == other.message)
    }

    /// Counts another time.
    pub fn add(&mut self, other: &Finding) {
        self.times += other.times;
    }
}

/// Where something happened, as people count places.
#[derive(PartialEq)]
enum Place {
    /// A line of the source, and what is done there. One line can be many instructions: a compiler unrolls loops and
    /// cuts vectors up.
    Source(String, u32, String),
    /// A line of the PTX, where there is no source.
    Ptx(u32, String),
}

impl Place {
    fn of(site: &Site) -> Place {
        match &site.loc {
            Some((file, line)) => Place::Source(file.clone(), *line, opcode(&site.instruction)),
            None => Place::Ptx(site.line, site.instruction.clone()),
        }
    }
}

/// The opcode of an instruction, without its predicate.
fn opcode(instruction: &str) -> String {
    let opcode = instruction.split_whitespace().find(|word| !word.starts_with('@'));
    opcode.unwrap_or_default().to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Hazard, Rule};

    fn race(lines: [u32; 2], source: Option<u32>, instruction: &str) -> Finding {
        let site = |line: u32| Site {
            instruction: instruction.to_owned(),
            line,
            loc: source.map(|line| ("k.py".to_owned(), line)),
            ..Site::default()
        };
        let hazard = Hazard {
            rule: Rule::Race,
            message: String::new(),
            site: site(lines[0]),
            other: Some(("the other".to_owned(), site(lines[1]))),
            help: None,
        };
        let error = Some(Error::Hazard(Box::new(hazard)));
        let outcome = Outcome { report: sim::Report::default(), error };
        Finding::of(&outcome, "k", 1, ("eager", 0)).remove(0)
    }

    #[test]
    fn a_line_of_the_source_is_one_place_however_many_instructions_it_became() {
        let first = race([73, 118], Some(9), "@%p1 ld.global.b32 {%r3}, [%rd2];");
        assert!(first.is_same(&race([79, 122], Some(9), "@%p2 ld.global.b32 {%r4}, [%rd3];")));
        assert!(!first.is_same(&race([79, 122], Some(10), "@%p2 ld.global.b32 {%r4}, [%rd3];")));
        assert!(!first.is_same(&race([79, 122], Some(9), "@%p2 st.global.b32 [%rd3], {%r4};")));
        let bare = race([73, 118], None, "ld.global.b32 {%r3}, [%rd2];");
        assert!(
            bare.is_same(&bare)
                && !bare.is_same(&race([79, 118], None, "ld.global.b32 {%r3}, [%rd2];"))
        );
    }
}
