//! The kernels there are, behind one face.

use crate::arguments::{Arguments, Memory};
use crate::exchange::Size;
use crate::options::{Arch, PlanOptions};
use crate::task::{Params, Task, Tiling};
use crate::{sm90, sm100};
use problem::Problem;
use program::Argument;
use ptx::build::{Builder, Kernel, Target};
use std::fmt;

/// A kernel with its tile sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// Warpgroups that load and multiply.
    Hopper(sm90::Config),
    /// Two warpgroups that share wide rows.
    HopperWide(sm90::wide::Config),
    /// Six warps around tensor memory.
    SixWarps(sm100::Config),
    /// Sixteen warps, two blocks of rows.
    Paired(sm100::Config),
    /// A pair of CTAs that shares wide rows.
    PairOfCtas(sm100::wide::Config),
}

impl Schedule {
    /// The schedule for segment `n` of a problem.
    pub fn choose(problem: &Problem, n: usize, arch: Arch, options: &PlanOptions) -> Self {
        match arch {
            Arch::Sm90 if sm90::wide::Config::suits(problem) => {
                Schedule::HopperWide(sm90::wide::Config::choose(problem, n))
            }
            Arch::Sm90 => Schedule::Hopper(sm90::Config::choose(problem, n, options)),
            Arch::Sm100 | Arch::Sm103 if sm100::wide::Config::suits(problem, options) => {
                Schedule::PairOfCtas(sm100::wide::Config::choose(problem, n))
            }
            Arch::Sm100 | Arch::Sm103 => {
                let config = sm100::Config::choose(problem, n, options);
                if config.is_paired() {
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
            (Arch::Sm90, "key dim") => (sm90::wide::Config::MOST_KEY_COLUMNS, 8),
            (Arch::Sm90, _) => (sm90::wide::Config::MOST_VALUE_COLUMNS, 8),
            (_, "key dim") => (sm100::Config::MOST_KEY_COLUMNS.into(), 8),
            _ => (512, 16),
        }
    }

    /// Tiles of queries of one KV head.
    pub fn tiles(&self, problem: &Problem) -> u32 {
        let queries = problem.longest_query();
        match self {
            Schedule::Hopper(c) => {
                c.packing.blocks(c.group, queries).div_ceil(c.warpgroups.into()) as u32
            }
            Schedule::HopperWide(c) => {
                c.packing.blocks(c.group, queries).div_ceil(c.copies.into()) as u32
            }
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
            Schedule::Hopper(config) => config.warpgroups * 64,
            Schedule::HopperWide(_) => 64,
            Schedule::SixWarps(_) => sm100::ROWS,
            Schedule::Paired(_) => 2 * sm100::ROWS,
            Schedule::PairOfCtas(_) => sm100::ROWS / 2,
        }
    }

    /// Keys per tile.
    pub fn tile(&self) -> u32 {
        match self {
            Schedule::Hopper(config) => config.tile,
            Schedule::HopperWide(_) => sm90::wide::TILE,
            Schedule::SixWarps(_) | Schedule::Paired(_) | Schedule::PairOfCtas(_) => sm100::TILE,
        }
    }

    /// CTAs that work on a tile together.
    pub fn cluster(&self) -> u32 {
        match self {
            Schedule::HopperWide(config) => config.cluster(),
            Schedule::PairOfCtas(_) => sm100::wide::CLUSTER,
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
        matches!(self, Schedule::HopperWide(_))
    }

    /// Whether its work can be shared out by lengths on the device.
    pub fn shares_out(&self) -> bool {
        match self {
            Schedule::Hopper(config) => !config.listed,
            _ => false,
        }
    }

    /// How large the part of a unit is that one CTA gives to another.
    pub fn part_size(&self) -> Size {
        match self {
            Schedule::Hopper(config) => config.part_size(),
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
            Schedule::Hopper(config) => config.threads(),
            Schedule::HopperWide(config) => config.threads(),
            Schedule::SixWarps(config) => sm100::six_warps::threads(config),
            Schedule::Paired(_) => sm100::paired::THREADS,
            Schedule::PairOfCtas(config) => sm100::wide::threads(config),
        }
    }

    /// How a tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        match self {
            Schedule::Hopper(config) => config.tiling(),
            Schedule::HopperWide(config) => config.tiling(),
            Schedule::SixWarps(config) | Schedule::Paired(config) => config.tiling(),
            Schedule::PairOfCtas(config) => config.tiling(),
        }
    }

    /// Whether values come with the keys they are columns of.
    fn shares_keys(&self) -> bool {
        match self {
            Schedule::Hopper(config) => config.shared_kv,
            Schedule::HopperWide(config) => config.shared_kv,
            Schedule::SixWarps(config) | Schedule::Paired(config) => config.shared_kv,
            Schedule::PairOfCtas(_) => false,
        }
    }

    /// Emits the kernel `name`, one CTA per multiprocessor, and its arguments.
    pub fn emit(
        &self,
        name: &str,
        target: Target,
        task: &Task<'_>,
        memory: &Memory,
    ) -> (Kernel, Vec<Argument>) {
        let mut b = Builder::new(name, target);
        b.launch_bounds(self.threads(), 1);
        let mut args = Arguments::default();
        let apart = !self.shares_keys();
        let params = Params::declare(&mut b, &mut args, self.tiling(), task, memory, apart);
        match self {
            Schedule::Hopper(config) => sm90::emit(&mut b, *config, params),
            Schedule::HopperWide(config) => sm90::wide::emit(&mut b, *config, params),
            Schedule::SixWarps(config) => sm100::six_warps::emit(&mut b, *config, params),
            Schedule::Paired(config) => sm100::paired::emit(&mut b, *config, params),
            Schedule::PairOfCtas(config) => sm100::wide::emit(&mut b, *config, params),
        }
        (b.finish(), args.into_values())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Hopper(c) => {
                let rows = c.warpgroups * 64;
                write!(f, "{rows} rows × {} keys per CTA, {} buffers", c.tile, c.stages)
            }
            Schedule::HopperWide(c) => write!(
                f,
                "64 rows × {} keys per CTA, {} CTAs share copies, {} merge parts of the keys, {} buffers",
                sm90::wide::TILE,
                c.copies,
                c.parts,
                c.stages
            ),
            Schedule::PairOfCtas(c) => write!(
                f,
                "{} warps in each of a pair of CTAs, {} rows × {} keys, {} slots",
                self.threads() / 32,
                sm100::ROWS,
                sm100::TILE,
                c.slots
            ),
            Schedule::SixWarps(c) | Schedule::Paired(c) => write!(
                f,
                "{} warps, {} rows × {} keys per CTA, {} slots of {} columns",
                self.threads() / 32,
                c.blocks * sm100::ROWS,
                sm100::TILE,
                c.slots,
                c.slot_columns
            ),
        }
    }
}
