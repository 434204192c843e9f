//! Every GPU since Ampere: `mma.sync`, `ldmatrix`, `cp.async`.
//!
//! Four or eight warps, all alike. A warp has 16 query rows, or 32 as two *fragments* of 16 that share every load of
//! keys and values. All threads copy, 16 bytes at a time; all warps multiply with the whole tile:
//!
//! ```text
//! copies   K(n) │ V(n) ─────────────┐ K(n-1) ───────────────────┐ V(n-1) …   (cp.async, one group each)
//! barrier       ▼                   ▼                           ▼
//! warps         S = Q·Kᵀ(n)         softmax(n)   O += P·V(n)    S = Q·Kᵀ(n-1) …
//! ```
//!
//! With `stages` buffers of keys and of values, copies are `stages` tiles ahead. A group of copies is committed at
//! every barrier, empty or not, so that the number of groups in flight is known when the kernel is emitted. Keys that
//! are values have one ring, whose tiles are held until the output of their keys is accumulated.
//!
//! Queries of more than 128 columns stay in registers, where those have room. They come to the buffers behind the first
//! one and leave them to later tiles. The keys and values of a tile are one group of copies then, and a tile takes one
//! barrier:
//!
//! ```text
//! copies   Q, K(n) │ V(n) │            K, V(n-1) ─────────┐ K, V(n-2) …
//! barrier          ▼      ▼                               ▼
//! warps            hold Q S = Q·Kᵀ(n)  softmax  O += P·V  S = Q·Kᵀ(n-1) …
//! ```
//!
//! What such a loop does not need waits in shared memory where registers are shorter still (`parked`).
//!
//! Scores, probabilities and output are in the fragments of `mma.m16n8k16`, which for one warp are those of Hopper's
//! accumulators: softmax and epilogue are [`crate::hopper`]'s. Keys are visited from the last tile to the first.
//! Several CTAs share a multiprocessor where they fit; one exponentiates while another multiplies.
//!
//! e4m3 keys and values come as bytes, and are unpacked to 16-bit tiles between their copies and a barrier (`narrow`).
//! GPUs that have kernels of their own take these for such keys.
//!
//! Packed rows come the same way (`packed`), where shared memory has room for their bytes.
//!
//! More than 256 value columns take eight warps on 64 rows: two warps have the same rows, each half of the columns of
//! keys and of values (`halves`). They add up their scores through shared memory before the softmax, which both
//! compute. Where there is no room for that, CTAs share the value columns (`slices`), and each computes all
//! scores.
//!
//! Rows of f32 lie in shared memory as rows of twice as many 16-bit columns. `ldmatrix` then loads the fragments of
//! `mma.m16n8k8` on tf32 numbers, and three products of such numbers are one of f32 numbers (`tf32`, `single`).

mod config;
mod copies;
mod kernel;
mod marks;
mod matrices;
mod narrow;
mod packed;
mod parked;
mod ring;
mod single;
mod tf32;
mod warp;

pub use config::Config;
pub use kernel::emit;

/// Rows of four warps of one fragment each.
pub const ROWS: u32 = 64;
/// Value columns that a warp has accumulators for.
pub const MOST_COLUMNS: u32 = 256;
/// Key columns that shared memory has room for.
pub const MOST_KEY_COLUMNS: u64 = 576;
