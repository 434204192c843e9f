//! DeepSeek-V4 attention layers as problems.
//!
//! Every layer attends to a window of the last 128 tokens and, except in window-only layers, to
//! compressed rows, under one softmax with one sink per head. A row of 512 numbers is key and value.
//! What differs is how compressed rows are found: [`Layer::Csa`] takes an indexer's choice of rows
//! that stand for 4 tokens each, [`Layer::Hca`] all rows that stand for 128 tokens each.
//!
//! A compressed row is visible from the position of its last token on; rows whose tokens also lie
//! in the window are seen twice, as the model intends.
//!
//! The CPU, Hopper and Blackwell GPUs take every layer.
//!
//! [`Core`] makes problems of shapes alone, whose tensors lie one behind the other. [`Decode`], [`Prefill`] and
//! [`PrefillPages`] make them of the tensors that a caller has ([`Given`]): views with gaps, pages that lie apart, other
//! packed formats, lengths of tokens. Their [`Call`] says which tensor goes to which slot, and what must be copied
//! before. Python's `dsv4` and `flash_mla` are these.
//!
//! ```
//! use sixwarp::dsv4::{Core, Layer, Pool};
//! use sixwarp::Storage;
//! // One token for each of 4 requests, 64 heads, fp8 caches as served.
//! let core = Core { heads: 64, layer: Layer::Csa { top_k: 512 } };
//! let storage = Storage::Model1;
//! let window = Pool { pages: 100, page_rows: 64, pages_per_request: 0, storage };
//! let compressed = Pool { pages: 400, ..window };
//! let problem = core.decode(4, window, Some(compressed))?;
//! assert_eq!(problem.segments[1].longest(), 512);
//! # Ok::<(), sixwarp::Error>(())
//! ```

mod call;
mod decode;
mod given;
mod new_tokens;
mod pages;
mod prefill;
mod queries;

pub use call::{Call, Input, Preparation};
pub use decode::{Cache, Decode};
pub use given::{Given, Mismatch, Numbers};
pub use new_tokens::{Prefill, PrefillPages};
pub use pages::Pages;
pub use prefill::NewTokens;

use crate::Error;
use crate::memory::ensure_memory;
pub use cpu::model1;
use problem::{DType, InvalidProblem, Mask, Problem, Segment, Storage, Unsupported, View};

/// Length of a query, key or value row.
pub const HEAD_DIM: u64 = 512;
/// Tokens of the window, the query's own included.
pub const WINDOW: u64 = 128;
/// Tokens that a row of an HCA layer stands for.
const HCA_RATIO: u64 = 128;

/// The last tokens up to a query's own.
fn near() -> Mask {
    Mask::Window { left: Some(WINDOW - 1), right: Some(0) }
}

/// Compressed rows of an HCA layer whose tokens a query has seen.
fn by_position() -> Mask {
    Mask::Compressed { ratio: HCA_RATIO }
}

/// How a layer finds compressed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The window alone.
    Swa,
    /// The window and the indexer's choice of rows of 4 tokens.
    Csa {
        /// Rows the indexer chooses per query.
        top_k: u64,
    },
    /// The window and every row of 128 tokens.
    Hca,
}

impl Layer {
    /// Tokens that a compressed row stands for.
    pub fn ratio(self) -> Option<u64> {
        match self {
            Layer::Swa => None,
            Layer::Csa { .. } => Some(4),
            Layer::Hca => Some(HCA_RATIO),
        }
    }

    /// Compressed rows visible to a query at `position`.
    pub fn visible_rows(self, position: u64) -> u64 {
        // The row that ends at the position included.
        let rows = |ratio| position / ratio + u64::from(position % ratio == ratio - 1);
        self.ratio().map_or(0, rows)
    }
}

/// A cache of rows in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Pages.
    pub pages: u64,
    /// Rows per page.
    pub page_rows: u64,
    /// Columns of the page table; not used where rows are found through index lists.
    pub pages_per_request: u64,
    /// How rows lie in memory.
    pub storage: Storage,
}

impl Pool {
    fn segment(self) -> Segment {
        Pages::from(self).segment(HEAD_DIM)
    }
}

/// The core attention of a layer, between the query and output projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Query heads on this rank.
    pub heads: u64,
    /// The layer's kind.
    pub layer: Layer,
}

/// Requests that are decoded together; a number is that of requests with one query each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// How many there are.
    pub count: u64,
    /// Queries of each, one behind the other.
    pub tokens: u64,
    /// Whether [`SegmentSlot::Used`](crate::SegmentSlot::Used) says how many leading entries of a request's lists
    /// count. A request that fills up a batch has none.
    pub lengths: bool,
}

impl From<u64> for Requests {
    fn from(count: u64) -> Self {
        Self { count, tokens: 1, lengths: false }
    }
}

impl Requests {
    /// Lists of `width` entries, one for each query.
    fn listed(self, pool: Pool, width: u64) -> Segment {
        let segment = pool.segment().paged(0).indexed(width);
        if self.lengths { segment.used() } else { segment }
    }

