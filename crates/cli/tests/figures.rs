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

/// A line of a table whose first cell is `name` has these cells.
#[track_caller]
fn assert_line(page: &str, name: &str, cells: &[String]) {
    let begins = format!("| {name} | ");
    let text = read(page);
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with(&begins)).collect();
    let has = |line: &&str| {
        let found: Vec<_> = line.split('|').map(str::trim).collect();
        cells.iter().all(|cell| found.contains(&cell.as_str()))
    };
    assert!(lines.iter().any(has), "{page}, {name}: {cells:?} are in none of {lines:#?}");
}

/// `1234.5` as `1,235`.
fn thousands(x: f64) -> String {
    let x = x.round() as u64;
    if x < 1000 { x.to_string() } else { format!("{},{:03}", x / 1000, x % 1000) }
}

#[test]
fn the_page_has_what_peers_took() {
    for row in rows_of("docs/h200/peers.json", "dense") {
        let name = row["row"].as_str().expect("a name");
        let (shape, tokens) = name.rsplit_once(' ').expect("tokens");
        let tokens: f64 = tokens.parse().expect("tokens");
        // 16,384 tokens of hidden size 2,048 in all, two products, two FLOP each.
        let seen = if shape.ends_with("causal") { 0.5 } else { 1.0 };
        let rate = |side| 4.0 * 16384.0 * 2048.0 * tokens * seen / number(&row, side) / 1e6;
        let [ours, fa3, cudnn] = ["ours", "peer", "cudnn"].map(rate);
        let cell = format!("{ours:.0}, {fa3:.0}, {cudnn:.0} ({:.2})", number(&row, "ratio"));
        assert_line("docs/h200.md", shape, &[cell]);
    }
    for row in rows_of("docs/h200/peers.json", "decode") {
        let (layer, _) =
            row["row"].as_str().and_then(|name| name.rsplit_once(' ')).expect("a batch");
        let [ours, peer, ratio] = ["ours", "peer", "ratio"].map(|side| number(&row, side));
        assert_line("docs/h200.md", layer, &[format!("{ours:.1}, {peer:.1} ({ratio:.2})")]);
    }
    for row in rows_of("docs/h200/peers.json", "prefill") {
        let name = row["row"].as_str().expect("a name");
        let layer = match name.trim_end_matches(" 4096 tokens") {
            "csa-flash h64" => "csa-flash h64, 512 rows of 16,384",
            "csa-pro h128" => "csa-pro h128, 1,024 rows of 16,384",
            other => other,
        };
        let peer = number(&row, "peer");
        let cell =
            |side| format!("{} ({:.2})", thousands(number(&row, side)), peer / number(&row, side));
        assert_line("docs/h200.md", layer, &[thousands(peer), cell("ours"), cell("fp8 pages")]);
    }
}

#[test]
fn the_page_has_what_keys_of_eight_bits_took() {
    let json: Value = serde_json::from_str(&read("docs/h200/fp8.json")).expect("JSON");
    for row in json["rows"].as_array().expect("rows") {
        let batch = match name(row).split_once(' ').map(|(kind, rest)| (kind, rest.split_once(' ')))
        {
            Some(("decode", Some((_, "b64 4096")))) => "decode, 64 sequences of 4,096",
            Some(("decode", Some((_, "b16 8192")))) => "decode, 16 of 8,192",
            Some(("decode", Some((_, "b1 32768")))) => "decode, 1 of 32,768",
            _ => "prefill, 4 of 4,096",
        };
        // Head dim 80 is in the file alone.
        if !name(row).contains(" d80 ") {
            let cell =
                format!("{} ({:.2})", thousands(number(row, "fp8_us")), number(row, "times_bf16"));
            assert_line("docs/h200.md", batch, &[cell]);
        }
    }
}

#[test]
fn the_page_has_batches_beside_their_parts() {
    let json: Value = serde_json::from_str(&read("docs/h200/serving.json")).expect("JSON");
    let pages = |row: &&Value| {
        let name = row["row"].as_str().expect("a name");
        name.ends_with("page 64") && !name.starts_with("drafts") && row["parts"].is_number()
    };
    for row in json["rows"].as_array().expect("rows").iter().filter(pages) {
        let name = row["row"].as_str().expect("a name");
        let name = name.replacen("/1 ", "/1, K = V, ", 1);
        let (ours, parts) = (number(row, "ours"), number(row, "parts"));
        let cells = [format!("{ours:.0}"), format!("{parts:.0}"), format!("{:.2}", ours / parts)];
        assert_line("docs/h200.md", &name, &cells);
    }
}

#[test]
fn the_page_has_batches_of_a_server() {
    let json: Value = serde_json::from_str(&read("docs/h200/serving.json")).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    let row = |batch: &str, page: &str| {
        let name = format!("{batch} page {page}");
        let row = rows.iter().find(|row| row["row"] == name.as_str());
        row.unwrap_or_else(|| panic!("no {name}"))
    };
    let ratio = |row: &Value| number(row, "fa3") / number(row, "ours");
    let mut ratios = Vec::new();
    for batch in rows.iter().filter_map(|row| row["row"].as_str()?.strip_suffix(" page 16")) {
        let of_pages = ["16", "64", "256"].map(|page| row(batch, page));
        let times = |side| of_pages.map(|row| format!("{:.0}", number(row, side))).join(" / ");
        let times_as_fast = of_pages.map(|row| format!("{:.2}", ratio(row))).join(" / ");
        let line = match batch.starts_with("mixed") {
            true => "mixed 32/8 30 decodes, a prefill of 512 on 4,000 keys and one of 1,536",
            false => batch,
        };
        assert_line("docs/h200.md", line, &[times("fa3"), times("ours"), times_as_fast]);
        ratios.extend(of_pages.map(ratio));
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let sentence = format!(
        "{} rows beside FlashAttention 3: geometric mean {mean:.3}, least {least:.3}.",
        ratios.len()
    );
    assert!(read("docs/h200.md").contains(&sentence), "{sentence}");
}

#[test]
fn the_page_has_many_short_sequences() {
    let json: Value = serde_json::from_str(&read("docs/h200/serving.json")).expect("JSON");
    let short = |row: &&Value| row["row"].as_str().is_some_and(|name| name.starts_with("short "));
    let rows: Vec<_> = json["rows"].as_array().expect("rows").iter().filter(short).collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let name = row["row"].as_str().expect("a name");
        let words: Vec<_> = name.split(' ').collect();
        let (ours, theirs) = (number(row, "ours"), number(row, "fa3"));
        let cells = [format!("{ours:.0}"), format!("{theirs:.0}"), format!("{:.2}", theirs / ours)];
        assert_line("docs/h200.md", &format!("{} heads, {}", words[1], words[2]), &cells);
    }
}
