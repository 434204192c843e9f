//! What a run counted.

use std::ops::AddAssign;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Warp instructions.
    pub instructions: u64,
    /// Lane instructions.
    pub lanes: u64,
    /// Special-function results (lanes).
    pub mufu: u64,
    /// Multiply-add operations of matrix instructions, two per product.
    pub mma_flops: u64,
    /// Bytes read from global memory.
    pub global_read: u64,
    /// Bytes written to global memory.
    pub global_written: u64,
    /// Bytes read from shared memory.
    pub shared_read: u64,
    /// Bytes written to shared memory.
    pub shared_written: u64,
    /// Bytes moved by asynchronous copies.
    pub copied: u64,
    /// Extra shared-memory cycles due to bank conflicts.
    pub bank_conflicts: u64,
    /// Waits on mbarriers that had to block.
    pub barrier_waits: u64,
    /// Simulated cycles, summed over clusters (see the cost model in the crate's documentation).
    pub cycles: u64,
    /// Cycles in which tensor units were busy.
    pub tensor_busy: u64,
    /// Warp instructions by [`crate::Class`].
    pub classes: [u64; crate::CLASSES],
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.instructions += other.instructions;
        self.lanes += other.lanes;
        self.mufu += other.mufu;
        self.mma_flops += other.mma_flops;
        self.global_read += other.global_read;
        self.global_written += other.global_written;
        self.shared_read += other.shared_read;
        self.shared_written += other.shared_written;
        self.copied += other.copied;
        self.bank_conflicts += other.bank_conflicts;
        self.barrier_waits += other.barrier_waits;
        self.cycles += other.cycles;
        self.tensor_busy += other.tensor_busy;
        self.classes.iter_mut().zip(other.classes).for_each(|(a, b)| *a += b);
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What it gave; after an error, what was counted, allowed and noted until then, without buffers.
    pub report: Report,
    /// The error that ended it, if one did.
    pub error: Option<crate::Error>,
}

impl Outcome {
    /// The report, or the error.
    pub fn into_result(self) -> Result<Report, crate::Error> {
        self.error.map_or(Ok(self.report), Err)
    }
}

/// What a run gives back.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Contents of the buffers after the run, in the order of the program's.
    pub buffers: Vec<Vec<u8>>,
    /// Bytes of each buffer that nobody wrote; none of buffers that began with contents.
    pub unwritten: Vec<Vec<std::ops::Range<usize>>>,
    /// Counts over all launches.
    pub counters: Counters,
    /// The timeline, if one was asked for.
    pub trace: Option<crate::Trace>,
    /// What each cluster did, if that was asked for.
    pub recordings: Vec<crate::record::Recording>,
    /// Broken rules that the options allow, by line.
    pub allowed: Vec<crate::Allowed>,
    /// Things worth knowing that are not errors.
    pub notes: Vec<String>,
}