    /// All rows that a query sees, by page table.
    fn paged(self, pool: Pool) -> Segment {
        let segment = pool.segment().paged(pool.pages_per_request);
        match self.tokens {
            1 => segment.used(),
            _ => segment.mask(by_position()),
        }
    }
}

impl Core {
    /// A few queries for each of several requests.
    ///
    /// Segment 0 reads `window` through index lists of 128 entries, one per query ([`window_list`]). Segment 1
    /// reads `compressed`: index lists of `top_k` entries ([`top_rows`]) in a CSA layer, a page table in an HCA
    /// layer. There, lengths in use ([`Layer::visible_rows`]) say how many rows the query of a request sees. Where a
    /// request has several queries they see different numbers, and
    /// [`Slot::Positions`](crate::Slot::Positions) holds the position of the first.
    ///
    /// Sinks are applied once. Where ranks hold parts of the rows, each computes the problem with `sinks` set to
    /// false; then [`merge`](crate::merge) their results, and call [`apply_sink`](crate::apply_sink).
    ///
    /// # Errors
    /// If `compressed` is missing where the layer has compressed rows, or given where it has none.
    pub fn decode(
        &self,
        requests: impl Into<Requests>,
        window: Pool,
        compressed: Option<Pool>,
    ) -> Result<Problem, Error> {
        let requests = requests.into();
        let shape = [requests.count, self.heads, requests.tokens, HEAD_DIM];
        let window = requests.listed(window, WINDOW);
        let builder = Problem::builder(View::bshd(DType::Bf16, shape)).segment(window);
        let builder = match (self.layer, compressed) {
            (Layer::Swa, None) => builder,
            (Layer::Csa { top_k }, Some(pool)) => builder.segment(requests.listed(pool, top_k)),
            (Layer::Hca, Some(pool)) => builder.segment(requests.paged(pool)),
            _ => return Err(self.wrong_pools()),
        };
        Ok(builder.sinks().return_lse().build()?)
    }

    /// New tokens of one request: `tokens` queries, of which the first stands at a position that
    /// [`Slot::Positions`](crate::Slot::Positions) gives.
    ///
    /// Segment 0 holds the new tokens' rows after those of up to 127 tokens before them
    /// (`window_rows` in all), segment 1 `compressed_rows` rows: masked by position in an HCA layer,
    /// chosen by index lists in a CSA layer. Rows are bf16. (Pages and several requests: [`Core::prefill_pages`].)
    ///
    /// # Errors
    /// If a CSA or HCA layer has no compressed rows, or a window-only layer has some.
    pub fn prefill(
        &self,
        tokens: u64,
        window_rows: u64,
        compressed_rows: u64,
    ) -> Result<Problem, Error> {
        let rows = |n: u64| Segment::shared(View::bhsd(DType::Bf16, [1, 1, n, HEAD_DIM]), HEAD_DIM);
        let q = View::bshd(DType::Bf16, [1, self.heads, tokens, HEAD_DIM]);
        let builder = Problem::builder(q).sinks().return_lse();
        let builder = builder.segment(rows(window_rows).mask(near()));
        let builder = match (self.layer, compressed_rows) {
            (Layer::Swa, 0) => builder,
            (Layer::Csa { top_k }, 1..) => builder.segment(rows(compressed_rows).indexed(top_k)),
            (Layer::Hca, 1..) => builder.segment(rows(compressed_rows).mask(by_position())),
            _ => return Err(self.wrong_pools()),
        };
        Ok(builder.build()?)
    }

    fn wrong_pools(&self) -> Error {
        let why = match self.layer {
            Layer::Swa => "a window-only layer has no compressed rows",
            _ => "the layer needs compressed rows",
        };
        Unsupported::new(format!("{:?} with such compressed rows", self.layer), why).into()
    }
}

/// The rows of the window of a query at `position`, as physical rows of a pool, unused entries -1.
///
/// `page_table` names the request's pages in order of position.
///
/// # Errors
/// If the table does not reach the position, or its pages are impossible.
pub fn window_list(
    position: u64,
    page_table: &[i32],
    page_rows: u64,
) -> Result<Vec<i32>, InvalidProblem> {
    let Ok(last) = i32::try_from(position) else {
        return Err(InvalidProblem::new("position", "must be below 2^31", position));
    };
    let tokens: Vec<i32> = ((last - (WINDOW as i32 - 1)).max(0)..=last).collect();
    let mut list = physical_rows(&tokens, page_table, page_rows)?;
    list.resize(WINDOW as usize, -1);
    Ok(list)
}

