//! The two products of [`lanes`](super::lanes) in registers: `V` vectors of rows times `N` numbers,
//! each number a broadcast.
//!
//! A step loads `V` vectors and `N` numbers for `V · N` multiply-adds; blocks are as square as the
//! registers allow, because loads are what a core that shares its ports has too few of.

use crate::simd::{Element, Simd};
use std::ops::Range;

/// Steps per turn of a loop. Of f32, half a cache line.
const UNROLLED: usize = 8;

/// Scores of `N` keys over part of the head dim: `to[n][row] += Σ_d keys[n][d] · queries[d][row]`,
/// from 0 where the part is the first. Brings the same part of the rows `ahead` near.
///
/// # Safety
/// Each key must have `dims.end` readable elements, `queries` `dims.end` and `to` `N` rows of `V`
/// vectors.
#[inline(always)]
pub(super) unsafe fn score_keys<S: Simd, E: Element, const V: usize, const N: usize>(
    simd: S,
    keys: &[*const f32],
    ahead: Option<[&[*const E]; 2]>,
    dims: Range<usize>,
    queries: *const f32,
    to: *mut f32,
) {
    let mut rows = [std::ptr::null(); N];
    rows.copy_from_slice(&keys[..N]);
    let mut sums = [[simd.splat(0.0); V]; N];
    for n in 0..if dims.start > 0 { N } else { 0 } {
        for v in 0..V {
            // SAFETY: the caller promises `N` rows.
            sums[n][v] = unsafe { simd.load(to.add((n * V + v) * S::LANES)) };
        }
    }
    let mut d = dims.start;
    while d + UNROLLED <= dims.end {
        if let Some(ahead) = ahead {
            // The lists take turns: a line of f32 lasts two.
            for n in 0..N {
                simd.prefetch(ahead[d / UNROLLED % 2][n].wrapping_add(d));
            }
        }
        for d in d..d + UNROLLED {
            // SAFETY: the caller promises `dims.end` elements and rows of queries.
            unsafe { add_products(simd, &mut sums, queries.add(d * V * S::LANES), rows, d) };
        }
        d += UNROLLED;
    }
    for d in d..dims.end {
        // SAFETY: as above.
        unsafe { add_products(simd, &mut sums, queries.add(d * V * S::LANES), rows, d) };
    }
    for n in 0..N {
        for v in 0..V {
            // SAFETY: the caller promises `N` rows.
            unsafe { simd.store(to.add((n * V + v) * S::LANES), sums[n][v]) };
        }
    }
}

/// `sums[n][row] += rows[n][at] · lanes[row]`.
///
/// # Safety
/// `lanes` must have `V` vectors, and each row be readable at `at`.
#[inline(always)]
unsafe fn add_products<S: Simd, const V: usize, const N: usize>(
    simd: S,
    sums: &mut [[S::Vector; V]; N],
    lanes: *const f32,
    rows: [*const f32; N],
    at: usize,
) {
    let mut vectors = [simd.splat(0.0); V];
    for v in 0..V {
        // SAFETY: the caller promises `V` vectors.
        vectors[v] = unsafe { simd.load(lanes.add(v * S::LANES)) };
    }
    for n in 0..N {
        // SAFETY: the caller promises that it can be read.
        let number = simd.splat(unsafe { *rows[n].add(at) });
        for v in 0..V {
            sums[n][v] = simd.mul_add(number, vectors[v], sums[n][v]);
        }
    }
}

/// `out[column][row] += Σ_n values[n][column] · probabilities[n][row]` for every column.
///
/// # Safety
/// Each value row must have `columns` readable elements; `probabilities` must hold as many rows
/// of `V` vectors as there are values, and `out` `columns`.
#[inline(always)]
pub(super) unsafe fn add_values<S: Simd, const V: usize, const N: usize>(
    simd: S,
    values: &[*const f32],
    columns: usize,
    probabilities: *const f32,
    out: *mut f32,
) {
    let mut column = 0;
    // SAFETY: every block of columns lies within `columns`; the rest is the caller's promise.
    unsafe {
        while column + N <= columns {
            add_columns::<S, V, N>(simd, values, column, probabilities, out);
            column += N;
        }
        while column + 4 <= columns {
            add_columns::<S, V, 4>(simd, values, column, probabilities, out);
            column += 4;
        }
        while column < columns {
            add_columns::<S, V, 1>(simd, values, column, probabilities, out);
            column += 1;
        }
    }
}

/// # Safety
/// As [`add_values`], with `column + N <= columns`.
#[inline(always)]
unsafe fn add_columns<S: Simd, const V: usize, const N: usize>(
    simd: S,
    values: &[*const f32],
    column: usize,
    probabilities: *const f32,
    out: *mut f32,
) {
    let mut sums = [[simd.splat(0.0); V]; N];
    let turns = values.chunks_exact(UNROLLED);
    let rest = values.len() - turns.remainder().len();
    for (turn, values) in turns.enumerate() {
        for n in 0..UNROLLED {
            // SAFETY: the caller promises `values.len()` rows of probabilities, and `column + N`
            // elements of each value row.
            unsafe {
                let lanes = probabilities.add((turn * UNROLLED + n) * V * S::LANES);
                add_products(simd, &mut sums, lanes, neighbours(values[n]), column);
            }
        }
    }
    for n in rest..values.len() {
        // SAFETY: as above.
        unsafe {
            let lanes = probabilities.add(n * V * S::LANES);
            add_products(simd, &mut sums, lanes, neighbours(values[n]), column);
        }
    }
    for c in 0..N {
        for v in 0..V {
            // SAFETY: the caller promises `column + N` columns of output.
            unsafe {
                let to = out.add(((column + c) * V + v) * S::LANES);
                simd.store(to, simd.add(simd.load(to), sums[c][v]));
            }
        }
    }
}

/// A row as `N` that begin one element apart.
#[inline(always)]
fn neighbours<const N: usize>(row: *const f32) -> [*const f32; N] {
    let mut rows = [row; N];
    for n in 0..N {
        rows[n] = row.wrapping_add(n);
    }
    rows
}
