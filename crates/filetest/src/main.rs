//! `filetest [--on ENGINE] [--against ENGINE] [--save DIR] [--bless] [--json FILE] PATH…`
//!
//! Runs PTX file tests. ENGINE is `sim` (or one of its modes), `cuda`, or a
//! directory of recorded outputs. With `--against` the
//! outputs of two engines are compared, otherwise those of one with the files' expectations.

use filetest::{Engine, FileTest, Recorded, Report, bless, check, compare, engine, files, load};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

struct Arguments {
    on: String,
    against: Option<String>,
    save: Option<PathBuf>,
    bless: bool,
    json: Option<PathBuf>,
    paths: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        on: "sim".into(),
        against: None,
        save: None,
        bless: false,
        json: None,
        paths: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--on" => parsed.on = value()?,
            "--against" => parsed.against = Some(value()?),
            "--save" => parsed.save = Some(value()?.into()),
            "--json" => parsed.json = Some(value()?.into()),
            "--bless" => parsed.bless = true,
            _ => parsed.paths.push(word.into()),
        }
    }
    Ok(parsed)
}

fn rewrite(path: &Path, test: &FileTest, engine: &dyn Engine) -> Result<(), String> {
    let text = bless(test, engine).map_err(|e| format!("{}: {e}", path.display()))?;
    write(path, text)
}

fn write(path: &Path, text: String) -> Result<(), String> {
    files::write(path, text).map_err(|error| error.to_string())
}

/// Stores the outputs of every run that ends well, and says which do not.
fn save(directory: &Path, test: &FileTest, engine: &dyn Engine) -> Result<(), String> {
    let recorded = Recorded(directory.to_owned());
    for run in &test.runs {
        match engine.execute(test, run) {
            Ok(contents) => recorded.save(test, run, &contents)?,
            Err(error) => eprintln!("{} line {}: {error}", test.name, run.line),
        }
    }
    Ok(())
}

/// The engines of a call: one, or two to compare.
struct Engines {
    on: Box<dyn Engine>,
    against: Option<Box<dyn Engine>>,
}

impl Engines {
    fn open(arguments: &Arguments) -> Result<Engines, String> {
        let against = arguments.against.as_deref().map(engine).transpose()?;
        Ok(Engines { on: engine(&arguments.on)?, against })
    }

    fn all(&self) -> impl Iterator<Item = &dyn Engine> {
        std::iter::once(&self.on).chain(&self.against).map(|engine| engine.as_ref())
    }
}

/// Does to one file what the arguments ask for.
fn handle(
    path: &Path,
    arguments: &Arguments,
    engines: &Engines,
    report: &mut Report,
) -> Result<(), String> {
    let test = load(path)?;
    let on = engines.on.as_ref();
    if !engines.all().all(|engine| engine.runs(test.target())) {
        report.skipped.push(test.name);
    } else if arguments.bless {
        rewrite(path, &test, on)?;
    } else if let Some(directory) = &arguments.save {
        save(directory, &test, on)?;
    } else {
        report.outcomes.extend(match &engines.against {
            Some(other) => compare(&test, on, other.as_ref()),
            None => check(&test, on),
        });
    }
    Ok(())
}

fn run() -> Result<bool, String> {
    let arguments = arguments()?;
    let engines = Engines::open(&arguments)?;
    let names = engines.all().map(|engine| engine.name()).collect();
    let mut report = Report { engines: names, outcomes: Vec::new(), skipped: Vec::new() };
    for root in &arguments.paths {
        for path in files(root).map_err(|e| format!("{}: {e}", root.display()))? {
            handle(&path, &arguments, &engines, &mut report)?;
        }
    }
    print!("{report}");
    if let Some(path) = &arguments.json {
        write(path, report.json())?;
    }
    Ok(report.failures() == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
