//! The f64 oracle: attention from its definition.
//!
//! For each query and head: every visible score, their largest, then the exponentials' sum and the
//! weighted sum of values. Two passes, no tiling, no shared code with any engine. Numbers that are not finite
//! have the meaning that [`problem`] gives them.

use crate::inputs::{Inputs, LoadQueries, LoadRows, RowAt, SegmentInputs};
use crate::interrupt::Stop;
use crate::reference::{Magnitudes, Reference, dense_row};
use problem::{HostBuffers, HostMut, InvalidProblem, Problem, Slot};
use rayon::prelude::*;

/// How a computation rounds on its way; the oracle does not.
pub(crate) trait Arithmetic: Sync {
    /// A dot product.
    fn dot(&self, a: &[f64], b: &[f64]) -> f64;
    /// A score, after scale and soft cap.
    fn score(&self, exact: f64) -> f64;
    /// A normalised probability.
    fn probability(&self, exact: f64) -> f64;
    /// An output element.
    fn output(&self, exact: f64) -> f64;
}

struct Exact;

impl Arithmetic for Exact {
    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        dot(a, b)
    }
    fn score(&self, exact: f64) -> f64 {
        exact
    }
    fn probability(&self, exact: f64) -> f64 {
        exact
    }
    fn output(&self, exact: f64) -> f64 {
        exact
    }
}

/// Computes `problem` in f64 from the definition.
///
/// # Errors
/// If an input slot has no memory, too little, or holds impossible lengths, pages or indices.
pub fn oracle(problem: &Problem, buffers: &HostBuffers) -> Result<Reference, InvalidProblem> {
    attention(problem, buffers, &Exact)
}

/// Computes `problem` in f64 from the definition and writes it to `buffers`, rounded once.
///
/// # Errors
/// As [`oracle`], and if an output has no memory, too little or of another type.
pub fn answer(problem: &Problem, buffers: &mut HostBuffers) -> Result<(), InvalidProblem> {
    let result = oracle(problem, buffers)?;
    let (mut out, mut lse) = (None, None);
    for (slot, memory) in buffers.outputs_mut() {
        match (slot, memory) {
            (Slot::Lse, HostMut::F32(memory)) => lse = Some(&mut **memory),
            (Slot::Out, memory) => out = Some(memory),
            _ => {}
        }
    }
    let needed = problem.slot_bytes(Slot::Out) / problem.dtype().bytes();
    let fits = |out: &&mut HostMut| {
        let out = out.as_ref();
        out.dtype() == Some(problem.dtype()) && out.len() as u64 >= needed
    };
    let out = out.filter(fits).ok_or_else(|| {
        let rule = format!("needs memory for {needed} {} (memory rule 1)", problem.dtype());
        InvalidProblem::new(Slot::Out, rule, "less, or of another type")
    })?;
    let rows = problem.lse_len() as usize;
    if problem.return_lse && lse.as_ref().is_none_or(|lse| lse.len() < rows) {
        let rule = format!("needs memory for {rows} f32 (memory rule 1)");
        return Err(InvalidProblem::new(Slot::Lse, rule, "less, or of another type"));
    }
    result.store(problem, out, lse.filter(|_| problem.return_lse));
    Ok(())
}

/// Attention from the definition, rounding where `arithmetic` says.
pub(crate) fn attention(
    problem: &Problem,
    buffers: &HostBuffers,
    arithmetic: &impl Arithmetic,
) -> Result<Reference, InvalidProblem> {
    let inputs = Inputs::new(problem, buffers)?;
    let mut result = Reference::empty(problem);
    let stop = Stop::default();
    for b in 0..inputs.batch() {
        let (q_batch, tokens) = inputs.queries(b);
        for token in tokens.clone() {
            result.covered[(q_batch * problem.q.tokens() + token) as usize] = true;
        }
        for kv_head in 0..problem.kv_heads() {
            let shared = SharedRows::load(&inputs, b, kv_head);
            let queries: Vec<(u64, u64)> = tokens
                .clone()
                .flat_map(|t| (0..problem.group()).map(move |g| (t, kv_head * problem.group() + g)))
                .collect();
            let query = |&(token, head): &(u64, u64)| {
                let (first, count) = (tokens.start, tokens.end - tokens.start);
                Query { b, q_batch, token, head, first, count }
            };
            for some in queries.chunks(rows_at_once(&inputs, b)) {
                if stop.ask() {
                    return Ok(result);
                }
                let rows: Vec<Row> = some
                    .par_iter()
                    .map(|at| attend(&inputs, &shared, query(at), arithmetic))
                    .collect();
                for (&(token, head), row) in some.iter().zip(rows) {
                    let at = dense_row(problem, q_batch, head, token);
                    let dim = problem.value_dim() as usize;
                    result.out[at * dim..][..dim].copy_from_slice(&row.out);
                    result.lse[at] = row.lse;
                    result.magnitudes[at] = row.magnitudes;
                }
            }
        }
    }
    Ok(result)
}

