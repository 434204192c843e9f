//! Which mutants of a program are found out, and by what.

use crate::engine::{Contents, SimEngine};
use crate::mutate::Mutant;
use program::Program;
use rayon::prelude::*;
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
    pub mutant: Mutant,
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
        let Mutant { change, instruction, line, source, .. } = &self.mutant;
        match source {
            Some((file, line)) => write!(f, "{file}:{line}: ")?,
            None => write!(f, "line {line}: ")?,
        }
        write!(f, "{change:?} `{instruction}`: ")?;
        match &self.caught {
            Some(caught) => write!(f, "{} ({})", caught.by, caught.mode),
            None if self.reached => f.write_str("survives"),
            None => f.write_str("is not executed"),
        }
    }
}

/// Runs every one of `mutants` of the `program` it is given in the modes of `engines` until one of
/// them objects or `right` refuses its result. Mutants run side by side, one per host thread.
pub fn survey<'p>(
    mutants: Vec<Mutant>,
    program: impl Fn(&Mutant) -> &'p Program + Sync,
    inputs: &[Vec<u8>],
    engines: &[SimEngine],
    right: impl Fn(&Contents) -> bool + Sync,
) -> Vec<Verdict> {
    let judge = |mutant| judge(program(&mutant), mutant, inputs, engines, &right);
    mutants.into_par_iter().with_max_len(1).map(judge).collect()
}

fn judge(
    program: &Program,
    mutant: Mutant,
    inputs: &[Vec<u8>],
    engines: &[SimEngine],
    right: impl Fn(&Contents) -> bool,
) -> Verdict {
    let with = |module| Program { module: Arc::new(module), ..program.clone() };
    let changed = with(mutant.module(&program.module));
    let caught = engines.iter().find_map(|engine| {
        let by = match engine.run(&changed, inputs) {
            Err(error) => format!("{} {}", error.kind(), error.rule()).trim_end().to_owned(),
            Ok(contents) if !right(&contents) => "wrong result".to_owned(),
            Ok(_) => return None,
        };
        Some(Caught { mode: engine.mode.clone(), by })
    });
    let probe = || engines[0].run(&with(mutant.probe(&program.module)), inputs);
    let reached = caught.is_some() || probe().is_err();
    Verdict { mutant, caught, reached }
}
