//! A file that is checked: PTX, or a captured launch.

use super::options::Options;
use super::progress::Progress;
use filetest::{Capture, FileTest, Prepared};
use report::{
    Allowed, Checked, Finding, Launch, Schedule, Timeline, Unchecked, outcome_of, search,
};
use std::path::{Path, PathBuf};

/// A file that is checked.
pub enum Subject {
    /// A PTX file.
    Ptx(PathBuf),
    /// A captured launch.
    Capture(PathBuf),
}

/// Notes of a launch that are reported.
const MOST_NOTES: usize = 20;

impl Subject {
    /// The file that `path` names, or those in the folder: every PTX file and every `launch.json`, by name.
    pub fn under(path: &Path) -> Result<Vec<Subject>, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        if !std::fs::metadata(path).map_err(wrong)?.is_dir() {
            return Ok(vec![Subject::of(path)]);
        }
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(wrong)? {
            entries.push(entry.map_err(wrong)?.path());
        }
        entries.sort();
        let mut subjects = Vec::new();
        for entry in entries {
            let is_link = entry.is_symlink();
            if entry.is_dir() && !is_link {
                subjects.extend(Subject::under(&entry)?);
            } else if is_subject(&entry) {
                subjects.push(Subject::of(&entry));
            }
        }
        Ok(subjects)
    }

    fn of(path: &Path) -> Subject {
        match path.extension().is_some_and(|ending| ending == "json") {
            true => Subject::Capture(path.to_owned()),
            false => Subject::Ptx(path.to_owned()),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Subject::Ptx(path) | Subject::Capture(path) => path,
        }
    }

    /// Checks it: one entry per launch.
    pub fn check(&self, options: &Options) -> Vec<Checked> {
        let path = self.path().display().to_string();
        let start = Checked { options: options.again.clone(), ..Checked::of(path) };
        match self {
            Subject::Ptx(path) => check_ptx(path, start, options),
            Subject::Capture(path) => vec![check_capture(path, start, options)],
        }
    }
}

/// Whether a file of a folder is meant.
fn is_subject(path: &Path) -> bool {
    let ptx = path.extension().is_some_and(|ending| ending == "ptx");
    // The PTX of a captured launch is checked with the launch.
    let captured = path.ends_with("kernel.ptx") && path.with_file_name("launch.json").exists();
    ptx && !captured || path.file_name().is_some_and(|name| name == "launch.json")
}

fn unreadable(start: Checked, error: impl std::fmt::Display) -> Checked {
    let message = crate::output::readable(&error.to_string());
    Checked { unchecked: Some(Unchecked::Unreadable { message }), ..start }
}