/// Products between two questions whether to stop: a fraction of a second.
const PRODUCTS: u64 = 1 << 27;

/// Rows of sequence `b` that are computed between two such questions, one for each thread at least.
fn rows_at_once(inputs: &Inputs, b: u64) -> usize {
    let keys: u64 = inputs.segments.iter().map(|segment| segment.keys(b)).sum();
    let of_a_row = keys.saturating_mul(inputs.problem.key_dim() + inputs.problem.value_dim());
    (PRODUCTS / of_a_row.max(1)).max(rayon::current_num_threads() as u64) as usize
}

/// One query row: which sequence, where in `q`, and its place among the sequence's queries.
#[derive(Clone, Copy)]
struct Query {
    b: u64,
    q_batch: u64,
    token: u64,
    head: u64,
    first: u64,
    count: u64,
}

struct Row {
    out: Vec<f64>,
    lse: f64,
    magnitudes: Magnitudes,
}

/// A key and its value.
#[derive(Clone)]
struct KeyValue {
    key: Vec<f64>,
    value: Vec<f64>,
    /// Lengths of both, and the value's largest magnitude, of what is finite.
    key_norm: f64,
    value_norm: f64,
    value_most: f64,
}

impl KeyValue {
    fn new(key: Vec<f64>, value: Vec<f64>) -> Self {
        let most =
            value.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()));
        let (key_norm, value_norm) = (norm(&key), norm(&value));
        Self { key, value, key_norm, value_norm, value_most: most }
    }
}

/// The length of a vector, of what of it is finite.
fn norm(vector: &[f64]) -> f64 {
    vector.iter().filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>().sqrt()
}

/// The rows of one sequence and KV head, for the segments whose rows all queries share.
struct SharedRows {
    segments: Vec<Vec<KeyValue>>,
}

impl SharedRows {
    fn load(inputs: &Inputs, b: u64, kv_head: u64) -> Self {
        let rows = |s: &SegmentInputs| match s.is_listed() {
            true => Vec::new(),
            false => s
                .runs(b, 0..s.keys(b))
                .flat_map(|(first, count)| (0..count).map(move |i| first.after(i)))
                .map(|at| load(s, b, kv_head, at))
                .collect(),
        };
        Self { segments: inputs.segments.iter().map(rows).collect() }
    }
}

fn load(inputs: &SegmentInputs, b: u64, kv_head: u64, at: RowAt) -> KeyValue {
    let (key, value) = inputs.load(b, kv_head, at);
    KeyValue::new(key, value)
}

/// A key and value that a query sees, and what is added to its score.
struct Seen<'s> {
    row: &'s KeyValue,
    bias: f64,
}

/// The keys and values that `query` sees, over all segments.
fn visible_rows<'s>(
    inputs: &Inputs,
    shared: &'s SharedRows,
    listed: &'s mut Vec<KeyValue>,
    query: Query,
) -> Vec<Seen<'s>> {
    let problem = inputs.problem;
    let kv_head = query.head / problem.group();
    let flat_token = query.q_batch * problem.q.tokens() + query.token;
    for segment in inputs.segments.iter().filter(|s| s.is_listed()) {
        let entries =
            (0..segment.keys(query.b)).filter_map(|j| segment.listed_row(query.b, flat_token, j));
        listed.extend(entries.map(|at| load(segment, query.b, kv_head, at)));
    }
    let mut rows: Vec<Seen> = Vec::new();
    for (segment, all) in inputs.segments.iter().zip(&shared.segments) {
        if !segment.is_listed() {
            let position = inputs.position(query.b);
            let index = query.token - query.first;
            let range = segment.visible(query.b, index, query.count, position);
            let mask = segment.mask();
            rows.extend(range.filter_map(|key| {
                let at = [query.b, query.head, index, key];
                let bias = mask.map_or(0.0, |mask| mask.bias(at));
                let seen = bias != f64::NEG_INFINITY;
                seen.then(|| Seen { row: &all[key as usize], bias })
            }));
        }
    }
    rows.extend(listed.iter().map(|row| Seen { row, bias: 0.0 }));
    rows
}

