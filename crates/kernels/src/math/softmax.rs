//! The online softmax over registers.
//!
//! Scores stay raw; the factor `scale · log2 e` is folded into one FMA before each exponential:
//! `p = 2^(s·f − m·f)`. Sums are kept per thread and reduced once at the end. A row that has seen no
//! key keeps the maximum `-inf` and the sum 0. Where a mask tensor is added to scores, they are made exponents of
//! two first ([`crate::math::bias`]), and the factor is 1.

use crate::math::exponential::Exponential;
use crate::math::hyperbolic::SoftCap;
use problem::{DType, Problem};
use program::build::Arguments;
use ptx::build::{Builder, Cmp, Reg};
use std::f32::consts::{LN_2, LOG2_E};

/// Constants of the softmax, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// Factor from prepared scores to exponents of two.
    factor: Reg<f32>,
    /// Factor from prepared scores to exponents of e.
    natural: Reg<f32>,
    prepare: Prepare,
    /// Factor from prepared scores to exponents of two, where they are made so before anything else.
    biased: Option<Reg<f32>>,
    /// Powers of two that a probability may reach.
    range: f32,
    /// Factor on raw scores, of the keys in work, where they have one.
    pub descale: Option<Reg<f32>>,
}

/// What is done to raw scores first.
#[derive(Clone, Copy, Debug)]
enum Prepare {
    /// Nothing: the scale is positive, so that the largest raw score is the largest score.
    Nothing,
    /// They are multiplied by the scale.
    Scale(Reg<f32>),
    /// They are capped.
    Cap(SoftCap),
}

/// What is known of one row so far.
#[derive(Clone, Copy, Debug)]
pub struct RowState {
    /// Largest raw score.
    pub max: Reg<f32>,
    /// Sum of `p` over this thread's columns.
    pub sum: Reg<f32>,
}

impl RowState {
    /// A row that has seen nothing.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        RowState { max: b.value(f32::NEG_INFINITY), sum: b.value(0.0) }
    }

    /// Forgets everything.
    #[track_caller]
    pub fn reset(&self, b: &mut Builder) {
        b.assign(self.max, f32::NEG_INFINITY);
        b.assign(self.sum, 0.0);
    }

    /// Adds `probabilities` to the sum.
    #[track_caller]
    pub fn add(&self, b: &mut Builder, probabilities: &[Reg<f32>]) {
        let added = b.sum_tree(probabilities);
        let sum = b.add(self.sum, added);
        b.assign(self.sum, sum);
    }
}

/// What a row's exponents are relative to: its largest score, or one that the largest exceeds by little.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// What to add to a scaled score to get its exponent.
    pub shift: Reg<f32>,
    /// Bits of the score above which it moves. Compared as signed integers, the bits of positive floats
    /// are in their order, and above those of all others. Where that score would be negative it is 0, if
    /// probabilities can be as large as that, and else, or before a key is seen, `i32::MIN`, which is
    /// below all bits: then whoever compares must look closer.
    limit: Reg<i32>,
}

impl Reference {
    /// The reference of a row that has seen nothing.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        Reference { shift: b.value(0.0), limit: b.value(i32::MIN) }
    }

    /// Forgets everything.
    #[track_caller]
    pub fn reset(&self, b: &mut Builder) {
        b.assign(self.shift, 0.0);
        b.assign(self.limit, i32::MIN);
    }

    /// Whether one of a row's prepared `scores` may ask it to move.
    #[track_caller]
    pub fn may_move(&self, b: &mut Builder, scores: &[Reg<f32>]) -> Reg<bool> {
        let largest = b.max_of_bits(scores);
        b.setp(Cmp::Gt, largest, self.limit)
    }

    /// Moves it with the `largest` of `row`'s new scores, if that asks for it; returns the factor on what
    /// was accumulated before, 1 where nothing moved.
    #[track_caller]
    pub fn follow(
        &self,
        b: &mut Builder,
        softmax: &Softmax,
        row: &RowState,
        largest: Reg<f32>,
    ) -> Reg<f32> {
        let (shift, rescale) = softmax.move_reference(b, row, largest, true);
        let limit = softmax.limit(b, row.max);
        b.assign(self.shift, shift);
        b.assign(self.limit, limit);
        rescale.factor
    }
}

