use ptx::build::Target;
use std::fmt;

/// A GPU generation kernels are emitted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Hopper.
    Sm90,
    /// Datacenter Blackwell.
    Sm100,
    /// Blackwell Ultra.
    Sm103,
}

impl Arch {
    /// Every generation.
    pub const ALL: [Arch; 3] = [Arch::Sm90, Arch::Sm100, Arch::Sm103];

    /// The generation of GPUs of this compute capability; `None` where there are no kernels for it.
    ///
    /// Kernels are for architecture-specific targets (`sm_90a`), which run on exactly their capability.
    pub const fn of_capability(capability: (u32, u32)) -> Option<Arch> {
        match capability {
            (9, 0) => Some(Arch::Sm90),
            (10, 0) => Some(Arch::Sm100),
            (10, 3) => Some(Arch::Sm103),
            _ => None,
        }
    }

    /// Multiprocessors of the usual part (H100/H200 SXM, B200).
    pub fn usual_processors(self) -> u32 {
        match self {
            Arch::Sm90 => 132,
            Arch::Sm100 | Arch::Sm103 => 148,
        }
    }

    /// What PTX is emitted for.
    pub fn target(self) -> Target {
        match self {
            Arch::Sm90 => Target::Sm90a,
            Arch::Sm100 => Target::Sm100a,
            Arch::Sm103 => Target::Sm103a,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.target().name())
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

/// Where a Blackwell kernel keeps probabilities between softmax and the second product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probabilities {
    /// In tensor memory, in the columns of the scores they were computed from (in shared memory where a
    /// pair of CTAs shares wide rows).
    TensorMemory,
    /// In shared memory, as a canonical operand tile.
    SharedMemory,
}

/// How a Blackwell kernel's tensor copies arrange rows in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loads {
    /// With the 128-byte swizzle, 64 columns per copy.
    Swizzled,
    /// Without swizzle, in core matrices, 8 columns per copy: more copies and bank conflicts; kept
    /// because it is the plainest layout the matrix unit reads.
    Plain,
}

/// Blocks of 128 query rows that one Blackwell CTA works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowBlocks {
    /// Two where there are enough of them and they fit, else one; value dims above 256 take a pair of
    /// CTAs.
    Auto,
    /// One: six warps, and one CTA per 256 value columns.
    One,
    /// Two where they fit: sixteen warps.
    Two,
}

/// Choices that are not part of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// Multiprocessors of the device.
    pub processors: u32,
    /// How keys are divided.
    pub split: Split,
    /// Where probabilities go, on Blackwell.
    pub probabilities: Probabilities,
    /// How rows are copied, on Blackwell.
    pub loads: Loads,
    /// Blocks of query rows per CTA, on Blackwell.
    pub row_blocks: RowBlocks,
    /// Whether warps leave the times at which they begin and end in a buffer `stamps`, where work is shared out by
    /// lengths on the device: u64 nanoseconds, `[CTA, 16 warps, 2]`.
    pub stamps: bool,
    /// Whether queries, keys and values may begin at any address that their elements may, not only at multiples of
    /// 16 bytes. Slower: every call copies them into the workspace first.
    pub any_address: bool,
}

impl PlanOptions {
    /// The usual choices for `arch`.
    pub fn for_arch(arch: Arch) -> Self {
        PlanOptions {
            processors: arch.usual_processors(),
            split: Split::Auto,
            probabilities: Probabilities::TensorMemory,
            loads: Loads::Swizzled,
            row_blocks: RowBlocks::Auto,
            stamps: false,
            any_address: false,
        }
    }
}
