//! One cluster: its CTAs, their memories, warps and barriers.
//!
//! A cluster is what runs on one host thread. Only global memory is shared with other clusters.

mod barrier;
mod cta;
mod deadlock;
mod names;
mod schedule;
mod site;
mod stopped;

pub use barrier::{ClusterBarrier, NamedBarrier};
pub use cta::{CtaRank, PerCta};
pub use schedule::Status;
pub(crate) use site::Run;

use crate::check::{Checker, Clusters, Earlier, Knowledge, Moment, Unwritten};
use crate::engine::{Engines, Group};
use crate::error::Site;
use crate::instruction::{Numbers, PartialWgmma, TensorState};
use crate::limits::Held;
use crate::load::{Fill, Frame, Kernel, RESERVED_SHARED, SHARED_SCRATCH, Special};
use crate::matrix::{TMEM_COLUMNS, TMEM_LANES};
use crate::mbarrier::{Mbarrier, Touch};
use crate::memory::{Global, Shared, address};
use crate::options::{Options, Random};
use crate::register::{R64, Reg, Registers, Row32, Row64};
use crate::report::Counters;
use crate::rules::{Allowed, Rule, add_allowed};
use crate::timing::EngineTimes;
use crate::trace::{Trace, Track};
use crate::warp::{PerWarp, Warp, WarpId};
use crate::watchdog::Watchdog;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Everything the clusters of a launch share.
pub struct LaunchState<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Parameter bytes.
    pub params: Vec<u8>,
    /// Global memory.
    pub global: &'a Global,
    /// Addresses of module variables.
    pub variables: Vec<(R64, u64)>,
    /// Where the CTAs of a cooperative launch meet, if they do.
    pub grid_workspace: u64,
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub dynamic_shared: u32,
    /// Options.
    pub options: &'a Options,
    /// What warps start without, where that is checked.
    pub(crate) undefined: Option<Box<Unwritten>>,
    /// What earlier launches wrote that may still be at work.
    pub(crate) earlier: Option<Earlier>,
    /// What clusters did to global memory.
    pub(crate) clusters: Clusters,
    /// Held during an atomic operation that is wider than the host's.
    pub(crate) wide_atomics: Mutex<()>,
    /// Ends the launch when it takes too long or a cluster has failed.
    pub(crate) watchdog: Watchdog,
    /// Moves on while any cluster does.
    pub(crate) heartbeat: AtomicU64,
    /// The first cluster that has neither started nor been cancelled.
    pub(crate) next: AtomicU32,
}

impl LaunchState<'_> {
    /// Clusters of the grid.
    pub fn clusters(&self) -> u32 {
        (0..3).map(|i| self.grid[i] / self.cluster[i]).product()
    }

    /// Whether clusters are left that have neither started nor been cancelled.
    pub fn any_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.clusters()
    }

    /// Takes the next cluster off the grid, to run it or because another cancels it; none once an earlier one
    /// has failed.
    pub fn start_next(&self) -> Option<u32> {
        let number = self.any_left().then(|| self.next.fetch_add(1, Ordering::Relaxed))?;
        let failed = self.watchdog.has_failed_before(number);
        (number < self.clusters() && !failed).then_some(number)
    }

    /// `%ctaid` of the first CTA of a cluster; linear numbers have x fastest.
    pub fn first_cta(&self, number: u32) -> [u32; 3] {
        let per_axis: [u32; 3] = std::array::from_fn(|i| self.grid[i] / self.cluster[i]);
        let at = split(number, per_axis);
        std::array::from_fn(|i| at[i] * self.cluster[i])
    }

    /// `%ctaid` of the CTA of a rank in a cluster.
    pub(crate) fn cta(&self, number: u32, rank: u32) -> [u32; 3] {
        let (first, inside) = (self.first_cta(number), split(rank, self.cluster));
        std::array::from_fn(|i| first[i] + inside[i])
    }

    fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Bytes of host memory that a cluster starts with.
    fn cluster_bytes(&self) -> u64 {
        let Frame { r32, r64, p } = self.kernel.frame;
        let row = 32 * (4 * u64::from(r32) + 8 * u64::from(r64)) + 4 * u64::from(p);
        let warp = row + 32 * u64::from(self.kernel.local_bytes);
        let tensor = 4 * (TMEM_LANES * TMEM_COLUMNS) as u64;
        let warps = u64::from(self.threads().div_ceil(32));
        let ctas: u64 = self.cluster.iter().map(|extent| u64::from(*extent)).product();
        ctas * (warps * warp + u64::from(self.shared_size()) + tensor)
    }

    /// Bytes of shared memory of a CTA, the reserved ones included.
    pub fn shared_size(&self) -> u32 {
        self.kernel.dynamic_shared + self.dynamic_shared
    }
}

