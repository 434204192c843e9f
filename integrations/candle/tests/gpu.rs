//! The same functions on a GPU, beside the CPU: `cargo test --features cuda`, which needs nvcc (for candle) and a GPU.
//! `cargo xtask candle` needs no GPU: the tests run on the simulator there. Kernels of candle's own that they launch are
//! named in `stand-in/bin/nvcc`.
#![cfg(feature = "cuda")]

use candle_core::{DType, Device, Result, Tensor};
use sixwarp_candle::*;

/// Random numbers that both devices hold exactly.
fn random(shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(0f32, 1., shape, &Device::Cpu)?.to_dtype(DType::BF16)
}

fn offsets(values: &[u32]) -> Result<Tensor> {
    Tensor::new(values, &Device::Cpu)
}

/// `call` of tensors on the CPU and of their copies on the GPU, which differ by less than bf16 rounds.
fn compare(tensors: &[&Tensor], call: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    compare_within(3e-2, tensors, call)
}

fn compare_within(
    bound: f32,
    tensors: &[&Tensor],
    call: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    let gpu = Device::new_cuda(0)?;
    let there: Vec<Tensor> = tensors.iter().map(|x| x.to_device(&gpu)).collect::<Result<_>>()?;
    let here: Vec<Tensor> = tensors.iter().map(|x| (*x).clone()).collect();
    let (ours, theirs) = (call(&there)?.to_device(&Device::Cpu)?, call(&here)?);
    let float = |x: &Tensor| x.to_dtype(DType::F32);
    let difference: f32 =
        (float(&ours)? - float(&theirs)?)?.abs()?.flatten_all()?.max(0)?.to_scalar()?;
    assert!(difference < bound, "the GPU differs from the CPU by {difference}");
    Ok(())
}

#[test]
fn batches() -> Result<()> {
    let (q, k, v) = (random(&[2, 70, 8, 64])?, random(&[2, 90, 2, 64])?, random(&[2, 90, 2, 64])?);
    for (left, right) in [(None, None), (None, Some(0)), (Some(20), Some(0)), (Some(5), Some(3))] {
        compare(&[&q, &k, &v], |x| {
            flash_attn_alibi_windowed_softcap(&x[0], &x[1], &x[2], None, 0.125, left, right, 20.)
        })?;
    }
    let slopes = Tensor::rand(0f32, 1., 8, &Device::Cpu)?;
    compare(&[&q, &k, &v, &slopes], |x| flash_attn_alibi(&x[0], &x[1], &x[2], &x[3], 0.125, true))
}

/// candle-flash-attn refuses f32. Numbers are not rounded to tf32 here, which would differ by 1e-3.
#[test]
fn f32_keeps_its_bits() -> Result<()> {
    let f32 = |shape: &[usize]| Tensor::randn(0f32, 1., shape, &Device::Cpu);
    let (q, kv) = (f32(&[1, 70, 4, 64])?, f32(&[1, 90, 2, 64])?);
    compare_within(2e-5, &[&q, &kv], |x| flash_attn(&x[0], &x[1], &x[1], 0.125, true))
}

#[test]
fn ragged_causal_sequences() -> Result<()> {
    for ends in [&[0, 1743, 3302][..], &[0, 17, 17, 117, 120]] {
        let (total, longest) = (ends[ends.len() - 1] as usize, 1743);
        let (q, kv, ends) = (random(&[total, 8, 128])?, random(&[total, 2, 128])?, offsets(ends)?);
        compare(&[&q, &kv, &ends], |x| {
            flash_attn_varlen(&x[0], &x[1], &x[1], &x[2], &x[2], longest, longest, 0.125, true)
        })?;
    }
    Ok(())
}

#[test]
fn pages() -> Result<()> {
    let (q, k, v) = (random(&[5, 8, 64])?, random(&[6, 16, 2, 64])?, random(&[6, 16, 2, 64])?);
    let (ends_q, ends_k) = (offsets(&[0, 1, 5])?, offsets(&[0, 33, 81])?);
    let table = Tensor::new(&[[4u32, 0, 1], [5, 2, 3]], &Device::Cpu)?;
    compare(&[&q, &k, &v, &ends_q, &ends_k, &table], |x| {
        let (left, right, cap) = (Some(40), Some(0), Some(30.));
        flash_attn_varlen_paged_windowed(
            &x[0], &x[1], &x[2], &x[3], &x[4], &x[5], None, 4, 48, 0.125, left, right, 16, cap,
        )
    })
}

/// Work of candle's libraries is in order with ours: a product reads what attention wrote.
#[test]
fn products_of_candle_beside_attention() -> Result<()> {
    let gpu = Device::new_cuda(0)?;
    let x = Tensor::rand(0f32, 1f32, (1, 8, 2, 64), &gpu)?.to_device(&Device::Cpu)?;
    assert!(x.flatten_all()?.max(0)?.to_scalar::<f32>()? <= 1.);
    let (x, weight) = (x.to_dtype(DType::BF16)?, random(&[128, 32])?);
    let chain = |x: &Tensor, weight: &Tensor| -> Result<Tensor> {
        flash_attn(x, x, x, 0.125, true)?.reshape((8, 128))?.matmul(weight)?.to_device(&Device::Cpu)
    };
    let ours = chain(&x.to_device(&gpu)?, &weight.to_device(&gpu)?)?.to_dtype(DType::F32)?;
    let theirs = chain(&x, &weight)?.to_dtype(DType::F32)?;
    let difference: f32 = (ours - theirs)?.abs()?.flatten_all()?.max(0)?.to_scalar()?;
    assert!(difference < 0.2, "the GPU differs from the CPU by {difference}");
    Ok(())
}

/// candle's own stream need not be the default one.
#[test]
fn a_stream_of_candles_own() -> Result<()> {
    let gpu = Device::new_cuda_with_stream(0)?;
    let x = random(&[1, 300, 4, 64])?;
    let there = x.to_device(&gpu)?;
    for _ in 0..20 {
        let out = flash_attn(&there, &there, &there, 0.125, true)?.to_device(&Device::Cpu)?;
        let first = out.narrow(1, 0, 1)?.to_dtype(DType::F32)?;
        let difference = (first - x.narrow(1, 0, 1)?.to_dtype(DType::F32)?)?.abs()?;
        assert!(difference.flatten_all()?.max(0)?.to_scalar::<f32>()? < 1e-2);
    }
    Ok(())
}
