use crate::outcome::Outcome;
use serde::Serialize;
use std::fmt;

/// The outcome of a whole corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Engines, in order.
    pub engines: Vec<String>,
    /// One entry per output.
    pub outcomes: Vec<Outcome>,
    /// Files left out because an engine does not run their target.
    pub skipped: Vec<String>,
}

impl Report {
    /// How many outputs are wrong.
    pub fn failures(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.failure.is_some()).count()
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.outcomes.iter().map(|o| o.file.len()).max().unwrap_or(4).max(4);
        writeln!(f, "{:width$}  line  output    elements  ulps  verdict", "file")?;
        for o in &self.outcomes {
            let verdict = o.failure.as_deref().unwrap_or("ok");
            writeln!(
                f,
                "{:width$}  {:>4}  {:8}  {:>8}  {:>4}  {verdict}",
                o.file, o.line, o.output, o.elements, o.max_ulps
            )?;
        }
        for file in &self.skipped {
            writeln!(f, "{file:width$}  left out: not for this device")?;
        }
        let (all, bad) = (self.outcomes.len(), self.failures());
        writeln!(f, "{}: {} of {all} outputs agree", self.engines.join(" / "), all - bad)
    }
}