/// One CTA.
pub struct Cta {
    /// `%ctaid`.
    pub id: [u32; 3],
    /// Shared memory.
    pub shared: Shared,
    /// Mbarriers by offset.
    pub mbarriers: HashMap<u32, Mbarrier>,
    /// Mbarriers that `mbarrier.inval` ended, and where.
    pub(crate) invalidated: HashMap<u32, (Touch, Mbarrier)>,
    /// Tensor memory.
    pub tensor: TensorState,
    /// Named barriers.
    pub named: Vec<NamedBarrier>,
    /// Its warps, as indices into the cluster's.
    pub warps: std::ops::Range<usize>,
    /// Warps that have not exited.
    pub live_warps: u32,
    /// Registers, of each lane of a warp, that warps gave back and no other took.
    pub spare_registers: u32,
    /// The last access of each warp of another CTA to its shared memory (pedantic runs only).
    pub(crate) visits: Vec<(Touch, Moment)>,
    /// The first time each warp saw a request to cancel a cluster refused.
    pub(crate) refusals: Vec<(Touch, Option<Moment>)>,
}

/// One cluster.
pub struct Cluster<'a> {
    pub(crate) launch: &'a LaunchState<'a>,
    pub(crate) kernel: &'a Kernel,
    /// Linear number in the grid.
    pub(crate) number: u32,
    pub(crate) ctas: PerCta<Cta>,
    pub(crate) warps: PerWarp<Warp>,
    pub(crate) barrier: ClusterBarrier,
    pub(crate) engines: Engines,
    /// The happens-before checker, unless checks are off.
    pub(crate) checker: Option<Checker>,
    /// `wgmma`s that not all warps of a warpgroup have reached, by its first warp.
    pub(crate) warpgroups: HashMap<WarpId, Vec<PartialWgmma>>,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    /// Warp instructions executed, and how many of them the watchdog knows of.
    pub(crate) steps: u64,
    watched: u64,
    /// Changes that others may wait for; a cluster without any is stuck.
    pub(crate) events: u64,
    /// Looks at memory or barriers that others may change.
    pub(crate) polls: u64,
    pub(crate) progress: schedule::Progress,
    /// When engines are free, per CTA.
    pub(crate) engine_times: PerCta<EngineTimes>,
    /// When groups of asynchronous work were done.
    pub(crate) group_times: Vec<(Group, u64)>,
    pub(crate) trace: Trace,
    pub(crate) notes: Vec<String>,
    /// Broken rules that are allowed.
    pub(crate) allowed: RefCell<Vec<Allowed>>,
    /// What it knows of other clusters.
    pub(crate) knowledge: Knowledge,
    /// The numbers that registers hold, as far as anyone asked.
    pub(crate) numbers: HashMap<Reg, Option<Numbers>>,
    /// The first wait that looked too late.
    missed: Option<schedule::Missed>,
    /// The warp an adversary lets run.
    favourite: WarpId,
    /// What a random schedule does to each warp.
    sleeps: PerWarp<schedule::Sleep>,
    /// Its share of the memory that a run may use.
    held: Held<'a>,
}

/// Named barriers of a CTA.
const NAMED_BARRIERS: usize = 16;

