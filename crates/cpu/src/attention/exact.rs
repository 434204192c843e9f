//! A row computed again, from the definition and in f64: one whose output is not finite though its log-sum-exp is a
//! number.
//!
//! Tiles of keys are multiplied with all rows of an item, so a value that is not finite meets the probability 0 of
//! rows that do not see it, and makes their outputs NaN. And sums of values are normalised at the end, so values near
//! the largest number overflow them. Both are rare, and cost nothing to find out at the end. Where a row does see a
//! value that is not finite, its output is not finite this way either.

use super::plan::{Item, RowPlace};
use crate::inputs::{Inputs, LoadQueries, LoadRows, RowAt, SegmentInputs};
use problem::Problem;

/// The output of `item`'s row `row`.
pub(super) fn row(inputs: &Inputs, item: &Item, row: usize) -> Vec<f64> {
    let place = item.row(inputs, row);
    let at = RowAt { batch: place.q_batch, token: place.token };
    let query = inputs.load_query(place.head, at);
    let mut sums = Sums::new(inputs.problem.value_dim() as usize);
    for segment in &inputs.segments {
        for_each_visible(inputs, segment, item, place, |at, bias| {
            let (key, value) = segment.load(item.b, item.kv_head, at);
            sums.add(score(inputs.problem, &query, &key) + bias, &value);
        });
    }
    let sink = inputs.sinks.map_or(f64::NEG_INFINITY, |s| s[place.head as usize].into());
    sums.output(sink)
}

/// Runs `body` with each key of a segment that the mask, the lengths or the row's list show it, and with what a mask
/// tensor adds to its score.
fn for_each_visible(
    inputs: &Inputs,
    segment: &SegmentInputs,
    item: &Item,
    place: RowPlace,
    mut body: impl FnMut(RowAt, f64),
) {
    let (_, tokens) = inputs.queries(item.b);
    if segment.is_listed() {
        let token = place.q_batch * inputs.problem.q.tokens() + place.token;
        let entries =
            (0..segment.keys(item.b)).filter_map(|j| segment.listed_row(item.b, token, j));
        return entries.for_each(|at| body(at, 0.0));
    }
    let (index, count) = (place.token - tokens.start, tokens.end - tokens.start);
    let keys = segment.visible(item.b, index, count, inputs.position(item.b));
    let rows = segment.runs(item.b, keys.clone());
    let rows = rows.flat_map(|(first, count)| (0..count).map(move |n| first.after(n)));
    let mask = segment.mask();
    for (key, at) in keys.zip(rows) {
        let bias = mask.map_or(0.0, |mask| mask.bias([item.b, place.head, index, key]));
        if bias != f64::NEG_INFINITY {
            body(at, bias);
        }
    }
}

fn score(problem: &Problem, query: &[f64], key: &[f64]) -> f64 {
    let product: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
    let score = problem.scale * product;
    match problem.softcap.map(f64::from) {
        Some(cap) => cap * (score / cap).tanh(),
        None => score,
    }
}

/// The softmax so far: its largest score, and sums relative to that.
struct Sums {
    max: f64,
    weights: f64,
    values: Vec<f64>,
}

impl Sums {
    fn new(columns: usize) -> Self {
        Self { max: f64::NEG_INFINITY, weights: 0.0, values: vec![0.0; columns] }
    }

    /// Adds a key; one with a score of −∞ is not seen.
    fn add(&mut self, score: f64, value: &[f64]) {
        if score == f64::NEG_INFINITY {
            return;
        }
        if score > self.max {
            let factor = (self.max - score).exp();
            self.weights *= factor;
            // Nothing was added before the first.
            let added = self.max > f64::NEG_INFINITY;
            self.values.iter_mut().filter(|_| added).for_each(|sum| *sum *= factor);
            self.max = score;
        }
        let weight = (score - self.max).exp();
        self.weights += weight;
        self.values.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight * value);
    }

    fn output(self, sink: f64) -> Vec<f64> {
        if self.weights == 0.0 {
            return vec![0.0; self.values.len()];
        }
        let weights = self.weights + (sink - self.max).exp();
        self.values.into_iter().map(|sum| sum / weights).collect()
    }
}
