//! Sixteen warps, two row blocks of 128 rows per CTA: for long queries.
//!
//! ```text
//! warp 13    load      Q₀ Q₁ K(n)        V(n)    K(n-1)        V(n-1)   …
//! warp 12    multiply   S₀=Q₀K S₁=Q₁K    O₀=P₀V  S₀=Q₀K(n-1)   O₁=P₁V  S₁=Q₁K(n-1) …
//! warps 0–3  softmax           S₀→P₀ ──────────▶              S₀→P₀ ───────
//! warps 4–7  softmax                 S₁→P₁ ───────────────▶            S₁→P₁ ──
//! warps 8–11 correct                  O₀,O₁ rescaled when a row's maximum moved; finished rows out
//! ```
//!
//! While one block's softmax runs, the other block's products do: neither the tensor pipe nor the
//! exponentials wait for the other. Keys and values are read once for both blocks. On
//! sm_100a a quarter of the exponentials run on the FMA pipe. Probabilities are handed over in two parts, so that only the
//! product of the last quarter of the keys comes after a block's last exponential.
//!
//! | signal (each for both blocks) | arrivals | told by | waited for by | before |
//! |---|---|---|---|---|
//! | queries full / empty | 1 + bytes / 1 | load / commit after the last `S₁` | multiply / load | |
//! | slot full / empty | 1 + bytes / 1 | load / commit after block 1's product | multiply / load | |
//! | scores | 1 | commit after `S` | softmax | reading `S` |
//! | factors | 4 | softmax warps: how a row's output must be scaled | correction | scaling it |
//! | probabilities | 4 + 4 | softmax: `P` of the first 96 keys stored; correction: `O` rescaled | multiply | `O += P·V` of these keys |
//! | rest | 4 | softmax: the other `P` stored | multiply | `O += P·V` of the other keys |
//! | output | 1 | commit after the last `O += P·V` of a tile of queries | correction | writing rows out |
//! | sums | 4 | softmax warps: maximum and sum of the finished rows | correction | writing them out |
//!
//! A row's factor has one place: the next factor is written after the next scores, which come after the
//! product that waited for the correction that read this one. Its maximum and sum have two, used in
//! turn: a tile with a single KV tile ends before the correction has looked at the tile before.

mod correction;
mod issuer;
mod kernel;
mod softmax;

pub use kernel::{THREADS, emit};
