//! A pair of CTAs for value dims above 256: 64 rows each, one 128-row product over both.
//!
//! With `cta_group::2` and 128 rows an instruction runs on both SMs of the pair: each supplies 64 rows
//! of the left operand and half the columns of the right one, and keeps its 64 rows of the result
//! spread over all its lanes, the two halves of the columns in the two halves of the lanes (data path
//! B). So 64 rows × 512 columns of output take 256 columns of tensor memory, two tiles of scores 64
//! each, and every multiply runs at full rate and is done once. Per CTA and tile of 128 keys, 64 keys
//! and half the value columns are loaded.
//!
//! ```text
//! lane 0–63    S₀ S₁ (keys 0–63)   │ O columns   0–127 │ 256–383 │   thread t: row t
//! lane 64–127  S₀ S₁ (keys 64–127) │ O columns 128–255 │ 384–511 │   thread t: row t - 64
//! column       0  64                128                 256
//! ```
//!
//! A row is shared by two threads, `t` and `t + 64`: they exchange the maxima of their halves through
//! shared memory once per tile, under a named barrier of their two warps, and their sums at the end.
//! `P` goes through shared memory: 64 rows of a CTA.
//!
//! Roles are those of the six warps, in both CTAs; only the even CTA's warp 4 issues. Barriers that it
//! waits for (queries and slots full, probabilities) are its own, and the odd CTA's threads and copies
//! arrive on them from afar; barriers that both wait for (scores, output, slots and queries empty) are
//! told in both CTAs by one multicast commit.
//!
//! Keys that are values are copied twice: for the scores a CTA needs its keys and all columns, for the
//! output all keys and its columns, and the quarter that is in both would have to lie where the other
//! CTA has two different ones (the operands of both lie at the same offset).
//!
//! Budget at 512/512, per CTA: queries 64 KiB, probabilities 16 KiB, four slots of 64 keys × 256
//! columns, 32 KiB each.

mod config;
mod issuer;
mod kernel;
mod loader;
mod softmax;

pub use config::{CLUSTER, Config};
pub use kernel::{THREADS, emit};
