//! Blackwell: TMA, tcgen05 and tensor memory.
//!
//! Three schedules share their parts. [`one_block`]: one block of 128 query rows per CTA, for short
//! queries and beside mask tensors. [`two_blocks`]: two blocks and sixteen warps, for long queries.
//! [`cta_pair`]: a CTA pair, for value dims above 256.
//!
//! Rows that lists name and rows of fp8 numbers are gathered by warps beside the six ([`one_block`], [`cta_pair`];
//! `gatherers`), whatever the head dim.
//!
//! The budget of an SM decides the rest:
//!
//! - Tensor memory, 512 columns × 128 lanes × 32 bits. Two tiles of scores take 256 columns, so that
//!   the scores of one tile are computed while softmax reads the other; `P` overwrites its own `S`.
//!   256 columns are left for the output: one row block with value dims to 256, or two with value
//!   dims to 128.
//! - Value dims above 256 do not fit beside the scores of 128 rows. What there is to choose from, at
//!   512: tiles of 64 rows in one CTA run at half rate (2/1 of the least time); slices of 256 columns,
//!   one CTA each, compute the scores twice (3/2); a CTA pair with 64 rows each and instructions
//!   over both (`cta_group::2`, data path B) computes everything once at full rate, and loads half as
//!   much per CTA. The price is that two threads share a row and exchange its maximum. The CTA pair is
//!   [`cta_pair`]; slices remain as an option, and for dims the CTA pair cannot halve.
//! - Shared memory, 227 KiB. Queries stay for a whole tile: 32 KiB per 128 columns, 144 KiB at 576.
//!   What is left is a ring of slots of 128 keys × 64 or 128 columns that keys and values share in the
//!   order of their use; its grain does not grow with the head dim, so even 576/512 streams.
//! - Registers. A softmax thread holds a row of 128 scores and 64 packed probabilities: 175 to 243 of
//!   the 255 it may have in a CTA of six warps, 200 in one of sixteen, where the correction warps have
//!   80 and the others 32 (192 and 96 where correction adds parts of other CTAs). Two warps that gather make eight,
//!   and a CTA of eight warps still has 255 each.
//!
//! The table in `docs/blackwell.md` has the figures of every head dim; a test keeps it current.
//!
//! What the schedules share, in the order a tile comes by: `config` (tiles, slots, budgets),
//! `allocation` (start and end of a kernel around its roles), `fill` (the loading warp), `gatherers` and `marked` (the
//! warps in its place where rows are gathered, and what they say about keys that lists leave out), `products`
//! (the two multiplies of a tile), `rows` (a thread's row: scores, probabilities, rescaling), `step` (one KV tile in a softmax thread), `parts` (what CTAs
//! that share a work tile hand to each other), `epilogue` (rows out); `operand` and `tensor_memory` know
//! descriptors and columns. A schedule's own folder has its barriers (`kernel`), the order of its multiplies
//! (`issuer`) and its `softmax`.

mod allocation;
#[cfg(test)]
mod budget;
mod config;
pub mod cta_pair;
mod epilogue;
mod fill;
mod frame;
mod gatherers;
mod marked;
pub mod one_block;
mod operand;
mod parts;
mod products;
mod rows;
mod step;
mod tensor_memory;
pub mod two_blocks;

pub use config::{Config, ROWS, TILE};
