use crate::{Outcome, output};
use serde_json::{Value, json};
use sim::{Allowed, Counters, Error, Report};

/// A run and how it ended.
pub struct Finished {
    mode: String,
    seed: u64,
    result: Result<Report, Error>,
}

impl Finished {
    pub fn new(mode: &str, seed: u64, result: Result<Report, Error>) -> Finished {
        Finished { mode: mode.into(), seed, result }
    }

    /// Exit status.
    pub fn status(&self) -> i32 {
        match &self.result {
            Ok(_) => 0,
            Err(Error::Load(_)) => 2,
            Err(Error::Fault(_)) => 3,
            Err(Error::Hazard(_)) => 4,
            Err(Error::Deadlock(_)) => 5,
            Err(Error::Unsupported(_)) => 6,
        }
    }

    /// The timeline, if one was recorded.
    pub fn trace(&self) -> Option<String> {
        self.result.as_ref().ok().and_then(|report| report.trace.as_ref()).map(sim::Trace::to_json)
    }

    pub fn print(&self, as_json: bool, counters: bool) -> Outcome {
        let text = match as_json {
            true => format!("{}\n", self.json()),
            false => self.text(counters),
        };
        output::print(&text)
    }

    fn json(&self) -> Value {
        let (mode, seed) = (&self.mode, self.seed);
        match &self.result {
            Ok(report) => json!({
                "outcome": "ok",
                "mode": mode,
                "seed": seed,
                "counters": table(&report.counters).into_iter().collect::<serde_json::Map<_, _>>(),
                "allowed": report.allowed.iter().map(finding).collect::<Vec<_>>(),
                "notes": report.notes,
            }),
            Err(error) => json!({
                "outcome": error.kind(),
                "mode": mode,
                "seed": seed,
                "rule": error.rule(),
                "line": error.line(),
                "message": error.to_string(),
            }),
        }
    }

    fn text(&self, counters: bool) -> String {
        let seed =
            if self.mode == "random" { format!(", seed {}", self.seed) } else { String::new() };
        let head = format!("mode {}{seed}: ", self.mode);
        match &self.result {
            Err(error) => format!("{head}{}\n{error}\n", error.kind()),
            Ok(report) => {
                let mut text = format!("{head}ok\n");
                for Allowed { hazard, times } in &report.allowed {
                    text += &format!("allowed, {times} times: {hazard}\n");
                }
                report.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
                if counters {
                    for (name, value) in table(&report.counters) {
                        text += &format!("{name:>20}  {value}\n");
                    }
                }
                text
            }
        }
    }
}

fn finding(Allowed { hazard, times }: &Allowed) -> Value {
    json!({
        "rule": hazard.rule.name(),
        "line": hazard.site.line,
        "message": hazard.to_string(),
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
