//! Hopper, head dims to 256: each warpgroup has 64 rows of its own.
//!
//! One CTA per SM, persistent. Warpgroup 0 loads, warpgroups 1…W compute, 64 query rows each:
//!
//! ```text
//! producer   K(n)  Q  K(n-1) V(n)  K(n-2) V(n-1)  …                      (TMA, one thread)
//!             │        │      │
//! consumer   S=QKᵀ(n) │  ┌ S=QKᵀ(n-1) ┐                                  (wgmma, asynchronous)
//!            softmax  └─▶└ O+=PV(n)   ┘ softmax(n-1), P → registers …    (exponentials overlap PV)
//! ```
//!
//! Keys are visited from the last tile to the first, so that masked tiles (diagonal, end of the
//! sequence) come first and run in a loop of their own; the loop over unmasked tiles has no masking
//! code at all. With two or more warpgroups and value dims up to 128 the warpgroups take turns on the
//! tensor cores: one issues its multiplies while the other exponentiates.
//!
//! P never leaves registers: the accumulator fragment of `S` is, after rounding to 16 bits, the A
//! fragment of `P·V`.

mod config;
mod consumer;
mod gatherers;
mod kernel;
mod producer;
mod turns;

pub use config::Config;
pub use kernel::emit;
