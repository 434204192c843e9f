//! What a machine starts with.

use super::{ClusterBarrier, Cta, CtaRank, Machine, NamedBarrier, PerCta};
use crate::engine::Engines;
use crate::instruction::TensorState;
use crate::launch::{LaunchState, split};
use crate::load::{Fill, RESERVED_SHARED, SHARED_SCRATCH, Special};
use crate::memory::{Shared, address};
use crate::options::Random;
use crate::record::Recorder;
use crate::register::{Registers, Row32, Row64};
use crate::report::Counters;
use crate::timing::EngineTimes;
use crate::trace::Trace;
use crate::warp::{PerWarp, Warp};
use std::collections::HashMap;

/// Named barriers of a CTA.
const NAMED_BARRIERS: usize = 16;

/// Multiprocessors of the machine a kernel believes to run on (a B200's 148).
const SMS: u32 = 148;

impl<'a> Machine<'a> {
    /// The machine of the cluster of linear number `number`, x fastest.
    pub(crate) fn new(launch: &'a LaunchState<'a>, number: u32) -> Machine<'a> {
        let size: u32 = launch.cluster.iter().product();
        let mut machine = Machine {
            launch,
            kernel: launch.kernel,
            number,
            ctas: PerCta::default(),
            warps: PerWarp::default(),
            barrier: ClusterBarrier::default(),
            engines: Engines::default(),
            warpgroups: HashMap::new(),
            whims: Random::new(!launch.seed(number)),
            counters: Counters::default(),
            steps: 0,
            events: 0,
            polls: 0,
            engine_times: (0..size).map(|_| EngineTimes::default()).collect(),
            group_times: Vec::new(),
            trace: Trace::default(),
            recorder: None,
            notes: Vec::new(),
        };
        (0..size).for_each(|rank| machine.add_cta(rank, launch.cta(number, rank)));
        if launch.options.record {
            machine.recorder = Some(Box::new(Recorder::new(&machine)));
        }
        machine
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
}
