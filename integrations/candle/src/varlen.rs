//! Sequences of different lengths, one after the other: `(tokens of all, heads, dim)`.

use crate::op::Attention;
use candle_core::{Result, Tensor};

/// As [`flash_attn`](crate::flash_attn) for `q` of `(tokens of all, heads, dim)`; `seqlens_q` and `seqlens_k` are
/// `(batch + 1,)` offsets of u32, the first 0, and `max_seqlen_q` and `max_seqlen_k` bound one sequence.
///
/// # Errors
/// If shapes, types or devices do not fit together, or on the CPU if offsets do not rise or end outside the tensors.
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let (lengths, right) = ((max_seqlen_q, max_seqlen_k), causal.then_some(0));
    let op =
        Attention::new(softmax_scale, None, right, 0.).packed(seqlens_q, seqlens_k, lengths)?;
    op.apply(q, k, v)
}

/// As [`flash_attn_varlen`], with the window of [`flash_attn_windowed`](crate::flash_attn_windowed).
///
/// # Errors
/// As [`flash_attn_varlen`].
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let lengths = (max_seqlen_q, max_seqlen_k);
    let op = Attention::new(softmax_scale, window_size_left, window_size_right, 0.);
    op.packed(seqlens_q, seqlens_k, lengths)?.apply(q, k, v)
}

/// As [`flash_attn_varlen_windowed`], where `k` and `v` are pages, `(pages, page_block_size, heads, dim)`. Row `i` of
/// `block_table`, `(batch, blocks)` of u32, names the pages of sequence `i`; `seqlens_k` says how many keys it has.
///
/// # Errors
/// As [`flash_attn_varlen`]; if `page_block_size` is not that of `k`, or `mm_prefix_ranges` are given.
pub fn flash_attn_varlen_paged_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    block_table: &Tensor,
    mm_prefix_ranges: Option<&Tensor>,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    page_block_size: usize,
    softcap: Option<f32>,
) -> Result<Tensor> {
    if mm_prefix_ranges.is_some() {
        candle_core::bail!(
            "mm_prefix_ranges is not supported: a window and lengths say which keys a query sees"
        );
    }
    if k.dim(1)? != page_block_size {
        candle_core::bail!(
            "page_block_size is {page_block_size}: pages of k have {} rows",
            k.dim(1)?
        );
    }
    // A page table bounds the keys by itself.
    let (lengths, cap) = ((max_seqlen_q, max_seqlen_k), softcap.unwrap_or(0.));
    let op = Attention::new(softmax_scale, window_size_left, window_size_right, cap);
    op.paged(seqlens_q, seqlens_k, block_table, lengths)?.apply(q, k, v)
}

/// Not supported, and there so that calls say so: a bias of every element would need the longest sequences' memory
/// for each sequence.
///
/// # Errors
/// Always.
pub fn flash_attn_varlen_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let (slopes, right) = (Some(alibi_slopes), causal.then_some(0));
    let (most_q, most_k) = (max_seqlen_q, max_seqlen_k);
    flash_attn_varlen_alibi_windowed_softcap(
        q,
        k,
        v,
        slopes,
        seqlens_q,
        seqlens_k,
        most_q,
        most_k,
        softmax_scale,
        None,
        right,
        0.,
    )
}

/// Not supported, as [`flash_attn_varlen_alibi`].
///
/// # Errors
/// Always.
pub fn flash_attn_varlen_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let (slopes, left, right) = (Some(alibi_slopes), window_size_left, window_size_right);
    let (most_q, most_k) = (max_seqlen_q, max_seqlen_k);
    flash_attn_varlen_alibi_windowed_softcap(
        q,
        k,
        v,
        slopes,
        seqlens_q,
        seqlens_k,
        most_q,
        most_k,
        softmax_scale,
        left,
        right,
        0.,
    )
}

/// As [`flash_attn_varlen_windowed`], where scores become `softcap · tanh(score / softcap)` if the cap is above 0.
///
/// # Errors
/// As [`flash_attn_varlen`]; if slopes are given.
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    if alibi_slopes.is_some() {
        candle_core::bail!(
            "alibi_slopes is not supported for packed sequences (nearest that works: flash_attn_alibi)"
        );
    }
    let lengths = (max_seqlen_q, max_seqlen_k);
    let op = Attention::new(softmax_scale, window_size_left, window_size_right, softcap);
    op.packed(seqlens_q, seqlens_k, lengths)?.apply(q, k, v)
}
