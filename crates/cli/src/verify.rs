//! `sixwarp verify`: the table of cases, and random ones, on a device.

use crate::{Outcome, engine, output};
use cases::{Case, CaseData, EngineError, Problem};
use serde::Serialize;
use sixwarp::{Arch, DeviceName};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

const EXAMPLES: &str = "\
Every result is compared with an f64 oracle; outputs, unused pages and gaps hold NaN beforehand.

  sixwarp verify --device cpu                       the whole table
  sixwarp verify --device cuda --cases 'mqa-*'      cases whose names match
  sixwarp verify --device cpu --random 500 --seed 7 random cases; a failing one is made smaller
  sixwarp verify --list                             the names

The last line is `N passed, N failed`, with `, N skipped` where the device declined cases.";

/// Runs the table of cases on a device and compares with the oracle
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// cpu, cuda[:n], sim-sm80, -sm86, -sm89, -sm90, -sm100, -sm103, -sm120 or oracle
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Takes the kernels of another generation that the device runs, as sm80 on a newer GPU
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// Only cases whose names match (`*` stands for anything)
    #[arg(long, value_name = "GLOB")]
    cases: Option<String>,
    /// Runs N random cases instead of the table
    #[arg(long, value_name = "N", conflicts_with = "cases")]
    random: Option<u64>,
    /// Seed of the first random case; the others follow it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Names the cases and runs nothing
    #[arg(long)]
    list: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Runs the cases and prints the outcome; a failing case fails the command.
pub fn run(args: Args) -> Outcome {
    let (count, cases) = chosen(&args)?;
    if args.list {
        return cases.into_iter().try_for_each(|case| output::print(&format!("{}\n", case.name)));
    }
    let device = engine::open(args.device, args.arch)?;
    let mut compute = |problem: &Problem, data: &CaseData| engine::compute(&device, problem, data);
    let mut report = Report { device: args.device.to_string(), ..Report::default() };
    let progress = Progress::new(count, args.json);
    for (n, case) in (0..).zip(cases) {
        progress.show(n, &case.name);
        let outcome = cases::check(&case, &mut compute);
        if let cases::Outcome::Unsupported(unsupported) = &outcome {
            report.skip(&case.name, unsupported.to_string());
        } else if outcome.passed() {
            report.passed += 1;
        } else {
            progress.clear();
            let mut failure = Failure::new(&args, &case, &outcome);
            // What failed is shown before it is made smaller, which may take its time.
            if !args.json {
                output::print(&failure.to_string())?;
            }
            if args.random.is_some() {
                let smallest = smallest(&case, &mut compute);
                if !args.json {
                    output::print(&format!("  smallest that fails: {}\n", indented(&smallest)))?;
                }
                failure.smallest = Some(smallest);
            }
            report.failures.push(failure);
        }
    }
    progress.clear();
    report.failed = report.failures.len();
    if args.json {
        output::print_json(&report)?
    } else {
        output::print(&report.summary())?
    }
    match report.failed {
        0 => Ok(()),
        n => Err(format!("{n} of {count} cases failed on {}", args.device).into()),
    }
}

/// How many cases there are, and each when its turn comes: any number of random ones may be asked for.
fn chosen(args: &Args) -> Result<(u64, Box<dyn Iterator<Item = Case>>), String> {
    if let Some(count) = args.random {
        let seed = args.seed;
        let cases = (0..count).map(move |n| cases::random_case(seed.wrapping_add(n)));
        return Ok((count, Box::new(cases)));
    }
    let glob = args.cases.as_deref().unwrap_or("*");
    let mut cases = cases::table();
    cases.retain(|case| cases::matches_glob(glob, &case.name));
    match cases.is_empty() {
        true => Err(format!("no case is called `{glob}`; `sixwarp verify --list` names them all")),
        false => Ok((cases.len() as u64, Box::new(cases.into_iter()))),
    }
}

#[derive(Default, Serialize)]
struct Report {
    device: String,
    passed: usize,
    failed: usize,
    failures: Vec<Failure>,
    /// Cases the device declined, by reason.
    skipped: BTreeMap<String, Vec<String>>,
}

impl Report {
    fn skip(&mut self, name: &str, why: String) {
        self.skipped.entry(why).or_default().push(name.to_string());
    }

    /// Reasons of skipped cases, then the line of counts.
    fn summary(&self) -> String {
        let mut text = String::new();
        for (why, names) in &self.skipped {
            text.push_str(&format!("skipped {}: {why}\n  {}\n", names.len(), names.join(" ")));
        }
        text.push_str(&format!("{} passed, {} failed", self.passed, self.failed));
        let skipped: usize = self.skipped.values().map(Vec::len).sum();
        if skipped > 0 {
            text.push_str(&format!(", {skipped} skipped"));
        }
        text + "\n"
    }
}

#[derive(Serialize)]
struct Failure {
    case: String,
    why: String,
    /// A command that runs this case alone.
    repro: String,
    /// The simplest row found that still fails, for random cases.
    smallest: Option<String>,
}

impl Failure {
    fn new(args: &Args, case: &Case, outcome: &cases::Outcome) -> Self {
        let (device, name) = (args.device, &case.name);
        let which = match args.random.and(name.strip_prefix("random-")) {
            Some(seed) => format!("--random 1 --seed {seed}"),
            None => format!("--cases '{name}'"),
        };
        let arch = args.arch.map_or_else(String::new, |arch| format!(" --arch {arch}"));
        let repro = format!("sixwarp verify --device {device}{arch} {which}");
        Self { case: name.clone(), why: outcome.to_string(), repro, smallest: None }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {} ({})", self.case, self.why, self.repro)
    }
}

/// The simplest row found that still fails.
fn smallest(
    case: &Case,
    compute: &mut dyn FnMut(&Problem, &CaseData) -> Result<cases::Outputs, EngineError>,
) -> String {
    let mut engine = |problem: &Problem, data: &CaseData| compute(problem, data);
    cases::shrink(case, |case| cases::check(case, &mut engine).failed()).to_string()
}

fn indented(row: &str) -> String {
    row.replace('\n', "\n    ")
}

/// A bar on the terminal, if there is one to read it.
struct Progress {
    total: u64,
    shown: bool,
}

impl Progress {
    const WIDTH: usize = 30;

    fn new(total: u64, json: bool) -> Self {
        Self { total, shown: !json && std::io::stderr().is_terminal() }
    }

    fn show(&self, done: u64, name: &str) {
        if self.shown {
            let full = Self::WIDTH as u128 * done as u128 / self.total.max(1) as u128;
            let full = full as usize;
            let (bar, rest) = ("█".repeat(full), "·".repeat(Self::WIDTH - full));
            eprint!("\r\x1b[K{bar}{rest} {done}/{} {name}", self.total);
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let mut report = Report { passed: 3, failed: 1, ..Report::default() };
        assert_eq!(report.summary(), "3 passed, 1 failed\n");
        report.skip("a", "fp8 rows".into());
        report.skip("b", "fp8 rows".into());
        assert_eq!(report.summary(), "skipped 2: fp8 rows\n  a b\n3 passed, 1 failed, 2 skipped\n");
    }
}
