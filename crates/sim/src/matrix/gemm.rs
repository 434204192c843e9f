//! The inner product of all matrix instructions: f32 panels, one fused multiply-add per product.

/// `c[m][n] += sum over k of a[m][k] * b[k][n]`, in the order of `k`, one rounding per term.
///
/// `a` is `rows` x `depth`, `b` is `depth` x `columns` and `c` is `rows` x `columns`, all packed.
pub fn accumulate(columns: usize, depth: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature the function is compiled for was just detected.
            return unsafe { accumulate_avx512(columns, depth, a, b, c) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: both features the function is compiled for were just detected.
            return unsafe { accumulate_avx2(columns, depth, a, b, c) };
        }
    }
    accumulate_panels(columns, depth, a, b, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn accumulate_avx512(columns: usize, depth: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    accumulate_panels(columns, depth, a, b, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn accumulate_avx2(columns: usize, depth: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    accumulate_panels(columns, depth, a, b, c);
}

/// Columns kept in registers at once; tile widths of the hardware are multiples of 8.
const WIDE: usize = 32;
const NARROW: usize = 8;

#[inline(always)]
fn accumulate_panels(columns: usize, depth: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    debug_assert_eq!(b.len(), depth * columns);
    for (a_row, c_row) in a.chunks_exact(depth).zip(c.chunks_exact_mut(columns)) {
        let mut n = 0;
        while n + WIDE <= columns {
            row_block::<WIDE>(a_row, &b[n..], columns, &mut c_row[n..]);
            n += WIDE;
        }
        while n + NARROW <= columns {
            row_block::<NARROW>(a_row, &b[n..], columns, &mut c_row[n..]);
            n += NARROW;
        }
        while n < columns {
            row_block::<1>(a_row, &b[n..], columns, &mut c_row[n..]);
            n += 1;
        }
    }
}

#[inline(always)]
fn row_block<const W: usize>(a_row: &[f32], b: &[f32], pitch: usize, c: &mut [f32]) {
    let c: &mut [f32; W] = c.first_chunk_mut().expect("a block of columns");
    let mut sums = *c;
    for (k, &a) in a_row.iter().enumerate() {
        let b: &[f32; W] = b[k * pitch..].first_chunk().expect("a block of columns");
        for i in 0..W {
            sums[i] = a.mul_add(b[i], sums[i]);
        }
    }
    *c = sums;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_triple_loop_bit_for_bit() {
        for (rows, columns, depth) in [(3, 1, 4), (16, 8, 16), (5, 24, 8), (7, 72, 32)] {
            let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 7.0;
            let a: Vec<f32> = (0..rows * depth).map(value).collect();
            let b: Vec<f32> = (0..depth * columns).map(|i| value(i + 13)).collect();
            let mut c: Vec<f32> = (0..rows * columns).map(|i| value(i + 29)).collect();
            let mut expected = c.clone();
            for m in 0..rows {
                for n in 0..columns {
                    for k in 0..depth {
                        let sum = &mut expected[m * columns + n];
                        *sum = a[m * depth + k].mul_add(b[k * columns + n], *sum);
                    }
                }
            }
            accumulate(columns, depth, &a, &b, &mut c);
            assert_eq!(c, expected);
        }
    }
}
