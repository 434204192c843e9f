use ptx::build::Target;
use std::fmt;
use std::str::FromStr;

/// A GPU generation kernels are emitted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Ampere for data centers (A100).
    Sm80,
    /// Ampere for graphics (A10, A40, RTX 30).
    Sm86,
    /// Ada (L4, L40S, RTX 40).
    Sm89,
    /// Hopper.
    Sm90,
    /// Datacenter Blackwell.
    Sm100,
    /// Blackwell Ultra.
    Sm103,
    /// Blackwell for graphics (RTX 50).
    Sm120,
}

impl Arch {
    /// Every generation.
    pub const ALL: [Arch; 7] =
        [Arch::Sm80, Arch::Sm86, Arch::Sm89, Arch::Sm90, Arch::Sm100, Arch::Sm103, Arch::Sm120];

    /// The generation whose kernels GPUs of this compute capability run; `None` where none do: those before Ampere.
    ///
    /// Kernels for architecture-specific targets (`sm_90a`) run on exactly their capability. Those of the `mma.sync`
    /// family run on their capability and later ones, so that chips without kernels of their own take them.
    pub const fn of_capability(capability: (u32, u32)) -> Option<Arch> {
        match capability {
            (8, 6 | 8) => Some(Arch::Sm86),
            (8, 9) => Some(Arch::Sm89),
            (9, 0) => Some(Arch::Sm90),
            (10, 0) => Some(Arch::Sm100),
            (10, 3) => Some(Arch::Sm103),
            (12, _) => Some(Arch::Sm120),
            (8..=11, _) => Some(Arch::Sm80),
            // Whatever comes later: the smaller budget of shared memory.
            (13.., _) => Some(Arch::Sm89),
            _ => None,
        }
    }

    /// Whether its kernels are those of the `mma.sync` family.
    pub const fn is_mma_sync(self) -> bool {
        matches!(self, Arch::Sm80 | Arch::Sm86 | Arch::Sm89 | Arch::Sm120)
    }

    /// Whether a GPU of generation `gpu` runs its kernels: those of the `mma.sync` family run on later generations too.
    pub fn runs_on(self, gpu: Arch) -> bool {
        self == gpu || (self.is_mma_sync() && (self as u8) < gpu as u8)
    }

    /// Multiprocessors of the usual part (A100, A40, RTX 4090, H100/H200 SXM, B200, RTX 5090).
    pub fn usual_processors(self) -> u32 {
        match self {
            Arch::Sm80 => 108,
            Arch::Sm86 => 84,
            Arch::Sm89 => 128,
            Arch::Sm120 => 170,
            Arch::Sm90 => 132,
            Arch::Sm100 | Arch::Sm103 => 148,
        }
    }

    /// What PTX is emitted for.
    pub fn target(self) -> Target {
        match self {
            Arch::Sm80 => Target::Sm80,
            Arch::Sm86 => Target::Sm86,
            Arch::Sm89 => Target::Sm89,
            Arch::Sm90 => Target::Sm90a,
            Arch::Sm100 => Target::Sm100a,
            Arch::Sm103 => Target::Sm103a,
            Arch::Sm120 => Target::Sm120,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.target().name())
    }
}

/// A name that no generation has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArch(String);

impl fmt::Display for UnknownArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Arch::ALL.map(|arch| arch.to_string()).join(", ");
        write!(f, "no kernels are for `{}`: they are for {names}", self.0)
    }
}

impl std::error::Error for UnknownArch {}

impl FromStr for Arch {
    type Err = UnknownArch;

    /// Reads `sm_80` or `sm80`; the `a` of `sm_90a` may be left out.
    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        let number = |name: &str| name.replace('_', "").trim_end_matches('a').to_string();
        let found = Arch::ALL.into_iter().find(|arch| number(&arch.to_string()) == number(name));
        found.ok_or_else(|| UnknownArch(name.to_string()))
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
    /// CTA pair shares wide rows).
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

/// Whether a Hopper kernel for at most 16 rows of queries takes DeepSeek-V4's fp8 rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FewHeads {
    /// Where a KV head has at most 16 query heads. That does not depend on the batch, so neither do a sequence's bits.
    Auto,
    /// Never: the kernel for 64 rows takes them, however many heads there are.
    Never,
    /// Wherever it can: all segments have fp8 rows of 512 columns and no mask tensor. More than 16 heads are several
    /// work tiles then, which read the same rows.
    Always,
}

/// A name that is no choice of [`FewHeads`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFewHeads(String);

impl fmt::Display for UnknownFewHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not known: there are `auto`, `always` and `never`", self.0)
    }
}

impl std::error::Error for UnknownFewHeads {}

impl FromStr for FewHeads {
    type Err = UnknownFewHeads;

    /// Reads `auto`, `always` or `never`.
    fn from_str(name: &str) -> Result<Self, UnknownFewHeads> {
        match name {
            "auto" => Ok(FewHeads::Auto),
            "always" => Ok(FewHeads::Always),
            "never" => Ok(FewHeads::Never),
            other => Err(UnknownFewHeads(other.to_string())),
        }
    }
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
    /// Which kernel takes fp8 rows, on Hopper.
    pub few_heads: FewHeads,
    /// Whether tensor copies bring the bytes of MODEL1 rows to warps that unpack them from shared memory, on Blackwell,
    /// where one tensor map reaches all rows. Otherwise lanes load them to registers, which is the usual choice until
    /// both have been measured on a GPU.
    pub packed_copies: bool,
    /// Whether warps leave the times at which they begin and end in a buffer `stamps`, where work is shared out by
    /// lengths on the device: u64 nanoseconds, `[CTA, 16 warps, 2]`.
    pub stamps: bool,
    /// KV tiles of a CTA's share from which on the last sixteenth of the work is left to the CTAs that are done first,
    /// where work is shared out by lengths on the device, on Hopper. The usual choice is never, until it has been
    /// measured on a GPU.
    pub tail_from: Option<u32>,
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
            few_heads: FewHeads::Auto,
            packed_copies: false,
            stamps: false,
            tail_from: None,
            any_address: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_the_kernel_for_few_heads_are_read() {
        assert_eq!("auto".parse(), Ok(FewHeads::Auto));
        assert_eq!("always".parse(), Ok(FewHeads::Always));
        assert_eq!("never".parse(), Ok(FewHeads::Never));
        let error = "16".parse::<FewHeads>().expect_err("no choice").to_string();
        assert!(error.contains("`16`") && error.contains("`always`"), "{error}");
    }

    #[test]
    fn generations_are_read_with_and_without_their_underscore() {
        for (name, arch) in [("sm80", Arch::Sm80), ("sm_90a", Arch::Sm90), ("sm_120", Arch::Sm120)]
        {
            assert_eq!(name.parse(), Ok(arch));
        }
        let error = "sm_75".parse::<Arch>().expect_err("no generation").to_string();
        assert!(error.contains("`sm_75`") && error.contains("sm_80, sm_86"), "{error}");
    }
}
