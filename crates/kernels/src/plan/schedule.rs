//! The kernels there are, behind one face.

use crate::ampere;
use crate::blackwell::{self, cta_pair, one_block, two_blocks};
use crate::call::memory::Memory;
use crate::call::task::{Params, Task, Tiling};
use crate::hopper::{few_heads, narrow, wide};
use crate::plan::options::{Arch, PlanOptions};
use crate::work::exchange::Size;
use problem::Problem;
use program::Argument;
use program::build::Arguments;
use ptx::build::{Builder, Kernel, Target};
use std::fmt;

/// A kernel with its tile sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// Warps that copy and multiply, on every GPU since Ampere.
    MmaSync(ampere::Config),
    /// Warpgroups that load and multiply.
    Hopper(narrow::Config),
    /// Two warpgroups that share wide rows.
    HopperWide(wide::Config),
    /// Eight warps that unpack rows to registers, for few heads.
    HopperFewHeads(few_heads::Config),
    /// Six warps around tensor memory.
    SixWarps(blackwell::Config),
    /// Sixteen warps, two blocks of rows.
    Paired(blackwell::Config),
    /// A pair of CTAs that shares wide rows.
    PairOfCtas(cta_pair::Config),
}

impl Schedule {
    /// The schedule for segment `n` of a problem.
    pub fn choose(problem: &Problem, n: usize, arch: Arch, options: &PlanOptions) -> Self {
        match arch {
            _ if arch.is_mma_sync() || problem.segments[n].is_e4m3() => {
                Schedule::MmaSync(ampere::Config::choose(problem, n, arch, options))
            }
            Arch::Sm90 if few_heads::Config::suits(problem, options) => {
                Schedule::HopperFewHeads(few_heads::Config::choose(problem))
            }
            Arch::Sm90 if wide::Config::suits(problem) => {
                Schedule::HopperWide(wide::Config::choose(problem, n))
            }
            Arch::Sm90 => Schedule::Hopper(narrow::Config::choose(problem, n, options)),
            Arch::Sm100 | Arch::Sm103 if cta_pair::Config::suits(problem, options) => {
                Schedule::PairOfCtas(cta_pair::Config::choose(problem, n, options))
            }
            _ => {
                let config = blackwell::Config::choose(problem, n, options);
                if config.has_two_blocks() {
                    Schedule::Paired(config)
                } else {
                    Schedule::SixWarps(config)
                }
            }
        }
    }

    /// The largest key or value dim, and the step in which dims above 256 go.
    pub fn largest_dim(arch: Arch, name: &str) -> (u64, u64) {
        match (arch, name) {
            (arch, "key dim") if arch.is_mma_sync() => (ampere::MOST_KEY_COLUMNS, 8),
            (Arch::Sm90, "key dim") => (wide::Config::MOST_KEY_COLUMNS, 8),
            (Arch::Sm90, _) => (wide::Config::MOST_VALUE_COLUMNS, 8),
            (_, "key dim") => (blackwell::Config::MOST_KEY_COLUMNS.into(), 8),
            _ => (512, 16),
        }
    }

    /// Tiles of queries of one KV head.
    pub fn tiles(&self, problem: &Problem) -> u32 {
        let queries = problem.longest_query();
        match self {
            Schedule::MmaSync(c) => {
                let blocks = c.packing.blocks(c.group, queries);
                blocks.div_ceil(c.blocks().into()) as u32 * c.slices
            }
            Schedule::Hopper(c) => {
                c.packing.blocks(c.group, queries).div_ceil(c.warpgroups.into()) as u32
            }
            Schedule::HopperWide(c) => {
                c.packing.blocks(c.group, queries).div_ceil(c.multicast.into()) as u32
            }
            Schedule::HopperFewHeads(c) => c.packing.blocks(c.group, queries) as u32,
            Schedule::PairOfCtas(c) => {
                c.packing.blocks(c.group, queries).div_ceil(c.blocks.into()) as u32
            }
            Schedule::SixWarps(c) | Schedule::Paired(c) => {
                let blocks = c.packing.blocks(c.group, queries);
                blocks.div_ceil(c.blocks.into()) as u32 * c.slices
            }
        }
    }

