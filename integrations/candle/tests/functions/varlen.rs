//! Sequences of different lengths.

use crate::eager::{Rules, assert_close, attention, random};
use candle_core::{Device, Result, Tensor};
use sixwarp_candle::*;

struct Packed {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ends: [Vec<u32>; 2],
    longest: [usize; 2],
}

fn ends(lengths: &[usize]) -> Vec<u32> {
    let mut ends = vec![0];
    lengths.iter().for_each(|length| ends.push(ends[ends.len() - 1] + *length as u32));
    ends
}

impl Packed {
    fn new(queries: &[usize], keys: &[usize], heads: usize, kv_heads: usize) -> Result<Self> {
        let total = |lengths: &[usize]| lengths.iter().sum::<usize>();
        let kv = [total(keys), kv_heads, 64];
        Ok(Packed {
            q: random(&[total(queries), heads, 64])?,
            k: random(&kv)?,
            v: random(&kv)?,
            ends: [ends(queries), ends(keys)],
            longest: [queries, keys].map(|lengths| lengths.iter().copied().max().unwrap_or(0)),
        })
    }

    fn offsets(&self) -> Result<[Tensor; 2]> {
        let [q, k] = &self.ends;
        Ok([Tensor::new(q.as_slice(), &Device::Cpu)?, Tensor::new(k.as_slice(), &Device::Cpu)?])
    }

    /// Every sequence by itself, by candle's operations.
    fn eager(&self, rules: &Rules) -> Result<Tensor> {
        let [queries, keys] = &self.ends;
        let part = |x: &Tensor, ends: &[u32]| {
            x.narrow(0, ends[0] as usize, (ends[1] - ends[0]) as usize)?.unsqueeze(0)
        };
        let one = |(q, k): (&[u32], &[u32])| -> Result<Option<Tensor>> {
            let q = part(&self.q, q)?;
            match k[0] == k[1] {
                _ if q.dim(1)? == 0 => Ok(None),
                true => Ok(Some(q.zeros_like()?.squeeze(0)?)),
                false => {
                    let out = attention(&q, &part(&self.k, k)?, &part(&self.v, k)?, rules)?;
                    Ok(Some(out.squeeze(0)?))
                }
            }
        };
        let parts: Vec<Option<Tensor>> =
            queries.windows(2).zip(keys.windows(2)).map(one).collect::<Result<_>>()?;
        Tensor::cat(&parts.into_iter().flatten().collect::<Vec<_>>(), 0)
    }
}

/// candle-flash-attn-v3 hangs on an H200 where causal sequences differ in length (huggingface/candle#3603).
#[test]
fn ragged_causal_sequences() -> Result<()> {
    for (queries, keys) in [
        (vec![17, 100, 3], vec![17, 100, 3]),
        (vec![1, 64, 129, 7], vec![300, 64, 130, 9]),
        (vec![128, 1, 1, 1], vec![128, 1, 511, 64]),
        (vec![5, 0, 3], vec![8, 4, 3]),
        (vec![5, 2, 3], vec![8, 0, 3]),
        (vec![9, 4], vec![2, 4]),
    ] {
        let packed = Packed::new(&queries, &keys, 8, 2)?;
        let ([oq, ok], [most_q, most_k]) = (packed.offsets()?, packed.longest);
        let rules = Rules { right: Some(0), ..Rules::default() };
        let (q, k, v) = (&packed.q, &packed.k, &packed.v);
        let ours = flash_attn_varlen(q, k, v, &oq, &ok, most_q, most_k, 0.125, true)?;
        assert_close(&ours, &packed.eager(&rules)?, 1e-5);
    }
    Ok(())
}

/// The lengths of that report. Attention of one sequence is compared with candle's operations elsewhere.
#[test]
fn the_lengths_that_hang_elsewhere() -> Result<()> {
    let lengths = [1743, 1559];
    let packed = Packed::new(&lengths, &lengths, 2, 1)?;
    let [oq, ok] = packed.offsets()?;
    let (q, k, v) = (&packed.q, &packed.k, &packed.v);
    let ours = flash_attn_varlen(q, k, v, &oq, &ok, 1743, 1743, 0.125, true)?;
    for (first, length) in [(0, 1743), (1743, 1559)] {
        let part = |x: &Tensor| x.narrow(0, first, length)?.unsqueeze(0);
        let alone = flash_attn(&part(q)?, &part(k)?, &part(v)?, 0.125, true)?;
        assert_close(&part(&ours)?, &alone, 1e-5);
    }
    Ok(())
}

#[test]
fn windows_and_soft_caps_of_packed_sequences() -> Result<()> {
    let packed = Packed::new(&[33, 1, 12], &[40, 77, 12], 4, 4)?;
    let ([oq, ok], [most_q, most_k]) = (packed.offsets()?, packed.longest);
    let (q, k, v) = (&packed.q, &packed.k, &packed.v);
    for (left, right) in [(None, None), (Some(6), Some(0)), (Some(3), None), (None, Some(2))] {
        let rules = Rules { left, right, ..Rules::default() };
        let ours =
            flash_attn_varlen_windowed(q, k, v, &oq, &ok, most_q, most_k, 0.125, left, right)?;
        assert_close(&ours, &packed.eager(&rules)?, 1e-5);
        let rules = Rules { scale: 1., softcap: 3., ..rules };
        let ours = flash_attn_varlen_alibi_windowed_softcap(
            q, k, v, None, &oq, &ok, most_q, most_k, 1., left, right, 3.,
        )?;
        assert_close(&ours, &packed.eager(&rules)?, 1e-5);
    }
    Ok(())
}

#[test]
fn pages_hold_what_packed_keys_hold() -> Result<()> {
    let (page, columns) = (16, 5);
    let packed = Packed::new(&[3, 1, 20], &[70, 16, 33], 8, 2)?;
    let ([oq, ok], [most_q, most_k]) = (packed.offsets()?, packed.longest);
    // Sequence `i` has pages `i`, `i + 3`, `i + 6`, …: none is beside the next one.
    let table: Vec<u32> = (0..3).flat_map(|i| (0..columns).map(move |n| i + 3 * n)).collect();
    let table = Tensor::from_vec(table, (3, columns as usize), &Device::Cpu)?;
    let pages = |x: &Tensor| -> Result<Tensor> {
        let mut rows = vec![vec![vec![0f32; 64]; 2]; 15 * page];
        let values = x.to_vec3::<f32>()?;
        for (i, ends) in packed.ends[1].windows(2).enumerate() {
            for (n, row) in (ends[0]..ends[1]).enumerate() {
                rows[(i + 3 * (n / page)) * page + n % page] = values[row as usize].clone();
            }
        }
        Tensor::new(rows, &Device::Cpu)?.reshape((15, page, 2, 64))
    };
    let (k, v) = (pages(&packed.k)?, pages(&packed.v)?);
    let rules = Rules { left: Some(30), right: Some(0), softcap: 5., ..Rules::default() };
    let ours = flash_attn_varlen_paged_windowed(
        &packed.q,
        &k,
        &v,
        &oq,
        &ok,
        &table,
        None,
        most_q,
        most_k,
        0.125,
        Some(30),
        Some(0),
        page,
        Some(5.),
    )?;
    assert_close(&ours, &packed.eager(&rules)?, 1e-5);
    Ok(())
}
