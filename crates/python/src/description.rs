//! A problem and how to plan it, as JSON.

use problem::{Description, InvalidProblem, Problem};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sixwarp::{Error, Split};

/// A problem that keeps every rule, and how to plan it, from what a caller wrote: a [`Description`] with one field
/// more, `split`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The problem.
    pub problem: Problem,
    /// How keys are divided among CTAs.
    pub split: Split,
}

impl Request {
    /// Reads JSON, and checks the problem.
    ///
    /// # Errors
    /// If the text is not JSON of this form, or the problem breaks a rule.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut fields: Map<String, Value> = read("description", serde_json::from_str(text))?;
        let split = fields.remove("split").unwrap_or_default();
        let split: Option<u64> = read("split", serde_json::from_value(split))?;
        let description: Description = read("description", serde_json::from_value(fields.into()))?;
        Ok(Self {
            problem: description.try_into()?,
            split: split.map_or(Split::Auto, |keys| Split::Every { keys }),
        })
    }
}

fn read<T: DeserializeOwned>(
    name: &str,
    result: Result<T, serde_json::Error>,
) -> Result<T, InvalidProblem> {
    result.map_err(|error| InvalidProblem::new(name, "must be JSON of its form", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "q": {"shape": [1, 4, 2, 8], "strides": [64, 8, 32, 1], "dtype": "f32"},
        "out": {"shape": [1, 4, 2, 8], "strides": [64, 8, 32, 1], "dtype": "f32"},
        "segments": [{
            "k": {"shape": [1, 1, 9, 8], "strides": [72, 72, 8, 1], "dtype": "f32"},
            "mask": "window(3,0)"
        }],
        "sinks": true, "return_lse": true, "split": 128
    }"#;

    #[test]
    fn a_description_becomes_a_problem() {
        let Request { problem, split } = Request::parse(TEXT).unwrap();
        let names: Vec<String> = problem.slots().iter().map(|slot| slot.to_string()).collect();
        assert_eq!(names, ["q", "out", "lse", "sinks", "k"]);
        assert_eq!((problem.group(), split), (4, Split::Every { keys: 128 }));
    }

    #[test]
    fn mistakes_are_named() {
        let error =
            |from: &str, to: &str| Request::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(error("sinks", "sink").contains("unknown field `sink`"));
        assert!(error("window(3,0)", "window(-3,0)").contains("unknown mask `window(-3,0)`"));
        assert!(error("128", "-1").starts_with("split: must be JSON"));
        let rule = "k: must have q's dim (rule 3), but it is 7";
        assert_eq!(error("[1, 1, 9, 8]", "[1, 1, 9, 7]"), rule);
    }
}
