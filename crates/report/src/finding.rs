use crate::hang::Hang;
use crate::place::Place;
use crate::schedule::Schedule;
use crate::timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of mistake was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The text is no PTX, or breaks a rule that the assembler enforces.
    Ptx,
    /// The launch breaks a rule that the driver enforces.
    Launch,
    /// The program broke a rule of the machine.
    Fault,
    /// The program relies on an order that nothing guarantees.
    Hazard,
    /// No warp can go on.
    Deadlock,
}

impl Kind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ptx => "ptx",
            Kind::Launch => "launch",
            Kind::Fault => "fault",
            Kind::Hazard => "hazard",
            Kind::Deadlock => "deadlock",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mistake: the rule, what happened, the places, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of mistake.
    pub kind: Kind,
    /// Short name of the rule: `race`, `deadlock`, `ptx-12`, `L9`.
    pub rule: String,
    /// What happened, in one sentence.
    pub message: String,
    /// Where; the first is the one to look at. A hazard has the later access first, then the earlier one.
    pub places: Vec<Place>,
    /// Of a deadlock: who waits for what.
    pub hang: Option<Hang>,
    /// What else is known.
    pub notes: Vec<String>,
    /// What to do.
    pub remedies: Vec<String>,
    /// Whether a run can go on from it (`--allow RULE`).
    pub survivable: bool,
    /// The schedule that found it; none where no run was needed.
    pub schedule: Option<Schedule>,
    /// What the warps involved did until then, if it was recorded.
    pub timeline: Option<Timeline>,
}

impl Finding {
    /// A finding that has a rule, a sentence, and nothing else yet.
    pub fn new(kind: Kind, rule: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            kind,
            rule: rule.into(),
            message: message.into(),
            places: Vec::new(),
            hang: None,
            notes: Vec::new(),
            remedies: Vec::new(),
            survivable: false,
            schedule: None,
            timeline: None,
        }
    }

    /// `hazard[race]`, `deadlock`.
    pub fn name(&self) -> String {
        match self.kind.name() == self.rule {
            true => self.rule.clone(),
            false => format!("{}[{}]", self.kind, self.rule),
        }
    }

    /// The place to look at first.
    pub fn place(&self) -> Option<&Place> {
        self.places.first()
    }

    /// All places that it names, those of a deadlock's waiters, arrivals and last deeds included.
    pub fn all_places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        let hang = self.hang.iter_mut().flat_map(Hang::places_mut);
        self.places.iter_mut().chain(hang)
    }
}
