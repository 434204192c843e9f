use std::fmt;
use std::str::FromStr;

/// A device as it is named on every command line: `cpu`, `cuda[:n]`, `sim-sm90`, `sim-sm100`,
/// `oracle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The host's SIMD backend.
    Cpu,
    /// A GPU.
    Cuda(u32),
    /// The simulator as a Hopper GPU.
    SimSm90,
    /// The simulator as a Blackwell GPU.
    SimSm100,
    /// The f64 definition.
    Oracle,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Cpu => f.write_str("cpu"),
            DeviceName::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            DeviceName::SimSm90 => f.write_str("sim-sm90"),
            DeviceName::SimSm100 => f.write_str("sim-sm100"),
            DeviceName::Oracle => f.write_str("oracle"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "cpu" => Ok(DeviceName::Cpu),
            "cuda" => Ok(DeviceName::Cuda(0)),
            "sim-sm90" => Ok(DeviceName::SimSm90),
            "sim-sm100" => Ok(DeviceName::SimSm100),
            "oracle" => Ok(DeviceName::Oracle),
            _ => ordinal(name).map(DeviceName::Cuda).ok_or_else(|| {
                format!("no device is called `{name}`: cpu, cuda[:n], sim-sm90, sim-sm100, oracle")
            }),
        }
    }
}

fn ordinal(name: &str) -> Option<u32> {
    name.strip_prefix("cuda:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for name in ["cpu", "cuda:0", "cuda:3", "sim-sm90", "sim-sm100", "oracle"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse(), Ok(DeviceName::Cuda(0)));
    }

    #[test]
    fn other_names_are_refused_with_the_list() {
        for name in ["gpu", "cuda:", "cuda:-1", "sim", ""] {
            let error = name.parse::<DeviceName>().unwrap_err();
            assert!(error.contains(&format!("`{name}`")) && error.contains("sim-sm100"), "{error}");
        }
    }
}
