//! Hopper, measured on an H200.

use super::{ShareTuning, TimeModel, Tuning};

/// Fitted to 77 decoding shapes, each with up to twelve numbers of splits. Predicted times are within 11 % (root mean
/// square), and the splits chosen cost 0.7 % more than the best.
pub const TIME: TimeModel = TimeModel {
    key: 0.0031,
    chain: 5.7e6,
    chain_rows: 64.0,
    flops: 5e6,
    memory: 4.8e6,
    ends: 1.1,
    combine: 3.2,
    partial: 3.4e6,
    merge: 2.8,
    most_splits: 128,
};

/// Measured on batches of decodes and prefills, but for the smallest part. By the count of KV tiles, in which a part costs
/// 1.6 of them, 1/64 of a share leaves the largest share of those batches 0 to 4 % smaller than 1/32 does.
pub const SHARES: ShareTuning =
    ShareTuning { ends: 1.0, least: 4.0, whole: 6, smallest: 1.0 / 64.0 };

/// KV tiles of a share, at most, from which on decodes of wide heads are shared out by the lengths of their keys. Short
/// windows take 9 µs by a list, of which finding shares would be a fifth. Not measured.
pub const WIDE_SHARE: u32 = 16;
/// The same for processors per work tile. Parts of wide rows are large, and a list's launch or cluster merges many of
/// them faster. Not measured.
pub const WIDE_FEW: u64 = 2;

/// Larger clusters do not fill their cluster of processors (GPC): 32 clusters of 4, or 16 of 8, take two rounds on the
/// 132 processors.
const LOST_CLUSTERS: u32 = 8;

/// The choices.
pub const TUNING: Tuning = Tuning {
    time: TIME,
    shares: SHARES,
    few_work_tiles: 4,
    lost_clusters: LOST_CLUSTERS,
    fma_exponentials: None,
};

/// Bytes of keys that lie together, at most, for threads to copy them faster than tensor copies do (pages of 16 rows
/// at head dim 128, for single tokens).
pub const SHORT_RUN: u64 = 4096;

/// What a KV tile costs where only one warpgroup has queries, by the columns of a row: up to 64, up to 128, and more.
pub fn lonely(columns: u32) -> f32 {
    match columns {
        0..=64 => 0.7,
        65..=128 => 0.77,
        _ => 0.85,
    }
}

/// Time of a tile of `warpgroups` row blocks; more of them overlap better.
pub fn time_of_a_tile(warpgroups: u32) -> f64 {
    match warpgroups {
        1 => 1.3,
        2 => 2.0,
        _ => 2.5,
    }
}
