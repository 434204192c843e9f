//! Reports for people at a terminal.

use crate::finding::Finding;
use crate::hang::{Arrivals, Barrier, Hang, LastDeed, Waiter};
use crate::place::Place;
use crate::summary::{Allowed, Checked, Report, Unchecked};
use std::fmt::{self, Display, Formatter};

/// Whether escape codes for colours are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// For a terminal.
    Always,
}

impl Colour {
    fn paint(self, code: &str, text: impl Display) -> String {
        match self {
            Colour::Always => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::Never => text.to_string(),
        }
    }
}

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const GREEN: &str = "32";
const CYAN: &str = "36";

impl Report {
    /// The report as text: what was found in each file and launch, and a line that adds it up.
    pub fn to_text(&self, colour: Colour) -> String {
        let mut text: String = self.checked.iter().map(|c| c.to_text(colour)).collect();
        text += &self.summary();
        text.push('\n');
        text
    }

    /// `3 checked: 1 clean, 1 with findings, 1 not checked to the end`.
    pub fn summary(&self) -> String {
        let all = self.checked.len();
        let found = self.checked.iter().filter(|c| !c.findings.is_empty()).count();
        let open = self.checked.iter().filter(|c| c.findings.is_empty() && c.unchecked.is_some());
        let (open, mut parts) = (open.count(), Vec::new());
        parts.push(format!("{} clean", all - found - open));
        if found > 0 {
            parts.push(format!("{found} with findings"));
        }
        if open > 0 {
            parts.push(format!("{open} not checked to the end"));
        }
        format!("{all} checked: {}", parts.join(", "))
    }
}

impl Checked {
    /// What was checked: file, launch and kernel.
    pub fn title(&self) -> String {
        let line = self.run_line.map_or(String::new(), |line| format!(":{line}"));
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_or(String::new(), |k| format!(", kernel `{}`", sim::readable(k)));
        format!("{}{line}{kernel}", self.path)
    }

    fn to_text(&self, colour: Colour) -> String {
        let mut text = format!("{}: {}\n", self.title(), self.verdict(colour));
        for finding in &self.findings {
            text += &finding.to_text(colour);
            if let Some(schedule) = finding.schedule {
                let replay = self.replay(&schedule.to_string());
                text += &format!("   = {}: {replay}\n", colour.paint(CYAN, "replay"));
            }
        }
        if let Some(unchecked) = &self.unchecked {
            text += &format!("{}\n", Colourful(unchecked, colour));
        }
        for Allowed { finding, times } in &self.allowed {
            let first = finding.to_text(Colour::Never);
            text += &format!("allowed, {times} times: {first}");
        }
        self.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
        text
    }

    /// The command that runs a schedule again.
    pub fn replay(&self, schedule: &str) -> String {
        let saved = self.path.ends_with(".json");
        if let Some(command) = self.command.as_ref().filter(|_| !saved) {
            let (mode, seed) = schedule.split_once(':').unwrap_or((schedule, "0"));
            return format!(
                "sixwarp check --launch-modes {mode} --launch-seed {seed} -- {command}"
            );
        }
        let launch = if saved { "--launch " } else { "" };
        let options = if self.options.is_empty() { "" } else { &format!(" {}", self.options) };
        format!("sixwarp check {launch}{}{options} --replay {schedule}", quoted(&self.path))
    }

    fn verdict(&self, colour: Colour) -> String {
        let ran = match self.schedules.len() {
            0 => String::new(),
            1 => " under 1 schedule".into(),
            n => format!(" under {n} schedules"),
        };
        match (self.findings.len(), &self.unchecked) {
            (0, None) if ran.is_empty() => {
                format!("{}: verified, and not run", colour.paint(GREEN, "clean"))
            }
            (0, None) => format!("{}{ran}", colour.paint(GREEN, "clean")),
            (0, Some(_)) => colour.paint(YELLOW, "not checked to the end"),
            (1, _) => format!("{}{ran}", colour.paint(RED, "1 finding")),
            (n, _) => format!("{}{ran}", colour.paint(RED, format_args!("{n} findings"))),
        }
    }
}

/// A word of a command line, with quotes where a shell needs them.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Something and how it is painted.
struct Colourful<'t, T>(&'t T, Colour);

impl Display for Colourful<'_, Unchecked> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Colourful(unchecked, colour) = self;
        match unchecked {
            Unchecked::Unreadable { message } => {
                write!(f, "{}: {message}", colour.paint(RED, "error"))
            }
            Unchecked::Unsupported { message, place } => {
                let word = colour.paint(YELLOW, "unsupported");
                write!(f, "{word}: {message}\n  --> PTX line {}", place.ptx_line)?;
                write!(f, "\n   | {}", place.instruction)?;
                write!(
                    f,
                    "\n   = note: the simulator does not know this; it says nothing about the kernel"
                )
            }
            Unchecked::Limit { message, .. } => f.write_str(message),
        }
    }
}

