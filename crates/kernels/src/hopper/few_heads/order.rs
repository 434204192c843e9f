//! The order in which products take the keys of a tile.
//!
//! Every eight neighbouring rows of a tile are the eight columns of one warp's scores. Column `n` is row `row(n)`,
//! chosen for the banks that lanes read together, which depend on the row's number modulo four:
//!
//! - for scores the rows of columns `2m` and `2m + 1` are read together, 64 bytes of each: they differ by two;
//! - for values those of columns 0, 2, 4 and 6 are, 32 bytes of each, and those of 1, 3, 5 and 7: all four differ.
//!
//! A lane's two columns of the scores, `2t` and `2t + 1`, are the two keys that it has of a product with values.

use ptx::build::{Builder, Reg};

/// The row, of eight, of a column of the scores: of bits `c b a` come `c, a ^ c, b`.
#[track_caller]
pub fn row_of(b: &mut Builder, column: Reg<u32>) -> Reg<u32> {
    let high = b.eval(column & 4);
    let crossed = ((column & 1) << 1) ^ (high >> 1);
    b.eval(high | crossed | ((column & 2) >> 1))
}

/// The place of a row of a tile in the order of columns: the inverse of [`row_of`] in every eight rows.
#[track_caller]
pub fn column_of(b: &mut Builder, row: Reg<u32>) -> Reg<u32> {
    let crossed = ((row & 2) >> 1) ^ ((row & 4) >> 2);
    b.eval((row & !3u32) | ((row & 1) << 1) | crossed)
}

#[cfg(test)]
mod tests {
    use super::super::config::PITCH;

    /// What [`super::row_of`] computes, in numbers.
    fn row_of(n: u32) -> u32 {
        (n & 4) | ((n & 1) << 1 ^ (n & 4) >> 1) | (n & 2) >> 1
    }

    /// What [`super::column_of`] computes, in numbers.
    fn column_of(row: u32) -> u32 {
        (row & !3) | (row & 1) << 1 | ((row & 2) >> 1 ^ (row & 4) >> 2)
    }

    /// Whether `words` words from each of these rows on lie in different banks.
    fn apart(rows: &[u32], words: u32) -> bool {
        let banks = rows.iter().flat_map(|row| (0..words).map(move |w| (row * PITCH / 4 + w) % 32));
        let mut banks: Vec<_> = banks.collect();
        banks.sort_unstable();
        banks.windows(2).all(|pair| pair[0] != pair[1])
    }

    #[test]
    fn columns_are_rows_and_back() {
        assert!((0..64).all(|row| row_of(column_of(row) & 7) == row & 7));
        assert!((0..64).all(|row| column_of(row) & !7 == row & !7));
    }

    #[test]
    fn lanes_that_read_together_read_different_banks() {
        for column in [0, 2, 4, 6] {
            assert!(apart(&[row_of(column), row_of(column + 1)], 16), "scores, {column}");
        }
        for half in [0, 1] {
            let rows = [0, 2, 4, 6].map(|column| row_of(column + half));
            assert!(apart(&rows, 8), "values, {half}");
        }
    }
}
