//! Matrix products of cuBLAS.

use super::number::Number;
use super::product::{Matrices, Product};
use super::{library, queue};
use crate::driver::driver;
use crate::guard::give;
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_int, c_longlong, c_void};

/// A result as `cublasStatus_t` numbers it.
fn status(result: CudaResult) -> u32 {
    match result {
        CudaResult::SUCCESS => 0,
        CudaResult::NOT_INITIALIZED | CudaResult::INVALID_HANDLE => 1,
        CudaResult::INVALID_VALUE => 7,
        CudaResult::NOT_SUPPORTED => 15,
        _ => 13,
    }
}

/// Whether an operand is transposed; conjugates are the same for real numbers.
fn transposed(operation: c_int) -> Outcome<bool> {
    match operation {
        0 => Ok(false),
        1 | 2 => Ok(true),
        _ => Err(CudaResult::INVALID_VALUE),
    }
}

/// A factor of the host.
///
/// # Safety
/// The program's pointer is null or to a number of this type.
unsafe fn factor(from: *const c_void, number: Number) -> Outcome<f64> {
    if from.is_null() {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for its bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), number.bytes() as usize) };
    Ok(number.read(bytes)[0])
}

/// A call of any of the functions for products.
struct Call {
    handle: usize,
    operations: [c_int; 2],
    shape: [c_int; 3],
    /// α and β, and their type.
    factors: ([*const c_void; 2], Number),
    matrices: [Matrices; 3],
    count: c_int,
}

impl Call {
    /// # Safety
    /// The factors are the program's, of the type named.
    unsafe fn queue(self) -> Outcome {
        let stream = *driver()?.state().products.get(self.handle)?;
        let ([alpha, beta], number) = self.factors;
        let [a, b] = self.operations;
        let product = Product {
            transposed: [transposed(a)?, transposed(b)?],
            shape: self.shape,
            // SAFETY: the caller's contract.
            factors: unsafe { [factor(alpha, number)?, factor(beta, number)?] },
            matrices: self.matrices,
            count: self.count,
        };
        product.check()?;
        queue(stream, move |memory| product.run(memory))
    }
}

library! { status;
    /// Makes a handle.
    fn cublasCreate_v2(handle: *mut usize) {
        crate::runtime::start()?;
        let made = driver()?.state().products.add(0);
        // SAFETY: the program's pointer.
        unsafe { give(handle, made) }
    }

    /// Ends a handle.
    fn cublasDestroy_v2(handle: usize) {
        driver()?.state().products.remove(handle).map(|_| ())
    }

    /// The stream of the handle's products.
    fn cublasSetStream_v2(handle: usize, stream: usize) {
        let mut state = driver()?.state();
        state.stream(stream)?;
        *state.products.get_mut(handle)? = stream;
        Ok(())
    }

    /// The stream of the handle's products.
    fn cublasGetStream_v2(handle: usize, stream: *mut usize) {
        let set = *driver()?.state().products.get(handle)?;
        // SAFETY: the program's pointer.
        unsafe { give(stream, set) }
    }

    /// Sums are in f64 whatever is allowed.
    fn cublasSetMathMode(handle: usize, mode: c_int) {
        let _ = mode;
        driver()?.state().products.get(handle).map(|_| ())
    }

    /// Factors are memory of the host; in memory of the device they are not read.
    fn cublasSetPointerMode_v2(handle: usize, mode: c_int) {
        driver()?.state().products.get(handle)?;
        if mode == 0 { Ok(()) } else { Err(CudaResult::NOT_SUPPORTED) }
    }

    /// No workspace is needed.
    fn cublasSetWorkspace_v2(handle: usize, workspace: *mut c_void, bytes: usize) {
        let _ = (workspace, bytes);
        driver()?.state().products.get(handle).map(|_| ())
    }

    /// Products of matrices of any supported types.
    fn cublasGemmStridedBatchedEx(
        handle: usize, op_a: c_int, op_b: c_int, m: c_int, n: c_int, k: c_int,
        alpha: *const c_void,
        a: u64, a_type: u32, lda: c_int, a_stride: c_longlong,
        b: u64, b_type: u32, ldb: c_int, b_stride: c_longlong,
        beta: *const c_void,
        c: u64, c_type: u32, ldc: c_int, c_stride: c_longlong,
        count: c_int, computed_in: u32, algorithm: c_int,
    ) {
        let _ = algorithm;
        let matrices = [
            Matrices { start: a, number: Number::of(a_type)?, leading: lda, stride: a_stride },
            Matrices { start: b, number: Number::of(b_type)?, leading: ldb, stride: b_stride },
            Matrices { start: c, number: Number::of(c_type)?, leading: ldc, stride: c_stride },
        ];
        let factors = ([alpha, beta], Number::of_factors(computed_in)?);
        let (operations, shape) = ([op_a, op_b], [m, n, k]);
        // SAFETY: the program's pointers.
        unsafe { Call { handle, operations, shape, factors, matrices, count }.queue() }
    }

    /// One product of matrices of any supported types.
    fn cublasGemmEx(
        handle: usize, op_a: c_int, op_b: c_int, m: c_int, n: c_int, k: c_int,
        alpha: *const c_void,
        a: u64, a_type: u32, lda: c_int,
        b: u64, b_type: u32, ldb: c_int,
        beta: *const c_void,
        c: u64, c_type: u32, ldc: c_int,
        computed_in: u32, algorithm: c_int,
    ) {
        let _ = algorithm;
        let matrices = [
            Matrices { start: a, number: Number::of(a_type)?, leading: lda, stride: 0 },
            Matrices { start: b, number: Number::of(b_type)?, leading: ldb, stride: 0 },
            Matrices { start: c, number: Number::of(c_type)?, leading: ldc, stride: 0 },
        ];
        let factors = ([alpha, beta], Number::of_factors(computed_in)?);
        let (operations, shape) = ([op_a, op_b], [m, n, k]);
        // SAFETY: the program's pointers.
        unsafe { Call { handle, operations, shape, factors, matrices, count: 1 }.queue() }
    }
}

