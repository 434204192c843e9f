/// A small, fast, seeded generator (splitmix64): the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there is none.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number in `0..1`.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Two normally distributed numbers of mean 0 and variance 1 (Box and Muller).
    pub fn normal_pair(&mut self) -> [f32; 2] {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        [(radius * cos) as f32, (radius * sin) as f32]
    }

    /// Fills `row` with normally distributed numbers.
    pub fn fill_normal(&mut self, row: &mut [f32]) {
        for pair in row.chunks_mut(2) {
            let normal = self.normal_pair();
            pair.copy_from_slice(&normal[..pair.len()]);
        }
    }

    /// The numbers `0..n` in random order.
    pub fn permutation(&mut self, n: u64) -> Vec<u64> {
        let mut order: Vec<u64> = (0..n).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_mean_0_and_variance_1() {
        let mut rng = Rng::new(7);
        let mut values = vec![0.0; 20_000];
        rng.fill_normal(&mut values);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn permutations_hold_every_number() {
        let mut order = Rng::new(1).permutation(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
