//! Hopper: warp-specialised attention with TMA and wgmma.
//!
//! [`narrow`]: warpgroups of 64 rows each, head dims to 256. [`wide`]: two warpgroups share 64 rows, value dims to 512.
//! [`few_heads`]: 16 rows whose keys are unpacked from shared memory to registers, for `mma.sync`.
//! The first two keep scores in registers (`scores`), in the order of wgmma's accumulators (`fragment`), and write rows from
//! there (`epilogue`), or leave them to other CTAs (`parts`).

pub mod epilogue;
pub mod few_heads;
pub mod fragment;
pub mod narrow;
pub mod parts;
pub mod scores;
pub mod tile;
pub mod wide;

/// Rows of one warpgroup.
pub const ROWS: u32 = 64;
/// Shared memory a CTA can have.
pub const SHARED_LIMIT: u32 = 227 * 1024;
/// Shared memory set aside for barriers and alignment.
pub const SHARED_RESERVE: u32 = 1024;
