//! A launch: what all of its clusters share.

use crate::doubts::Doubt;
use crate::judge::{Clusters, Earlier, Unwritten};
use crate::load::{Frame, Kernel};
use crate::matrix::{TMEM_COLUMNS, TMEM_LANES};
use crate::memory::Global;
use crate::options::Options;
use crate::register::R64;
use crate::watchdog::Watchdog;
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
    /// Loads whose values must not be used.
    pub(crate) doubts: &'a [Doubt],
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
        let wanted = &self.options.clusters;
        let mut number = self.any_left().then(|| self.next.fetch_add(1, Ordering::Relaxed))?;
        while !wanted.is_empty() && !wanted.contains(&number) {
            number = self.any_left().then(|| self.next.fetch_add(1, Ordering::Relaxed))?;
        }
        let failed = self.watchdog.has_failed_before(number);
        (number < self.clusters() && !failed).then_some(number)
    }

    /// The seed of a cluster.
    pub(crate) fn seed(&self, number: u32) -> u64 {
        self.options.seed.wrapping_add(number.into())
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

    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Bytes of host memory that a cluster starts with.
    pub(crate) fn cluster_bytes(&self) -> u64 {
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

/// Coordinates of a linear number, x fastest.
pub(crate) fn split(number: u32, extent: [u32; 3]) -> [u32; 3] {
    [number % extent[0], number / extent[0] % extent[1], number / extent[0] / extent[1]]
}
