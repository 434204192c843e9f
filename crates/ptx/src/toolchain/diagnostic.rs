//! Errors of an assembler (`ptxas` or the driver's JIT), tied back to what was emitted.
//!
//! Both print `ptxas <file>, line 11; error   : <message>`. The line is one of the PTX text; the
//! closest `.loc` before it, with the module's `.file`s, names the line of Rust that emitted it.

use crate::excerpt::beginning;
use std::fmt;

/// One message of an assembler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The message.
    pub message: String,
    /// Line of the PTX text, from 1.
    pub line: Option<u32>,
    /// That line's text, or the beginning of a long one's.
    pub text: Option<String>,
    /// What emitted it.
    pub source: Option<SourceLine>,
}

/// A line of the code that emitted an instruction, as `.loc` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Path, as `.file` has it.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "PTX line {line}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(text) = &self.text {
            write!(f, ": `{text}`")?;
        }
        match &self.source {
            Some(source) => write!(f, " (emitted at {}:{})", source.path, source.line),
            None => Ok(()),
        }
    }
}

impl Diagnostic {
    /// The errors in an assembler's log about the module `ptx`.
    ///
    /// The closing "aborted due to errors" is left out unless it is all there is.
    pub fn errors(log: &str, ptx: &str) -> Vec<Diagnostic> {
        let is_error = |line: &&str| line.contains("error   :") || line.contains("fatal   :");
        let all: Vec<Diagnostic> =
            log.lines().filter(is_error).map(|line| diagnostic(line, ptx)).collect();
        let summary = |d: &Diagnostic| d.message.ends_with("aborted due to errors");
        let nothing_else = all.iter().all(summary);
        all.into_iter().filter(|d| nothing_else || !summary(d)).collect()
    }
}

fn diagnostic(entry: &str, ptx: &str) -> Diagnostic {
    let message = entry.split_once("   : ").map_or(entry, |(_, message)| message).trim();
    let line = entry.split_once(", line ").and_then(|(_, rest)| {
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    });
    let text = line.and_then(|n| ptx.lines().nth((n as usize).checked_sub(1)?));
    let text = text.map(|t| beginning(t.trim()).into_owned());
    let source = line.and_then(|n| SourceLine::of(ptx, n));
    Diagnostic { message: message.into(), line, text, source }
}

impl SourceLine {
    /// What emitted line `line` (from 1) of the PTX text `ptx`.
    ///
    /// ```
    /// let ptx = ".file 1 \"src/kernel.rs\"\n.loc 1 42 9\nadd.f32 %f1, %f2, %f3;\n";
    /// let source = sixwarp_ptx::toolchain::SourceLine::of(ptx, 3).unwrap();
    /// assert_eq!((source.path.as_str(), source.line), ("src/kernel.rs", 42));
    /// ```
    pub fn of(ptx: &str, line: u32) -> Option<SourceLine> {
        let upto: Vec<&str> = ptx.lines().take(line as usize).collect();
        let closest = upto.iter().rev().take_while(|l| !l.contains(".entry"));
        let loc = closest.map(|l| l.trim()).find_map(|l| l.strip_prefix(".loc"))?;
        let mut numbers = loc.split_whitespace();
        let file = numbers.next()?;
        let line = numbers.next()?.parse().ok()?;
        Some(SourceLine { path: file_path(ptx, file)?, line })
    }
}

/// The path of `.file index "path"`.
fn file_path(ptx: &str, index: &str) -> Option<String> {
    let directives = ptx.lines().filter_map(|line| line.trim().strip_prefix(".file"));
    directives.map(str::trim).find_map(|rest| {
        let (number, path) = rest.split_once(char::is_whitespace)?;
        (number == index).then(|| path.split('"').nth(1).map(str::to_string))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_stays_only_when_alone() {
        let only = Diagnostic::errors("ptxas fatal   : Ptx assembly aborted due to errors", "");
        assert_eq!(only.len(), 1);
        let log = "ptxas k.ptx, line 1; error   : Unknown symbol '%x'\n\
                   ptxas fatal   : Ptx assembly aborted due to errors\n";
        let both = Diagnostic::errors(log, "mov.u32 %x, 1;");
        assert_eq!(both.len(), 1);
        assert_eq!(both[0].to_string(), "PTX line 1: Unknown symbol '%x': `mov.u32 %x, 1;`");
    }

    #[test]
    fn a_line_of_another_kernel_is_not_blamed() {
        let ptx = ".file 1 \"a.rs\"\n.loc 1 7 0\nret;\n.visible .entry k()\n{\nret;\n}";
        assert_eq!(SourceLine::of(ptx, 3).map(|s| s.line), Some(7));
        assert_eq!(SourceLine::of(ptx, 6), None);
    }
}