impl Finding {
    /// The finding as text, without the command that replays it.
    pub fn to_text(&self, colour: Colour) -> String {
        let head = colour.paint(RED, self.name());
        let mut text = format!("{head}: {}\n", self.message);
        match &self.hang {
            Some(hang) => text += &hang_text(self, hang),
            None => self.places.iter().for_each(|place| text += &place_text(place)),
        }
        self.notes.iter().for_each(|note| text += &format!("   = note: {note}\n"));
        let help = colour.paint(CYAN, "help");
        self.remedies.iter().for_each(|remedy| text += &format!("   = {help}: {remedy}\n"));
        text
    }
}

impl Place {
    /// The place that a user should look at: the source line, else the PTX line.
    fn heading(&self) -> String {
        let mut parts = Vec::new();
        match &self.source {
            Some(source) => parts.push(format!("{}:{}", source.file, source.line)),
            None if self.ptx_line > 0 => parts.push(format!("PTX line {}", self.ptx_line)),
            None => {}
        }
        if !self.kernel.is_empty() {
            parts.push(format!("kernel `{}`", sim::readable(&self.kernel)));
        }
        parts.extend(self.thread.map(|thread| thread.to_string()));
        parts.extend(self.cycle.map(|cycle| format!("cycle {cycle}")));
        parts.join(", ")
    }

    /// The source line, where it is known, and the instruction.
    fn excerpt(&self) -> String {
        let mut text = String::new();
        if let Some((line, source)) =
            self.source.as_ref().and_then(|s| Some((s.line, s.text.as_ref()?)))
        {
            text += &format!("{line:>6} | {}\n", source.trim_end());
        }
        let number = match (&self.source, self.ptx_line) {
            (Some(_), line) if line > 0 => format!("PTX line {line}: "),
            _ => String::new(),
        };
        text + &format!("       | {number}{}\n", self.instruction)
    }
}

fn place_text(place: &Place) -> String {
    let role = if place.role.is_empty() { String::new() } else { format!("  {}\n", place.role) };
    let heading = place.heading();
    match heading.is_empty() {
        true => role,
        false => format!("{role}  --> {heading}\n{}", place.excerpt()),
    }
}

fn hang_text(finding: &Finding, hang: &Hang) -> String {
    let waits = hang.waiters.len();
    let origin = finding.places.len().saturating_sub(waits);
    let mut text: String = finding.places.iter().take(origin).map(place_text).collect();
    hang.waiters.iter().for_each(|waiter| text += &waiter_text(waiter));
    hang.barriers.iter().for_each(|barrier| text += &barrier_text(barrier));
    if hang.unlisted > 0 {
        text += &format!("   = note: {} more kinds of waiters are not listed\n", hang.unlisted);
    }
    hang.last_deeds.iter().for_each(|deed| text += &deed_text(deed));
    text
}

fn waiter_text(Waiter { place, count, warps, awaits }: &Waiter) -> String {
    let wait = if *count == 1 { "warp waits" } else { "warps wait" };
    let place = Place { thread: None, ..place.clone() };
    let (heading, excerpt) = (place.heading(), place.excerpt());
    format!("  {count} {wait} for {awaits}: {warps}\n  --> {heading}\n{excerpt}")
}

fn barrier_text(barrier: &Barrier) -> String {
    let Barrier { name, phase, arrived, expected, missing_bytes, .. } = barrier;
    let bytes = match missing_bytes {
        0 => String::new(),
        n if *n > 0 => format!(", and {n} announced bytes have not come"),
        n => format!(", and {} bytes more came than were announced", -n),
    };
    let mut text = format!(
        "  mbarrier {name}: phase {phase} has {arrived} of {expected} arrivals{bytes}; initialised at {}\n",
        short(&barrier.initialised)
    );
    if barrier.arrivals.is_empty() {
        text += "       | no warp has arrived at it so far\n";
    }
    barrier.arrivals.iter().for_each(|arrivals| text += &arrivals_text(arrivals));
    if barrier.unlisted > 0 {
        text += &format!("       | {} more kinds of arrivals are not listed\n", barrier.unlisted);
    }
    text
}

fn arrivals_text(arrivals: &Arrivals) -> String {
    let Arrivals { warps, place, count, phases, last_phase, exited } = arrivals;
    let (s, p) = (plural(*count as u64), plural(*phases));
    let exited = if *exited { ", and exited since" } else { "" };
    format!(
        "       | {warps} arrived {count} time{s} in {phases} phase{p}, last in phase {last_phase}{}, at {}{exited}\n",
        at_cycle(place),
        short(place)
    )
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn at_cycle(place: &Place) -> String {
    place.cycle.map_or(String::new(), |cycle| format!(" (cycle {cycle})"))
}

/// `file.py:7`, or `PTX line 7`.
fn short(place: &Place) -> String {
    let ptx = format!("PTX line {}", place.ptx_line);
    place.source.as_ref().map_or(ptx, |source| format!("{}:{}", source.file, source.line))
}

fn deed_text(LastDeed { warps, exited, place }: &LastDeed) -> String {
    let now = if *exited { "exited" } else { "in a wait" };
    let (at, cycle) = (short(place), at_cycle(place));
    format!("  {warps}, now {now}, last did this{cycle}, at {at}\n       | {}\n", place.instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("a/b.ptx"), "a/b.ptx");
        assert_eq!(quoted("my kernel's.ptx"), "'my kernel'\\''s.ptx'");
    }
}
