//! How many threads a launch has, and how they are grouped.

/// The CTAs of a launch, their threads, and the clusters that they form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// CTAs.
    pub ctas: [u32; 3],
    /// Threads of a CTA.
    pub threads: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
}

impl Grid {
    /// `ctas` CTAs of `threads` threads along one dimension, each a cluster of its own.
    pub const fn new(ctas: u32, threads: u32) -> Self {
        Grid { ctas: [ctas, 1, 1], threads: [threads, 1, 1], cluster: [1; 3] }
    }

    /// The same CTAs in clusters of `ctas` neighbours.
    pub const fn clusters_of(self, ctas: u32) -> Self {
        Grid { cluster: [ctas, 1, 1], ..self }
    }
}
