use crate::output;
use serde_json::{Value, json};
use sim::{Allowed, Counters, Error, Outcome};

/// A run and how it ended.
pub struct Finished {
    mode: String,
    seed: u64,
    outcome: Outcome,
}

impl Finished {
    pub fn new(mode: &str, seed: u64, outcome: Outcome) -> Finished {
        Finished { mode: mode.into(), seed, outcome }
    }

    /// Exit status.
    pub fn status(&self) -> i32 {
        match &self.outcome.error {
            None => 0,
            Some(Error::Invalid(_) | Error::Load(_)) => 2,
            Some(Error::Fault(_)) => 3,
            Some(Error::Hazard(_)) => 4,
            Some(Error::Deadlock(_)) => 5,
            Some(Error::Unsupported(_)) => 6,
            Some(Error::Stopped(_)) => 7,
        }
    }

    /// The timeline, if one was recorded.
    pub fn trace(&self) -> Option<String> {
        let Outcome { report, error } = &self.outcome;
        report.trace.as_ref().filter(|_| error.is_none()).map(sim::Trace::to_json)
    }

    pub fn print(&self, as_json: bool, counters: bool) -> crate::Outcome {
        let text = match as_json {
            true => format!("{}\n", self.json()),
            false => output::readable(&self.text(counters)),
        };
        output::print(&text)
    }

    fn json(&self) -> Value {
        let (mode, seed) = (&self.mode, self.seed);
        let Outcome { report, error } = &self.outcome;
        let allowed: Vec<Value> = report.allowed.iter().map(allowed).collect();
        match error {
            None => json!({
                "outcome": "ok",
                "mode": mode,
                "seed": seed,
                "counters": table(&report.counters).into_iter().collect::<serde_json::Map<_, _>>(),
                "allowed": allowed,
                "notes": report.notes,
            }),
            Some(error) => json!({
                "outcome": error.kind(),
                "mode": mode,
                "seed": seed,
                "rule": error.rule(),
                "line": error.line(),
                "message": output::readable(&error.to_string()),
                "allowed": allowed,
                "notes": report.notes,
            }),
        }
    }

    fn text(&self, counters: bool) -> String {
        let seed =
            if self.mode == "random" { format!(", seed {}", self.seed) } else { String::new() };
        let head = format!("mode {}{seed}: ", self.mode);
        let Outcome { report, error } = &self.outcome;
        let mut text = match error {
            Some(error) => format!("{head}{}\n{error}\n", error.kind()),
            None => format!("{head}ok\n"),
        };
        for Allowed { finding, times } in &report.allowed {
            text += &format!("allowed, {times} times: {finding}\n");
        }
        report.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
        if counters && error.is_none() {
            for (name, value) in table(&report.counters) {
                text += &format!("{name:>20}  {value}\n");
            }
        }
        text
    }
}

fn allowed(Allowed { finding, times }: &Allowed) -> Value {
    json!({
        "rule": finding.rule(),
        "line": finding.site().line,
        "message": finding.to_string(),
        "times": times,
    })
}

fn table(c: &Counters) -> Vec<(String, Value)> {
    let rows = [
        ("instructions", c.instructions),
        ("lane_instructions", c.lanes),
        ("mufu", c.mufu),
        ("mma_flops", c.mma_flops),
        ("global_read", c.global_read),
        ("global_written", c.global_written),
        ("shared_read", c.shared_read),
        ("shared_written", c.shared_written),
        ("copied", c.copied),
        ("bank_conflicts", c.bank_conflicts),
        ("barrier_waits", c.barrier_waits),
        ("cycles", c.cycles),
        ("tensor_busy", c.tensor_busy),
    ];
    rows.into_iter().map(|(name, value)| (name.to_string(), value.into())).collect()
}
