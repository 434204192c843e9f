//! What the stand-in has written.

use crate::AnyError;
use report::Checked;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// A finding, as far as the summary needs it.
#[derive(Deserialize)]
struct Finding {
    kind: String,
    rule: String,
    kernel: String,
    times: u64,
    sites: Vec<Site>,
    launch: Option<String>,
    #[serde(default)]
    checked: Checked,
}

#[derive(Deserialize)]
struct Site {
    file: Option<String>,
    line: Option<u32>,
    ptx_line: u32,
}

/// What a process did in all.
#[derive(Deserialize)]
struct Process {
    launches: u64,
    unfinished: u64,
    #[serde(default)]
    kernels: BTreeMap<String, u64>,
}

/// Everything in a folder of reports.
#[derive(Default)]
pub struct Findings {
    found: BTreeMap<String, Finding>,
    kernels: BTreeSet<String>,
    launches: u64,
    unfinished: u64,
}

impl Findings {
    /// Reads a folder.
    pub fn read(folder: &Path) -> Result<Findings, AnyError> {
        let mut findings = Findings::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix(".json") else { continue };
            let text = std::fs::read_to_string(&path)?;
            if name.ends_with("-summary") {
                let process: Process = serde_json::from_str(&text)?;
                findings.launches += process.launches;
                findings.unfinished += process.unfinished;
                findings.kernels.extend(process.kernels.into_keys());
            } else {
                findings.found.insert(name.to_owned(), serde_json::from_str(&text)?);
            }
        }
        Ok(findings)
    }

    /// Mistakes of kernels.
    pub fn wrong(&self) -> usize {
        self.found.values().filter(|finding| !finding.is_unchecked()).count()
    }

    /// Launches that could not be checked to their end, by kind.
    pub fn unchecked(&self) -> u64 {
        let found = self.found.values().filter(|finding| finding.is_unchecked()).count();
        found as u64 + self.unfinished
    }

    /// Each finding with the launch that was saved for it, in the order of their names.
    pub fn each(&self) -> impl Iterator<Item = (&Checked, Option<&str>)> {
        self.found.values().map(|finding| (&finding.checked, finding.launch.as_deref()))
    }

    /// Kernels that were launched and in which nothing was found.
    pub fn clean_kernels(&self) -> impl Iterator<Item = &str> {
        let is_clean = |kernel: &&String| self.found.values().all(|found| found.kernel != **kernel);
        self.kernels.iter().filter(is_clean).map(String::as_str)
    }

    /// One line per finding, and how many launches there were.
    pub fn summary(&self, folder: Option<&Path>) -> String {
        let mut text = String::new();
        for (name, finding) in &self.found {
            // Writing to a string does not fail.
            let _ = writeln!(text, "sixwarp: {}", finding.line());
            if let (Some(folder), Some(launch)) = (folder, &finding.launch) {
                let path = folder.join(launch);
                let _ = writeln!(text, "         again: sixwarp sim --launch {}", path.display());
            } else if let Some(folder) = folder {
                let _ = writeln!(text, "         {}", folder.join(name).display());
            }
        }
        let (launches, wrong) = (self.launches, self.wrong());
        let _ = match launches {
            0 => {
                writeln!(text, "sixwarp: the command launched nothing through the CUDA driver API")
            }
            _ => writeln!(
                text,
                "sixwarp: {} checked, {}",
                counted(launches, "launch", "launches"),
                counted(wrong as u64, "finding", "findings")
            ),
        };
        if self.unchecked() > 0 {
            let unchecked = counted(self.unchecked(), "launch was", "launches were");
            let _ = writeln!(text, "sixwarp: {unchecked} not checked to the end");
        }
        text
    }
}

impl Finding {
    /// Whether it says more about the simulator than about the kernel.
    fn is_unchecked(&self) -> bool {
        matches!(self.kind.as_str(), "unsupported" | "stopped")
    }

    fn line(&self) -> String {
        let Finding { kind, rule, kernel, times, .. } = self;
        let rule = if rule.is_empty() { kind.clone() } else { format!("{kind}[{rule}]") };
        let place = match self.sites.first() {
            Some(Site { file: Some(file), line: Some(line), .. }) => format!(" at {file}:{line}"),
            Some(Site { ptx_line, .. }) => format!(" at PTX line {ptx_line}"),
            None => String::new(),
        };
        format!("{rule} in kernel `{kernel}`{place}, {}", counted(*times, "time", "times"))
    }
}

/// A number and its noun.
fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_all_processes_are_summed_up() {
        let folder = files::Scratch::new().unwrap();
        let race = r#"{"kind": "hazard", "rule": "race", "kernel": "k", "times": 3, "launch": "7-0001/launch.json",
            "sites": [{"file": "a.py", "line": 5, "ptx_line": 40}]}"#;
        let unknown = r#"{"kind": "unsupported", "rule": "", "kernel": "m", "times": 1, "launch": null, "sites": []}"#;
        std::fs::write(folder.file("7-0001.json"), race).unwrap();
        std::fs::write(folder.file("8-0001.json"), unknown).unwrap();
        for name in ["7-summary.json", "8-summary.json"] {
            std::fs::write(folder.file(name), r#"{"launches": 4, "unfinished": 0}"#).unwrap();
        }
        let findings = Findings::read(folder.path()).unwrap();
        assert_eq!((findings.wrong(), findings.unchecked(), findings.launches), (1, 1, 8));
        let text = findings.summary(Some(Path::new("out")));
        assert!(text.contains("hazard[race] in kernel `k` at a.py:5, 3 times"), "{text}");
        assert!(text.contains("again: sixwarp sim --launch out/7-0001/launch.json"), "{text}");
        assert!(text.contains("1 launch was not checked to the end"), "{text}");
        assert!(text.contains("8 launches checked, 1 finding\n"), "{text}");
    }
}