    /// Rows of queries per CTA.
    pub fn rows(&self) -> u32 {
        match self {
            Schedule::MmaSync(config) => config.blocks() * ampere::ROWS,
            Schedule::Hopper(config) => config.warpgroups * 64,
            Schedule::HopperWide(_) => 64,
            Schedule::HopperFewHeads(_) => few_heads::ROWS,
            Schedule::SixWarps(_) => blackwell::ROWS,
            Schedule::Paired(_) => 2 * blackwell::ROWS,
            Schedule::PairOfCtas(_) => blackwell::ROWS / 2,
        }
    }

    /// Keys per tile.
    pub fn tile(&self) -> u32 {
        match self {
            Schedule::MmaSync(config) => config.shape.tile,
            Schedule::Hopper(config) => config.tile,
            Schedule::HopperWide(_) => wide::TILE,
            Schedule::HopperFewHeads(_) => few_heads::TILE,
            Schedule::SixWarps(_) | Schedule::Paired(_) | Schedule::PairOfCtas(_) => {
                blackwell::TILE
            }
        }
    }

    /// CTAs that work on a tile together.
    pub fn cluster(&self) -> u32 {
        match self {
            Schedule::HopperWide(config) => config.cluster(),
            Schedule::PairOfCtas(_) => cta_pair::CLUSTER,
            _ => 1,
        }
    }

    /// The same kernel on parts of the keys that a cluster merges, in all ways there are.
    pub fn merging(&self) -> Vec<Schedule> {
        match self {
            Schedule::HopperWide(config) => config.merging().map(Schedule::HopperWide).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether one launch takes several segments.
    pub fn takes_segments(&self) -> bool {
        match self {
            Schedule::HopperWide(_) | Schedule::HopperFewHeads(_) => true,
            Schedule::MmaSync(config) => config.takes_segments(),
            _ => false,
        }
    }

    /// Whether its work can be shared out by lengths on the device.
    pub fn shares_out(&self) -> bool {
        match self {
            Schedule::Hopper(config) => !config.listed,
            Schedule::HopperWide(config) => config.shares_out(),
            Schedule::SixWarps(config) | Schedule::Paired(config) => config.shares_out(),
            Schedule::MmaSync(_) | Schedule::HopperFewHeads(_) | Schedule::PairOfCtas(_) => false,
        }
    }

    /// Whether a role of the kernel takes pieces of the tail for its CTA.
    pub fn leads(&self) -> bool {
        matches!(self, Schedule::Hopper(_) | Schedule::HopperWide(_)) && self.cluster() == 1
    }

    /// CTAs that a multiprocessor has room for.
    pub fn resident(&self) -> u32 {
        match self {
            Schedule::MmaSync(config) => config.shape.resident,
            _ => 1,
        }
    }

    /// What a tile of keys costs where only one of a CTA's blocks of rows has queries.
    pub fn lonely_tile(&self) -> f32 {
        match self {
            Schedule::Hopper(config) => config.lonely_tile(),
            _ => 1.0,
        }
    }

    /// How large the part of a work tile is that one CTA gives to another.
    pub fn part_size(&self) -> Size {
        match self {
            Schedule::Hopper(config) => config.part_size(),
            Schedule::HopperWide(config) => config.part_size(),
            Schedule::SixWarps(config) | Schedule::Paired(config) => config.part_size(),
            _ => panic!("a kernel whose work is not shared out by lengths"),
        }
    }

    /// Parts of the keys that a cluster merges.
    pub fn merged_parts(&self) -> u32 {
        match self {
            Schedule::HopperWide(config) => config.parts,
            _ => 1,
        }
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        match self {
            Schedule::MmaSync(config) => config.threads(),
            Schedule::Hopper(config) => config.threads(),
            Schedule::HopperWide(config) => config.threads(),
            Schedule::HopperFewHeads(_) => few_heads::THREADS,
            Schedule::SixWarps(config) => one_block::threads(config),
            Schedule::Paired(_) => two_blocks::THREADS,
            Schedule::PairOfCtas(config) => cta_pair::threads(config),
        }
    }

    /// How a tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        match self {
            Schedule::MmaSync(config) => config.tiling(),
            Schedule::Hopper(config) => config.tiling(),
            Schedule::HopperWide(config) => config.tiling(),
            Schedule::HopperFewHeads(config) => config.tiling(),
            Schedule::SixWarps(config) | Schedule::Paired(config) => config.tiling(),
            Schedule::PairOfCtas(config) => config.tiling(),
        }
    }

