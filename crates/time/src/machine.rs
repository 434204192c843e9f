//! The constants of a machine: one table per architecture, each entry with its source.
//!
//! Sources, by the letter that stands in front of each entry:
//!
//! - **D**: NVIDIA's data sheets and the throughput table of the CUDA C++ programming guide.
//! - **M**: measured on an H200, in `docs/h200.md`, `docs/notes/h200.md` or `docs/h200/h200.json`.
//! - **P**: a public measurement, named beside the entry.
//! - **F**: fitted to rows of `docs/h200/h200.json`, as `docs/model-of-time.md` tells.
//! - **A**: assumed; a [`microbenchmark`](crate::microbenchmark) measures it.

/// What a kernel's time is computed from. Cycles are of a multiprocessor's clock, bytes per cycle of one
/// multiprocessor unless the whole chip is named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Name.
    pub name: &'static str,
    /// Multiprocessors.
    pub processors: u32,
    /// Highest clock in GHz.
    pub clock_ghz: f64,
    /// The clock of a kernel that keeps the tensor cores busy all the time, in GHz: power is the limit then.
    pub tensor_clock_ghz: f64,
    /// Share of the time that tensor cores are busy up to which the clock stays the highest.
    pub power_free: f64,
    /// The share from which on it is the lowest.
    pub power_full: f64,
    /// Dense FLOP per cycle of 16-bit operands.
    pub tensor_flops: f64,
    /// The same for matrix instructions of a warp (`mma.sync`).
    pub mma_flops: f64,
    /// Shared memory, bytes per cycle: copies, operands and threads together.
    pub shared_bytes: f64,
    /// Cycles of a partition's special-function unit per warp instruction.
    pub mufu: f64,
    /// Cycles of a partition's multiply-add unit per warp instruction.
    pub fma: f64,
    /// The same for pairs of floats.
    pub fma_pair: f64,
    /// Cycles of a partition's integer unit per warp instruction.
    pub alu: f64,
    /// The same for conversions.
    pub convert: f64,
    /// Cycles that an instruction of the special-function unit keeps a partition's register ports.
    pub mufu_ports: f64,
    /// Registers per lane and cycle between a warp and tensor memory.
    pub tensor_registers: f64,
    /// Share of the work on other units that one warp alone does not overlap with work on its busiest unit.
    pub alone: f64,
    /// Latency of a product behind its last operand, until a wait for it ends.
    pub product_latency: f64,
    /// From a commit of products to the end of a wait on its mbarrier.
    pub commit_latency: f64,
    /// From an arrival to the end of a wait on an mbarrier.
    pub mbarrier_latency: f64,
    /// A wait on an mbarrier whose phase is complete.
    pub mbarrier_look: f64,
    /// From the last arrival at a named barrier to the end of a wait.
    pub barrier_latency: f64,
    /// The same for a cluster's barrier.
    pub cluster_latency: f64,
    /// A transfer of tensor memory until a wait for it ends.
    pub tensor_memory_latency: f64,
    /// A copy engine's copy from L2, first byte.
    pub copy_latency: f64,
    /// More where it comes from memory.
    pub memory_latency: f64,
    /// A thread's load from L2.
    pub load_latency: f64,
    /// What one multiprocessor takes from L2, bytes per cycle.
    pub link_bytes: f64,
    /// What L2 gives to all, bytes per second.
    pub l2_bytes: f64,
    /// What memory gives to all, bytes per second.
    pub memory_bytes: f64,
    /// What memory takes from all, bytes per second.
    pub memory_written: f64,
    /// L2, in bytes.
    pub l2_size: f64,
    /// From one kernel to the next in a graph, both ends included, in microseconds.
    pub launch_us: f64,
    /// The same behind a kernel that lets the next one begin early.
    pub dependent_us: f64,
    /// From the start of a CTA to its first instruction, in cycles.
    pub cta_start: f64,
    /// More of that for each CTA of a cluster beyond the second.
    pub cluster_start: f64,
    /// Cycles that a CTA begins behind the one before it on the same multiprocessor.
    pub stagger: f64,
    /// Shared memory of a multiprocessor.
    pub shared_size: u32,
}

