//! Sequences of one length.

use crate::eager::{Rules, assert_close, attention, random};
use candle_core::{DType, Device, Result, Tensor};
use sixwarp_candle::*;

#[test]
fn full_and_causal_of_any_head_dim() -> Result<()> {
    for (queries, keys, heads, kv_heads, dim) in
        [(5, 9, 8, 2, 64), (7, 7, 4, 4, 40), (1, 130, 6, 1, 128), (66, 3, 2, 1, 8)]
    {
        let q = random(&[2, queries, heads, dim])?;
        let (k, v) = (random(&[2, keys, kv_heads, dim])?, random(&[2, keys, kv_heads, dim])?);
        for causal in [false, true] {
            let rules = Rules { right: causal.then_some(0), ..Rules::default() };
            let ours = flash_attn(&q, &k, &v, 0.125, causal)?;
            assert_close(&ours, &attention(&q, &k, &v, &rules)?, 1e-5);
        }
    }
    Ok(())
}

#[test]
fn windows() -> Result<()> {
    let (q, k, v) = (random(&[1, 20, 4, 32])?, random(&[1, 33, 2, 32])?, random(&[1, 33, 2, 32])?);
    for left in [None, Some(0), Some(5)] {
        for right in [None, Some(0), Some(3)] {
            let rules = Rules { left, right, ..Rules::default() };
            let ours = flash_attn_windowed(&q, &k, &v, 0.125, left, right)?;
            assert_close(&ours, &attention(&q, &k, &v, &rules)?, 1e-5);
        }
    }
    Ok(())
}

#[test]
fn soft_caps_and_slopes() -> Result<()> {
    let (q, k, v) = (random(&[2, 6, 4, 32])?, random(&[2, 11, 2, 32])?, random(&[2, 11, 2, 32])?);
    let slopes = vec![0.5f32, 0.25, 0.125, 1.];
    let tensor = Tensor::new(slopes.as_slice(), &Device::Cpu)?;
    let plain = Rules { scale: 1., softcap: 2., right: Some(0), ..Rules::default() };
    let ours = flash_attn_alibi_windowed_softcap(&q, &k, &v, None, 1., None, Some(0), 2.)?;
    assert_close(&ours, &attention(&q, &k, &v, &plain)?, 1e-5);
    let biased = Rules { slopes: Some(slopes.clone()), ..plain };
    let ours = flash_attn_alibi_windowed_softcap(&q, &k, &v, Some(&tensor), 1., None, Some(0), 2.)?;
    assert_close(&ours, &attention(&q, &k, &v, &biased)?, 1e-5);
    let full = Rules { slopes: Some(slopes.clone()), ..Rules::default() };
    assert_close(
        &flash_attn_alibi(&q, &k, &v, &tensor, 0.125, false)?,
        &attention(&q, &k, &v, &full)?,
        1e-5,
    );
    let window = Rules { left: Some(4), right: Some(1), slopes: Some(slopes), ..Rules::default() };
    let ours = flash_attn_alibi_windowed(&q, &k, &v, &tensor, 0.125, Some(4), Some(1))?;
    assert_close(&ours, &attention(&q, &k, &v, &window)?, 1e-5);
    Ok(())
}

#[test]
fn views_are_read_where_they_lie() -> Result<()> {
    // Heads before tokens, every other sequence, and rows from the middle.
    let q = random(&[4, 8, 12, 64])?.transpose(1, 2)?.narrow(1, 3, 5)?.narrow(0, 1, 2)?;
    let kv = random(&[2, 9, 2, 2, 64])?;
    let (k, v) = (kv.narrow(2, 0, 1)?.squeeze(2)?, kv.narrow(2, 1, 1)?.squeeze(2)?);
    let ours = flash_attn(&q, &k, &v, 0.125, true)?;
    let rules = Rules { right: Some(0), ..Rules::default() };
    assert_close(&ours, &attention(&q, &k, &v, &rules)?, 1e-5);
    assert!(ours.is_contiguous());
    Ok(())
}

#[test]
fn values_of_another_length_and_every_type() -> Result<()> {
    let (q, k, v) = (random(&[1, 5, 4, 48])?, random(&[1, 9, 2, 48])?, random(&[1, 9, 2, 24])?);
    let theirs = attention(&q, &k, &v, &Rules::default())?;
    for (dtype, most) in
        [(DType::F64, 1e-5), (DType::F32, 1e-5), (DType::F16, 5e-3), (DType::BF16, 4e-2)]
    {
        let cast = |x: &Tensor| x.to_dtype(dtype);
        let ours = flash_attn(&cast(&q)?, &cast(&k)?, &cast(&v)?, 0.125, false)?;
        assert_eq!(ours.dtype(), dtype);
        assert_close(&ours, &theirs, most);
    }
    Ok(())
}
