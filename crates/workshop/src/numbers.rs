//! Numbers for kernels to compute with, and their bytes.

/// Whole numbers from −2 to 2, by a small generator: their products and sums are exact.
pub fn small(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) % 5
    };
    (0..count).map(|_| next() as f32 - 2.0).collect()
}

/// The bytes of f32 numbers.
pub fn f32_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The bytes of finite numbers rounded to bf16: to the nearest, and of two to the even one.
pub fn bf16_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| bf16(*x).to_le_bytes()).collect()
}

fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let even = (bits >> 16) & 1;
    ((bits + 0x7FFF + even) >> 16) as u16
}

/// Element (`row`, `column`) of `a · bᵀ`, whose rows have `k` numbers each.
pub fn product(a: &[f32], b: &[f32], k: usize, [row, column]: [usize; 2]) -> f32 {
    let (a, b) = (&a[row * k..][..k], &b[column * k..][..k]);
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::bf16;

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        // bf16 has eight bits: above 256 every other number, above 512 every fourth.
        for (x, wanted) in [(1.0, 1.0), (257.0, 256.0), (259.0, 260.0), (-515.0, -516.0)] {
            assert_eq!(f32::from_bits(u32::from(bf16(x)) << 16), wanted, "{x}");
        }
    }
}