/// An H200 (sm_90a).
pub const H200: Machine = Machine {
    name: "H200",
    // D
    processors: 132,
    // D: 1,980 MHz is the highest clock.
    clock_ghz: 1.98,
    // F
    tensor_clock_ghz: 1.6,
    // M: 1.965 GHz by NVML while a Triton kernel keeps them busy 39 % of the time (docs/model-of-time/others.json).
    power_free: 0.4,
    // F
    power_full: 0.75,
    // D: 989 TFLOP/s dense in bf16 with 132 multiprocessors at 1.83 GHz.
    tensor_flops: 4096.0,
    // P: 62 % of the peak, in a paper of 2024 that dissects Hopper by microbenchmarks.
    mma_flops: 2560.0,
    // D
    shared_bytes: 128.0,
    // D: 16 results per cycle, 4 per partition.
    mufu: 8.0,
    // D: 128 results per cycle.
    fma: 1.0,
    // Hopper has no such instructions; two of the others.
    fma_pair: 2.0,
    // D: 64 results per cycle.
    alu: 2.0,
    // D: 64 results per cycle.
    convert: 2.0,
    // F
    mufu_ports: 4.0,
    // Hopper has no tensor memory.
    tensor_registers: 1.0,
    // F
    alone: 1.0,
    // A
    product_latency: 60.0,
    commit_latency: 100.0,
    // M: `mbarrier`, 68 cycles one way, instructions included.
    mbarrier_latency: 62.0,
    // A
    mbarrier_look: 20.0,
    // A
    barrier_latency: 25.0,
    // A: about 190 cycles for arrive and wait.
    cluster_latency: 190.0,
    tensor_memory_latency: 30.0,
    // P: 600 to 700 cycles for a tensor copy of a small box that hits L2; the least fits decoding best. A bulk copy
    // without a tensor map takes 195 (M: `copy`, 518 cycles for 16 KiB, of which 256 are its bytes, and the mbarrier).
    copy_latency: 600.0,
    // P: about 300 cycles more than L2.
    memory_latency: 350.0,
    // P: about 270 cycles for a load that hits L2.
    load_latency: 280.0,
    // D: 64 bytes per cycle and multiprocessor.
    link_bytes: 64.0,
    // M: `stream`, 8.87 TB/s (docs/model-of-time/constants-h200.json).
    l2_bytes: 8.87e12,
    // M: `stream`, 4.68 TB/s (docs/model-of-time/constants-h200.json).
    memory_bytes: 4.68e12,
    // M: torch copies at 4.225 TB/s, both directions counted (docs/h200/h200.json): 2 / 4.225 - 1 / 4.68 per byte.
    memory_written: 3.85e12,
    // D
    l2_size: 50e6,
    // F
    launch_us: 0.9,
    // F
    dependent_us: 2.2,
    // F: it includes that tensor maps are read for the first time.
    cta_start: 500.0,
    // F
    cluster_start: 690.0,
    // A
    stagger: 1000.0,
    // D
    shared_size: 233_472,
};

