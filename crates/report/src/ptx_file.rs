//! What is wrong with a PTX text before it is run.

use crate::finding::{Finding, Kind};
use crate::place::Place;
use ptx::Module;

/// Parses and verifies a text: its module, if it is PTX, and what is wrong with it.
pub fn verify(text: &str) -> (Option<Module>, Vec<Finding>) {
    match ptx::parse(text) {
        Ok(module) => {
            let findings = ptx::verify(&module).iter().map(Finding::from).collect();
            (Some(module), findings)
        }
        Err(error) => (None, vec![Finding::from_syntax(&error, text)]),
    }
}

impl Finding {
    /// A text that is no PTX.
    pub fn from_syntax(error: &ptx::ParseError, text: &str) -> Finding {
        let line = text.lines().nth(error.line().saturating_sub(1) as usize).unwrap_or_default();
        let place = Place::line(error.line(), line.trim());
        let message = format!("{} (column {})", error.message(), error.column());
        Finding { places: vec![place], ..Finding::new(Kind::Ptx, "ptx-syntax", message) }
    }
}

impl From<&ptx::Violation> for Finding {
    fn from(violation: &ptx::Violation) -> Finding {
        let kernel = violation.function.map_or(String::new(), |name| name.to_string());
        let place = Place { kernel, ..Place::line(violation.line, &violation.subject) };
        let rule = format!("ptx-{}", violation.rule.0);
        Finding { places: vec![place], ..Finding::new(Kind::Ptx, rule, &violation.message) }
    }
}

impl From<&program::Violation> for Finding {
    fn from(violation: &program::Violation) -> Finding {
        Finding::new(Kind::Launch, violation.rule.to_string(), &violation.text)
    }
}
