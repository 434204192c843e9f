//! Blackwell: TMA, tcgen05 and tensor memory.
//!
//! Two schedules share all their parts. [`six_warps`]: one block of 128 query rows per CTA, for short
//! queries and wide heads. [`paired`]: two blocks and sixteen warps, for long queries.
//!
//! The budget of an SM decides the rest:
//!
//! - Tensor memory, 512 columns × 128 lanes × 32 bits. Two tiles of scores take 256 columns, so that
//!   the scores of one tile are computed while softmax reads the other; `P` overwrites its own `S`.
//!   256 columns are left for the output: one block of rows with value dims to 256, or two with value
//!   dims to 128.
//! - Value dims above 256 do not fit beside the scores. They are cut into slices of at most 256
//!   columns, one CTA each; each slice computes its own scores. At 512 that is 3/2 of the least number
//!   of products, at the full rate of 128-row instructions, with no exchange between CTAs; a 64-row
//!   tile would fit one CTA but run at half rate (2/1), and a pair of CTAs that shares the scores
//!   (`cta_group::2`, 64 rows each) would need a maximum exchanged between warps in every step.
//! - Shared memory, 227 KiB. Queries stay for a whole tile: 32 KiB per 128 columns, 144 KiB at 576.
//!   What is left is a ring of slots of 128 keys × 64 or 128 columns that keys and values share in the
//!   order of their use; its grain does not grow with the head dim, so even 576/512 streams.
//! - Registers. A softmax thread holds a row of 128 scores and 64 packed probabilities: 175 to 243 of
//!   the 255 it may have in a CTA of six warps, 192 in one of sixteen, where the correction warps have
//!   80 and the others 48.
//!
//! The table in `docs/blackwell.md` has the figures of every head dim; a test keeps it current.

#[cfg(test)]
mod budget;
mod config;
mod epilogue;
mod fill;
mod frame;
mod operand;
pub mod paired;
mod products;
mod rows;
pub mod six_warps;
mod tensor_memory;

pub use config::{Config, ROWS, TILE};
