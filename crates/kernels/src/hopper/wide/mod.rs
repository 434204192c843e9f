//! Hopper, wide heads (up to 576 key and 512 value columns): two warpgroups share 64 rows.
//!
//! The output of 64 rows × 512 columns is half of an SM's registers, so two warpgroups hold half of
//! the columns each. The left one also computes scores and softmax and hands probabilities to the
//! right one through shared memory, with the factor each row is due:
//!
//! ```text
//! K warp    K(n)     K(n-1)   …                                       (TMA)
//! V warp    Q        V(n)     …                                       (TMA)
//! left      S=QKᵀ(n)  softmax  P(n)─┐ S=QKᵀ(n-1)  O[left] += P·V(n)  softmax(n-1) …
//! right                             └▶ O[right] += P·V(n) …
//! ```
//!
//! The last message of a row block carries the rows' final factors instead of probabilities.
//!
//! Where threads gather the rows of K = V, a tile's place must be free early, so its output goes before the next scores
//! and nothing of the left warpgroup overlaps its softmax. The right one fills that gap: it multiplies behind those scores.
//!
//! 64 rows read 128 KiB of keys and values per 8.4 MFLOP: more than L2 delivers. So two CTAs of a
//! cluster take neighbouring row blocks, and each copies half of every tile to both of them.
//! A tile is kept in two pieces (the columns of the left and of the right warpgroup), each with
//! barriers of its own, so that the next tile's first half can arrive while the second is in use.
//!
//! All segments of a call are visited in one launch, one behind the other, under one softmax.
//!
//! Where there are fewer blocks than processors, further CTAs of the cluster take parts of the keys, and
//! the cluster merges their results ([`merge`]).
//!
//! Shared memory at 512 columns: queries 64 KiB, keys 64 KiB, values 64 KiB, probabilities 2 × 8 KiB.
//! With K = V the values' 64 KiB are a second stage of keys. Packed rows wait in 24 KiB more to be
//! unpacked (those of half bytes in registers); there is room for one tile of probabilities then. Packed rows of
//! 576 columns take 72 KiB, beside 72 KiB of queries and 32 KiB in which they wait: there is one stage of them.
//! Registers: output 128, scores 32, probabilities 16.

mod config;
mod gatherers;
mod kernel;
mod loaders;
mod merge;
mod right_columns;
mod scoring;

pub use config::{Config, TILE};
pub use kernel::emit;
