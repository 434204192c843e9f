use std::fmt;

/// Which keys of a segment a query may see.
///
/// With `t` queries and `s` keys in a sequence, query `i` sits on the diagonal at key `i + s - t`
/// (bottom-right alignment).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Every key.
    Full,
    /// Keys up to and including the diagonal.
    Causal,
    /// Keys from `left` before the diagonal to `right` after it; `None` is unbounded.
    Window {
        /// Keys seen before the diagonal.
        left: Option<u64>,
        /// Keys seen after the diagonal.
        right: Option<u64>,
    },
    /// Key `j` stands for tokens `ratio·j … ratio·j + ratio - 1` and is seen by queries at positions
    /// from its last token on: `ratio·(j + 1) ≤ position + 1`. Positions are
    /// [`Slot::Positions`](crate::Slot::Positions) plus the query's index.
    Compressed {
        /// Tokens per key.
        ratio: u64,
    },
}

impl Mask {
    /// The half-open range of keys that query `query` of `queries` sees among `keys`;
    /// `position` is the absolute position of query 0 (used by [`Mask::Compressed`]).
    pub fn range(&self, query: u64, queries: u64, keys: u64, position: u64) -> (u64, u64) {
        let diagonal = query as i128 + keys as i128 - queries as i128;
        let clamp = |x: i128| x.clamp(0, keys as i128) as u64;
        let (first, end) = match *self {
            Mask::Full => (0, keys),
            Mask::Causal => (0, clamp(diagonal + 1)),
            Mask::Window { left, right } => (
                left.map_or(0, |l| clamp(diagonal - l as i128)),
                right.map_or(keys, |r| clamp(diagonal + r as i128 + 1)),
            ),
            Mask::Compressed { ratio } => {
                (0, clamp((position + query + 1) as i128 / ratio as i128))
            }
        };
        (first.min(end), end)
    }

    /// Visible (query, key) pairs of one head.
    pub fn visible(&self, queries: u64, keys: u64) -> u64 {
        match self {
            Mask::Full | Mask::Compressed { .. } => queries * keys,
            _ => (0..queries)
                .map(|q| self.range(q, queries, keys, 0))
                .map(|(first, end)| end - first)
                .sum(),
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |x: &Option<u64>| x.map_or("∞".to_string(), |n| n.to_string());
        match self {
            Mask::Full => f.write_str("full"),
            Mask::Causal => f.write_str("causal"),
            Mask::Window { left, right } => write!(f, "window({},{})", side(left), side(right)),
            Mask::Compressed { ratio } => write!(f, "compressed({ratio})"),
        }
    }
}
