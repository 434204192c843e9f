//! candle-flash-attn's functions, by its names and signatures, on sixwarp.
//!
//! On CPU tensors they run on sixwarp's CPU engine: f32, f16, bf16 and f64, any head dim. With the feature `cuda`,
//! f16, bf16 and f32 tensors of a GPU since Ampere are computed there, on candle's stream. Masks and windows are aligned
//! at the bottom right, as in candle-flash-attn. Beyond it, head dims are free, values may have another head dim than
//! keys, and a row that sees no key is 0.
//!
//! ```
//! use candle_core::{Device, Tensor};
//!
//! let q = Tensor::randn(0f32, 1., (1, 5, 8, 64), &Device::Cpu)?; // batch, tokens, heads, dim
//! let kv = Tensor::randn(0f32, 1., (1, 9, 2, 64), &Device::Cpu)?; // fewer KV heads
//! let out = sixwarp_candle::flash_attn(&q, &kv, &kv, 0.125, true)?;
//! assert_eq!(out.dims(), [1, 5, 8, 64]);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! There is no backward: candle reports it when a gradient is asked for.

mod batch;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod op;
mod problem;
mod varlen;

pub use batch::{
    flash_attn, flash_attn_alibi, flash_attn_alibi_windowed, flash_attn_alibi_windowed_softcap,
    flash_attn_windowed,
};
pub use varlen::{
    flash_attn_varlen, flash_attn_varlen_alibi, flash_attn_varlen_alibi_windowed,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_paged_windowed,
    flash_attn_varlen_windowed,
};

/// The examples of the page on switching run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/switching.md")]
struct Switching;
