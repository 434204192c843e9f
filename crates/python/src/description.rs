//! A problem and how to plan it, as JSON.

use problem::{Description, InvalidProblem, Problem};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sixwarp::{Arch, Device, Error, Split, Target};

/// A problem that keeps every rule, and how to plan it, from what a caller wrote: a [`Description`] with two fields
/// more, `split` and `arch`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The problem.
    pub problem: Problem,
    /// How keys are divided among CTAs.
    pub split: Split,
    /// The generation whose kernels are asked for, if not those of the device.
    pub arch: Option<Arch>,
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
        let arch = fields.remove("arch").unwrap_or_default();
        let arch: Option<String> = read("arch", serde_json::from_value(arch))?;
        let description: Description = read("description", serde_json::from_value(fields.into()))?;
        Ok(Self {
            problem: description.try_into()?,
            split: split.map_or(Split::Auto, |keys| Split::Every { keys }),
            arch: arch.map(|name| named(&name)).transpose()?,
        })
    }

    /// `device` with the kernels that are asked for.
    ///
    /// # Errors
    /// If it cannot run them.
    pub fn on(&self, device: Device) -> Result<Device, Error> {
        match self.arch {
            None => Ok(device),
            Some(arch) => device.with_arch(arch),
        }
    }

    /// `target` with the kernels that are asked for.
    ///
    /// # Errors
    /// If it cannot run them.
    pub fn on_target(&self, target: Target) -> Result<Target, Error> {
        self.arch.map_or(Ok(target), |arch| target.with_arch(arch))
    }
}

fn named(arch: &str) -> Result<Arch, InvalidProblem> {
    arch.parse().map_err(|_| {
        let names = Arch::ALL.map(|arch| arch.to_string()).join(", ");
        InvalidProblem::new("arch", format!("must be one of {names}"), format!("`{arch}`"))
    })
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
        let Request { problem, split, arch } = Request::parse(TEXT).unwrap();
        let names: Vec<String> = problem.slots().iter().map(|slot| slot.to_string()).collect();
        assert_eq!(names, ["q", "out", "lse", "sinks", "k"]);
        assert_eq!((problem.group(), split, arch), (4, Split::Every { keys: 128 }, None));
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
        assert!(error("128", "128, \"arch\": 80").starts_with("arch: must be JSON"));
        let unknown = "arch: must be one of sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120, but it is `sm_75`";
        assert_eq!(error("128", "128, \"arch\": \"sm_75\""), unknown);
    }

    #[test]
    fn kernels_of_another_generation_are_asked_for() {
        let text = TEXT.replace("128", "128, \"arch\": \"sm80\"");
        let request = Request::parse(&text).unwrap();
        assert_eq!(request.arch, Some(Arch::Sm80));
        let hopper = Device::simulated(Arch::Sm90);
        assert_eq!(request.on(hopper).unwrap().arch(), Some(Arch::Sm80));
        assert_eq!(request.on_target(Target::Gpu(Arch::Sm90)).unwrap(), Target::Gpu(Arch::Sm80));
        for error in [
            request.on(Device::cpu()).map(drop).unwrap_err(),
            request.on_target(Target::Cpu).map(drop).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), "arch sm_80 is not supported: cpu runs no kernels");
        }
    }
}
