//! The outcome of a whole check.

use crate::finding::Finding;
use crate::place::Place;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Version of the JSON; it changes when a field changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// Everything that was checked, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// What made it.
    pub tool: Tool,
    /// One entry per file and launch, in the order in which they were named.
    pub checked: Vec<Checked>,
}

/// The program that made a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `sixwarp`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A file or launch that was checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The PTX file or captured launch.
    pub path: String,
    /// The PTX file of a captured launch, where lines of PTX are to be found.
    pub ptx: Option<String>,
    /// The command that made the launch, where one was checked: `python kernel.py`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Options that it was checked with, beside the schedule: `--block 128 --pedantic`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// Which launch of it, where there are several: the line of its `run:` comment.
    pub run_line: Option<usize>,
    /// The kernel that was launched; none if no launch was known.
    pub kernel: Option<String>,
    /// The schedules that ran, up to the first that failed.
    pub schedules: Vec<Schedule>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Why not all of it was checked, where that is so.
    pub unchecked: Option<Unchecked>,
    /// Broken rules that were allowed.
    pub allowed: Vec<Allowed>,
    /// Things worth knowing that are not errors.
    pub notes: Vec<String>,
}

/// Why something could not be checked: not a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Unchecked {
    /// A file that cannot be read, or a launch that does not fit its kernel.
    Unreadable {
        /// What is wrong with it.
        message: String,
    },
    /// An instruction or form that the simulator does not model.
    Unsupported {
        /// What exactly.
        message: String,
        /// Where.
        place: Box<Place>,
    },
    /// A limit of time or instructions was reached before the launch ended.
    Limit {
        /// The limit, and where the warps were.
        message: String,
        /// The schedule that did not end.
        schedule: Option<Schedule>,
    },
}

/// A finding that the command line lets pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// The first of them.
    pub finding: Finding,
    /// How often it happened under the schedule that found it first.
    pub times: u64,
}

impl Default for Report {
    fn default() -> Report {
        let tool = Tool { name: "sixwarp".into(), version: env!("CARGO_PKG_VERSION").into() };
        Report { version: FORMAT_VERSION, tool, checked: Vec::new() }
    }
}

impl Report {
    /// Every finding, and what it was found in.
    pub fn findings(&self) -> impl Iterator<Item = (&Checked, &Finding)> {
        self.checked.iter().flat_map(|checked| checked.findings.iter().map(move |f| (checked, f)))
    }

    /// 1 if something was found; else 2 if something could not be read, 3 if something could not be run to its end,
    /// and 0 if all was checked and clean.
    pub fn exit_code(&self) -> u8 {
        let unchecked = || self.checked.iter().filter_map(|checked| checked.unchecked.as_ref());
        if self.findings().next().is_some() {
            return 1;
        }
        if unchecked().any(|why| matches!(why, Unchecked::Unreadable { .. })) {
            return 2;
        }
        if unchecked().next().is_some() { 3 } else { 0 }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data") + "\n"
    }
}

impl Checked {
    /// Nothing found in a file yet.
    pub fn of(path: impl Into<String>) -> Checked {
        Checked { path: path.into(), ..Checked::default() }
    }
}
