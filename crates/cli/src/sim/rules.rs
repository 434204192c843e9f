//! `--allow RULE`.

use crate::{Outcome, output};
use clap::builder::{PossibleValue, PossibleValuesParser};
use sim::{Rule, UnknownRule};

/// Instead of a rule: lists them.
const HELP: &str = "help";

/// Reads names of rules, and names the near ones where there is none.
pub fn parser() -> PossibleValuesParser {
    let rule = |rule: Rule| PossibleValue::new(rule.name()).help(rule.summary());
    Rule::ALL.map(rule).into_iter().chain([PossibleValue::new(HELP)]).collect::<Vec<_>>().into()
}

/// The rules that were named; none if a list of them was asked for.
pub fn allowed(names: &[String]) -> Result<Option<Vec<Rule>>, UnknownRule> {
    if names.iter().any(|name| name == HELP) {
        return Ok(None);
    }
    names.iter().map(|name| name.parse()).collect::<Result<Vec<Rule>, _>>().map(Some)
}

/// Prints every rule with what it says.
pub fn print() -> Outcome {
    let line = |rule: Rule| format!("{rule:<28}{}\n", rule.summary());
    output::print(&Rule::ALL.map(line).concat())
}
