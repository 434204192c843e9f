use crate::facts::Facts;
use crate::launch::{self, Matrix, program};
use filetest::{ElementKind, SimEngine};
use program::Argument;
use std::collections::HashMap;

const HEADS: usize = 2;
const TOKENS: usize = 256;

/// One row of the definition: the output row and its log-sum-exp.
fn row(
    q: &Matrix,
    k: &Matrix,
    v: &Matrix,
    query: usize,
    causal: bool,
    scale: f64,
) -> (Vec<f64>, f64) {
    let base = query / TOKENS * TOKENS;
    let keys = base..if causal { query + 1 } else { base + TOKENS };
    let score =
        |key: usize| (0..q.columns).map(|d| q.at(query, d) * k.at(key, d)).sum::<f64>() * scale;
    let scores: Vec<f64> = keys.clone().map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let out = (0..v.columns).map(|d| {
        weights.iter().zip(keys.clone()).map(|(w, key)| w * v.at(key, d)).sum::<f64>() / sum
    });
    (out.collect(), max + sum.ln())
}

/// Runs forward attention in every mode and compares with f64.
pub fn check(facts: &Facts, engines: &[SimEngine]) {
    let d = facts.constant("D") as usize;
    let causal = facts.constants["CAUSAL"].as_bool().unwrap_or(false);
    let rows = HEADS * TOKENS;
    let input = |name, seed| Matrix::random(facts.element(name), rows, d, seed);
    let (q, k, v) = (input("q_desc", 1), input("k_desc", 2), input("v_desc", 3));
    let out = Matrix::output(facts.element("out_desc"), rows, d);
    let lse = Matrix::output(ElementKind::F32, rows, 1);
    let scale = 1.0 / (d as f64).sqrt();
    let scalars = HashMap::from([
        ("scale", Argument::F32((scale * std::f64::consts::LOG2_E) as f32)),
        ("tokens", Argument::U32(TOKENS as u32)),
    ]);
    let matrices =
        [("q_desc", &q), ("k_desc", &k), ("v_desc", &v), ("out_desc", &out), ("lse", &lse)];
    let tiles = (TOKENS as u64 / facts.constant("BLOCK_M")) as u32;
    let program = program(facts, [tiles, HEADS as u32, 1], &matrices, &scalars);
    let inputs = launch::inputs(&program, &matrices);
    let wanted: Vec<_> = (0..rows).map(|i| row(&q, &k, &v, i, causal, scale)).collect();
    // P is rounded to the type of V before the second product.
    let limit = match v.element {
        ElementKind::F16 => 4e-3,
        ElementKind::Bf16 => 2e-2,
        _ => 2e-1,
    };
    for engine in engines {
        let result = engine.run(&program, &inputs);
        let buffers = result.unwrap_or_else(|e| panic!("{} ({}): {e}", facts.name, engine.mode));
        let got = Matrix { bytes: buffers[3].clone(), ..Matrix::output(out.element, rows, d) };
        let got_lse =
            Matrix { bytes: buffers[4].clone(), ..Matrix::output(ElementKind::F32, rows, 1) };
        for (i, (want, want_lse)) in wanted.iter().enumerate() {
            let at = format!("{} ({}) row {i}", facts.name, engine.mode);
            let worst = want.iter().enumerate().map(|(c, w)| (got.at(i, c) - w).abs());
            let worst = worst.fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
            assert!(worst <= limit, "{at}: off by {worst}");
            let off = (got_lse.at(i, 0) - want_lse).abs();
            assert!(off <= 1e-4, "{at}: lse is {}, should be {want_lse}", got_lse.at(i, 0));
        }
    }
}
