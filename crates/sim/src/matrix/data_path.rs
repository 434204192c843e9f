//! Where `tcgen05.mma` keeps the rows and columns of D, and of A in tensor memory.
//!
//! | M | who | rows of a CTA | lane of row m, column n | column |
//! |---|---|---|---|---|
//! | 128 | one CTA, also `.ws` | 128 | m | n |
//! | 64 | one CTA | 64 | m%16 + 32*(m/16) | n |
//! | 256 | pair | 128 | m | n |
//! | 128 | pair | 64 | m + 64*(n / (N/2)) | n % (N/2) |
//! | 64 | `.ws` | 64 | m + 64*(n / (N/2)) | n % (N/2) |
//! | 32 | `.ws` | 32 | m + 32*(n / (N/4)) | n % (N/4) |
//!
//! with m counted within the CTA. For `.ws` with M = 64 the PTX manual's figure and CUTLASS
//! disagree; CUTLASS is followed.

use super::error::OperandError;
use super::tensor_memory::{TmemAddress, TmemRect};

/// The arrangement of D over CTAs and lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPath {
    /// CTAs that hold a share of the rows.
    pub ctas: usize,
    /// Rows of one CTA.
    pub rows: usize,
    /// Groups the columns are divided into, each in lanes of its own.
    pub parts: usize,
    /// Rows in every other 16 lanes (M = 64 of one CTA).
    scattered: bool,
}

impl DataPath {
    /// The arrangement of an instruction with `rows` rows.
    pub fn new(rows: usize, ctas: usize, stationary: bool) -> Result<DataPath, OperandError> {
        let (rows, parts, scattered) = match (rows, ctas, stationary) {
            (128, 1, _) => (128, 1, false),
            (64, 1, false) => (64, 1, true),
            (256, 2, false) => (128, 1, false),
            (128, 2, false) => (64, 2, false),
            (64, 1, true) => (64, 2, false),
            (32, 1, true) => (32, 4, false),
            _ => {
                let ws = if stationary { ".ws" } else { "" };
                return OperandError::illegal(format!(
                    "tcgen05.mma{ws}.cta_group::{ctas} with M = {rows}: M must be {}",
                    match (ctas, stationary) {
                        (2, _) => "128 or 256",
                        (_, true) => "32, 64 or 128",
                        _ => "64 or 128",
                    }
                ));
            }
        };
        Ok(DataPath { ctas, rows, parts, scattered })
    }

    /// Lane of a CTA's row in the given group of columns.
    pub const fn lane(&self, row: usize, part: usize) -> usize {
        if self.scattered { row % 16 + 32 * (row / 16) } else { row + part * self.rows }
    }

    /// Checks the lane an accumulator or A address may start at.
    pub fn check_lane(&self, address: TmemAddress) -> Result<(), OperandError> {
        match address.lane {
            0 => Ok(()),
            16 if self.scattered => Ok(()),
            lane => OperandError::illegal(format!(
                "tensor-memory operand of tcgen05.mma starts at lane {lane}, it must be {}",
                if self.scattered { "0 or 16" } else { "0" }
            )),
        }
    }

    /// The rectangles of a CTA's tensor memory that `columns` columns from `address` take, in
    /// lanes for which `wanted` holds.
    pub fn rects(
        &self,
        address: TmemAddress,
        columns: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<TmemRect> {
        let columns = address.column..address.column + columns;
        let mut rects: Vec<TmemRect> = Vec::new();
        for part in 0..self.parts {
            for row in 0..self.rows {
                let lane = address.lane + self.lane(row, part);
                match rects.last_mut() {
                    _ if !wanted(lane) => {}
                    Some(last) if last.lanes.end == lane => last.lanes.end += 1,
                    _ => rects.push(TmemRect { lanes: lane..lane + 1, columns: columns.clone() }),
                }
            }
        }
        rects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrangement_uses_its_lanes_once() {
        for (rows, ctas, ws, lanes) in
            [(128, 1, false, 128), (64, 1, false, 64), (256, 2, false, 128), (128, 2, false, 128)]
                .into_iter()
                .chain([(128, 1, true, 128), (64, 1, true, 128), (32, 1, true, 128)])
        {
            let path = DataPath::new(rows, ctas, ws).unwrap();
            let mut used: Vec<usize> = (0..path.parts)
                .flat_map(|part| (0..path.rows).map(move |row| path.lane(row, part)))
                .collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), lanes, "M = {rows}, {ctas} CTAs, ws {ws}");
        }
    }

    #[test]
    fn sixty_four_rows_lie_in_four_strips() {
        let path = DataPath::new(64, 1, false).unwrap();
        let rects = path.rects(TmemAddress { lane: 16, column: 8 }, 32, |_| true);
        let starts: Vec<_> = rects.iter().map(|r| r.lanes.clone()).collect();
        assert_eq!(starts, [16..32, 48..64, 80..96, 112..128]);
        assert_eq!(rects[0].columns, 8..40);
    }

    #[test]
    fn wrong_m_is_named() {
        let error = DataPath::new(64, 2, false).unwrap_err().to_string();
        assert!(error.contains("M must be 128 or 256"), "{error}");
    }
}
