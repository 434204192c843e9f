use std::fmt;

/// A rule by its number in the module that lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// What the driver refuses in a tensor map ([`TensorMap::check`](crate::TensorMap::check)).
    T(u8),
    /// What a tensor map's author should look at.
    W(u8),
    /// What a program's launches must keep ([`Program::check`](crate::Program::check)).
    L(u8),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::T(n) => write!(f, "T{n}"),
            Rule::W(n) => write!(f, "W{n}"),
            Rule::L(n) => write!(f, "L{n}"),
        }
    }
}

impl Rule {
    pub(crate) fn broken(self, text: String) -> Violation {
        Violation { rule: self, text }
    }

    pub(crate) fn warns(self, text: String) -> Warning {
        Warning { rule: self, text }
    }
}

/// A broken rule: the program cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What breaks it, and what would not.
    pub text: String,
}

/// Something accepted that may not be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The rule.
    pub rule: Rule,
    /// What looks wrong.
    pub text: String,
}

impl Violation {
    /// The same, with the place it is about in front.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }
}

impl Warning {
    /// The same, with the place it is about in front.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule {})", self.text, self.rule)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule {})", self.text, self.rule)
    }
}
