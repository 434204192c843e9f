//! Whether a problem can be computed, asked without computing it.

use crate::device::{no_kernels, other_kernels};
use crate::{Arch, Device, DeviceName, Error, PlanOptions, UnknownDevice};
use problem::Problem;
use std::fmt;
use std::str::FromStr;

/// What computes a problem: this machine's CPU, or kernels for a GPU generation. It need not be there.
///
/// Its name is `cpu`, or that of the generation: `sm_80`, `sm_86`, `sm_89`, `sm_90a`, `sm_100a`, `sm_103a`, `sm_120`.
/// The names of devices that say as much are read too: `oracle`, and `sim-sm80` to `sim-sm120`.
///
/// ```
/// use sixwarp::{Arch, Target};
/// assert_eq!("sm_90a".parse(), Ok(Target::Gpu(Arch::Sm90)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// This machine's CPU, or the oracle on it.
    Cpu,
    /// Kernels for a GPU generation.
    Gpu(Arch),
}

/// Why `target` cannot compute `problem`, in the planner's words; `None` if it can.
///
/// Nothing is compiled, and no GPU is looked for. Whether a device's memory holds the problem is not asked.
///
/// ```
/// use sixwarp::{Arch, DType, Problem, Segment, Target, View, supports};
/// let view = View::bhsd(DType::F64, [1, 8, 64, 128]);
/// let problem = Problem::builder(view).segment(Segment::new(view, view)).build()?;
/// assert_eq!(supports(&problem, Target::Cpu), None);
/// let reason = supports(&problem, Target::Gpu(Arch::Sm90)).expect("a reason");
/// assert!(reason.to_string().starts_with("dtype f64 is not supported"));
/// # Ok::<(), sixwarp::Error>(())
/// ```
pub fn supports(problem: &Problem, target: Target) -> Option<Error> {
    let Target::Gpu(arch) = target else { return None };
    kernels::check(problem, arch, &PlanOptions::for_arch(arch)).err().map(Error::from)
}

impl Target {
    /// The names there are, for people.
    pub const ALL: &str = "cpu, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120";

    /// The same target with the kernels of another generation (see [`Device::with_arch`]).
    ///
    /// # Errors
    /// If it is no GPU, or cannot run the kernels.
    pub fn with_arch(self, arch: Arch) -> Result<Self, Error> {
        match self {
            Target::Gpu(own) if arch.runs_on(own) => Ok(Target::Gpu(arch)),
            Target::Gpu(own) => Err(other_kernels(arch, format!("an {own} GPU"), own).into()),
            Target::Cpu => Err(no_kernels(arch, self).into()),
        }
    }
}

impl Device {
    /// What computes on this device.
    pub fn target(&self) -> Target {
        self.arch().map_or(Target::Cpu, Target::Gpu)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu => f.write_str("cpu"),
            Target::Gpu(arch) => arch.fmt(f),
        }
    }
}

impl FromStr for Target {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        if let Some(arch) = Arch::ALL.into_iter().find(|arch| arch.to_string() == name) {
            return Ok(Target::Gpu(arch));
        }
        match name.parse() {
            Ok(DeviceName::Cpu | DeviceName::Oracle) => Ok(Target::Cpu),
            Ok(DeviceName::Simulated(arch)) => Ok(Target::Gpu(arch)),
            // Which kernels a GPU runs is known when it is opened.
            Ok(DeviceName::Cuda(_)) | Err(_) => Err(UnknownDevice::new(name, Target::ALL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for name in Target::ALL.split(", ") {
            assert_eq!(name.parse::<Target>().expect("a name").to_string(), name);
        }
        assert_eq!("sim-sm100".parse(), Ok(Target::Gpu(Arch::Sm100)));
        assert_eq!("oracle".parse(), Ok(Target::Cpu));
    }

    #[test]
    fn plain_kernels_run_on_later_gpus_and_specific_ones_on_theirs() {
        let runs = |arch: Arch, gpu: Arch| Target::Gpu(gpu).with_arch(arch).is_ok();
        assert!(runs(Arch::Sm80, Arch::Sm90) && runs(Arch::Sm89, Arch::Sm120));
        assert!(runs(Arch::Sm90, Arch::Sm90) && !runs(Arch::Sm90, Arch::Sm100));
        let error =
            Target::Gpu(Arch::Sm90).with_arch(Arch::Sm120).expect_err("too new").to_string();
        let wanted = "arch sm_120 is not supported: an sm_90a GPU does not run its kernels (nearest that works: sm_90a)";
        assert_eq!(error, wanted);
    }

    #[test]
    fn other_names_are_refused_with_the_list() {
        for name in ["sm_75", "cuda:0", ""] {
            let error = name.parse::<Target>().expect_err("no name").to_string();
            assert_eq!(error, format!("no device is called `{name}`: {}", Target::ALL));
        }
    }
}
