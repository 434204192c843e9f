//! What a replay gives.

use super::work::{OF_PARTITION, PARTITIONS, RESOURCES, SHARED};

/// Why a warp did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A product was not done.
    Product,
    /// A copy or a load was not there.
    Memory,
    /// Another warp had not arrived.
    Warp,
    /// Units were busy with other warps.
    Units,
    /// A signal was on its way.
    Signal,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 5] =
        [Cause::Product, Cause::Memory, Cause::Warp, Cause::Units, Cause::Signal];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Product => "product",
            Cause::Memory => "memory",
            Cause::Warp => "other warps",
            Cause::Units => "busy units",
            Cause::Signal => "signal",
        }
    }
}

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A warp, by its number in the cluster.
    Warp(usize),
    /// Tensor cores of a CTA.
    Tensor(usize),
    /// Incoming copies of a CTA.
    Copy(usize),
}

/// Something that took time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Where.
    pub row: Row,
    /// Why it waited; none if it worked.
    pub cause: Option<Cause>,
    /// First cycle.
    pub start: f64,
    /// Last cycle.
    pub end: f64,
}

/// What one cluster takes.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Cycles until its last warp ended.
    pub cycles: f64,
    /// Cycles in which tensor cores worked, of one CTA on average.
    pub tensor: f64,
    /// Cycles in which copies came in, of one CTA on average.
    pub copies: f64,
    /// Cycles of each unit that were used, of one CTA on average.
    pub units: [f64; RESOURCES],
    /// Cycles that warps waited, by [`Cause`], summed over warps.
    pub waits: [f64; 5],
    /// When each warp read the clock.
    pub clocks: Vec<Vec<f64>>,
    /// FLOP of products on one CTA on average.
    pub flops: f64,
    /// Bytes that copies and loads brought from L2, to all CTAs; a multicast counts once.
    pub read: f64,
    /// Bytes that were brought to L2 ahead of time.
    pub prefetched: f64,
    /// Bytes that went to L2.
    pub written: f64,
    /// The timeline, if one was asked for.
    pub spans: Vec<Span>,
}

impl Replayed {
    /// Share of the time a unit of partitions was busy, of the busiest partition: 0 issue slots, 1 multiply-add,
    /// 2 integers, 3 special functions, 4 register ports, 5 the tensor core, where warps multiply by themselves.
    pub fn partition_share(&self, unit: usize) -> f64 {
        let of = |partition: usize| self.units[OF_PARTITION * partition + unit];
        (0..PARTITIONS).map(of).fold(0.0, f64::max) / self.cycles
    }

    /// Share of the time shared memory was busy.
    pub fn shared_share(&self) -> f64 {
        self.units[SHARED] / self.cycles
    }
}
