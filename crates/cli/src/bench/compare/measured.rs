//! Files of measured times.

use super::super::suites::{Row, Suite};
use serde::Deserialize;
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Suite.
    pub suite: String,
    /// Row, as the file calls it.
    pub name: String,
    /// Microseconds.
    pub microseconds: f64,
}

#[derive(Deserialize)]
struct File {
    rows: Vec<JsonRow>,
}

#[derive(Deserialize)]
struct JsonRow {
    suite: String,
    name: String,
    ours_us: f64,
}

/// Reads what `benches/h200.py` wrote, or what `sixwarp bench` printed.
pub fn read(path: &Path) -> Result<Vec<Measurement>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let rows = match path.extension().is_some_and(|extension| extension == "json") {
        true => json(&text).map_err(|e| format!("{}: {e}", path.display()))?,
        false => printed(&text),
    };
    match rows.is_empty() {
        true => Err(format!("{} has no rows of a suite", path.display()).into()),
        false => Ok(rows),
    }
}

fn json(text: &str) -> Result<Vec<Measurement>> {
    let File { rows } = serde_json::from_str(text)?;
    let measurement =
        |row: JsonRow| Measurement { suite: row.suite, name: row.name, microseconds: row.ours_us };
    Ok(rows.into_iter().map(measurement).collect())
}

/// Lines that begin with the name of a row; the suite is the first word.
fn printed(text: &str) -> Vec<Measurement> {
    let suite = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    let Some(rows) = of_name(&suite).map(Suite::rows) else { return Vec::new() };
    let measurement = |line: &str| {
        let row = rows.iter().map(name).find(|name| line.starts_with(&format!("{name} ")))?;
        let microseconds = line[row.len()..].split_whitespace().next()?.parse().ok()?;
        Some(Measurement { suite: suite.clone(), name: row, microseconds })
    };
    text.lines().filter_map(measurement).collect()
}

fn of_name(suite: &str) -> Option<Suite> {
    match suite {
        "dense" => Some(Suite::Dense),
        "mqa" => Some(Suite::Mqa),
        "decode" => Some(Suite::Decode),
        "dsv4" => Some(Suite::Dsv4),
        _ => None,
    }
}

fn name(row: &Row) -> String {
    format!("{} {}", row.line, row.column)
}

impl Measurement {
    /// The row of the suite that it is of; `h200.py` has an `s` before the keys of `mqa`.
    pub fn row(&self) -> Option<Row> {
        let rows = of_name(&self.suite)?.rows();
        let called = |row: &Row| match self.suite.as_str() {
            "mqa" => format!("{} s{}", row.line, row.column),
            _ => name(row),
        };
        rows.into_iter().find(|row| called(row) == self.name || name(row) == self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_files_name_rows_of_suites() {
        let text = r#"{"rows": [{"suite": "mqa", "name": "d64 T1 s128", "ours_us": 2.5}]}"#;
        let rows = json(text).expect("rows");
        assert_eq!(rows[0].row().map(|row| row.column), Some("128".to_string()));
        let rows = printed("Dsv4 on an H200\nswa h64 b1      6.5    2.588\nshape us\n");
        assert_eq!((rows.len(), rows[0].microseconds), (1, 6.5));
        assert!(rows[0].row().is_some());
        assert!(printed("Nothing at all").is_empty());
    }
}