/// What a moved reference asks of what was accumulated before.
#[derive(Clone, Copy, Debug)]
pub struct Rescale {
    /// Whether it must be scaled at all.
    pub due: Reg<bool>,
    /// The factor, 1 where it is not due.
    pub factor: Reg<f32>,
}

/// Powers of two by which scores may exceed a row's reference before the reference moves: `p` then
/// stays below 2^8, far from where 16-bit floats and f32 sums end.
const SLACK: f32 = 8.0;

/// Denominator and LSE of a finished row.
#[derive(Clone, Copy, Debug)]
pub struct RowResult {
    /// Factor on the accumulated output.
    pub inverse: Reg<f32>,
    /// Natural-log LSE without the sink.
    pub lse: Reg<f32>,
    /// The sum of exponentials.
    pub sum: Reg<f32>,
}

impl Softmax {
    /// Declares the scale parameters.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, problem: &Problem) -> Self {
        let scale = problem.scale as f32;
        let (prepare, natural) = match problem.softcap {
            None if scale > 0.0 => (Prepare::Nothing, scale),
            None => (Prepare::Scale(args.f32(b, "scale", scale)), 1.0),
            Some(cap) => {
                let (cap, natural) = SoftCap::declare(b, args, scale, cap);
                (Prepare::Cap(cap), natural)
            }
        };
        let range = if problem.dtype() == DType::F16 { 15.0 } else { 64.0 };
        let factor = args.f32(b, "factor", natural * LOG2_E);
        if problem.has_attn_mask() {
            let (one, natural) = (b.value(1.0), b.value(LN_2));
            return Softmax {
                factor: one,
                natural,
                prepare,
                biased: Some(factor),
                range,
                descale: None,
            };
        }
        let natural = args.f32(b, "natural", natural);
        Softmax { factor, natural, prepare, biased: None, range, descale: None }
    }

    /// The same, with a register for a factor on raw scores if that is asked for.
    #[track_caller]
    pub fn descaled(self, b: &mut Builder, asked: bool) -> Self {
        Softmax { descale: asked.then(|| b.value(1.0)), ..self }
    }

    /// Factor from prepared scores to exponents of two, in a problem with a mask tensor.
    pub fn biased_factor(&self) -> Reg<f32> {
        self.biased.expect("a problem with a mask tensor")
    }

    /// Makes prepared scores of a segment without a mask tensor what those of one with it are.
    #[track_caller]
    pub fn without_bias(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        if let Some(factor) = self.biased {
            scores.iter().for_each(|&score| b.scale(score, factor));
        }
    }

    /// Prepares raw scores in place. All lanes of the warp come here together.
    #[track_caller]
    pub fn prepare(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        if let Some(factor) = self.descale {
            scores.iter().for_each(|&score| b.scale(score, factor));
        }
        match self.prepare {
            Prepare::Nothing => {}
            Prepare::Scale(scale) => scores.iter().for_each(|&score| b.scale(score, scale)),
            Prepare::Cap(cap) => cap.apply(b, scores),
        }
    }

    /// Prepares the score of a thread without the other lanes.
    #[track_caller]
    pub fn prepare_alone(&self, b: &mut Builder, score: Reg<f32>) {
        if let Some(factor) = self.descale {
            b.scale(score, factor);
        }
        match self.prepare {
            Prepare::Nothing => {}
            Prepare::Scale(scale) => b.scale(score, scale),
            Prepare::Cap(cap) => cap.apply_alone(b, &[score]),
        }
    }

    /// The probability of a prepared score, before it is normalised.
    #[track_caller]
    pub fn power(&self, b: &mut Builder, score: Reg<f32>, shift: Reg<f32>) -> Reg<f32> {
        let exponent = b.fma(score, self.factor, shift);
        b.ex2(exponent)
    }

    /// The shift of a finished row whose reference is `max`.
    #[track_caller]
    pub fn shift_of(&self, b: &mut Builder, max: Reg<f32>) -> Reg<f32> {
        let reference = finite(b, max);
        self.shift(b, reference)
    }

    /// First half of a step that rescales lazily: the row's `max` is a reference that moves only when
    /// the `largest` of the row's new scores exceeds it by [`SLACK`]. Numerator and denominator use the
    /// same reference; the largest probability is rounded, too, where it is not 1. `masked` says that
    /// scores may be `-inf`. Where a row has seen nothing else and it does not say so, the row becomes NaN, and is
    /// computed again. Returns the shift for [`Softmax::exponentiate`], and what to do with what was accumulated.
    #[track_caller]
    pub fn move_reference(
        &self,
        b: &mut Builder,
        row: &RowState,
        largest: Reg<f32>,
        masked: bool,
    ) -> (Reg<f32>, Rescale) {
        let growth = self.growth(b, row, largest);
        // NaN where nothing was seen yet and nothing is seen now: not due.
        let due = b.setp(Cmp::Gt, growth, SLACK);
        self.move_if(b, row, largest, due, masked)
    }

    /// The same without a mask, but a `largest` that is NaN becomes the reference, and makes all probabilities from
    /// here on NaN.
    #[track_caller]
    pub fn move_reference_or_nan(
        &self,
        b: &mut Builder,
        row: &RowState,
        largest: Reg<f32>,
    ) -> (Reg<f32>, Rescale) {
        let growth = self.growth(b, row, largest);
        let due = b.greater_or_nan(growth, SLACK);
        self.move_if(b, row, largest, due, false)
    }

    /// Powers of two between a row's reference and the `largest` of its new scores.
    #[track_caller]
    fn growth(&self, b: &mut Builder, row: &RowState, largest: Reg<f32>) -> Reg<f32> {
        let growth = b.sub(largest, row.max);
        b.mul(growth, self.factor)
    }

    #[track_caller]
    fn move_if(
        &self,
        b: &mut Builder,
        row: &RowState,
        largest: Reg<f32>,
        due: Reg<bool>,
        masked: bool,
    ) -> (Reg<f32>, Rescale) {
        let max = b.select::<f32>(due, largest, row.max);
        let reference = if masked { finite(b, max) } else { max };
        let shift = self.shift(b, reference);
        let exponent = b.fma(row.max, self.factor, shift);
        let factor = b.ex2(exponent);
        let factor = b.select::<f32>(due, factor, 1.0);
        let sum = b.mul(row.sum, factor);
        b.assign(row.sum, sum);
        b.assign(row.max, max);
        (shift, Rescale { due, factor })
    }

    /// Bits of the score above which a reference at score `max` moves, as [`Reference`] keeps them.
    #[track_caller]
    fn limit(&self, b: &mut Builder, max: Reg<f32>) -> Reg<i32> {
        let inverse = b.rcp(self.factor);
        let limit = b.fma(inverse, SLACK, max);
        let positive = b.setp(Cmp::Gt, limit, 0.0);
        let bits = b.bits(limit).reinterpret::<i32>();
        let exponent = b.mul(max, self.factor);
        let near = b.setp(Cmp::Ge, exponent, -self.range);
        let below = b.select::<i32>(near, 0, i32::MIN);
        b.select::<i32>(positive, bits, below)
    }

    /// Second half: replaces `scores` by probabilities and adds them to the row's sum.
    #[track_caller]
    pub fn add_row(&self, b: &mut Builder, row: &RowState, scores: &[Reg<f32>], shift: Reg<f32>) {
        self.exponentiate(b, scores, shift);
        row.add(b, scores);
    }

    /// Replaces scores by probabilities, one pair of `every` on the FMA pipe. Where one of them is NaN the shift must be.
    #[track_caller]
    pub fn exponentiate_on_both_pipes(
        &self,
        b: &mut Builder,
        scores: &[Reg<f32>],
        shift: Reg<f32>,
        exponential: &Exponential,
        every: usize,
    ) {
        let mut number = 0;
        self.for_each_pair(b, scores, shift, |b, [x, y]| {
            number += 1;
            match number % every {
                0 => exponential.exp2(b, x, y),
                _ => [x, y].map(|exponent| b.ex2(exponent)),
            }
        });
    }

    /// Replaces scores by probabilities.
    #[track_caller]
    pub fn exponentiate(&self, b: &mut Builder, scores: &[Reg<f32>], shift: Reg<f32>) {
        self.for_each_pair(b, scores, shift, |b, pair| pair.map(|exponent| b.ex2(exponent)));
    }

    /// Replaces pairs of scores by what `power` makes of their exponents.
    #[track_caller]
    fn for_each_pair(
        &self,
        b: &mut Builder,
        scores: &[Reg<f32>],
        shift: Reg<f32>,
        mut power: impl FnMut(&mut Builder, [Reg<f32>; 2]) -> [Reg<f32>; 2],
    ) {
        let scaling = b.scaling(self.factor, shift);
        let (pairs, rest) = scores.as_chunks();
        assert!(rest.is_empty(), "a row's scores come in pairs");
        for &pair in pairs {
            let exponents = scaling.of(b, pair);
            for (score, p) in pair.into_iter().zip(power(b, exponents)) {
                b.assign(score, p);
            }
        }
    }

    /// What to add to a scaled score so that `reference` becomes exponent 0.
    #[track_caller]
    fn shift(&self, b: &mut Builder, reference: Reg<f32>) -> Reg<f32> {
        let shift = b.mul(reference, self.factor);
        b.neg(shift)
    }

    /// One row's states of several parts of the keys, put together: the state of the whole, and the
    /// factor on what each part accumulated.
    #[track_caller]
    pub fn merge(&self, b: &mut Builder, parts: &[RowState]) -> (RowState, Vec<Reg<f32>>) {
        let maxima: Vec<_> = parts.iter().map(|part| part.max).collect();
        let max = b.max_tree(&maxima);
        let reference = finite(b, max);
        let shift = self.shift(b, reference);
        let mut sum = b.value::<f32>(0.0);
        let mut factors = Vec::new();
        for part in parts {
            let exponent = b.fma(part.max, self.factor, shift);
            let factor = b.ex2(exponent);
            sum = b.fma(part.sum, factor, sum);
            factors.push(factor);
        }
        (RowState { max, sum }, factors)
    }

    /// What a row's exponentials are relative to, as a natural logarithm; `-inf` if it has seen no key.
    #[track_caller]
    pub fn reference(&self, b: &mut Builder, max: Reg<f32>) -> Reg<f32> {
        b.mul(max, self.natural)
    }

    /// Denominator and LSE of a row whose `sum` is complete; `sink` is a natural-log logit.
    #[track_caller]
    pub fn finish(
        &self,
        b: &mut Builder,
        max: Reg<f32>,
        sum: Reg<f32>,
        sink: Option<Reg<f32>>,
    ) -> RowResult {
        let reference = finite(b, max);
        let scaled = b.mul(reference, self.factor);
        let log = b.lg2(sum);
        let log = b.mul(log, LN_2);
        let lse = b.fma(reference, self.natural, log);
        let denominator = match sink {
            None => sum,
            Some(sink) => {
                let exponent = b.mul(sink, LOG2_E);
                let exponent = b.sub(exponent, scaled);
                let power = b.ex2(exponent);
                b.add(sum, power)
            }
        };
        let empty = b.setp(Cmp::Le, sum, 0.0);
        let inverse = b.rcp(denominator);
        let inverse = b.select::<f32>(empty, 0.0, inverse);
        let lse = b.select::<f32>(empty, f32::NEG_INFINITY, lse);
        RowResult { inverse, lse, sum }
    }
}

/// `x`, or 0 where it is `-inf`: a reference that exponents can be taken against.
#[track_caller]
fn finite(b: &mut Builder, x: Reg<f32>) -> Reg<f32> {
    let empty = b.setp(Cmp::Eq, x, f32::NEG_INFINITY);
    b.select::<f32>(empty, 0.0, x)
}
