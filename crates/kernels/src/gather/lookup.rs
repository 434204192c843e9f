//! Where the rows of a tile are: in order, by page table, or by list.

use super::Scattered;
use super::WARPS;
use super::share::{LANES, NOWHERE, ROWS};
use crate::rows::Block;
use crate::sequence::element;
use crate::task::{Keys, OpenTile, Tiling};
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

/// What one warp of those that bring a tile looks up: every lane some of the rows.
pub struct Lookup<'p> {
    tiling: &'p Tiling,
    keys: &'p Keys,
    /// Rows of a tile.
    tile: u32,
    /// Number among the warps.
    warp: Reg<u32>,
    lane: Reg<u32>,
}

/// A row that was looked up.
pub struct Row {
    /// Batch or page; not known yet where it is an entry of a list of rows of pages.
    outer: Reg<u32>,
    /// Row of it, or entry of a list: negative if there is none.
    token: Reg<u32>,
}

impl Row {
    /// Overwrites it.
    #[track_caller]
    pub fn assign(&self, b: &mut Builder, other: &Row) {
        b.assign(self.outer, other.outer);
        b.assign(self.token, other.token);
    }
}

/// Where a row is.
pub struct Place {
    /// The row, in units of 16 bytes from the first: [`NOWHERE`] if there is none.
    pub row: Reg<u32>,
    /// Its scales, where it has some.
    pub scales: Option<[Reg<u32>; 2]>,
}

impl Place {
    /// Overwrites it.
    #[track_caller]
    pub fn assign(&self, b: &mut Builder, other: &Place) {
        b.assign(self.row, other.row);
        if let (Some(scales), Some(other)) = (self.scales, other.scales) {
            scales.iter().zip(other).for_each(|(scale, other)| b.assign(*scale, other));
        }
    }

    /// Whether there is a row.
    #[track_caller]
    pub fn exists(&self, b: &mut Builder) -> Reg<bool> {
        b.setp(Cmp::Ne, self.row, NOWHERE)
    }
}

impl<'p> Lookup<'p> {
    /// What warp `warp` looks up of tiles of `tile` keys.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        tiling: &'p Tiling,
        keys: &'p Keys,
        tile: u32,
        warp: Reg<u32>,
    ) -> Self {
        Lookup { tiling, keys, tile, warp, lane: b.special("%laneid") }
    }

    /// Asks where this warp's rows of tile `n` are: runs of [`ROWS`], warps in turn. Tiles below those that
    /// are visited have none.
    #[track_caller]
    pub fn look_up(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) -> Vec<Row> {
        let first = b.mul(n, self.tile as i32).reinterpret::<u32>();
        let (run, within) = (b.div(self.lane, ROWS), b.rem(self.lane, ROWS));
        let row = b.mad(run, WARPS, self.warp);
        let row = b.mad(row, ROWS, within);
        let key = b.add(first, row);
        let visited = b.setp(Cmp::Ge, n, open.range.begin);
        let end = b.select::<u32>(visited, open.sequence.k_len, 0);
        let per_lane = (self.tile / WARPS).div_ceil(LANES);
        let keys: Vec<_> = (0..per_lane).map(|i| b.add(key, i * LANES * WARPS)).collect();
        keys.into_iter().map(|key| self.look_up_key(b, open, key, end)).collect()
    }

    /// Asks where key `key` of the sequence is, if it is one of those before `end`.
    #[track_caller]
    fn look_up_key(&self, b: &mut Builder, open: &OpenTile, key: Reg<u32>, end: Reg<u32>) -> Row {
        let sequence = &open.sequence;
        let exists = b.setp(Cmp::Lt, key, end);
        if self.keys.lists.is_some() {
            let list = self.list(b, open);
            let entry = load_if(b, exists, list, key);
            return Row { outer: b.value(sequence.k_batch), token: entry };
        }
        let (outer, token) = match self.keys.page_table {
            None => (b.value(sequence.k_batch), b.add(key, sequence.k_start)),
            Some(pages) => {
                let (entry, token) = pages.page_rows.divide(b, key);
                let entry = b.mad(open.tile.batch, pages.pages_per_sequence, entry);
                (load_if(b, exists, pages.table, entry), token)
            }
        };
        Row { outer, token: b.select::<u32>(exists, token, NOWHERE) }
    }

    /// The list of the token whose rows a tile holds.
    #[track_caller]
    fn list(&self, b: &mut Builder, open: &OpenTile) -> GlobalPtr {
        let Tiling { packing, group, blocks, .. } = *self.tiling;
        assert!(blocks == 1 && packing.tokens == 1, "a list is one token's");
        let lists = self.keys.lists.expect("lists");
        let block = Block::at(b, packing, group, open.first_block);
        let token = b.add(open.sequence.q_start, block.token);
        let number = b.mad(open.sequence.q_batch, lists.tokens, token);
        let offset = b.mul_wide(number, lists.bytes);
        b.global_add(lists.entries, offset)
    }

    /// The places in `source` of rows that were looked up.
    #[track_caller]
    pub fn places(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        source: &Scattered,
        rows: &[Row],
    ) -> Vec<Place> {
        let place = |row: &Row| {
            let exists = b.setp(Cmp::Ge, row.token.reinterpret::<i32>(), 0);
            let (outer, token) = match self.keys.lists.and_then(|lists| lists.page_rows) {
                None => (row.outer, row.token),
                Some(page_rows) => page_rows.divide(b, row.token),
            };
            let place = source.place(b, open, outer, token, exists);
            Place { row: b.select::<u32>(exists, place.row, NOWHERE), ..place }
        };
        rows.iter().map(place).collect()
    }
}

/// The first row of a tile that lane `lane` of warp `warp` looks up, as [`Lookup::look_up`] finds it.
#[cfg(test)]
pub fn row_of_lane(warp: u32, lane: u32) -> u32 {
    (lane / ROWS * WARPS + warp) * ROWS + lane % ROWS
}

/// Element `index` of a table of 32-bit numbers, negative where `p` does not hold.
#[track_caller]
fn load_if(b: &mut Builder, p: Reg<bool>, table: GlobalPtr, index: Reg<u32>) -> Reg<u32> {
    let (value, at) = (b.value(NOWHERE), element(b, table, index));
    b.ld_global_if(p, at, &[value]);
    value
}
