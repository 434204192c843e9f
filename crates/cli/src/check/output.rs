//! Where reports go.

use crate::AnyError;
use crate::output::{print, readable};
use filetest::Capture;
use report::{Checked, Colour, Report};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Where reports go.
#[derive(clap::Args)]
#[command(next_help_heading = "Reports")]
pub struct Outputs {
    /// Writes the report as JSON to a file, or instead of text with `-` (docs/check-ptx.md describes it)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the report as SARIF 2.1.0 to a file, or instead of text with `-`
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Writes a page for each finding into a folder: the accesses, the missing order, the remedy, a timeline
    #[arg(long, value_name = "FOLDER")]
    html: Option<PathBuf>,
}

/// A page about a finding.
pub struct Page {
    /// The rule, for its name.
    rule: String,
    html: String,
}

impl Outputs {
    /// Whether a form other than text is wanted.
    #[cfg(target_os = "linux")]
    pub fn is_asked_for(&self) -> bool {
        self.json.is_some() || self.sarif.is_some() || self.html.is_some()
    }

    /// Whether one of them goes to standard output.
    #[cfg(target_os = "linux")]
    pub fn uses_standard_output(&self) -> bool {
        [&self.json, &self.sarif].into_iter().flatten().any(|path| path == Path::new("-"))
    }

    /// Whether findings should have timelines.
    pub fn wants_timelines(&self) -> bool {
        self.html.is_some()
    }

    /// The pages of what was checked, if pages are wanted.
    pub fn pages(&self, checked: &Checked, path: &Path, any_path: bool) -> Vec<Page> {
        if self.html.is_none() {
            return Vec::new();
        }
        let text = ptx_text(path, any_path);
        let page = |finding: &report::Finding| Page {
            rule: finding.rule.clone(),
            html: checked.to_html(finding, text.as_deref()),
        };
        checked.findings.iter().map(page).collect()
    }

    /// Writes everything that was asked for, and text to the terminal.
    pub fn write(&self, report: &Report, pages: &[Page]) -> Result<(), AnyError> {
        let (is_told, written) = self.write_files(report, pages)?;
        if !is_told {
            let coloured =
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let colour = if coloured { Colour::Always } else { Colour::Never };
            print(&readable(&report.to_text(colour)))?;
            for path in written {
                print(&format!("page: {}\n", path.display()))?;
            }
        }
        Ok(())
    }

    /// Writes the forms that were asked for; whether one went to standard output, and the pages.
    pub fn write_files(
        &self,
        report: &Report,
        pages: &[Page],
    ) -> Result<(bool, Vec<PathBuf>), AnyError> {
        let base = std::env::current_dir().unwrap_or_default();
        let mut is_told = false;
        if let Some(path) = &self.json {
            is_told |= write(path, &report.to_json())?;
        }
        if let Some(path) = &self.sarif {
            is_told |= write(path, &report.to_sarif(&base))?;
        }
        let folder = self.html.as_ref().filter(|_| !pages.is_empty());
        let written = folder.map(|folder| write_pages(folder, pages)).transpose()?;
        Ok((is_told, written.unwrap_or_default()))
    }
}

/// Writes a file, or to standard output for `-`; whether it was the latter.
fn write(path: &Path, text: &str) -> Result<bool, AnyError> {
    if path == Path::new("-") {
        print(text)?;
        return Ok(true);
    }
    files::write(path, text)?;
    Ok(false)
}

fn write_pages(folder: &Path, pages: &[Page]) -> Result<Vec<PathBuf>, AnyError> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut written = Vec::new();
    for (number, Page { rule, html }) in (1..).zip(pages) {
        let path = folder.join(format!("{number:03}-{rule}.html"));
        files::write(&path, html)?;
        written.push(path);
    }
    Ok(written)
}

/// The PTX of a file or of a captured launch, for excerpts.
fn ptx_text(path: &Path, any_path: bool) -> Option<String> {
    let capture = path.extension().is_some_and(|ending| ending == "json");
    let path = match capture {
        true => Capture::read(path).ok()?.ptx_path(any_path).ok()?,
        false => path.to_owned(),
    };
    std::fs::read_to_string(path).ok()
}
