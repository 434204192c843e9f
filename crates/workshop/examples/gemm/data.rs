//! Matrices of small integers, whose products are exact.

use half::bf16;
use sixwarp_workshop::gemm::Shape;

/// `count` numbers from −2 to 2.
pub fn numbers(count: usize, seed: u32) -> Vec<bf16> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as i32 % 5 - 2
    };
    (0..count).map(|_| bf16::from_f32(next() as f32)).collect()
}

/// Their bytes.
pub fn bytes(numbers: &[bf16]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Element (`row`, `column`) of `a · bᵀ`.
pub fn product(a: &[bf16], b: &[bf16], k: usize, row: usize, column: usize) -> bf16 {
    let (a, b) = (&a[row * k..][..k], &b[column * k..][..k]);
    bf16::from_f32(a.iter().zip(b).map(|(x, y)| x.to_f32() * y.to_f32()).sum())
}

/// Compares some elements of `c`: all of a small matrix, and every so-manieth of a large one.
pub fn compare(
    a: &[bf16],
    b: &[bf16],
    c: &[u8],
    Shape { m, n, k }: Shape,
) -> Result<usize, String> {
    const MOST: usize = 1 << 16;
    let (n, k, count) = (n as usize, k as usize, m as usize * n as usize);
    let step = (count / MOST).max(1) | 1;
    let places = (0..count).step_by(step).map(|at| (at / n, at % n));
    for (row, column) in places.clone() {
        let at = (row * n + column) * 2;
        let (got, wanted) =
            (bf16::from_le_bytes([c[at], c[at + 1]]), product(a, b, k, row, column));
        if got != wanted {
            return Err(format!("row {row}, column {column} is {got}, and should be {wanted}"));
        }
    }
    Ok(places.count())
}
