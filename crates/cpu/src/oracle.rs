//! The f64 oracle: attention from its definition.
//!
//! For each query and head: every visible score, their largest, then the exponentials' sum and the
//! weighted sum of values. Two passes, no tiling, no shared code with any engine.

use crate::inputs::{Inputs, RowAt, SegmentInputs};
use crate::model1;
use crate::reference::{Reference, dense_row};
use problem::{HostBuffers, HostMut, HostRef, InvalidProblem, Problem, Slot, Storage, View};
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
            let rows: Vec<Row> = queries
                .par_iter()
                .map(|&(token, head)| {
                    let query = Query {
                        b,
                        q_batch,
                        token,
                        head,
                        first: tokens.start,
                        count: tokens.end - tokens.start,
                    };
                    attend(&inputs, &shared, query, arithmetic)
                })
                .collect();
            for ((token, head), row) in queries.into_iter().zip(rows) {
                let at = dense_row(problem, q_batch, head, token);
                let dim = problem.value_dim() as usize;
                result.out[at * dim..][..dim].copy_from_slice(&row.out);
                result.lse[at] = row.lse;
            }
        }
    }
    Ok(result)
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
}

/// A key and its value.
#[derive(Clone)]
struct KeyValue {
    key: Vec<f64>,
    value: Vec<f64>,
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
                .map(|at| load(s, kv_head, at))
                .collect(),
        };
        Self { segments: inputs.segments.iter().map(rows).collect() }
    }
}

fn load(inputs: &SegmentInputs, kv_head: u64, at: RowAt) -> KeyValue {
    if inputs.segment.storage == Storage::Model1 {
        return load_model1(inputs, at);
    }
    KeyValue {
        key: load_row(inputs.k, &inputs.segment.k, kv_head, at),
        value: load_row(inputs.v, &inputs.segment.value_view(), kv_head, at),
    }
}

fn load_row(memory: HostRef, view: &View, head: u64, at: RowAt) -> Vec<f64> {
    let offset = view.row_offset(at.batch, head, at.token) as usize;
    (offset..offset + view.dim() as usize).map(|i| memory.get(i)).collect()
}

fn load_model1(inputs: &SegmentInputs, at: RowAt) -> KeyValue {
    let HostRef::U8(bytes) = inputs.k else { unreachable!("checked with the inputs") };
    let page_rows = inputs.segment.k.tokens();
    let page = &bytes[(at.batch * Storage::model1_page_bytes(page_rows)) as usize..];
    let mut row = vec![0.0; Storage::MODEL1_DIM as usize];
    model1::unpack(page, page_rows as usize, at.token as usize, &mut row);
    let key: Vec<f64> = row.into_iter().map(f64::from).collect();
    let value = key[..inputs.segment.value_dim() as usize].to_vec();
    KeyValue { key, value }
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
        listed.extend(entries.map(|at| load(segment, kv_head, at)));
    }
    let mut rows: Vec<Seen> = Vec::new();
    for (segment, all) in inputs.segments.iter().zip(&shared.segments) {
        if !segment.is_listed() {
            let position = inputs.position(query.b);
            let index = query.token - query.first;
            let range = segment.visible(query.b, index, query.count, position);
            rows.extend(range.filter_map(|key| {
                let at = [query.b, query.head, index, key];
                let bias = segment.attn_mask.map_or(0.0, |mask| mask.bias(at));
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
    let q = load_row(
        inputs.q,
        &problem.q,
        query.head,
        RowAt { batch: query.q_batch, token: query.token },
    );
    let mut listed = Vec::new();
    let rows = visible_rows(inputs, shared, &mut listed, query);
    let score =
        |Seen { row, bias }: &Seen| score(problem, arithmetic.dot(&q, &row.key), arithmetic) + bias;
    let scores: Vec<f64> = rows.iter().map(score).collect();
    let sink = inputs.sinks.map_or(f64::NEG_INFINITY, |s| s[query.head as usize] as f64);
    softmax_times_values(problem, &scores, &rows, sink, arithmetic)
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

fn softmax_times_values(
    problem: &Problem,
    scores: &[f64],
    rows: &[Seen],
    sink: f64,
    arithmetic: &impl Arithmetic,
) -> Row {
    let mut out = vec![0.0; problem.value_dim() as usize];
    let max = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
    let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
    if scores.is_empty() {
        return Row { out, lse: f64::NEG_INFINITY };
    }
    let denominator = sum + (sink - max).exp();
    for (s, Seen { row, .. }) in scores.iter().zip(rows) {
        let p = arithmetic.probability((s - max).exp() / denominator);
        for (o, v) in out.iter_mut().zip(&row.value) {
            *o += p * v;
        }
    }
    for o in &mut out {
        *o = arithmetic.output(*o);
    }
    Row { out, lse: max + sum.ln() }
}
