//! Hopper, at most 16 rows of queries over DeepSeek-V4's fp8 rows (MODEL1): keys are unpacked to registers.
//!
//! The kernel for 64 rows ([`super::wide`]) unpacks every row to bf16 in shared memory, where `wgmma` reads it twice.
//! It moves about 300 KiB through shared memory per tile of 64 keys, however few heads there are. Here a row stays as
//! it came, 576 bytes, and warps unpack the fragments of `mma.sync` from it:
//!
//! ```text
//! loaders    list entries ▶ rows (a bulk copy each) and scales (8 bytes each) ▶ factors beside the rows
//! 8 warps    S = Q·Kᵀ, 8 keys each ▶ P ─ barrier ─ O += P·V, 64 columns each ▶ next tile
//! ```
//!
//! Two warps of one warpgroup load ([`loader`]). The eight warps of two others compute:
//!
//! - [`scores`]: a warp holds all queries in registers and multiplies them with eight keys of a tile. The order of the
//!   columns within a product is free, so that a lane reads 16 neighbouring bytes of its key and uses all of them.
//! - [`softmax`]: probabilities are relative to a reference that seldom moves ([`crate::math::softmax`]). They are
//!   written before it is known whether the reference moves: one barrier both publishes them and tells. Where it does
//!   move, the warps compare their maxima and write them again.
//! - [`values`]: a warp multiplies all probabilities of a tile with the 64 columns of one scale (the eighth warp with
//!   the bf16 columns). A product's B operand holds two keys' numbers of one column in a register: one `prmt` of two
//!   words puts them there.
//!
//! The order of keys within a tile is chosen so that everything fits without a shuffle ([`order`]): the probabilities
//! that a lane has are those that the same lane of every other warp multiplies with.
//!
//! # Numbers
//!
//! An e4m3 number's bits, moved to where bf16 has its exponent and mantissa, are the number times 2^-120. One packed
//! multiplication with the scale times 2^120 makes it exact bf16 ([`unpack`]). Two things do not fit, and become NaN:
//! bytes that are NaN, and scales above 2^7, whose product with 2^120 is no bf16 number. Rows of the output that are not
//! finite are computed again at the end ([`crate::math::exact`]), without that shortcut.
//!
//! # Budget
//!
//! Shared memory of a stage: 64 rows of 608 bytes (576, and 32 that keep neighbouring rows in different banks), factors
//! twice (2 KiB for scores, 1 KiB for values), scales 512 bytes: 41.5 KiB, five stages. Probabilities 2 × 2 KiB.
//! Shared-memory traffic of a tile: 36 KiB written by copies, 36 KiB read for scores, 36 KiB for values, 18 KiB of
//! probabilities: 1,000 cycles at 128 bytes each, where the bytes take 1,750 from memory.
//! Registers: queries 128, output 32, scores 8 (two independent sums).

mod config;
mod kernel;
mod loader;
mod order;
mod output;
mod queries;
mod scores;
mod softmax;
mod unpack;
mod values;
mod warp;

pub use config::{Config, ROWS, STAGES, THREADS, TILE};
pub use kernel::emit;
