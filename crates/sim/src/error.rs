//! What can go wrong, and how it is told.
//!
//! A program's own error ([`Fault`]), an ordering the hardware does not promise ([`Hazard`]), a
//! machine that cannot go on ([`Deadlock`]) and something this simulator does not know
//! ([`Unsupported`]) are different types. Each names the PTX line, the rule and what to do.

use crate::demangle::readable;
use crate::hang::Deadlock;
use crate::rules::Rule;
use program::Violation;
use std::fmt::{self, Display, Formatter};

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The program breaks rules that no GPU lets pass.
    Invalid(Vec<Violation>),
    /// The module, launch or buffers do not fit together.
    Load(String),
    /// An instruction or form the simulator does not model.
    Unsupported(Unsupported),
    /// The program broke a rule.
    Fault(Box<Fault>),
    /// The program relies on an order nothing guarantees.
    Hazard(Box<Hazard>),
    /// No warp can go on.
    Deadlock(Box<Deadlock>),
    /// A launch took too long.
    Stopped(Box<Stopped>),
}

impl Error {
    /// `load`, `unsupported`, `fault`, `hazard`, `deadlock` or `stopped`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Invalid(_) | Error::Load(_) => "load",
            Error::Unsupported(_) => "unsupported",
            Error::Fault(_) => "fault",
            Error::Hazard(_) => "hazard",
            Error::Deadlock(_) => "deadlock",
            Error::Stopped(_) => "stopped",
        }
    }

    /// The PTX line to look at, where there is one.
    pub fn line(&self) -> Option<u32> {
        match self {
            Error::Invalid(_) | Error::Load(_) => None,
            Error::Unsupported(unsupported) => Some(unsupported.line),
            Error::Fault(fault) => Some(fault.site.line),
            Error::Hazard(hazard) => Some(hazard.site.line),
            Error::Deadlock(deadlock) => {
                let waits = deadlock.waiting.first().map(|waiting| &waiting.site);
                deadlock.origin.as_ref().or(waits).map(|site| site.line)
            }
            Error::Stopped(stopped) => stopped.running.first().map(|r| r.site.line),
        }
    }

    /// The short name of the rule broken, where there is one.
    pub fn rule(&self) -> &'static str {
        match self {
            Error::Invalid(_) | Error::Load(_) | Error::Unsupported(_) => "",
            Error::Fault(fault) => fault.rule,
            Error::Hazard(hazard) => hazard.rule.name(),
            Error::Deadlock(_) => "deadlock",
            Error::Stopped(_) => "limit",
        }
    }
}

/// An instruction the simulator does not model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The instruction.
    pub instruction: String,
    /// PTX line, 0 if unknown.
    pub line: u32,
    /// What exactly.
    pub reason: String,
}

/// A place in the program, and who was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Kernel.
    pub kernel: String,
    /// The instruction.
    pub instruction: String,
    /// PTX line, 0 if unknown.
    pub line: u32,
    /// Source file and line, where the PTX has `.loc`.
    pub loc: Option<(String, u32)>,
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Warp in the CTA.
    pub warp: u32,
    /// Lane, where one is to blame.
    pub lane: Option<u32>,
    /// Simulated cycle at which it was there, where that is known.
    pub cycle: Option<u64>,
}

impl Site {
    /// Whether another one is the same instruction, whoever executes it.
    pub(crate) fn is_place_of(&self, other: &Site) -> bool {
        (self.line, &self.instruction) == (other.line, &other.instruction)
    }
}

/// The program broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Short name of the rule (`out-of-bounds`).
    pub rule: &'static str,
    /// What happened.
    pub message: String,
    /// Where.
    pub site: Site,
    /// What to do.
    pub help: Option<String>,
    /// Whether a run goes on from it where [`crate::Options::allow`] lists its rule.
    pub survivable: bool,
}

/// The program relies on an order nothing guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// The rule that was broken.
    pub rule: Rule,
    /// What happened.
    pub message: String,
    /// The later of the two operations.
    pub site: Site,
    /// The earlier one.
    pub other: Option<(String, Site)>,
    /// What to do.
    pub help: Option<String>,
}

/// A broken rule from which a run can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The program broke a rule.
    Fault(Box<Fault>),
    /// The program relies on an order nothing guarantees.
    Hazard(Box<Hazard>),
}

impl Finding {
    /// The short name of the rule.
    pub fn rule(&self) -> &'static str {
        match self {
            Finding::Fault(fault) => fault.rule,
            Finding::Hazard(hazard) => hazard.rule.name(),
        }
    }

    /// Where; of a hazard's two operations the later one.
    pub fn site(&self) -> &Site {
        match self {
            Finding::Fault(fault) => &fault.site,
            Finding::Hazard(hazard) => &hazard.site,
        }
    }

    fn other(&self) -> Option<&Site> {
        match self {
            Finding::Fault(_) => None,
            Finding::Hazard(hazard) => hazard.other.as_ref().map(|(_, site)| site),
        }
    }

    /// Whether another one breaks the same rule in the same place or places.
    pub(crate) fn is_at(&self, other: &Finding) -> bool {
        self.rule() == other.rule()
            && self.site().is_place_of(other.site())
            && match (self.other(), other.other()) {
                (Some(mine), Some(theirs)) => mine.is_place_of(theirs),
                (mine, theirs) => mine.is_none() && theirs.is_none(),
            }
    }
}