fn attend(inputs: &Inputs, shared: &SharedRows, query: Query, arithmetic: &impl Arithmetic) -> Row {
    let problem = inputs.problem;
    let q = inputs.load_query(query.head, RowAt { batch: query.q_batch, token: query.token });
    let mut listed = Vec::new();
    let rows = visible_rows(inputs, shared, &mut listed, query);
    let seen: Vec<Scored> = rows
        .into_iter()
        .map(|Seen { row, bias }| {
            let score = score(problem, arithmetic.dot(&q, &row.key), arithmetic) + bias;
            Scored { score, bias, row }
        })
        // A key with a score of −∞ is hidden, as if it were masked.
        .filter(|seen| seen.score != f64::NEG_INFINITY)
        .collect();
    let sink = inputs.sinks.map_or(f64::NEG_INFINITY, |s| s[query.head as usize] as f64);
    let weights = Weights::new(&seen, sink);
    Row {
        out: weights.output(problem, &seen, arithmetic),
        lse: weights.lse,
        magnitudes: weights.magnitudes(problem, &seen, norm(&q)),
    }
}

fn score(problem: &Problem, product: f64, arithmetic: &impl Arithmetic) -> f64 {
    let s = problem.scale * product;
    arithmetic.score(match problem.softcap {
        Some(cap) => cap as f64 * (s / cap as f64).tanh(),
        None => s,
    })
}

/// Eight partial sums, so that the compiler may use vectors.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in a8.iter().zip(b8) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

/// A key that a row sees, and its score.
struct Scored<'r> {
    score: f64,
    /// What of the score is no product.
    bias: f64,
    row: &'r KeyValue,
}

/// The softmax of a row.
struct Weights {
    /// Powers of the scores, relative to the largest, of the keys that are seen.
    powers: Vec<f64>,
    sum: f64,
    /// The sum with the sink.
    denominator: f64,
    lse: f64,
}

impl Weights {
    fn new(seen: &[Scored], sink: f64) -> Self {
        if seen.is_empty() {
            let (powers, sum, lse) = (Vec::new(), 0.0, f64::NEG_INFINITY);
            return Self { powers, sum, denominator: sum, lse };
        }
        let max = seen.iter().fold(f64::NEG_INFINITY, |m, s| m.max(s.score));
        let powers: Vec<f64> = seen.iter().map(|s| (s.score - max).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let denominator = sum + (sink - max).exp();
        Self { powers, sum, denominator, lse: max + sum.ln() }
    }

    fn output(&self, problem: &Problem, seen: &[Scored], arithmetic: &impl Arithmetic) -> Vec<f64> {
        let mut out = vec![0.0; problem.value_dim() as usize];
        for (power, seen) in self.powers.iter().zip(seen) {
            let p = arithmetic.probability(power / self.denominator);
            // A probability is never 0, however small: an infinite value stays infinite.
            let p = if p == 0.0 { f64::MIN_POSITIVE } else { p };
            for (o, v) in out.iter_mut().zip(&seen.row.value) {
                *o += p * v;
            }
        }
        out.iter().map(|o| arithmetic.output(*o)).collect()
    }

    fn magnitudes(&self, problem: &Problem, seen: &[Scored], query_norm: f64) -> Magnitudes {
        let scale = problem.scale.abs() * query_norm;
        let mut sums = Magnitudes::default();
        for (power, seen) in self.powers.iter().zip(seen) {
            let p = power / self.denominator;
            let score = scale * seen.row.key_norm + seen.bias.abs();
            sums.scores += power / self.sum * score;
            sums.values += p * seen.row.value_most;
            sums.spread += (p * seen.row.value_norm).powi(2);
        }
        sums.spread = (sums.spread / problem.value_dim() as f64).sqrt();
        sums
    }
}
