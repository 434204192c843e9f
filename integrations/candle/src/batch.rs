//! Sequences of one length: `(batch, tokens, heads, dim)`.

use crate::op::Attention;
use candle_core::{DType, Result, Tensor};

/// `softmax(q·kᵀ · softmax_scale)·v` for `q` of `(batch, tokens, heads, dim)`; `k` and `v` may have fewer heads.
///
/// With `causal`, the last query sees the last key.
///
/// # Errors
/// If shapes, types or devices do not fit together.
pub fn flash_attn(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_windowed(q, k, v, softmax_scale, None, causal.then_some(0))
}

/// As [`flash_attn`], where a query sees `window_size_left` keys before the diagonal and `window_size_right` behind
/// it; `None` is no limit.
///
/// # Errors
/// As [`flash_attn`].
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let (left, right) = (window_size_left, window_size_right);
    flash_attn_alibi_windowed_softcap(q, k, v, None, softmax_scale, left, right, 0.)
}

/// As [`flash_attn`], with a bias of `-slope · distance` from the diagonal, one slope per head.
///
/// # Errors
/// As [`flash_attn`]; if `alibi_slopes` are not `(heads,)` of f32.
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let right = causal.then_some(0);
    flash_attn_alibi_windowed(q, k, v, alibi_slopes, softmax_scale, None, right)
}

/// As [`flash_attn_windowed`], with the bias of [`flash_attn_alibi`].
///
/// # Errors
/// As [`flash_attn_alibi`].
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let (left, right) = (window_size_left, window_size_right);
    let slopes = Some(alibi_slopes);
    flash_attn_alibi_windowed_softcap(q, k, v, slopes, softmax_scale, left, right, 0.)
}

/// As [`flash_attn_alibi_windowed`], where slopes may be left out, and scores become `softcap · tanh(score / softcap)`
/// if the cap is above 0.
///
/// # Errors
/// As [`flash_attn_alibi`].
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let mut op = Attention::new(softmax_scale, window_size_left, window_size_right, softcap);
    if let Some(slopes) = alibi_slopes {
        op = op.bias(alibi(slopes, q, k)?);
    }
    op.apply(q, k, v)
}

/// The bias of every score, f32 `(1, heads, queries, keys)`.
fn alibi(slopes: &Tensor, q: &Tensor, k: &Tensor) -> Result<Tensor> {
    let ((_, queries, heads, _), (_, keys, _, _)) = (q.dims4()?, k.dims4()?);
    if slopes.dims() != [heads] || slopes.dtype() != DType::F32 {
        let (shape, dtype) = (slopes.shape(), slopes.dtype());
        candle_core::bail!(
            "alibi_slopes has shape {shape:?} of {dtype:?}: ({heads},) of F32 is needed"
        );
    }
    let device = q.device();
    let diagonal = keys as f32 - queries as f32;
    let rows =
        Tensor::arange(diagonal, diagonal + queries as f32, device)?.reshape((queries, 1))?;
    let columns = Tensor::arange(0f32, keys as f32, device)?.reshape((1, keys))?;
    let distance = rows.broadcast_sub(&columns)?.abs()?.neg()?.reshape((1, 1, queries, keys))?;
    slopes.reshape((1, heads, 1, 1))?.broadcast_mul(&distance)
}