impl From<Finding> for Error {
    fn from(finding: Finding) -> Error {
        match finding {
            Finding::Fault(fault) => Error::Fault(fault),
            Finding::Hazard(hazard) => Error::Hazard(hazard),
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Fault(fault) => fault.fmt(f),
            Finding::Hazard(hazard) => hazard.fmt(f),
        }
    }
}

/// Warps of a launch that took too long, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Where they are: the first instruction of the innermost loop, and the first of the warps.
    pub site: Site,
    /// PTX line and source line of the loop's last instruction, if they are in a loop.
    pub last: Option<(u32, Option<(String, u32)>)>,
    /// Whether they wait there for others.
    pub waits: bool,
    /// Who they are: `CTA (0,0,0) warps 0 to 3`.
    pub warps: String,
}

/// A launch took too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The limit that it reached.
    pub reason: String,
    /// Where the warps of a cluster were.
    pub running: Vec<Running>,
    /// Further places that are not listed.
    pub unlisted: usize,
}

impl From<Unsupported> for Error {
    fn from(unsupported: Unsupported) -> Error {
        Error::Unsupported(unsupported)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(violations) => {
                let lines: Vec<_> = violations.iter().map(|v| format!("error: {v}")).collect();
                f.write_str(&lines.join("\n"))
            }
            Error::Load(message) => write!(f, "error: {message}"),
            Error::Unsupported(unsupported) => unsupported.fmt(f),
            Error::Fault(fault) if !fault.survivable => fault.fmt(f),
            Error::Fault(fault) => write!(f, "{fault}{}", AllowNote(fault.rule)),
            Error::Hazard(hazard) => write!(f, "{hazard}{}", AllowNote(hazard.rule.name())),
            Error::Deadlock(deadlock) => deadlock.fmt(f),
            Error::Stopped(stopped) => stopped.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl Display for Unsupported {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "unsupported: {}", self.reason)?;
        writeln!(f, "  --> PTX line {}", self.line)?;
        write!(f, "   | {}", self.instruction)
    }
}

impl Display for Site {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        write!(f, "{}, CTA ({x},{y},{z}) warp {}", Place(self), self.warp)?;
        if let Some(lane) = self.lane {
            write!(f, " lane {lane}")?;
        }
        write!(f, "\n   | {}", self.instruction)
    }
}

/// A site without those who were there.
pub(crate) struct Place<'s>(pub(crate) &'s Site);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Site { kernel, line, loc, .. } = self.0;
        write!(f, "kernel `{}`", readable(kernel))?;
        if *line > 0 {
            write!(f, ", PTX line {line}")?;
        }
        if let Some((file, line)) = loc {
            write!(f, " ({file}:{line})")?;
        }
        Ok(())
    }
}

/// How a run goes on in spite of a broken rule.
struct AllowNote(&'static str);

impl Display for AllowNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\n   = note: `--allow {}` lets it pass", self.0)
    }
}

fn help(f: &mut Formatter<'_>, help: Option<&String>) -> fmt::Result {
    help.map_or(Ok(()), |help| write!(f, "\n   = help: {help}"))
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "fault[{}]: {}\n  --> {}", self.rule, self.message, self.site)?;
        help(f, self.help.as_ref())
    }
}

impl Display for Hazard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "hazard[{}]: {}\n  --> {}", self.rule, self.message, self.site)?;
        if let Some((what, site)) = &self.other {
            write!(f, "\n  {what}\n  --> {site}")?;
        }
        help(f, self.help.as_ref())
    }
}

impl Display for Running {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Site { kernel, line, loc, instruction, .. } = &self.site;
        let what = match (&self.last, self.waits) {
            (_, true) => "waiting",
            (Some(_), false) => "in a loop",
            (None, false) => "running",
        };
        let kernel = readable(kernel);
        write!(f, "{what}: {}\n  --> kernel `{kernel}`, PTX line {line}", self.warps)?;
        if let Some((last, _)) = &self.last {
            write!(f, " to {last}")?;
        }
        if let Some((file, line)) = loc {
            write!(f, " ({file}:{line}")?;
            match self.last.as_ref().and_then(|(_, last)| last.as_ref()) {
                Some((end, last)) if end == file && last != line => write!(f, " to {last})")?,
                Some((end, last)) if end != file => write!(f, " to {end}:{last})")?,
                _ => write!(f, ")")?,
            }
        }
        write!(f, "\n   | {instruction}")
    }
}

impl Display for Stopped {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "stopped: {}, and has not ended", self.reason)?;
        for running in &self.running {
            write!(f, "\n  {running}")?;
        }
        if self.unlisted > 0 {
            write!(f, "\n   = note: {} more places are not listed", self.unlisted)?;
        }
        write!(
            f,
            "\n   = help: look for a loop whose condition never changes; a launch that is only long needs a \
                   higher limit"
        )
    }
}
