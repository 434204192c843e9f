//! `sixwarp check`: what is wrong with anyone's kernel.

#[cfg(target_os = "linux")]
mod command;
#[cfg(not(target_os = "linux"))]
#[path = "command_elsewhere.rs"]
mod command;
mod options;
mod output;
mod progress;
mod subject;

use crate::Outcome;
use crate::output::readable;
use options::Options;
use report::Report;
use std::process::exit;

pub use options::Args;

/// Runs the command, and ends the program with the status that says what came out.
pub fn run(args: Args) -> Outcome {
    if args.asks_for_rules() {
        return crate::sim::rules::print();
    }
    let checked = match args.has_command() {
        true => {
            let (command, outputs, sources) = args.into_command();
            command::run(command, &outputs, sources)
        }
        false => check(args),
    };
    match checked {
        Ok(0) => Ok(()),
        Ok(status) => exit(status),
        Err(error) if crate::output::is_closed_pipe(error.as_ref()) => Ok(()),
        Err(error) => {
            eprintln!("sixwarp: {}", readable(&error.to_string()));
            exit(2)
        }
    }
}

/// Checks everything that was named; the exit status.
fn check(args: Args) -> Result<i32, crate::AnyError> {
    let (options, outputs) = args.split()?;
    let mut report = Report::default();
    let mut pages = Vec::new();
    for subject in options.subjects()? {
        for mut checked in subject.check(&options) {
            options.fill_sources(&mut checked, subject.path());
            pages.extend(outputs.pages(&checked, subject.path(), options.any_path));
            report.checked.push(checked);
        }
    }
    outputs.write(&report, &pages)?;
    Ok(report.exit_code().into())
}

impl Options {
    /// Writes the users' own lines into the places of findings.
    fn fill_sources(&self, checked: &mut report::Checked, path: &std::path::Path) {
        let near = path.parent().map(std::path::Path::to_owned);
        let mut sources = report::Sources::new(self.roots.iter().cloned().chain(near).collect());
        checked.findings.iter_mut().for_each(|finding| sources.fill(finding));
        checked.allowed.iter_mut().for_each(|allowed| sources.fill(&mut allowed.finding));
    }
}
