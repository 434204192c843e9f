//! A CTA pair, for value dims above 256: 64 rows each, one 128-row product over both.
//!
//! With `cta_group::2` and 128 rows an instruction runs on both SMs of the CTA pair: each supplies 64 rows
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
//! waits for (queries and slots full, probabilities) are its own. The even CTA's loader announces the bytes
//! of both CTAs' copies; the odd CTA's threads arrive from afar. Barriers that both wait for (scores, output,
//! slots and queries empty) are told in both CTAs by one multicast commit. The warps that fill slots wait for
//! all of them to be empty before their CTA ends.
//!
//! Keys that are values are copied twice: for the scores a CTA needs its keys and all columns, for the
//! output all keys and its columns, and the quarter that is in both would have to lie where the other
//! CTA has two different ones (the operands of both lie at the same offset).
//!
//! Gathered rows are copied in the same order by warps 6 and 7 of each CTA: its half of the keys of a tile, then its
//! columns of all values. The barriers are those of the six warps, and slots are full on the even CTA's. Where tensor
//! copies gather, warps 6 and 7 of the even CTA announce the bytes of both CTAs, and those of the odd one only copy. Rows of fp8
//! numbers are unpacked by warps 8 to 15, so that unpacking keeps up with the multiplies (`unpackers`). These arrive on
//! a slot when they have stored and fenced their rows of it. A thread of 512 has 128 registers: softmax threads take
//! 168, those that unpack 136, and the warps that issue and load leave them (72). The bytes of MODEL1 rows come to them by
//! tensor copies, if one map reaches all rows (`raw`).
//!
//! Two warps unpack, one 16-byte vector at a time, beside a mask tensor, which leaves too few registers for more warps,
//! and where a CTA's columns of values are not whole panels of 64.
//!
//! A list is one token's, so both CTAs hold heads of one token; where its heads fill an odd number of blocks of 64 the
//! odd CTA's rows are no queries.
//!
//! Budget at 512/512, per CTA: queries 64 KiB, probabilities 16 KiB, four slots of 64 keys × 256
//! columns, 32 KiB each; marks 64 bytes. Bytes of MODEL1 rows take 48 KiB: two stages of 64 rows, three boxes of 128 bytes
//! each. Three slots are left then.

mod config;
mod gatherers;
mod issuer;
mod kernel;
mod loader;
mod raw;
mod softmax;
mod unpackers;

pub use config::{CLUSTER, Config};
pub use kernel::{emit, threads};
