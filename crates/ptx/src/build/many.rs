//! Arithmetic on many floats of a thread, in as few instructions as the target has for it.

use super::builder::{Builder, Target};
use super::pair::Pair;
use super::value::Reg;

/// Joins neighbours, `arity` at a time, until one is left.
fn tree<T: Copy>(mut level: Vec<T>, arity: usize, mut join: impl FnMut(T, T) -> T) -> T {
    assert!(!level.is_empty(), "a tree needs at least one value");
    while level.len() > 1 {
        let joined = |few: &[T]| few[1..].iter().fold(few[0], |x, y| join(x, *y));
        level = level.chunks(arity).map(joined).collect();
    }
    level[0]
}

/// Adds products up in a few chains, which hide the latency of one another.
fn add_products<T: Copy, S: Copy>(
    products: &[T],
    mut add: impl FnMut(T, Option<S>) -> S,
) -> Vec<S> {
    const CHAINS: usize = 4;
    let (first, rest) = products.split_at(products.len().min(CHAINS));
    let mut sums: Vec<S> = first.iter().map(|product| add(*product, None)).collect();
    for (i, product) in rest.iter().enumerate() {
        sums[i % CHAINS] = add(*product, Some(sums[i % CHAINS]));
    }
    sums
}

impl Builder {
    /// Whether one instruction adds or multiplies two pairs of floats.
    fn has_pairs(&self) -> bool {
        matches!(self.target(), Target::Sm100a | Target::Sm103a)
    }

    /// The largest of `values`: two joins are one instruction on sm_100 and later.
    #[track_caller]
    pub fn max_tree(&mut self, values: &[Reg<f32>]) -> Reg<f32> {
        tree(values.to_vec(), 3, |x, y| self.max(x, y))
    }

    /// The same, NaN if one of `values` is.
    #[track_caller]
    pub fn max_tree_or_nan(&mut self, values: &[Reg<f32>]) -> Reg<f32> {
        tree(values.to_vec(), 3, |x, y| self.max_or_nan(x, y))
    }

    /// The largest magnitude among `values`, of those that are numbers.
    #[track_caller]
    pub fn max_magnitude(&mut self, values: &[Reg<f32>]) -> Reg<f32> {
        let magnitudes: Vec<_> = values.iter().map(|value| self.abs(*value)).collect();
        self.max_tree(&magnitudes)
    }

    /// The largest of the bits of `values` as signed integers: two joins are one instruction on sm_90 and
    /// later, where floats are compared two by two.
    #[track_caller]
    pub fn max_of_bits(&mut self, values: &[Reg<f32>]) -> Reg<i32> {
        let bits = values.iter().map(|value| self.bits(*value).reinterpret()).collect();
        tree(bits, 3, |x, y| self.max(x, y))
    }

    /// The sum of `values`.
    #[track_caller]
    pub fn sum_tree(&mut self, values: &[Reg<f32>]) -> Reg<f32> {
        if !self.has_pairs() || values.len() < 2 {
            return tree(values.to_vec(), 2, |x, y| self.add(x, y));
        }
        let (pairs, rest) = values.as_chunks();
        let pairs = pairs.iter().map(|[x, y]| self.pair(*x, *y)).collect();
        let sums: Pair = tree(pairs, 2, |x, y| self.pair_add(x, y));
        let [even, odd] = self.unpair(sums);
        rest.iter().fold(self.add(even, odd), |sum, x| self.add(sum, *x))
    }

    /// The sum of the products of neighbours, an even number of `values`. It takes half as long as their sum, and is
    /// finite only if all of them are.
    #[track_caller]
    pub fn sum_of_products(&mut self, values: &[Reg<f32>]) -> Reg<f32> {
        let (pairs, rest) = values.as_chunks::<2>();
        assert!(rest.is_empty(), "values come in pairs");
        let (fours, rest) = pairs.as_chunks::<2>();
        if !self.has_pairs() || !rest.is_empty() {
            let sums = add_products(pairs, |[x, y], sum| match sum {
                None => self.mul(x, y),
                Some(sum) => self.fma(x, y, sum),
            });
            return self.sum_tree(&sums);
        }
        let sums = add_products(fours, |[low, high], sum| {
            let (x, y) = (self.pair(low[0], low[1]), self.pair(high[0], high[1]));
            match sum {
                None => self.pair_mul(x, y),
                Some(sum) => self.pair_fma(x, y, sum),
            }
        });
        let sums: Vec<_> = sums.into_iter().flat_map(|sum| self.unpair(sum)).collect();
        self.sum_tree(&sums)
    }

    /// `x · factor + shift`, for many `x`.
    #[track_caller]
    pub fn scaling(&mut self, factor: Reg<f32>, shift: Reg<f32>) -> Scaling {
        let pairs = self.has_pairs().then(|| [self.pair(factor, factor), self.pair(shift, shift)]);
        Scaling { factor, shift, pairs }
    }

    /// `x · P(x²)`, for many `x`; the coefficients of `P` are constant first.
    #[track_caller]
    pub fn odd_polynomial(&mut self, coefficients: &[Reg<f32>]) -> OddPolynomial {
        let pairs =
            self.has_pairs().then(|| coefficients.iter().map(|c| self.pair(*c, *c)).collect());
        OddPolynomial { coefficients: coefficients.to_vec(), pairs }
    }
}

/// A product with one number and a sum with another.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    factor: Reg<f32>,
    shift: Reg<f32>,
    /// Both twice, where one instruction takes two numbers.
    pairs: Option<[Pair; 2]>,
}

impl Scaling {
    /// The scaled numbers of two.
    #[track_caller]
    pub fn of(&self, b: &mut Builder, [x, y]: [Reg<f32>; 2]) -> [Reg<f32>; 2] {
        let Some([factors, shifts]) = self.pairs else {
            return [x, y].map(|x| b.fma(x, self.factor, self.shift));
        };
        let pair = b.pair(x, y);
        let scaled = b.pair_fma(pair, factors, shifts);
        b.unpair(scaled)
    }
}

/// A polynomial of odd powers.
#[derive(Clone, Debug)]
pub struct OddPolynomial {
    coefficients: Vec<Reg<f32>>,
    /// All of them twice, where one instruction takes two numbers.
    pairs: Option<Vec<Pair>>,
}

impl OddPolynomial {
    /// Its values at two numbers.
    #[track_caller]
    pub fn of(&self, b: &mut Builder, [x, y]: [Reg<f32>; 2]) -> [Reg<f32>; 2] {
        let Some(coefficients) = &self.pairs else {
            return [x, y].map(|x| {
                let square = b.mul(x, x);
                let even = horner(&self.coefficients, |p, c| b.fma(p, square, c));
                b.mul(x, even)
            });
        };
        let pair = b.pair(x, y);
        let square = b.pair_mul(pair, pair);
        let even = horner(coefficients, |p, c| b.pair_fma(p, square, c));
        let odd = b.pair_mul(pair, even);
        b.unpair(odd)
    }
}

/// A polynomial whose `step` adds a coefficient to what the higher ones came to.
fn horner<T: Copy>(coefficients: &[T], step: impl FnMut(T, T) -> T) -> T {
    let highest_first = coefficients.iter().rev().copied();
    highest_first.reduce(step).expect("a polynomial has a coefficient")
}
