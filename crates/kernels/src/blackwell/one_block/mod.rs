//! Six warps, one row block of 128 rows per CTA.
//!
//! ```text
//! warp 5   load     Q K(n)   K(n-1)  V(n)    K(n-2)   V(n-1)  …
//! warp 4   multiply  S₀=QKᵀ(n) S₁=QKᵀ(n-1) O=P₀V(n) S₀=QKᵀ(n-2) O+=P₁V(n-1) …
//! warps 0–3 softmax           S₀→P₀(n)       S₁→P₁(n-1)         S₀→P₀(n-2)  …  O → memory
//! ```
//!
//! Softmax of a tile overlaps the scores of the next and the output of the one before. Signals:
//!
//! | signal | arrivals | told by | waited for by | before |
//! |---|---|---|---|---|
//! | queries full | 1 + bytes | load | multiply | first `S` of a tile |
//! | queries empty | 1 + 4 | commit after the last `S`; softmax warps after staging | load | next queries |
//! | slot full | 1 + bytes | load | multiply | the product that reads it |
//! | slot empty | 1 | commit after that product | load | refilling it |
//! | scores (2) | 1 | commit after `S` | softmax | reading `S` |
//! | probabilities (2) | 4 | softmax warps: `P` stored, `O` rescaled | multiply | `O += P·V` |
//! | output | 1 | commit after `O += P·V` | softmax | touching `O`, overwriting `P` |
//!
//! Where rows are gathered, warps 6 and 7 fill the slots, and warp 5 loads queries. It also publishes slots that
//! threads' copies fill:
//!
//! | signal | arrivals | told by | waited for by | before |
//! |---|---|---|---|---|
//! | slot full, gathered by tensor copies | 2 + bytes | warps 6 and 7 | multiply | the product that reads it |
//! | slot arrived | 64 | the hardware, for each thread whose copies to it are done | warp 5 | its fence |
//! | slot full | 1 | warp 5, behind its fence | multiply | the product that reads it |
//! | slot full, fp8 rows | 2 | warps 6 and 7: rows are stored and fenced | multiply | the product that reads it |
//! | marks full (4) | 2 | warps 6 and 7: lists' unused entries are known | softmax | hiding their scores |
//! | marks empty (4) | 4 | softmax warps | warps 6 and 7 | marking a later tile |
//!
//! Marks take 64 bytes of shared memory, and barriers of arrived slots, where threads copy, 8 each: slots are as many
//! as without.
//!
//! There is no "scores empty": `S` of tile `n-2` overwrites `P` of tile `n`, and the product that read
//! it was issued before by the same thread, after it had waited for softmax to have read `S`.
//! There is no "output empty": the first `P` of the next tile comes after the rows were written out,
//! by the same threads.

mod gatherers;
mod issuer;
mod kernel;
mod softmax;

pub use kernel::{emit, threads};