impl<'a> Cluster<'a> {
    /// The cluster of linear number `number`, x fastest, if there is memory for one.
    pub fn new(launch: &'a LaunchState<'a>, number: u32) -> Run<Cluster<'a>> {
        let held = launch.global.tally().hold("a cluster", launch.cluster_bytes())?;
        let size: u32 = launch.cluster.iter().product();
        let mut cluster = Cluster {
            launch,
            kernel: launch.kernel,
            number,
            ctas: PerCta::default(),
            warps: PerWarp::default(),
            barrier: ClusterBarrier::default(),
            engines: Engines::default(),
            checker: None,
            warpgroups: HashMap::new(),
            random: Random::new(launch.options.seed.wrapping_add(u64::from(number))),
            counters: Counters::default(),
            steps: 0,
            watched: 0,
            events: 0,
            polls: 0,
            progress: schedule::Progress::default(),
            engine_times: (0..size).map(|_| EngineTimes::default()).collect(),
            group_times: Vec::new(),
            trace: Trace::default(),
            notes: Vec::new(),
            allowed: RefCell::default(),
            knowledge: Knowledge::default(),
            numbers: HashMap::new(),
            missed: None,
            favourite: WarpId(0),
            sleeps: PerWarp::default(),
            held,
        };
        for rank in 0..size {
            cluster.add_cta(rank, launch.cta(number, rank));
        }
        // The youngest warp first: it is the one others wait for least often.
        cluster.favourite = WarpId(cluster.warps.len() - 1);
        cluster.sleeps = cluster.warps.iter().map(|_| schedule::Sleep::default()).collect();
        cluster.checker = launch
            .options
            .checks
            .then(|| Checker::new(cluster.warps.len(), launch.options.pedantic));
        Ok(cluster)
    }

    /// Takes the memory that the cluster has come to use since it started.
    fn hold_what_grew(&mut self) -> Run<()> {
        let shadows = self.checker.as_ref().map_or(0, Checker::bytes);
        let slices = self.trace.slices.len() * size_of::<crate::trace::Slice>();
        let bytes = self.launch.cluster_bytes() + shadows + slices as u64;
        self.held.grow("what is known of a cluster", bytes)?;
        Ok(self.launch.clusters.hold(self.launch.global.tally())?)
    }

    fn add_cta(&mut self, rank: u32, id: [u32; 3]) {
        let threads = self.launch.threads();
        let first = self.warps.len();
        for index in 0..threads.div_ceil(32) {
            let live = threads - 32 * index;
            let live = if live >= 32 { u32::MAX } else { (1 << live) - 1 };
            let registers = self.registers(rank, id, index);
            let local = self.kernel.local_bytes as usize;
            let mut warp = Warp::new(CtaRank(rank as usize), index, registers, live, local);
            warp.register_count = self.kernel.registers_at_launch;
            warp.unwritten = self.launch.undefined.clone();
            self.warps.push(warp);
        }
        self.ctas.push(Cta {
            id,
            shared: self.shared(),
            mbarriers: HashMap::new(),
            invalidated: HashMap::new(),
            tensor: TensorState::default(),
            named: vec![NamedBarrier::default(); NAMED_BARRIERS],
            warps: first..self.warps.len(),
            live_warps: (self.warps.len() - first) as u32,
            spare_registers: 0,
            visits: Vec::new(),
            refusals: Vec::new(),
        });
    }

    /// Shared memory nobody wrote, but for what the system cleared for libraries.
    fn shared(&self) -> Shared {
        let mut shared = Shared::new(self.launch.shared_size() as usize);
        let scratch = self.kernel.first_shared..RESERVED_SHARED;
        shared.write(scratch.start as usize, scratch.len()).fill(0);
        shared
    }

    /// Register files with constants and special registers filled in.
    fn registers(&self, rank: u32, cta: [u32; 3], warp: u32) -> Registers {
        let frame = self.kernel.frame;
        let mut r = Registers::new(frame.r32 as usize, frame.r64 as usize, frame.p as usize);
        for fill in &self.kernel.fills {
            match *fill {
                Fill::Const32(d, value) => r.set32(d, u32::MAX, &Row32::splat(value)),
                Fill::Const64(d, value) => r.set64(d, u32::MAX, &Row64::splat(value)),
                Fill::Special32(d, special) => {
                    let row = self.special(special, rank, cta, warp);
                    r.set32(d, u32::MAX, &Row32(row));
                }
                Fill::Special64(d, special) => {
                    let row = self.special(special, rank, cta, warp);
                    r.set64(d, u32::MAX, &Row64(row.map(u64::from)));
                }
                Fill::Shared32(d, offset) => {
                    r.set32(d, u32::MAX, &Row32::splat(address::shared(rank, offset)));
                }
                Fill::Shared64(d, offset) => {
                    let value = u64::from(address::shared(rank, offset));
                    r.set64(d, u32::MAX, &Row64::splat(value));
                }
            }
        }
        for (d, value) in &self.launch.variables {
            r.set64(*d, u32::MAX, &Row64::splat(*value));
        }
        r
    }

    fn special(&self, special: Special, rank: u32, cta: [u32; 3], warp: u32) -> [u32; 32] {
        let LaunchState { grid, block, cluster, .. } = *self.launch;
        let thread = |lane: u32| split(32 * warp + lane, block);
        let lane = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|i| f(i as u32));
        let same = |value: u32| [value; 32];
        let row = u64::from(cta[1]) + u64::from(grid[1]) * u64::from(cta[2]);
        let linear = u64::from(cta[0]) + u64::from(grid[0]).wrapping_mul(row);
        match special {
            Special::Tid(i) => lane(&|l| thread(l)[i]),
            Special::Ntid(i) => same(block[i]),
            Special::Ctaid(i) => same(cta[i]),
            Special::Nctaid(i) => same(grid[i]),
            Special::ClusterCtaid(i) => same(cta[i] % cluster[i]),
            Special::ClusterNctaid(i) => same(cluster[i]),
            Special::Clusterid(i) => same(cta[i] / cluster[i]),
            Special::Nclusterid(i) => same(grid[i] / cluster[i]),
            Special::CtaRank => same(rank),
            Special::ClusterSize => same(cluster.iter().product()),
            Special::ExplicitCluster => same(u32::from(cluster != [1, 1, 1])),
            Special::Lane => lane(&|l| l),
            Special::Warp => same(warp),
            Special::Warps => same(64),
            Special::Sm => same((linear % u64::from(SMS)) as u32),
            Special::Sms => same(SMS),
            Special::Grid | Special::Zero => same(0),
            Special::MaskEq => lane(&|l| 1 << l),
            Special::MaskLe => lane(&|l| u32::MAX >> (31 - l)),
            Special::MaskLt => lane(&|l| (1 << l) - 1),
            Special::MaskGe => lane(&|l| u32::MAX << l),
            Special::MaskGt => lane(&|l| (u32::MAX << l) & !(1 << l)),
            Special::DynamicShared => same(self.launch.dynamic_shared),
            Special::TotalShared => same(self.launch.shared_size()),
            Special::ReservedShared => same(RESERVED_SHARED),
            Special::SharedScratch => same(address::shared(rank, SHARED_SCRATCH)),
            Special::GridWorkspace { upper } => {
                same((self.launch.grid_workspace >> if upper { 32 } else { 0 }) as u32)
            }
        }
    }

    /// All warps have exited: nothing may be left behind.
    pub(crate) fn finish(&mut self) -> Run<()> {
        while !self.engines.is_idle() {
            self.complete_next(None, true)?;
        }
        for (rank, cta) in self.ctas.pairs() {
            if let Some((column, n)) = cta.tensor.allocations.first() {
                let message = format!(
                    "CTA rank {rank} exits with {n} tensor-memory columns allocated at column {column}"
                );
                let site =
                    Site { kernel: self.kernel.name.clone(), cta: cta.id, ..Site::default() };
                let help = "tcgen05.dealloc everything before the last warp exits";
                self.survivable_at(site, Rule::TmemLeak, message, Some(help))?;
            }
        }
        Ok(())
    }

    /// What the run counted, its timeline, and notes for the user.
    pub fn into_results(mut self) -> Results {
        let end = self.warps.iter().map(|w| w.time).max().unwrap_or(0);
        for w in self.warps.ids() {
            let warp = &self.warps[w];
            let (since, time) = (warp.running_since, warp.time);
            self.trace_slice(Track::Warp(w), "run", since, time);
        }
        self.counters.cycles += end;
        let allowed = self.allowed.into_inner();
        Results { counters: self.counters, trace: self.trace, notes: self.notes, allowed }
    }
}

/// Notes of a launch that are kept.
const MOST_NOTES: usize = 10_000;

/// What running clusters gave.
#[derive(Default)]
pub struct Results {
    /// Counts.
    pub counters: Counters,
    /// Timeline.
    pub trace: Trace,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Broken rules that are allowed.
    pub allowed: Vec<Allowed>,
}

impl Results {
    /// Adds what other clusters gave.
    pub fn add(&mut self, other: Results) {
        self.counters += other.counters;
        self.trace.slices.extend(other.trace.slices);
        let room = MOST_NOTES.saturating_sub(self.notes.len());
        self.notes.extend(other.notes.into_iter().take(room));
        other.allowed.into_iter().for_each(|allowed| add_allowed(&mut self.allowed, allowed));
    }
}

/// Multiprocessors of the machine a kernel believes to run on (a B200's 148).
const SMS: u32 = 148;

/// Coordinates of a linear number, x fastest.
fn split(number: u32, extent: [u32; 3]) -> [u32; 3] {
    [number % extent[0], number / extent[0] % extent[1], number / extent[0] / extent[1]]
}
