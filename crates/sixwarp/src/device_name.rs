use crate::{Arch, Error};
use std::fmt;
use std::str::FromStr;

/// What a device is called, the same everywhere: `cpu`, `oracle`, `cuda[:n]`, and `sim-sm80`, `sim-sm86`, `sim-sm89`,
/// `sim-sm90`, `sim-sm100`, `sim-sm103`, `sim-sm120`. A name opens nothing; [`Device::open`](crate::Device::open) does.
///
/// ```
/// use sixwarp::{Arch, DeviceName};
/// assert_eq!("cuda".parse(), Ok(DeviceName::Cuda(0)));
/// assert_eq!(DeviceName::Simulated(Arch::Sm103).to_string(), "sim-sm103");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// This machine's CPU.
    Cpu,
    /// The f64 oracle.
    Oracle,
    /// GPU number `n`.
    Cuda(u32),
    /// The simulator of a GPU of this generation.
    Simulated(Arch),
}

/// Every architecture with kernels, and what its simulator is called.
const SIMULATORS: [(Arch, &str); 7] = [
    (Arch::Sm80, "sim-sm80"),
    (Arch::Sm86, "sim-sm86"),
    (Arch::Sm89, "sim-sm89"),
    (Arch::Sm90, "sim-sm90"),
    (Arch::Sm100, "sim-sm100"),
    (Arch::Sm103, "sim-sm103"),
    (Arch::Sm120, "sim-sm120"),
];

impl DeviceName {
    /// The names there are, for people.
    pub const ALL: &str = "cpu, cuda[:n], sim-sm80, sim-sm86, sim-sm89, sim-sm90, sim-sm100, sim-sm103, sim-sm120, \
                           oracle";
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Cpu => f.write_str("cpu"),
            DeviceName::Oracle => f.write_str("oracle"),
            DeviceName::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            DeviceName::Simulated(arch) => {
                let name = SIMULATORS.iter().find(|(a, _)| a == arch).map_or("sim", |(_, n)| n);
                f.write_str(name)
            }
        }
    }
}

/// A name that no device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDevice {
    name: String,
    known: &'static str,
}

impl UnknownDevice {
    /// `name` is none of those `known`.
    pub(crate) fn new(name: &str, known: &'static str) -> Self {
        Self { name: name.to_string(), known }
    }
}

impl fmt::Display for UnknownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no device is called `{}`: {}", self.name, self.known)
    }
}

impl std::error::Error for UnknownDevice {}

impl From<UnknownDevice> for Error {
    fn from(unknown: UnknownDevice) -> Self {
        Error::NoDevice(unknown.to_string())
    }
}

impl FromStr for DeviceName {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        if let Some((arch, _)) = SIMULATORS.iter().find(|(_, simulator)| *simulator == name) {
            return Ok(DeviceName::Simulated(*arch));
        }
        match name {
            "cpu" => Ok(DeviceName::Cpu),
            "oracle" => Ok(DeviceName::Oracle),
            "cuda" => Ok(DeviceName::Cuda(0)),
            _ => {
                let ordinal = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
                let unknown = || UnknownDevice::new(name, DeviceName::ALL);
                ordinal.map(DeviceName::Cuda).ok_or_else(unknown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for name in ["cpu", "cuda:0", "cuda:3", "oracle"] {
            assert_eq!(name.parse::<DeviceName>().expect("a name").to_string(), name);
        }
        for arch in Arch::ALL {
            let name = DeviceName::Simulated(arch).to_string();
            assert_eq!(name.parse(), Ok(DeviceName::Simulated(arch)));
        }
        assert_eq!("cuda".parse(), Ok(DeviceName::Cuda(0)));
        assert!(SIMULATORS.iter().all(|(_, name)| DeviceName::ALL.contains(name)));
    }

    #[test]
    fn other_names_are_refused_with_the_list() {
        for name in ["gpu", "cuda:", "cuda:-1", "sim", ""] {
            let error = name.parse::<DeviceName>().expect_err("no name").to_string();
            assert!(error.contains(&format!("`{name}`")) && error.contains("sim-sm103"), "{error}");
        }
    }
}
