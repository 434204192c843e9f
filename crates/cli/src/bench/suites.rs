//! The shapes that are measured, by suite.

use cases::{Case, Keys, Layout, Lengths, Lists, Order, Sinks};
use problem::{DType, Mask};

/// A list of shapes that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Prefill: 16,384 tokens of hidden size 2,048; head dims 64 to 512, 512 to 16k keys
    Dense,
    /// 128 heads on one KV head, few queries, few keys
    Mqa,
    /// One query per sequence over long caches
    Decode,
    /// DeepSeek-V4 decode: window and compressed rows under one softmax, in order, listed, and in fp8
    Dsv4,
    /// Sizes for a laptop: prefill 1k and 4k, GQA and MQA decode
    Cpu,
}

/// One measurement: a case and its place in the chart.
pub struct Row {
    /// Line of the chart.
    pub line: String,
    /// Column of the chart.
    pub column: String,
    /// What is run.
    pub case: Case,
}

impl Row {
    /// Whether its line, or the line and the column, match.
    pub fn matches(&self, glob: &str) -> bool {
        let name = format!("{} {}", self.line, self.column);
        [&self.line, &name].into_iter().any(|text| cases::matches_glob(glob, text))
    }
}

impl Suite {
    /// Its measurements.
    pub fn rows(self) -> Vec<Row> {
        match self {
            Suite::Dense => dense(),
            Suite::Mqa => mqa(),
            Suite::Decode => decode(),
            Suite::Dsv4 => dsv4(),
            Suite::Cpu => cpu(),
        }
    }
}

const TOKENS: u64 = 16384;
const HIDDEN: u64 = 2048;

fn dense() -> Vec<Row> {
    let mut rows = Vec::new();
    for dim in [64, 128, 256, 512] {
        for mask in [Mask::Full, Mask::Causal] {
            for length in [512, 1024, 2048, 4096, 8192, 16384] {
                let shape = Shape { batch: TOKENS / length, heads: HIDDEN / dim, dim, ..PLAIN };
                let case = shape.case(length, length, mask);
                let (line, column) = (format!("d{dim} {mask}"), length.to_string());
                rows.push(Row { line, column, case });
            }
        }
    }
    rows
}

fn mqa() -> Vec<Row> {
    let mut rows = Vec::new();
    for dim in [64, 128, 256, 512] {
        for queries in [1, 4, 32, 128] {
            for keys in [128, 256, 384, 512] {
                let shape = Shape { heads: 128, kv_heads: 1, dim, ..PLAIN };
                let case = shape.case(queries, keys, Mask::Full);
                let (line, column) = (format!("d{dim} T{queries}"), keys.to_string());
                rows.push(Row { line, column, case });
            }
        }
    }
    rows
}

fn decode() -> Vec<Row> {
    let mut rows = Vec::new();
    for (heads, kv_heads, dim, shared) in
        [(32, 8, 128, false), (128, 1, 128, false), (128, 1, 512, true)]
    {
        for (batch, keys) in [(1, 8192), (16, 8192), (64, 4096), (128, 8192)] {
            let shape = Shape { batch, heads, kv_heads, dim, shared, ..PLAIN };
            let case = shape.case(1, keys, Mask::Full);
            let line = format!("{heads}/{kv_heads} d{dim}");
            rows.push(Row { line, column: format!("b{batch} {keys}"), case });
        }
    }
    rows
}

fn dsv4() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, heads, compressed) in
        [("swa", 64, 0), ("csa-flash", 64, 512), ("csa-pro", 128, 1024), ("hca-1m", 64, 8192)]
    {
        for batch in [1, 8, 32, 128] {
            let shape = Shape { batch, heads, kv_heads: 1, dim: 512, shared: true, ..PLAIN };
            let mut case = shape.case(1, 128, Mask::Full);
            case.sinks = Some(Sinks::Random("random".to_string()));
            case.second = (compressed > 0)
                .then(|| Keys { keys: Lengths::Same(compressed), ..case.first.clone() });
            let line = format!("{name} h{heads}");
            rows.push(Row { line, column: format!("b{batch}"), case });
        }
    }
    rows.extend(dsv4_listed());
    rows
}

