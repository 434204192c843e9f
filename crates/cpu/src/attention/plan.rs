//! Cutting a call into items: rows that share their keys, few enough to stay in cache.

use crate::inputs::Inputs;
use problem::Storage;
use std::ops::Range;

/// The most rows of an item.
const MOST_ROWS: u64 = 256;
/// Bytes of queries and sums that leave room for keys and values in the second cache.
const ROWS_BYTES: u64 = 512 << 10;
/// The most rows of an item in tile registers, where bringing keys into place costs more.
const MOST_MATRIX_ROWS: u64 = 256;
/// Sequences with at most this many rows per KV head have their keys split, and tile registers take
/// them down instead of across.
pub(crate) const FEW_ROWS: u64 = 64;
/// The fewest keys worth a split of their own.
const SPLIT_KEYS: u64 = 2048;
/// Bytes of keys and values that every thread can keep in its second cache.
const NEAR_BYTES: u64 = 1 << 20;
/// The most splits, so that memory does not grow with the number of keys.
const MOST_SPLITS: u64 = 16;

/// Rows of one sequence and KV head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Sequence.
    pub b: u64,
    /// KV head.
    pub kv_head: u64,
    /// The first row, counting the sequence's tokens first and the group's heads within.
    pub first: u64,
    /// Number of rows.
    pub rows: usize,
    /// Parts that the keys are cut into.
    pub splits: usize,
    /// Which kernel computes it.
    pub path: Path,
}

/// The kernel of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// A few rows: vectors along the head dim.
    Stream,
    /// Many rows: across vector lanes.
    Lanes,
    /// Many rows: across tile registers.
    Matrix,
    /// A few rows: down tile registers.
    Decode,
}

/// Where a query row lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPlace {
    pub q_batch: u64,
    pub token: u64,
    pub head: u64,
}

impl Item {
    /// The place of the item's row `row`.
    pub fn row(&self, inputs: &Inputs, row: usize) -> RowPlace {
        let group = inputs.problem.group();
        let (q_batch, tokens) = inputs.queries(self.b);
        let at = self.first + row as u64;
        RowPlace {
            q_batch,
            token: tokens.start + at / group,
            head: self.kv_head * group + at % group,
        }
    }

    /// The part of the keys `seen` that split `split` visits, of `keys` in all. Cuts fall on
    /// multiples of `tile` and depend on `keys` alone; the part starts on one.
    pub fn part(&self, keys: u64, seen: Range<u64>, split: usize, tile: u64) -> Range<u64> {
        let chunk = keys.div_ceil(self.splits as u64).next_multiple_of(tile);
        let first = split as u64 * chunk;
        let start = (seen.start / tile * tile).max(first);
        start..seen.end.min(first + chunk).max(start)
    }
}

/// One split of an item, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub item: usize,
    pub split: usize,
}

/// The items of a call, and their splits.
pub(crate) struct Plan {
    pub items: Vec<Item>,
    pub units: Vec<Unit>,
}

impl Plan {
    /// Cuts a call for vectors of `lanes` elements and, if `matrix`, tile registers.
    pub fn new(inputs: &Inputs, lanes: usize, matrix: bool) -> Self {
        let problem = inputs.problem;
        let group = problem.group();
        let listed = inputs.segments.iter().any(|s| s.is_listed());
        let in_place =
            problem.segments.iter().all(|s| s.storage == Storage::Elements && !s.is_e4m3());
        let most_rows = most_rows(inputs, lanes as u64, matrix);
        let all_rows = all_rows(inputs);
        let mut items = Vec::new();
        for b in 0..inputs.batch() {
            let (_, tokens) = inputs.queries(b);
            let rows = (tokens.end - tokens.start) * group;
            // Rows of different tokens have different lists, so they cannot share an item.
            let run = if listed { group } else { rows };
            let path = match in_place && run as usize * 2 <= lanes {
                true => Path::Stream,
                false if matrix && run <= FEW_ROWS => Path::Decode,
                false if matrix => Path::Matrix,
                false => Path::Lanes,
            };
            let splits = splits(inputs, b, run, path);
            let most_rows = match path {
                Path::Decode => few_rows(all_rows * splits as u64),
                _ => most_rows,
            };
            let template = Item { b, kv_head: 0, first: 0, rows: 0, splits, path };
            for kv_head in 0..problem.kv_heads() {
                let starts = (0..rows).step_by(run.max(1) as usize);
                for (start, first) in starts.flat_map(|s| {
                    (s..s + run).step_by(most_rows as usize).map(move |first| (s, first))
                }) {
                    let rows = most_rows.min(start + run - first) as usize;
                    items.push(Item { kv_head, first, rows, ..template });
                }
            }
        }
        let units = items.iter().enumerate();
        let units =
            units.flat_map(|(n, i)| (0..i.splits).map(move |split| Unit { item: n, split }));
        Self { units: units.collect(), items }
    }
}

/// Rows per item: few enough that every thread has several items, a whole number of vectors.
fn most_rows(inputs: &Inputs, lanes: u64, matrix: bool) -> u64 {
    let rows = all_rows(inputs);
    let row_bytes = 4 * (inputs.problem.key_dim() + inputs.problem.value_dim());
    let (items, most) = match matrix {
        true => (4, MOST_MATRIX_ROWS),
        false => (8, MOST_ROWS.min(ROWS_BYTES / row_bytes.max(1))),
    };
    let share = rows / (items * rayon::current_num_threads() as u64);
    // Registers hold at least two vectors of rows.
    share.min(most).max(2 * lanes).next_multiple_of(2 * lanes)
}

/// Rows per item of those that go down tile registers, where there are `rows` in all, counted once for
/// every split: whole registers, few enough that every thread has something to do.
fn few_rows(rows: u64) -> u64 {
    let share = rows.div_ceil(rayon::current_num_threads() as u64);
    share.clamp(1, FEW_ROWS).next_multiple_of(16)
}

/// Rows of all sequences and heads.
fn all_rows(inputs: &Inputs) -> u64 {
    let tokens = (0..inputs.batch()).map(|b| inputs.queries(b).1);
    tokens.map(|tokens| tokens.end - tokens.start).sum::<u64>() * inputs.problem.query_heads()
}

/// Bytes of a key and its value.
fn key_bytes(inputs: &Inputs) -> u64 {
    let problem = inputs.problem;
    (problem.key_dim() + problem.value_dim()) * problem.dtype().bytes()
}

fn splits(inputs: &Inputs, b: u64, rows: u64, path: Path) -> usize {
    if rows > FEW_ROWS {
        return 1;
    }
    let keys = inputs.segments.iter().map(|s| s.keys(b)).max().unwrap_or(0);
    // Two threads then read each key once, instead of each reading all.
    let far = keys.saturating_mul(key_bytes(inputs)) > NEAR_BYTES;
    let halves = if path == Path::Decode && far { 2 } else { 1 };
    (keys / SPLIT_KEYS).max(halves).clamp(1, MOST_SPLITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_keys_once_and_start_on_tiles() {
        let item = Item { b: 0, kv_head: 0, first: 0, rows: 1, splits: 3, path: Path::Lanes };
        for seen in [0..0, 5..6, 0..1000, 100..97 * 96, 96..96 * 7, 9000..9312] {
            let part = |split| item.part(97 * 96, seen.clone(), split, 96);
            let mut next = seen.start / 96 * 96;
            for part in (0..3).map(part).filter(|p| !p.is_empty()) {
                assert_eq!((part.start, part.start % 96), (next, 0));
                next = part.end;
            }
            assert!(next == seen.end || seen.is_empty(), "{seen:?}");
        }
    }
}