/// A B200 (sm_100a), from public figures alone.
pub const B200: Machine = Machine {
    name: "B200",
    // P: the 148 that FlashAttention 4 and cuDNN plan with.
    processors: 148,
    // P: 1,965 MHz is the highest clock.
    clock_ghz: 1.965,
    // D: 2,250 TFLOP/s dense in bf16 with 148 multiprocessors are 1.856 GHz.
    tensor_clock_ghz: 1.856,
    power_free: 0.25,
    power_full: 0.5,
    // D
    tensor_flops: 8192.0,
    // A: as Hopper.
    mma_flops: 2560.0,
    // D
    shared_bytes: 128.0,
    // P: FlashAttention 4 counts 16 exponentials per cycle.
    mufu: 8.0,
    // D
    fma: 1.0,
    // P: 128 multiply-adds per cycle (75 TFLOP/s in f32): a pair takes two cycles and one slot.
    fma_pair: 2.0,
    alu: 2.0,
    convert: 2.0,
    // F: accumulators are in tensor memory, so products leave the ports of registers alone; checked with one public
    // figure, FlashAttention 4 at head dim 128.
    mufu_ports: 1.0,
    // P: 16 bytes per cycle and lane quarter, one column of 32 lanes.
    tensor_registers: 1.0,
    alone: H200.alone,
    product_latency: 60.0,
    // A
    commit_latency: 100.0,
    mbarrier_latency: H200.mbarrier_latency,
    mbarrier_look: H200.mbarrier_look,
    barrier_latency: H200.barrier_latency,
    cluster_latency: H200.cluster_latency,
    // A
    tensor_memory_latency: 30.0,
    copy_latency: H200.copy_latency,
    memory_latency: H200.memory_latency,
    load_latency: H200.load_latency,
    link_bytes: 64.0,
    // P: cutile-rs reports 2.07 PFLOP/s for a GEMM on a B200 (arXiv 2606.15991). The largest tiles of a pair of CTAs,
    // 256 x 256, are 128 FLOP per byte from L2, so L2 gives at least this.
    l2_bytes: 16.2e12,
    // D: 8 TB/s, of which Hopper's share is reached: 4.68 of 4.8, and 3.85.
    memory_bytes: 7.8e12,
    memory_written: 6.4e12,
    // D
    l2_size: 126e6,
    launch_us: H200.launch_us,
    dependent_us: H200.dependent_us,
    cta_start: H200.cta_start,
    cluster_start: H200.cluster_start,
    stagger: H200.stagger,
    shared_size: 233_472,
};

impl Machine {
    /// The same machine with another value of the constant called `name`, as its field is.
    ///
    /// # Errors
    /// If no constant that can be changed has this name, or the value is none that a machine can have.
    pub fn with(mut self, name: &str, value: f64) -> Result<Machine, String> {
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{name} = {value}: a constant is a number from 0 on"));
        }
        let constant = self.constants().into_iter().find(|(known, _)| *known == name);
        let Some((_, constant)) = constant else {
            let names = self.constants().map(|(name, _)| name).join(", ");
            return Err(format!("the model of time has no constant `{name}` to change: {names}"));
        };
        *constant = value;
        Ok(self)
    }

    /// Constants that are neither counts nor from a data sheet alone, by name.
    fn constants(&mut self) -> [(&'static str, &mut f64); 25] {
        [
            ("tensor_clock_ghz", &mut self.tensor_clock_ghz),
            ("power_free", &mut self.power_free),
            ("power_full", &mut self.power_full),
            ("fma_pair", &mut self.fma_pair),
            ("alu", &mut self.alu),
            ("convert", &mut self.convert),
            ("mufu_ports", &mut self.mufu_ports),
            ("alone", &mut self.alone),
            ("product_latency", &mut self.product_latency),
            ("commit_latency", &mut self.commit_latency),
            ("mbarrier_latency", &mut self.mbarrier_latency),
            ("mbarrier_look", &mut self.mbarrier_look),
            ("barrier_latency", &mut self.barrier_latency),
            ("cluster_latency", &mut self.cluster_latency),
            ("tensor_memory_latency", &mut self.tensor_memory_latency),
            ("copy_latency", &mut self.copy_latency),
            ("load_latency", &mut self.load_latency),
            ("memory_latency", &mut self.memory_latency),
            ("l2_bytes", &mut self.l2_bytes),
            ("memory_bytes", &mut self.memory_bytes),
            ("launch_us", &mut self.launch_us),
            ("dependent_us", &mut self.dependent_us),
            ("stagger", &mut self.stagger),
            ("cta_start", &mut self.cta_start),
            ("cluster_start", &mut self.cluster_start),
        ]
    }

    /// The clock in GHz while tensor cores are busy a share of the time.
    pub fn clock(&self, tensor: f64) -> f64 {
        let range = self.power_full - self.power_free;
        let over = ((tensor - self.power_free) / range).clamp(0.0, 1.0);
        self.clock_ghz + over * (self.tensor_clock_ghz - self.clock_ghz)
    }
}