/// Turns a request's row numbers into physical rows of a pool; negative entries stay unused.
///
/// # Errors
/// If a row lies beyond the table, or on a page whose number is negative or too large for the row's
/// place to be an i32, or pages have no rows.
pub fn physical_rows(
    rows: &[i32],
    page_table: &[i32],
    page_rows: u64,
) -> Result<Vec<i32>, InvalidProblem> {
    if page_rows == 0 {
        return Err(InvalidProblem::new("page_rows", "must be at least 1", page_rows));
    }
    let physical = |&row: &i32| {
        let Ok(at) = u64::try_from(row) else { return Ok(-1) };
        let page = page_table.get((at / page_rows) as usize).copied().ok_or_else(|| {
            let capacity = (page_table.len() as u64).saturating_mul(page_rows);
            InvalidProblem::new("page_table", format!("must reach row {at}"), capacity)
        })?;
        let first = u64::try_from(page).ok().and_then(|page| page.checked_mul(page_rows));
        let place = first.and_then(|first| first.checked_add(at % page_rows));
        place.and_then(|place| i32::try_from(place).ok()).ok_or_else(|| {
            let rule = format!("the page of row {at} must exist and hold places below 2^31");
            InvalidProblem::new("page_table", rule, page)
        })
    };
    rows.iter().map(physical).collect()
}

/// The `k` best of the first `visible` scores, best first, the earlier of equals first; unused
/// entries are -1.
///
/// # Errors
/// [`Error::TooLarge`] if there is no memory for `k` entries; if more than 2^31 rows are visible.
pub fn top_rows(scores: &[f32], visible: u64, k: u64) -> Result<Vec<i32>, Error> {
    ensure_memory(&format!("a list of {k} rows"), k.saturating_mul(4))?;
    let visible = visible.min(scores.len() as u64);
    let Ok(end) = i32::try_from(visible) else {
        return Err(InvalidProblem::new("visible", "must be below 2^31", visible).into());
    };
    let mut order: Vec<i32> = (0..end).collect();
    order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
    order.resize(k as usize, -1);
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_visible_with_their_last_token() {
        let csa = Layer::Csa { top_k: 512 };
        assert_eq!([2, 3, 4, 7].map(|p| csa.visible_rows(p)), [0, 1, 1, 2]);
        assert_eq!([126, 127, 128].map(|p| Layer::Hca.visible_rows(p)), [0, 1, 1]);
        assert_eq!(csa.visible_rows(u64::MAX), 1 << 62);
    }

    #[test]
    fn windows_hold_the_last_128_tokens() {
        let list = window_list(2, &[5], 64).unwrap();
        assert_eq!(list[..4], [320, 321, 322, -1]);
        let list = window_list(129, &[7, 0, 3], 64).unwrap();
        assert_eq!(
            (list[0], list[61], list[62], list[127]),
            (7 * 64 + 2, 7 * 64 + 63, 0, 3 * 64 + 1)
        );
        let refused = |position, table: &[i32], page_rows, why: &str| {
            let error = window_list(position, table, page_rows).unwrap_err().to_string();
            assert_eq!(error, why);
        };
        refused(64, &[1], 64, "page_table: must reach row 64, but it is 64");
        refused(
            u64::MAX,
            &[1],
            64,
            &format!("position: must be below 2^31, but it is {}", u64::MAX),
        );
        refused(5, &[1], 0, "page_rows: must be at least 1, but it is 0");
        let rule = "page_table: the page of row 0 must exist and hold places below 2^31, but it is";
        refused(5, &[-1], 64, &format!("{rule} -1"));
        refused(5, &[i32::MAX], u64::MAX, &format!("{rule} {}", i32::MAX));
    }

    #[test]
    fn the_best_rows_come_first_and_equals_in_order() {
        let scores = [1.0, 3.0, 3.0, f32::NEG_INFINITY, 9.0];
        assert_eq!(top_rows(&scores, 4, 3).unwrap(), [1, 2, 0]);
        assert_eq!(top_rows(&scores, 1, 3).unwrap(), [0, -1, -1]);
        assert!(matches!(top_rows(&scores, 4, u64::MAX), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn layers_refuse_the_wrong_pools() {
        let storage = Storage::Elements;
        let pool = Pool { pages: 4, page_rows: 2, pages_per_request: 3, storage };
        let core = |layer| Core { heads: 8, layer };
        assert!(core(Layer::Swa).decode(1, pool, Some(pool)).is_err());
        assert!(core(Layer::Hca).decode(1, pool, None).is_err());
        let hca = core(Layer::Hca).decode(2, pool, Some(pool)).unwrap();
        assert_eq!(hca.segments[1].longest(), 6);
        assert!(core(Layer::Csa { top_k: 4 }).prefill(3, 130, 0).is_err());
        assert!(core(Layer::Hca).prefill(3, 130, 1).unwrap().needs_positions());
        let new = NewTokens { requests: 2, tokens: 9, longest: 5 };
        assert!(core(Layer::Swa).prefill_pages(new, pool, Some(pool)).is_err());
        assert!(core(Layer::Csa { top_k: 4 }).prefill_pages(new, pool, None).is_err());
        assert!(core(Layer::Hca).prefill_pages(new, pool, Some(pool)).unwrap().needs_positions());
    }
}