/// The same where rows are found as a server finds them: by lists, in pages that others share.
fn dsv4_listed() -> impl Iterator<Item = Row> {
    let listed = |rows: u64, entries: u64, model1: bool| Keys {
        keys: Lengths::Same(rows),
        mask: Mask::Full,
        layout: Layout::Paged,
        page: Some(64),
        shared: true,
        indices: Some(entries),
        entries: vec![],
        lists: Lists::Mixed,
        model1,
        storage: None,
        attn_mask: None,
        e4m3: None,
    };
    let layers = [
        ("csa-flash listed", 64, 512, false),
        ("csa-pro listed", 128, 1024, false),
        ("csa-flash fp8", 64, 512, true),
        ("csa-pro fp8", 128, 1024, true),
    ];
    let row = move |(name, heads, top, model1): (&str, u64, u64, bool), batch: u64| {
        let shape = Shape { batch, heads, kv_heads: 1, dim: 512, shared: true, ..PLAIN };
        let mut case = shape.case(1, 128, Mask::Full);
        case.first = listed(128, 128, model1);
        case.second = Some(listed(4096, top, model1));
        case.sinks = Some(Sinks::Random("random".to_string()));
        Row { line: format!("{name} h{heads}"), column: format!("b{batch}"), case }
    };
    layers.into_iter().flat_map(move |layer| [1, 8, 32, 128].map(|batch| row(layer, batch)))
}

fn cpu() -> Vec<Row> {
    let mut rows = Vec::new();
    for dtype in [DType::F32, DType::Bf16] {
        for dim in [64, 128, 256, 512] {
            for mask in [Mask::Full, Mask::Causal] {
                for length in [1024, 4096] {
                    let case = Shape { dim, dtype, ..PLAIN }.case(length, length, mask);
                    let (line, column) = (format!("{dtype} d{dim} {mask}"), length.to_string());
                    rows.push(Row { line, column, case });
                }
            }
        }
        let gqa = Shape { batch: 8, heads: 32, kv_heads: 8, dim: 128, dtype, ..PLAIN };
        let mqa = Shape { heads: 64, kv_heads: 1, dim: 512, dtype, ..PLAIN };
        for (line, column, case) in [
            ("32/8 d128 decode", "b8 4096", gqa.case(1, 4096, Mask::Full)),
            ("64/1 d512 decode", "b1 640", mqa.case(1, 640, Mask::Full)),
        ] {
            rows.push(Row { line: format!("{dtype} {line}"), column: column.into(), case });
        }
    }
    rows
}

/// What differs between the shapes of a suite.
#[derive(Clone, Copy)]
struct Shape {
    batch: u64,
    heads: u64,
    /// As many as query heads if 0.
    kv_heads: u64,
    dim: u64,
    shared: bool,
    dtype: DType,
}

const PLAIN: Shape =
    Shape { batch: 1, heads: 4, kv_heads: 0, dim: 128, shared: false, dtype: DType::Bf16 };

impl Shape {
    fn case(self, queries: u64, keys: u64, mask: Mask) -> Case {
        Case {
            name: format!("bench-{}x{}x{queries}x{keys}x{}", self.batch, self.heads, self.dim),
            seed: Some(1),
            dtype: self.dtype,
            batch: self.batch,
            heads: self.heads,
            kv_heads: (self.kv_heads > 0).then_some(self.kv_heads),
            dim: self.dim,
            value_dim: None,
            queries: Lengths::Same(queries),
            first: Keys {
                keys: Lengths::Same(keys),
                mask,
                layout: Layout::Batched,
                page: None,
                shared: self.shared,
                indices: None,
                entries: vec![],
                lists: Lists::Mixed,
                model1: false,
                storage: None,
                attn_mask: None,
                e4m3: None,
            },
            second: None,
            scale: None,
            softcap: None,
            sinks: None,
            lse: false,
            order: Order::Bshd,
            gap: 0,
            positions: vec![],
            amplitude: None,
            lean: None,
            special: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_row_of_every_suite_is_a_valid_problem() {
        for suite in Suite::value_variants() {
            for row in suite.rows() {
                let problem = row.case.problem();
                assert!(problem.is_ok(), "{suite:?} {} {}: {problem:?}", row.line, row.column);
            }
        }
    }

    #[test]
    fn places_in_a_chart_are_taken_once() {
        for suite in Suite::value_variants() {
            let mut places: Vec<_> =
                suite.rows().into_iter().map(|row| (row.line, row.column)).collect();
            let count = places.len();
            places.sort();
            places.dedup();
            assert_eq!(places.len(), count, "{suite:?}");
        }
    }
}
