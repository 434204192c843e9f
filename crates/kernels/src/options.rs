use std::fmt;

/// A GPU generation kernels are emitted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Hopper.
    Sm90,
    /// Datacenter Blackwell.
    Sm100,
}

impl Arch {
    /// Multiprocessors of the usual part (H100/H200 SXM, B200).
    pub fn usual_processors(self) -> u32 {
        match self {
            Arch::Sm90 => 132,
            Arch::Sm100 => 148,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::Sm90 => "sm_90a",
            Arch::Sm100 => "sm_100a",
        })
    }
}

/// How keys are divided among CTAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// As the planner finds best for the whole problem.
    Auto,
    /// Every `keys` keys are one part, whatever else is in the batch: a request's result does not
    /// depend on its neighbours.
    Every {
        /// Keys per part, rounded up to whole tiles.
        keys: u64,
    },
    /// Never.
    Never,
}

/// Choices that are not part of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// Multiprocessors of the device.
    pub processors: u32,
    /// How keys are divided.
    pub split: Split,
}

impl PlanOptions {
    /// The usual choices for `arch`.
    pub fn for_arch(arch: Arch) -> Self {
        PlanOptions { processors: arch.usual_processors(), split: Split::Auto }
    }
}