    /// Whether values come with the keys they are columns of.
    fn shares_keys(&self) -> bool {
        match self {
            Schedule::MmaSync(config) => config.shared_kv,
            Schedule::Hopper(config) => config.shared_kv,
            Schedule::HopperWide(config) => config.shared_kv,
            Schedule::HopperFewHeads(_) => true,
            Schedule::SixWarps(config) | Schedule::Paired(config) => config.shared_kv,
            Schedule::PairOfCtas(_) => false,
        }
    }

    /// Emits the kernel `name`, as many CTAs per multiprocessor as are [resident](Self::resident), and its arguments.
    pub fn emit(
        &self,
        name: &str,
        target: Target,
        task: &Task<'_>,
        memory: &Memory,
    ) -> (Kernel, Vec<Argument>) {
        let mut b = Builder::new(name, target);
        b.launch_bounds(self.threads(), self.resident());
        let mut args = Arguments::default();
        let apart = !self.shares_keys();
        let params = Params::declare(&mut b, &mut args, self.tiling(), task, memory, apart);
        match self {
            Schedule::MmaSync(config) => ampere::emit(&mut b, *config, params),
            Schedule::Hopper(config) => narrow::emit(&mut b, *config, params),
            Schedule::HopperWide(config) => wide::emit(&mut b, *config, params),
            Schedule::HopperFewHeads(config) => few_heads::emit(&mut b, *config, params),
            Schedule::SixWarps(config) => one_block::emit(&mut b, *config, params),
            Schedule::Paired(config) => two_blocks::emit(&mut b, *config, params),
            Schedule::PairOfCtas(config) => cta_pair::emit(&mut b, *config, params),
        }
        (b.finish(), args.into_values())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::MmaSync(c) => write!(
                f,
                "{} warps, {} rows × {} keys per CTA, {} CTAs per multiprocessor, {} buffers",
                c.shape.warps,
                c.blocks() * ampere::ROWS,
                c.shape.tile,
                c.shape.resident,
                c.stages
            ),
            Schedule::Hopper(c) => {
                let rows = c.warpgroups * 64;
                write!(f, "{rows} rows × {} keys per CTA, {} buffers", c.tile, c.stages)
            }
            Schedule::HopperWide(c) => write!(
                f,
                "64 rows × {} keys per CTA, {} CTAs share copies, {} merge parts of the keys, {} buffers",
                wide::TILE,
                c.multicast,
                c.parts,
                c.stages
            ),
            Schedule::HopperFewHeads(_) => write!(
                f,
                "{} rows × {} keys per CTA, unpacked to registers, {} buffers",
                few_heads::ROWS,
                few_heads::TILE,
                few_heads::STAGES
            ),
            Schedule::PairOfCtas(c) => write!(
                f,
                "{} warps in each of a pair of CTAs, {} rows × {} keys, {} slots",
                self.threads() / 32,
                blackwell::ROWS,
                blackwell::TILE,
                c.slots
            ),
            Schedule::SixWarps(c) | Schedule::Paired(c) => write!(
                f,
                "{} warps, {} rows × {} keys per CTA, {} slots of {} columns",
                self.threads() / 32,
                c.blocks * blackwell::ROWS,
                blackwell::TILE,
                c.slots,
                c.slot_columns
            ),
        }
    }
}
