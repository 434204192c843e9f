//! What was found in the launches of a command, in the forms that `sixwarp check FILE` writes.

use super::CommandArgs;
use super::findings::Findings;
use crate::AnyError;
use crate::check::output::{Outputs, Page};
use filetest::Capture;
use report::{Checked, Finding, Report, Schedule, Sources, Timeline};
use sim::{Options, Rule};
use std::path::{Path, PathBuf};

/// Where things are that reports are made of.
pub struct Reports<'a> {
    /// The command.
    pub args: &'a CommandArgs,
    /// The folder of findings and saved launches.
    pub folder: &'a Path,
    /// What is to be written.
    pub outputs: &'a Outputs,
}

impl Reports<'_> {
    /// Writes what was asked for; `sources` are folders in which source files may be.
    pub fn write(&self, findings: &Findings, sources: Vec<PathBuf>) -> Result<(), AnyError> {
        let mut sources = Sources::new(sources);
        let (mut report, mut pages): (Report, Vec<Page>) = Default::default();
        for (checked, launch) in findings.each() {
            let saved = launch.map(|launch| self.folder.join(launch));
            let checked = self.complete(checked.clone(), saved.as_deref(), &mut sources);
            let page_source = saved.as_deref().unwrap_or(Path::new(""));
            pages.extend(self.outputs.pages(&checked, page_source, false));
            report.checked.push(checked);
        }
        for kernel in findings.clean_kernels() {
            let kernel = Some(kernel.to_owned());
            let schedules = self.schedules();
            report.checked.push(Checked { kernel, schedules, ..self.of_command() });
        }
        for page in self.outputs.write_files(&report, &pages)?.1 {
            eprintln!("sixwarp: page: {}", page.display());
        }
        Ok(())
    }

    /// Adds what the stand-in does not know: paths, lines of source files, and timelines.
    fn complete(&self, found: Checked, saved: Option<&Path>, sources: &mut Sources) -> Checked {
        // The folder is removed unless it was named.
        let kept = saved.filter(|_| self.args.report.is_some());
        let name = |path: &Path| path.display().to_string();
        let path = kept.map_or_else(|| self.of_command().path, name);
        let ptx = kept.map(|path| name(&path.with_file_name("kernel.ptx")));
        let mut checked = Checked { path, ptx, ..found };
        checked.command = self.of_command().command;
        let replayed = saved.filter(|_| self.outputs.wants_timelines());
        for finding in &mut checked.findings {
            sources.fill(finding);
            finding.timeline = replayed.and_then(|launch| timeline(launch, finding));
        }
        checked
    }

    /// An entry for a launch of the command.
    fn of_command(&self) -> Checked {
        let words: Vec<_> = self.args.command.iter().map(|word| word.to_string_lossy()).collect();
        let path = words.first().map(ToString::to_string).unwrap_or_default();
        Checked { command: Some(words.join(" ")), ..Checked::of(path) }
    }

    /// The schedules that every launch ran in.
    fn schedules(&self) -> Vec<Schedule> {
        let all = self.args.launch_modes.replace("all", "eager,latest,adversarial,random");
        let modes = all.split(',').map(|mode| format!("{}:{}", mode.trim(), self.args.launch_seed));
        modes.filter_map(|schedule| schedule.parse().ok()).collect()
    }
}

/// What the warps of a finding did until then: the launch is run again until its rule is broken. None if that is
/// another place, because the timeline would end too early.
fn timeline(launch: &Path, finding: &Finding) -> Option<Timeline> {
    let prepared = Capture::read(launch).ok()?.load(false).ok()?;
    let others = Rule::ALL.iter().copied().filter(|rule| rule.name() != finding.rule);
    let base = Options { trace: true, allow: others.collect(), ..Options::default() };
    let options = finding.schedule?.options(&base);
    let outcome = sim::outcome(&prepared.program, &prepared.contents, &options);
    let again = report::outcome_of(outcome.error.as_ref()?, finding.schedule?).ok()?;
    let line = |finding: &Finding| finding.place().map(|place| place.ptx_line);
    let is_same = again.iter().any(|found| line(found) == line(finding));
    is_same.then(|| Some(Timeline::of(outcome.report.trace.as_ref()?, finding))).flatten()
}
