//! Hopper, at most 16 rows of queries over DeepSeek-V4's fp8 rows (MODEL1): keys are unpacked to registers.
//!
//! The kernel for 64 rows ([`super::wide`]) unpacks every row to bf16 in shared memory, where `wgmma` reads it twice.
//! It moves about 300 KiB through shared memory per tile of 64 keys, however few heads there are. Here a row stays as
//! it came, 576 bytes, and warps unpack the fragments of `mma.sync` from it:
//!
//! ```text
//! 2 warps    list entries ▶ rows and scales (`cp.async`) ▶ factors beside the rows
//! 2 warps    queries ▶ f16 ▶ shared memory, a row block ahead; sinks
//! 8 warps    P ─ barrier ─ O += P·V, 64 columns each, and S = Q·Kᵀ of the next tile, 8 keys each ▶ next tile
//! ```
//!
//! One warpgroup loads ([`loader`], [`queries`]). The eight warps of two others compute:
//!
//! - [`scores`]: a warp multiplies all queries with eight keys of a tile. It holds most queries in registers. The order of
//!   the columns within a product is free, so that a lane reads 16 neighbouring bytes of its key and uses all of them.
//! - [`softmax`]: probabilities are relative to a reference that seldom moves ([`crate::math::softmax`]). They are
//!   written before it is known whether the reference moves: one barrier both publishes them and tells. Where it does
//!   move, the warps compare their maxima and write them again.
//! - [`values`]: a warp multiplies all probabilities of a tile with the 64 columns of one scale (the eighth warp with
//!   the bf16 columns). A product's B operand holds two keys' numbers of one column in a register: one `prmt` of two
//!   words puts two of them there.
//!
//! Output of a tile and scores of the next one are independent, and their instructions alternate: a scheduler has only two
//! of these warps. The order of keys within a tile is chosen so that everything fits without a shuffle ([`order`]): the
//! probabilities that a lane has are those that the same lane of every other warp multiplies with.
//!
//! # Numbers
//!
//! An e4m3 number is an f16 number: one `cvt` makes two of them, NaN included. Scales never multiply keys:
//!
//! - Scores of a block of 64 columns are multiplied by the key's scale of that block, in f32, and added up.
//! - Probabilities are f16, and multiplied by the key's scale of a warp's columns before they multiply its values.
//!   What is rounded there is as near as bf16 for scales from 2^-23 on ([`unpack`]). Smaller scales are NaN.
//! - Queries are multiplied by a power of two per row, which makes them f16 ([`queries`]).
//! - Columns that are bf16 are multiplied as bf16.
//!
//! Scales above 2^9 are infinite as f16, and products may be. Rows of the output that are not finite are computed again
//! at the end ([`crate::math::exact`]), without f16.
//!
//! # Budget
//!
//! Shared memory of a stage: 64 rows of 608 bytes (576, and 32 that keep neighbouring rows in different banks), scales
//! as they came (512 bytes), as f32 (2 KiB) and as f16 (1 KiB): 41.5 KiB, four stages. Queries 2 × 16.25 KiB,
//! probabilities 2 × 2 KiB. Shared-memory traffic of a tile: 36 KiB written by copies, 36 KiB read for scores, 36 KiB for
//! values, 32 KiB of queries, 16 KiB of probabilities: 1,200 cycles at 128 bytes each, where the bytes take 1,750 from
//! memory. Registers: queries 96, output 32.

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
