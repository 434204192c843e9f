//! Which mutants of a program are found out, and by what.

use crate::engine::{Contents, SimEngine};
use crate::mutate::{Change, Mutant, mutants};
use program::Program;
use std::fmt;
use std::sync::Arc;

/// How a mutant was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Mode of the simulator.
    pub mode: String,
    /// Kind and rule of the report, or `wrong result`.
    pub by: String,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was changed.
    pub change: Change,
    /// The instruction, as it was.
    pub instruction: String,
    /// PTX line.
    pub line: u32,
    /// File and line of the source that `.loc` names, if any.
    pub source: Option<(String, u32)>,
    /// How it was found out; `None` for a survivor.
    pub caught: Option<Caught>,
    /// Whether a run comes to the instruction at all; survivors elsewhere say nothing.
    pub reached: bool,
}

impl Verdict {
    /// Whether the instruction was executed, and nobody noticed the change.
    pub fn survives(&self) -> bool {
        self.reached && self.caught.is_none()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((file, line)) => write!(f, "{file}:{line}: ")?,
            None => write!(f, "line {}: ", self.line)?,
        }
        write!(f, "{:?} `{}`: ", self.change, self.instruction)?;
        match &self.caught {
            Some(caught) => write!(f, "{} ({})", caught.by, caught.mode),
            None if self.reached => f.write_str("survives"),
            None => f.write_str("is not executed"),
        }
    }
}

/// Runs every mutant of `program` that `wanted` names in the modes of `engines` until one of them
/// objects or `right` refuses its result.
pub fn survey(
    program: &Program,
    inputs: &[Vec<u8>],
    engines: &[SimEngine],
    wanted: impl Fn(&Mutant) -> bool,
    right: impl Fn(&Contents) -> bool,
) -> Vec<Verdict> {
    let chosen = mutants(&program.module).into_iter().filter(wanted);
    chosen.map(|mutant| judge(program, mutant, inputs, engines, &right)).collect()
}

fn judge(
    program: &Program,
    mutant: Mutant,
    inputs: &[Vec<u8>],
    engines: &[SimEngine],
    right: impl Fn(&Contents) -> bool,
) -> Verdict {
    let changed = Program { module: Arc::new(mutant.module), ..program.clone() };
    let caught = engines.iter().find_map(|engine| {
        let by = match engine.run(&changed, inputs) {
            Err(error) => format!("{} {}", error.kind(), error.rule()).trim_end().to_owned(),
            Ok(contents) if !right(&contents) => "wrong result".to_owned(),
            Ok(_) => return None,
        };
        Some(Caught { mode: engine.mode.clone(), by })
    });
    let probe = Program { module: Arc::new(mutant.probe), ..program.clone() };
    let reached = caught.is_some() || engines[0].run(&probe, inputs).is_err();
    Verdict {
        change: mutant.change,
        instruction: mutant.instruction,
        line: mutant.line,
        source: mutant.source,
        caught,
        reached,
    }
}
