//! Figures in the README and in docs/h200.md are those of the JSON files that benchmarks wrote.

use serde_json::Value;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn rows(suite: &str) -> Vec<Value> {
    rows_of("docs/h200/h200.json", suite)
}

fn rows_of(file: &str, suite: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(&read(file)).expect("JSON");
    let rows = json["rows"].as_array().expect("rows").iter();
    rows.filter(|row| row["suite"] == suite).cloned().collect()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row}"))
}

fn name(row: &Value) -> &str {
    row["name"].as_str().expect("a name")
}

/// How many rows stand beside cuDNN, the geometric mean of their ratios, and the least.
fn beside_cudnn(suite: &str) -> (usize, f64, f64) {
    let rows = rows(suite);
    summed(rows.iter().filter(|row| row["torch_backend"] == "cudnn"))
}

/// How many rows there are, the geometric mean of their ratios, and the least.
fn summed<'r>(rows: impl Iterator<Item = &'r Value>) -> (usize, f64, f64) {
    let ratios: Vec<f64> = rows.filter_map(|row| row["ratio"].as_f64()).collect();
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    (ratios.len(), mean, ratios.iter().copied().fold(f64::INFINITY, f64::min))
}

/// The lowest and the highest rate at head dim 512 under a mask.
fn rates(mask: &str) -> (f64, f64) {
    let prefix = format!("d512 {mask} ");
    let rows = rows("dense");
    let rates = rows.iter().filter(|row| name(row).starts_with(&prefix));
    rates
        .map(|row| number(row, "ours_tflops"))
        .fold((f64::INFINITY, 0.0), |(low, high), rate| (f64::min(low, rate), f64::max(high, rate)))
}

#[track_caller]
fn assert_says(page: &str, sentence: &str) {
    assert!(read(page).contains(sentence), "{page} should say: {sentence}");
}

#[test]
fn the_readme_quotes_the_measured_run() {
    let ((shapes, dense, worst), (_, mqa, least)) = (beside_cudnn("dense"), beside_cudnn("mqa"));
    let ((full, fastest), (causal, fast)) = (rates("full"), rates("causal"));
    assert_says(
        "README.md",
        &format!(
            "dense prefill {dense:.2} × in geometric mean over {shapes} shapes (least {worst:.2}), DeepSeek-V4's MQA \
             shapes {mqa:.2} × (least {least:.2}). Head dim 512, which cuDNN does not have, reaches {full:.0} to \
             {fastest:.0} TFLOP/s (full) and {causal:.0} to {fast:.0} (causal)"
        ),
    );
}

#[test]
fn the_page_sums_up_its_suites() {
    for suite in ["dense", "mqa", "decode"] {
        let (count, mean, least) = beside_cudnn(suite);
        let sum = format!("{count} rows beside cuDNN: geometric mean {mean:.3}, least {least:.3}");
        assert_says("docs/h200.md", &sum);
    }
}

#[test]
fn the_page_has_every_row() {
    let page = read("docs/h200.md");
    for row in ["dense", "mqa", "decode"].iter().flat_map(|suite| rows(suite)) {
        let line = format!("| {} | {:.1} |", name(&row), number(&row, "ours_us"));
        assert!(page.contains(&line), "docs/h200.md lacks {line}");
    }
}

#[test]
fn peers_are_summed_up() {
    let sums =
        ["dense", "decode"].map(|suite| summed(rows_of("docs/h200/peers.json", suite).iter()));
    let [(shapes, dense, worst), (kinds, decode, least)] = sums;
    let (prefills, prefill, slowest) = summed(rows_of("docs/h200/peers.json", "prefill").iter());
    assert_says(
        "README.md",
        &format!(
            "dense prefill {dense:.2} × over {shapes} shapes (least {worst:.2}). Beside FlashMLA: DeepSeek-V4 decode \
             from fp8 rows {decode:.2} × over {kinds} rows (least {least:.2}), prefill by lists of bf16 rows \
             {prefill:.2} × over {prefills} rows (least {slowest:.2})."
        ),
    );
    for (peer, (count, mean, least)) in ["FlashAttention 3", "FlashMLA"].into_iter().zip(sums) {
        let sum = format!("{count} rows beside {peer}: geometric mean {mean:.3}, least {least:.3}");
        assert_says("docs/h200.md", &sum);
    }
    let (count, mean, least) = summed(rows_of("docs/h200/ampere.json", "dense").iter());
    let sum =
        format!("{count} rows beside FlashAttention-2: geometric mean {mean:.3}, least {least:.3}");
    assert_says("docs/ampere.md", &sum);
}
