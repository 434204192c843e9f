use std::fmt;
use std::str::FromStr;

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
                let tokens = position as i128 + query as i128 + 1;
                (0, clamp(tokens / ratio.max(1) as i128))
            }
        };
        (first.min(end), end)
    }

    /// Visible (query, key) pairs of one head, `u64::MAX` if there are more; for
    /// [`Mask::Compressed`], whose positions are not known here, all pairs.
    pub fn visible(&self, queries: u64, keys: u64) -> u64 {
        let diagonal = keys as i128 - queries as i128;
        // Keys before `offset` past the diagonal, over all queries.
        let before = |offset: i128| sum_clamped(queries, diagonal + offset, keys);
        let all = queries as u128 * keys as u128;
        let pairs = match *self {
            Mask::Full | Mask::Compressed { .. } => all,
            Mask::Causal => before(1),
            Mask::Window { left, right } => {
                let end = right.map_or(all, |r| before(r as i128 + 1));
                end.saturating_sub(left.map_or(0, |l| before(-(l as i128))))
            }
        };
        u64::try_from(pairs).unwrap_or(u64::MAX)
    }
}

/// The sum of `q + offset`, held within `0..=most`, over `q` in `0..count`.
fn sum_clamped(count: u64, offset: i128, most: u64) -> u128 {
    let (count, most) = (count as i128, most as i128);
    // Queries whose term is held at 0, and those whose term is not yet held at `most`.
    let zero = (-offset).clamp(0, count);
    let rising = (most - offset).clamp(zero, count);
    let (first, last) = (zero + offset, rising - 1 + offset);
    let between = if rising > zero { (first + last).saturating_mul(rising - zero) / 2 } else { 0 };
    between.saturating_add((count - rising).saturating_mul(most)) as u128
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

impl FromStr for Mask {
    type Err = String;

    /// Reads `full`, `causal`, `window(LEFT,RIGHT)` (a side may be `inf`) or `compressed(RATIO)`.
    fn from_str(s: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "unknown mask `{s}`: one of full, causal, window(LEFT,RIGHT), compressed(RATIO)"
            )
        };
        let number = |x: &str| x.trim().parse::<u64>().map_err(|_| unknown());
        let side = |x: &str| match x.trim() {
            "inf" | "∞" => Ok(None),
            _ => number(x).map(Some),
        };
        let inside = |name: &str| s.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        match s {
            "full" => return Ok(Mask::Full),
            "causal" => return Ok(Mask::Causal),
            _ => {}
        }
        if let Some((left, right)) = inside("window").and_then(|x| x.split_once(',')) {
            return Ok(Mask::Window { left: side(left)?, right: side(right)? });
        }
        let ratio = inside("compressed").ok_or_else(unknown)?;
        Ok(Mask::Compressed { ratio: number(ratio)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_survive_printing_and_reading() {
        let window = |left, right| Mask::Window { left, right };
        let masks = [Mask::Full, Mask::Causal, window(Some(3), None), window(None, Some(0))];
        for mask in masks.into_iter().chain([Mask::Compressed { ratio: 128 }]) {
            assert_eq!(mask.to_string().parse(), Ok(mask));
        }
        for wrong in ["", "window", "window(1)", "window(a,b)", "compressed(-1)", "causal "] {
            assert!(wrong.parse::<Mask>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn visible_pairs_are_the_sum_of_the_ranges() {
        let window = |left, right| Mask::Window { left, right };
        let sides = [None, Some(0), Some(1), Some(4), Some(100)];
        let windows = sides.iter().flat_map(|l| sides.iter().map(|r| window(*l, *r)));
        for mask in windows.chain([Mask::Full, Mask::Causal]) {
            for (queries, keys) in (0..9).flat_map(|t| (0..9).map(move |s| (t, s))) {
                let range = |q| mask.range(q, queries, keys, 0);
                let sum: u64 = (0..queries).map(range).map(|(first, end)| end - first).sum();
                assert_eq!(mask.visible(queries, keys), sum, "{mask} {queries} {keys}");
            }
        }
        assert_eq!(Mask::Causal.visible(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn ranges_follow_the_diagonal_from_the_bottom_right() {
        assert_eq!(Mask::Causal.range(0, 3, 2, 0), (0, 0));
        assert_eq!(Mask::Causal.range(2, 3, 2, 0), (0, 2));
        let window = Mask::Window { left: Some(1), right: Some(0) };
        assert_eq!(window.range(1, 2, 10, 0), (8, 10));
        let future = Mask::Window { left: Some(0), right: None };
        assert_eq!(future.range(0, 4, 2, 0), (0, 2));
        assert_eq!(Mask::Compressed { ratio: 4 }.range(1, 2, 10, 6), (0, 2));
        assert_eq!(Mask::Compressed { ratio: 4 }.range(0, 2, 1, 60), (0, 1));
    }
}
