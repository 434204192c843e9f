//! What is wrong or not supported is an error that names it.

use crate::eager::random;
use candle_core::{DType, Device, Result, Tensor, Var};
use sixwarp_candle::*;

#[track_caller]
fn assert_refused(result: Result<Tensor>, words: &str) {
    let error = result.expect_err(words).to_string();
    assert!(error.contains(words), "{error}: should name {words}");
}

fn offsets(values: &[u32]) -> Tensor {
    Tensor::new(values, &Device::Cpu).expect("offsets")
}

#[test]
fn tensors_that_do_not_fit_together() -> Result<()> {
    let (q, k) = (random(&[1, 3, 4, 32])?, random(&[1, 5, 2, 32])?);
    assert_refused(flash_attn(&q, &k.to_dtype(DType::F16)?, &k, 1., false), "k is F16");
    assert_refused(flash_attn(&q.squeeze(0)?, &k, &k, 1., false), "q has shape [3, 4, 32]");
    assert_refused(
        flash_attn(&q, &random(&[1, 5, 3, 32])?, &random(&[1, 5, 3, 32])?, 1., false),
        "heads",
    );
    assert_refused(flash_attn(&q, &random(&[1, 5, 2, 16])?, &k, 1., false), "k");
    assert_refused(flash_attn(&q, &k, &random(&[1, 4, 2, 32])?, 1., false), "v");
    assert_refused(
        flash_attn(&q, &random(&[2, 5, 2, 32])?, &random(&[2, 5, 2, 32])?, 1., false),
        "k",
    );
    let columns = random(&[1, 3, 32, 4])?.transpose(2, 3)?;
    assert_refused(flash_attn(&columns, &k, &k, 1., false), "stride");
    let whole = q.to_dtype(DType::U32)?;
    assert_refused(flash_attn(&whole, &whole, &whole, 1., false), "q is U32");
    assert_refused(flash_attn(&q, &k, &k, f32::NAN, false), "scale");
    assert_refused(
        flash_attn_alibi(&q, &k, &k, &random(&[3])?, 1., false),
        "alibi_slopes has shape [3]",
    );
    Ok(())
}

#[test]
fn offsets_and_tables_that_lead_outside() -> Result<()> {
    let x = random(&[10, 2, 32])?;
    let run = |q: &[u32], k: &[u32]| {
        flash_attn_varlen(&x, &x, &x, &offsets(q), &offsets(k), 10, 10, 1., true)
    };
    assert!(run(&[0, 4, 10], &[0, 4, 10]).is_ok());
    assert_refused(run(&[0, 4, 10], &[0, 10]), "seqlens_q has 3 offsets and seqlens_k 2");
    assert_refused(run(&[0], &[0]), "(batch + 1,)");
    assert_refused(run(&[0, 4, 11], &[0, 4, 10]), "cu_seqlens_q");
    assert_refused(run(&[0, 7, 4], &[0, 4, 10]), "cu_seqlens_q");
    assert_refused(run(&[0, 4, 10], &[0, 4, 11]), "cu_seqlens");
    assert_refused(run(&[0, 4, 10], &[0, 4, u32::MAX]), "4294967295");
    let pages = random(&[3, 4, 2, 32])?;
    let run = |table: &[[u32; 2]; 2], page: usize| {
        let table = Tensor::new(table, &Device::Cpu)?;
        let ends = offsets(&[0, 4, 10]);
        flash_attn_varlen_paged_windowed(
            &x,
            &pages,
            &pages,
            &ends,
            &ends,
            &table,
            None,
            10,
            10,
            1.,
            None,
            Some(0),
            page,
            None,
        )
    };
    assert!(run(&[[0, 1], [2, 1]], 4).is_ok());
    assert_refused(run(&[[0, 1], [2, 7]], 4), "page_table");
    assert_refused(run(&[[0, 1], [2, 1]], 8), "page_block_size is 8");
    Ok(())
}

#[test]
fn what_there_is_no_kernel_for() -> Result<()> {
    let (x, ends, slopes) = (random(&[4, 2, 32])?, offsets(&[0, 4]), random(&[2])?);
    let result = flash_attn_varlen_alibi(&x, &x, &x, &slopes, &ends, &ends, 4, 4, 1., true);
    assert_refused(result, "alibi_slopes");
    let result =
        flash_attn_varlen_alibi_windowed(&x, &x, &x, &slopes, &ends, &ends, 4, 4, 1., None, None);
    assert_refused(result, "alibi_slopes");
    let (pages, table) = (random(&[1, 4, 2, 32])?, Tensor::new(&[[0u32]], &Device::Cpu)?);
    let result = flash_attn_varlen_paged_windowed(
        &x,
        &pages,
        &pages,
        &ends,
        &ends,
        &table,
        Some(&table),
        4,
        4,
        1.,
        None,
        None,
        4,
        None,
    );
    assert_refused(result, "mm_prefix_ranges");
    Ok(())
}

#[test]
fn a_gradient_is_refused_and_not_left_out() -> Result<()> {
    let q = Var::from_tensor(&random(&[1, 3, 2, 32])?)?;
    let out = flash_attn(q.as_tensor(), q.as_tensor(), q.as_tensor(), 1., false)?;
    let error = out.sum_all()?.backward().expect_err("there is no backward").to_string();
    assert!(error.contains("sixwarp-attention"), "{error}");
    Ok(())
}
