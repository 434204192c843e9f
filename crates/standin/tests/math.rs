//! cuBLAS's products and cuRAND's numbers, called as programs call them.

#![cfg(target_os = "linux")]

use half::{bf16, f16};
use sixwarp_standin::api::{context, info, memory, stream};
use sixwarp_standin::math::{blas, random};
use sixwarp_standin::result::CudaResult;
use std::ffi::c_void;

/// Calls a function, which must succeed.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: pointers are to locals of the sizes that the functions take.
        assert_eq!(unsafe { $call }, 0, stringify!($call))
    };
}

/// Calls a driver function, which must succeed.
macro_rules! cu {
    ($call:expr) => {
        // SAFETY: as for `ok`.
        assert_eq!(unsafe { $call }, CudaResult::SUCCESS, stringify!($call))
    };
}

fn start() {
    let mut handle = 0;
    cu!(info::cuInit(0));
    cu!(context::cuDevicePrimaryCtxRetain(&mut handle, 0));
    cu!(context::cuCtxSetCurrent(handle));
}

fn upload(bytes: &[u8]) -> u64 {
    let mut address = 0;
    cu!(memory::cuMemAlloc_v2(&mut address, bytes.len()));
    cu!(memory::cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()));
    address
}

fn download(address: u64, bytes: usize) -> Vec<u8> {
    let mut there = vec![0u8; bytes];
    cu!(memory::cuMemcpyDtoH_v2(there.as_mut_ptr().cast(), address, bytes));
    there
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

/// Whole numbers: products are exact.
fn number(place: usize) -> f32 {
    ((place * 7 + 3) % 11) as f32 - 5.
}

fn handle() -> usize {
    let mut made = 0;
    ok!(blas::cublasCreate_v2(&mut made));
    made
}

/// Numbers of `count` matrices in columns, `leading` apart.
fn matrices(count: usize, leading: usize, columns: usize) -> Vec<f32> {
    (0..count * leading * columns).map(number).collect()
}

#[test]
fn products_are_those_of_the_definition_for_every_transposition() {
    start();
    let (m, n, k, count) = (3, 4, 5, 2);
    let (handle, factors) = (handle(), [2f32, 0.5]);
    let pointer = |x: &f32| (&raw const *x).cast::<c_void>();
    for (op_a, op_b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        // One more row than is used, so that columns lie apart.
        let [a_rows, a_columns] = if op_a == 0 { [m, k] } else { [k, m] };
        let [b_rows, b_columns] = if op_b == 0 { [k, n] } else { [n, k] };
        let a = matrices(count, a_rows + 1, a_columns);
        let b = matrices(count, b_rows + 1, b_columns);
        let c = matrices(count, m + 1, n);
        let as_f16: Vec<u8> = a.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
        let as_bf16: Vec<u8> = b.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect();
        let as_f32: Vec<u8> = c.iter().flat_map(|x| x.to_le_bytes()).collect();
        let (on_a, on_b, on_c) = (upload(&as_f16), upload(&as_bf16), upload(&as_f32));
        let stride = |rows: usize, columns: usize| ((rows + 1) * columns) as i64;
        let leading = |rows: usize| rows as i32 + 1;
        ok!(blas::cublasGemmStridedBatchedEx(
            handle,
            op_a,
            op_b,
            m as i32,
            n as i32,
            k as i32,
            pointer(&factors[0]),
            on_a,
            2,
            leading(a_rows),
            stride(a_rows, a_columns),
            on_b,
            14,
            leading(b_rows),
            stride(b_rows, b_columns),
            pointer(&factors[1]),
            on_c,
            0,
            leading(m),
            stride(m, n),
            count as i32,
            68,
            0,
        ));
        let got = floats(&download(on_c, as_f32.len()));
        for (place, old) in c.iter().enumerate() {
            let (batch, column, row) =
                (place / ((m + 1) * n), place / (m + 1) % n, place % (m + 1));
            let from_a = |i: usize, l: usize| {
                let (row, column) = if op_a == 0 { (i, l) } else { (l, i) };
                a[batch * (a_rows + 1) * a_columns + column * (a_rows + 1) + row]
            };
            let from_b = |l: usize, j: usize| {
                let (row, column) = if op_b == 0 { (l, j) } else { (j, l) };
                b[batch * (b_rows + 1) * b_columns + column * (b_rows + 1) + row]
            };
            let sum: f32 =
                if row < m { (0..k).map(|l| from_a(row, l) * from_b(l, column)).sum() } else { 0. };
            let wanted = if row < m { 2. * sum + 0.5 * old } else { *old };
            assert_eq!(got[place], wanted, "{op_a} {op_b} at {place}");
        }
    }
    ok!(blas::cublasDestroy_v2(handle));
}

#[test]
fn a_factor_of_zero_reads_nothing_and_work_waits_for_its_stream() {
    start();
    let (handle, mut on) = (handle(), 0);
    cu!(stream::cuStreamCreate(&mut on, 1));
    ok!(blas::cublasSetStream_v2(handle, on));
    let c = upload(&f32::NAN.to_le_bytes());
    let (a, b) = (upload(&3f32.to_le_bytes()), upload(&0f32.to_le_bytes()));
    cu!(memory::cuMemsetD32Async(b, 2f32.to_bits(), 1, on));
    let (one, none) = (1f32, 0f32);
    let (one, none) = ((&raw const one).cast(), (&raw const none).cast());
    ok!(blas::cublasSgemm_v2(handle, 0, 0, 1, 1, 1, one, a, 1, b, 1, none, c, 1));
    cu!(stream::cuStreamSynchronize(on));
    assert_eq!(floats(&download(c, 4)), [6.]);
}

#[test]
fn what_is_wrong_is_refused_by_its_number() {
    start();
    let (handle, one) = (handle(), 1f32);
    let (one, at) = ((&raw const one).cast::<c_void>(), upload(&[0; 64]));
    // SAFETY: factors are locals; the rest is looked up.
    let call = |handle, op, leading, a_type, computed_in| unsafe {
        blas::cublasGemmEx(
            handle,
            op,
            0,
            2,
            2,
            2,
            one,
            at,
            a_type,
            leading,
            at,
            0,
            2,
            one,
            at,
            0,
            2,
            computed_in,
            0,
        )
    };
    assert_eq!(call(handle, 0, 2, 0, 68), 0);
    assert_eq!(call(handle + 1, 0, 2, 0, 68), 1, "no such handle");
    assert_eq!(call(handle, 7, 2, 0, 68), 7, "no such operation");
    assert_eq!(call(handle, 0, 1, 0, 68), 7, "columns overlap");
    assert_eq!(call(handle, 0, 2, 3, 68), 15, "integers");
    assert_eq!(call(handle, 0, 2, 0, 72), 15, "sums of integers");
    let mut generator = 0;
    // SAFETY: as above.
    unsafe {
        assert_eq!(
            random::curandCreateGenerator(&mut generator, 200),
            103,
            "no pseudo-random kind"
        );
        assert_eq!(random::curandCreateGenerator(&mut generator, 100), 0);
        assert_eq!(random::curandGenerateNormal(generator, at, 3, 0., 1.), 105, "no pairs");
        assert_eq!(random::curandGenerateUniform(generator + 1, at, 3), 101, "no such generator");
    }
}

#[test]
fn random_numbers_follow_their_seed_and_distribution() {
    start();
    let (count, mut generator) = (4096, 0);
    let at = upload(&vec![0; 4 * count]);
    ok!(random::curandCreateGenerator(&mut generator, 100));
    let draw = |seed: Option<u64>, is_normal: bool| {
        if let Some(seed) = seed {
            ok!(random::curandSetPseudoRandomGeneratorSeed(generator, seed));
        }
        match is_normal {
            true => ok!(random::curandGenerateNormal(generator, at, count, 3., 0.5)),
            false => ok!(random::curandGenerateUniform(generator, at, count)),
        }
        floats(&download(at, 4 * count))
    };
    let first = draw(Some(7), false);
    assert!(first.iter().all(|x| *x > 0. && *x <= 1.));
    assert_ne!(draw(None, false), first);
    assert_eq!(draw(Some(7), false), first);
    assert_ne!(draw(Some(8), false), first);
    let normal = draw(Some(7), true);
    let mean = normal.iter().sum::<f32>() / count as f32;
    let deviation = (normal.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count as f32).sqrt();
    assert!((mean - 3.).abs() < 0.05 && (deviation - 0.5).abs() < 0.05, "{mean} {deviation}");
    ok!(random::curandDestroyGenerator(generator));
}
