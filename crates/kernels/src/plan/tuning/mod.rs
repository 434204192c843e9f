//! What was measured on a chip, or follows from its data sheet, and only decides which of several right ways is taken:
//! one file per architecture.

mod blackwell;
mod blackwell_ultra;
pub mod hopper;
mod mma_sync;

use ptx::build::Target;

/// The choices of one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// By which keys are split.
    pub time: TimeModel,
    /// How work is shared out by lengths on the device.
    pub shares: ShareTuning,
    /// Processors per work tile from which on there are few work tiles.
    pub few_work_tiles: u64,
    /// One cluster in this many finds no place, where clusters have more than two CTAs.
    pub lost_clusters: u32,
    /// One pair of exponentials in this many runs on the FMA pipe, where two row blocks share an SM.
    pub fma_exponentials: Option<usize>,
}

/// A model of the time of a launch, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct TimeModel {
    /// A chain (scores, softmax and output, which wait for each other), per key of its tile.
    pub key: f64,
    /// FLOP per microsecond of what else a chain does.
    pub chain: f64,
    /// Rows of a chain.
    pub chain_rows: f64,
    /// FLOP per microsecond and processor.
    pub flops: f64,
    /// Bytes per microsecond of the whole device.
    pub memory: f64,
    /// The start and the end of a work tile.
    pub ends: f64,
    /// The combining launch.
    pub combine: f64,
    /// Bytes per microsecond on the way of partial results.
    pub partial: f64,
    /// A cluster's merging of its splits.
    pub merge: f64,
    /// Splits at most.
    pub most_splits: u32,
}

/// How work is shared out by lengths on the device; costs are in KV tiles.
#[derive(Clone, Copy, Debug)]
pub struct ShareTuning {
    /// The ends of a work tile.
    pub ends: f32,
    /// The least share.
    pub least: f32,
    /// Work tiles of fewer KV tiles are not cut.
    pub whole: u32,
    /// No part is smaller than this fraction of a share.
    pub smallest: f32,
}

impl Tuning {
    /// The choices for kernels of this target.
    pub fn of(target: Target) -> &'static Tuning {
        match target {
            Target::Sm90a => &hopper::TUNING,
            Target::Sm100a => &blackwell::TUNING,
            Target::Sm103a => &blackwell_ultra::TUNING,
            Target::Sm80 | Target::Sm86 | Target::Sm89 | Target::Sm120 => &mma_sync::TUNING,
        }
    }
}