/// Products of one type: one, and several at equal distances.
macro_rules! products {
    ($($number:path, $one:ident, $several:ident;)*) => { library! { status; $(
        #[doc = concat!("One product, of `", stringify!($number), "`.")]
        fn $one(
            handle: usize, op_a: c_int, op_b: c_int, m: c_int, n: c_int, k: c_int,
            alpha: *const c_void, a: u64, lda: c_int, b: u64, ldb: c_int,
            beta: *const c_void, c: u64, ldc: c_int,
        ) {
            let of = |(start, leading)| Matrices { start, number: $number, leading, stride: 0 };
            let matrices = [(a, lda), (b, ldb), (c, ldc)].map(of);
            let factors = ([alpha, beta], $number);
            let (operations, shape) = ([op_a, op_b], [m, n, k]);
            // SAFETY: the program's pointers.
            unsafe { Call { handle, operations, shape, factors, matrices, count: 1 }.queue() }
        }

        #[doc = concat!("Several products, of `", stringify!($number), "`.")]
        fn $several(
            handle: usize, op_a: c_int, op_b: c_int, m: c_int, n: c_int, k: c_int,
            alpha: *const c_void, a: u64, lda: c_int, a_stride: c_longlong,
            b: u64, ldb: c_int, b_stride: c_longlong,
            beta: *const c_void, c: u64, ldc: c_int, c_stride: c_longlong, count: c_int,
        ) {
            let of = |(start, leading, stride)| Matrices { start, number: $number, leading, stride };
            let matrices = [(a, lda, a_stride), (b, ldb, b_stride), (c, ldc, c_stride)].map(of);
            let factors = ([alpha, beta], $number);
            let (operations, shape) = ([op_a, op_b], [m, n, k]);
            // SAFETY: the program's pointers.
            unsafe { Call { handle, operations, shape, factors, matrices, count }.queue() }
        }
    )* } };
}

products! {
    Number::F16, cublasHgemm, cublasHgemmStridedBatched;
    Number::F32, cublasSgemm_v2, cublasSgemmStridedBatched;
    Number::F64, cublasDgemm_v2, cublasDgemmStridedBatched;
}
