//! What is wrong with launches: told once on the terminal, written once to a folder, counted every time.

mod finding;
mod json;
mod save;
mod source;

pub use finding::Finding;
pub use save::Launch;

use crate::settings::settings;
use sim::Outcome;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Collects findings.
pub struct Reporter {
    /// Where they are written to.
    folder: Option<PathBuf>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Launches that were run.
    launches: u64,
    /// How many there were of each kernel.
    kernels: BTreeMap<String, u64>,
    /// What was found, each once, in the order of its first time.
    findings: Vec<Finding>,
    /// Warp instructions of all launches.
    instructions: u64,
    /// When the counts were last written.
    written: Option<Instant>,
}

/// How often the counts are written: a program may end without saying so.
const EVERY: Duration = Duration::from_secs(1);

impl Reporter {
    /// Nothing found yet.
    pub fn new(folder: Option<PathBuf>) -> Reporter {
        Reporter { folder, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes note of a launch before it runs, and saves it if it was asked for.
    pub fn begin(&self, launch: &Launch) {
        let mut found = self.found();
        found.launches += 1;
        let (number, name) = (found.launches, &launch.launch.kernel);
        *found.kernels.entry(name.clone()).or_default() += 1;
        if settings().verbose {
            eprintln!("sixwarp: launch {number}, `{name}`: {}", launch.launch.shape());
        }
        if settings().launches.includes(number, name) {
            self.save(launch, &format!("{}-launch-{number:04}", std::process::id()));
        }
    }

    /// Saves a launch in a folder of this name; the file that describes it, if it was saved.
    fn save(&self, launch: &Launch, name: &str) -> Option<String> {
        let folder = self.folder.as_ref()?.join(name);
        match launch.save(&folder, settings().save_bytes) {
            Ok(saved) => saved.then(|| format!("{name}/launch.json")),
            Err(error) => {
                eprintln!("sixwarp: the launch cannot be saved: {error}");
                None
            }
        }
    }

    /// Takes what a launch gave in a mode; `is_first` for the first mode.
    pub fn take(&self, launch: &Launch, is_first: bool, mode: (&str, u64), outcome: &Outcome) {
        let mut found = self.found();
        found.instructions += outcome.report.counters.instructions;
        let number = found.launches;
        if is_first {
            print_notes(&outcome.report.notes);
        }
        for finding in Finding::of(outcome, &launch.launch.kernel, number, mode) {
            match found.findings.iter().position(|known| known.is_same(&finding)) {
                Some(known) => found.findings[known].add(&finding),
                None => self.keep(&mut found, launch, finding),
            }
        }
        if found.written.is_none_or(|at| at.elapsed() > EVERY) {
            found.written = Some(Instant::now());
            self.write_summary(&found, 0);
        }
    }

    fn write_summary(&self, found: &Found, unfinished: u64) {
        let name = format!("{}-summary.json", std::process::id());
        let Found { kernels, instructions, findings, .. } = found;
        self.write(&name, &json::summary(kernels, findings.len(), *instructions, unfinished));
    }

    fn keep(&self, found: &mut Found, launch: &Launch, mut finding: Finding) {
        let name = format!("{}-{:04}", std::process::id(), found.findings.len() + 1);
        finding.name = name.clone();
        eprintln!("{finding}");
        if self.folder.is_some() {
            let earlier = found.findings.iter().rfind(|f| f.first_launch == finding.first_launch);
            finding.launch = match earlier {
                Some(earlier) => earlier.launch.clone(),
                None => self.save(launch, &name),
            };
            self.write(&format!("{name}.json"), &json::finding(&finding));
        }
        found.findings.push(finding);
    }

    fn write(&self, name: &str, value: &serde_json::Value) {
        let Some(folder) = &self.folder else { return };
        let path = folder.join(name);
        if let Err(error) = files::write(&path, format!("{value:#}\n")) {
            eprintln!("sixwarp: {error}");
        }
    }

    /// Writes final counts; `unfinished` launches were still queued when the program ended.
    pub fn finish(&self, unfinished: u64) {
        let found = self.found();
        if unfinished > 0 {
            eprintln!(
                "sixwarp: the program ended before {unfinished} jobs of its streams had: they are not checked"
            );
        }
        for finding in found.findings.iter().filter(|finding| finding.times > 1) {
            self.write(&format!("{}.json", finding.name), &json::finding(finding));
        }
        self.write_summary(&found, unfinished);
        let Found { launches, findings, .. } = &*found;
        if self.folder.is_none() && *launches > 0 {
            eprintln!("sixwarp: {launches} launches, {} findings", findings.len());
        }
    }
}

/// What kernels print goes where it goes on a GPU; everything else is told.
fn print_notes(notes: &[String]) {
    for note in notes {
        let printed = note.strip_prefix("printf of ").and_then(|rest| rest.split_once(": "));
        match printed {
            // The simulator leaves the end of the last line out.
            Some((_, text)) => println!("{text}"),
            None => eprintln!("sixwarp: note: {note}"),
        }
    }
    // The buffer is this library's own: the end of the program does not empty it.
    let _ = std::io::stdout().flush();
}