fn check_ptx(path: &Path, start: Checked, options: &Options) -> Vec<Checked> {
    let text = match read_ptx(path) {
        Ok(text) => text,
        Err(error) => return vec![unreadable(start, error)],
    };
    let (module, findings) = report::verify(&text);
    if module.is_none() || options.verifies && !findings.is_empty() {
        return vec![Checked { findings, ..start }];
    }
    let own = text.contains("// run:");
    if !own && options.kernel.is_empty() {
        let note = "no launch is known, so nothing ran: give one by options (--block, --arg) or at the head of the \
                    file (`// run:`)";
        return vec![Checked { notes: vec![note.into()], ..start }];
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let test = match own && options.kernel.is_empty() {
        true => FileTest::parse(&name, &text),
        false => options.kernel.file_test(&name, &text),
    };
    match test {
        Ok(test) => check_runs(&test, &start, options),
        Err(error) => vec![unreadable(start, error)],
    }
}

/// The text of a PTX file.
fn read_ptx(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let get = "`cuobjdump --dump-ptx` takes PTX out of a program that has it";
    match &bytes[..] {
        [0x7f, b'E', b'L', b'F', ..] => Err(format!("this is machine code (ELF), not PTX: {get}")),
        // The header of a fat binary, in memory order.
        [0x50, 0xed, 0x55, 0xba, ..] => Err(format!("this is a fat binary, not PTX: {get}")),
        _ => String::from_utf8(bytes).map_err(|_| "this is no text, so it is no PTX".to_owned()),
    }
}

fn check_runs(test: &FileTest, start: &Checked, options: &Options) -> Vec<Checked> {
    let several = test.runs.len() > 1;
    let check = |run: &filetest::Run| {
        let run_line = several.then_some(run.line);
        let start = Checked { run_line, ..start.clone() };
        if let Err(error) = run.check_memory(&options.simulator.limits) {
            return unreadable(start, error);
        }
        match test.prepare(run) {
            Ok(prepared) => check_launch(&prepared, start, options),
            Err(error) => unreadable(start, error),
        }
    };
    test.runs.iter().map(check).collect()
}

fn check_capture(path: &Path, start: Checked, options: &Options) -> Checked {
    let capture = match Capture::read(path) {
        Ok(capture) => capture,
        Err(error) => return unreadable(start, error),
    };
    if let Err(error) = capture.check_memory(&options.simulator.limits) {
        return unreadable(start, error);
    }
    let ptx = capture.ptx_path(options.any_path).ok().map(|path| path.display().to_string());
    let start = Checked { ptx, ..start };
    match capture.load(options.any_path) {
        Ok(prepared) => {
            let violations = ptx::verify(&prepared.program.module);
            match options.verifies && !violations.is_empty() {
                true => {
                    Checked { findings: violations.iter().map(Finding::from).collect(), ..start }
                }
                false => check_launch(&prepared, start, options),
            }
        }
        Err(error) => unreadable(start, error),
    }
}

/// Runs a launch under all schedules, until the first that fails.
fn check_launch(prepared: &Prepared, start: Checked, options: &Options) -> Checked {
    let Prepared { program, contents, .. } = prepared;
    let kernel = program.launches.first().map(|launch| launch.kernel.clone());
    let mut checked = Checked { kernel, ..start };
    let launch = Launch { program, contents };
    let progress = Progress::new(&checked.title(), options.schedules.len());
    let searched = search(launch, &options.schedules, &options.simulator, options.threads, &|n| {
        progress.ended(n);
    });
    progress.clear();
    for (schedule, outcome) in &searched.outcomes {
        checked.schedules.push(*schedule);
        add_allowed(&mut checked.allowed, &outcome.report.allowed, *schedule);
        for note in &outcome.report.notes {
            if checked.notes.len() < MOST_NOTES && !checked.notes.contains(note) {
                checked.notes.push(note.clone());
            }
        }
    }
    if let Some((schedule, error)) = searched.failure() {
        match outcome_of(error, schedule) {
            Ok(findings) => checked.findings = findings,
            Err(unchecked) => checked.unchecked = Some(unchecked),
        }
        if options.timelines {
            add_timelines(&mut checked.findings, launch, schedule, options);
        }
    }
    checked
}

fn add_allowed(allowed: &mut Vec<Allowed>, more: &[sim::Allowed], schedule: Schedule) {
    let lines =
        |finding: &Finding| finding.places.iter().map(|place| place.ptx_line).collect::<Vec<_>>();
    for new in more.iter().map(|more| Allowed::of(more, schedule)) {
        let same = |old: &Allowed| {
            old.finding.rule == new.finding.rule && lines(&old.finding) == lines(&new.finding)
        };
        if !allowed.iter().any(same) {
            allowed.push(new);
        }
    }
}

/// Runs a schedule once more, and keeps what the warps of its findings did.
fn add_timelines(
    findings: &mut [Finding],
    launch: Launch<'_>,
    schedule: Schedule,
    options: &Options,
) {
    let traced = sim::Options { trace: true, ..schedule.options(&options.simulator) };
    let outcome = sim::outcome(launch.program, launch.contents, &traced);
    let Some(trace) = outcome.report.trace else { return };
    for finding in findings {
        finding.timeline = Some(Timeline::of(&trace, finding));
    }
}
