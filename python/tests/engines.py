"""Cases of the table on numpy arrays and on torch tensors."""

import numpy as np

import sixwarp
from table import Data


def strided(x, order, gap):
    """`x` (`[…, heads, tokens, dim]`) in memory of the given order with `gap` NaNs after each row."""
    if order == "bshd":
        x = x.swapaxes(-3, -2)
    padded = np.full((*x.shape[:-1], x.shape[-1] + gap), np.nan, x.dtype)
    padded[..., : x.shape[-1]] = x
    return padded


def attn_mask(mask, convert):
    """The mask tensor of a case, in its order of memory, without its outer dimensions of one entry."""
    if mask is None:
        return None
    order = [axis for axis, letter in enumerate("bhqk") if letter not in mask["dims"]]
    order += ["bhqk".index(letter) for letter in mask["dims"]]
    made = convert(np.ascontiguousarray(mask["elements"].transpose(order)), mask["kind"])
    made = made.transpose(*np.argsort(order)) if isinstance(made, np.ndarray) else made.permute(*np.argsort(order))
    while made.ndim > 2 and made.shape[0] == 1:
        made = made[0]
    return made


def run(case, convert, to_numpy):
    """Runs a case; `convert` makes an engine's tensor of floats, integers stay what it makes of them."""
    data = Data(case)
    gap, order = case.get("gap", 0), data.order
    q = convert(strided(data.q, order, gap), data.dtype)[..., : data.dim]
    k = convert(strided(data.k, order, gap), data.kv_dtype)[..., : data.dim]
    if data.shared:
        v = k[..., : data.value_dim]
    else:
        v = convert(strided(data.v, order, gap), data.kv_dtype)[..., : data.value_dim]
    causal, window = data.mask()
    integers = lambda x: None if x is None else convert(x, "i32")
    floats = lambda x: None if x is None else convert(x, "f32")
    out, lse = sixwarp.attention(
        q, k, v, layout=order, causal=causal, window=window, softcap=case.get("softcap"),
        sinks=floats(data.sinks), scale=case.get("scale"), k_descale=floats(data.k_descale),
        v_descale=floats(data.v_descale),
        cu_seqlens_q=integers(data.cu_q), cu_seqlens_k=integers(data.cu_k),
        seqused_k=integers(data.used), page_table=integers(data.table), return_lse=True,
        attn_mask=attn_mask(data.attn_mask, convert),
    )  # fmt: skip
    out, lse = to_numpy(out), to_numpy(lse)
    if order == "bshd":
        out = out.swapaxes(-3, -2)
    if data.packed_q:
        ends = data.cu_q
        out = [out[:, a:b] for a, b in zip(ends, ends[1:])]
        lse = [lse[:, a:b] for a, b in zip(ends, ends[1:])]
    data.judge(list(out), list(lse))
