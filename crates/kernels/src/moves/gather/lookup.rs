//! Where the rows of a tile are: in order, by page table, or by list.

use super::share::{LANES, LINE_BYTES, NOWHERE, ROWS};
use super::{Elements, Mapped, Scattered, WARPS};
use crate::call::index::KvTile;
use crate::call::rows::Block;
use crate::call::sequence::element;
use crate::call::task::{Keys, OpenTile, Tiling};
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

/// What one warp of those that bring a tile looks up: every lane some of the rows.
pub struct Lookup<'p> {
    tiling: &'p Tiling,
    keys: &'p Keys,
    /// Rows of a tile.
    tile: u32,
    share: Rows,
    lane: Reg<u32>,
}

/// Which rows of a tile the lanes of a warp look up.
#[derive(Clone, Copy)]
pub enum Rows {
    /// Runs of [`ROWS`], warp `.0` of [`WARPS`] in turn with the other; a lane has its own.
    Runs(Reg<u32>),
    /// Two neighbouring runs of those of a warp, four lanes on each row: warp `.0` of those that unpack a tile.
    TwoRuns(Reg<u32>),
}

/// A row that was looked up.
pub struct Row {
    /// Batch or page; not known yet where it is an entry of a list of rows of pages.
    outer: Reg<u32>,
    /// Row of it, or entry of a list: [`NOWHERE`] if there is none.
    token: Reg<u32>,
}

impl Row {
    /// A row that is not looked up yet.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        Row { outer: b.reg(), token: b.reg() }
    }

    /// Overwrites it.
    #[track_caller]
    pub fn assign(&self, b: &mut Builder, other: &Row) {
        b.assign(self.outer, other.outer);
        b.assign(self.token, other.token);
    }

    /// This row where `p` holds, the other elsewhere.
    #[track_caller]
    pub fn or(&self, b: &mut Builder, p: Reg<bool>, other: &Row) -> Row {
        Row {
            outer: b.select::<u32>(p, self.outer, other.outer),
            token: b.select::<u32>(p, self.token, other.token),
        }
    }
}

/// Where a row is.
#[derive(Clone, Copy)]
pub struct Place {
    /// The row, in vectors of 16 bytes from the first, or its number in a tensor map: [`NOWHERE`] if there is none.
    pub row: Reg<u32>,
    /// What else is known of it.
    pub aside: Aside,
}

/// What is known of a row beside its place, as its format says: its scales, or where they are in 16-byte vectors.
#[derive(Clone, Copy, Debug)]
pub enum Aside {
    Nothing,
    ScalePlace([Reg<u32>; 1]),
    Scales([Reg<u32>; 2]),
}

impl Aside {
    /// So many words that are not known yet.
    #[track_caller]
    pub fn new(b: &mut Builder, words: usize) -> Self {
        match words {
            0 => Aside::Nothing,
            1 => Aside::ScalePlace([b.reg()]),
            _ => Aside::Scales([b.reg(), b.reg()]),
        }
    }

    /// The words.
    pub fn words(&self) -> &[Reg<u32>] {
        match self {
            Aside::Nothing => &[],
            Aside::ScalePlace(place) => place,
            Aside::Scales(scales) => scales,
        }
    }

    fn map(self, word: impl FnMut(Reg<u32>) -> Reg<u32>) -> Self {
        match self {
            Aside::Nothing => Aside::Nothing,
            Aside::ScalePlace(place) => Aside::ScalePlace(place.map(word)),
            Aside::Scales(scales) => Aside::Scales(scales.map(word)),
        }
    }
}

impl Place {
    /// A place in `source` that is not known yet.
    #[track_caller]
    pub fn new(b: &mut Builder, source: &Scattered) -> Self {
        let words = match source {
            Scattered::Elements(_) | Scattered::Mapped(_) => 0,
            Scattered::Packed(rows) => rows.format.aside(),
        };
        let aside = Aside::new(b, words);
        Place { row: b.reg(), aside }
    }

    /// Overwrites it.
    #[track_caller]
    pub fn assign(&self, b: &mut Builder, other: &Place) {
        b.assign(self.row, other.row);
        let words = self.aside.words().iter().zip(other.aside.words());
        words.for_each(|(word, other)| b.assign(*word, *other));
    }

    /// The same without scales, which may not have come yet.
    pub fn without_scales(self) -> Self {
        match self.aside {
            Aside::Scales(_) => Place { aside: Aside::Nothing, ..self },
            _ => self,
        }
    }

    /// This place where `p` holds, the other elsewhere.
    #[track_caller]
    pub fn or(&self, b: &mut Builder, p: Reg<bool>, other: &Place) -> Place {
        let mut others = other.aside.words().iter();
        let aside = self.aside.map(|own| {
            let other = others.next().expect("places of one format");
            b.select::<u32>(p, own, *other)
        });
        Place { row: b.select::<u32>(p, self.row, other.row), aside }
    }

    /// Makes it a place without a row.
    #[track_caller]
    pub fn clear(&self, b: &mut Builder) {
        b.assign(self.row, NOWHERE);
        self.aside.words().iter().for_each(|word| b.assign(*word, 0));
    }

    /// What lane `lane` of the warp knows.
    #[track_caller]
    pub fn of_lane(&self, b: &mut Builder, lane: Reg<u32>) -> Place {
        let row = b.lane_value(self.row, lane);
        Place { row, aside: self.aside.map(|own| b.lane_value(own, lane)) }
    }

    /// Whether there is a row.
    #[track_caller]
    pub fn exists(&self, b: &mut Builder) -> Reg<bool> {
        b.setp(Cmp::Ne, self.row, NOWHERE)
    }
}

impl Rows {
    /// The first row of a tile that a lane looks up.
    #[track_caller]
    pub fn first(self, b: &mut Builder, lane: Reg<u32>) -> Reg<u32> {
        let (run, within, warp) = match self {
            Rows::Runs(warp) => (b.eval(lane / ROWS), b.eval(lane % ROWS), warp),
            Rows::TwoRuns(number) => {
                let row = b.eval(lane / (LANES / (2 * ROWS)));
                let (half, within) = (b.eval(row / ROWS), b.eval(row % ROWS));
                let (two, warp) = (b.eval(number / WARPS), b.eval(number % WARPS));
                (b.eval(two * 2 + half), within, warp)
            }
        };
        b.eval((run * WARPS + warp) * ROWS + within)
    }
}

impl<'p> Lookup<'p> {
    /// What a warp looks up of tiles of `tile` keys.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        tiling: &'p Tiling,
        keys: &'p Keys,
        tile: u32,
        share: Rows,
    ) -> Self {
        Lookup { tiling, keys, tile, share, lane: b.special("%laneid") }
    }

    /// Asks where this warp's rows of tile `n` are. Tiles below those that are visited have none.
    #[track_caller]
    pub fn look_up(&self, b: &mut Builder, open: &OpenTile, n: KvTile) -> Vec<Row> {
        let per_lane = match self.share {
            Rows::Runs(_) => (self.tile / WARPS).div_ceil(LANES),
            Rows::TwoRuns(_) => self.tile / (LANES * WARPS),
        };
        let rows: Vec<_> = (0..per_lane).map(|_| Row::new(b)).collect();
        self.look_up_into(b, open, n, &rows);
        rows
    }

    /// The same into registers that held other rows: what is asked for arrives there, and nothing waits for it.
    #[track_caller]
    pub fn look_up_into(&self, b: &mut Builder, open: &OpenTile, n: KvTile, rows: &[Row]) {
        let first = n.first_key(b, self.tile).reinterpret::<u32>();
        let row = self.share.first(b, self.lane);
        let key = b.eval(first + row);
        let visited = open.range.reaches(b, n);
        let end = b.select::<u32>(visited, open.sequence.k_len, 0);
        for (i, row) in (0..).zip(rows) {
            let key = b.eval(key + i * LANES * WARPS);
            self.look_up_key(b, open, key, end, row);
        }
    }

    /// Asks where key `key` of the sequence is, if it is one of those before `end`.
    #[track_caller]
    fn look_up_key(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        key: Reg<u32>,
        end: Reg<u32>,
        row: &Row,
    ) {
        let sequence = &open.sequence;
        let exists = b.setp(Cmp::Lt, key, end);
        if self.keys.lists.is_some() {
            let list = self.list(b, open);
            b.assign(row.outer, sequence.k_batch.reg());
            return load_if(b, exists, list, key, row.token);
        }
        let token = match self.keys.page_table {
            None => {
                b.assign(row.outer, sequence.k_batch.reg());
                b.eval(key + sequence.k_start)
            }
            Some(pages) => {
                let key = sequence.key_in_pages(b, key);
                let (entry, token) = pages.page_rows.divide(b, key);
                let entry = b.eval(open.tile.sequence.reg() * pages.pages_per_sequence + entry);
                load_if(b, exists, pages.table, entry, row.outer);
                token
            }
        };
        let token = b.select::<u32>(exists, token, NOWHERE);
        b.assign(row.token, token);
    }

    /// The list of the token whose rows a tile holds.
    #[track_caller]
    fn list(&self, b: &mut Builder, open: &OpenTile) -> GlobalPtr {
        let Tiling { packing, group, blocks, .. } = *self.tiling;
        let together = packing.head_blocks(group).is_multiple_of(blocks);
        assert!(together && packing.tokens == 1, "a list is one token's");
        let lists = self.keys.lists.expect("lists");
        let block = Block::at(b, packing, group, open.first_block);
        let token = b.eval(open.sequence.q_start + block.token.reg());
        let number = b.eval(open.sequence.q_batch.reg() * lists.tokens + token);
        b.global_add(lists.entries, number.widening_mul(lists.bytes))
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
        let place = |row| {
            let place = Place::new(b, source);
            self.place_into(b, open, source, row, &place);
            place
        };
        rows.iter().map(place).collect()
    }

    /// The place of a row that was looked up, into registers that held another.
    #[track_caller]
    pub fn place_into(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        source: &Scattered,
        row: &Row,
        place: &Place,
    ) {
        let exists = self.exists(b, row);
        let (outer, token) = match self.keys.lists.and_then(|lists| lists.page_rows) {
            None => (row.outer, row.token),
            Some(page_rows) => page_rows.divide(b, row.token),
        };
        let at = match source {
            Scattered::Elements(Elements { strides, .. })
            | Scattered::Mapped(Mapped { strides, .. }) => {
                strides.place(b, outer, open.tile.kv_head, token)
            }
            Scattered::Packed(rows) => rows.place(b, outer, token),
        };
        let at = b.select::<u32>(exists, at, NOWHERE);
        b.assign(place.row, at);
        if let Scattered::Packed(rows) = source {
            rows.find_aside(b, outer, token, exists, &place.aside);
        }
    }

    /// The batch or page of a row that was looked up, and its number there, both 0 unless it `exists`.
    #[track_caller]
    pub fn row_in_page(
        &self,
        b: &mut Builder,
        row: &Row,
        exists: Reg<bool>,
    ) -> (Reg<u32>, Reg<u32>) {
        let (outer, token) = match self.keys.lists.and_then(|lists| lists.page_rows) {
            None => (row.outer, row.token),
            Some(page_rows) => page_rows.divide(b, row.token),
        };
        (b.select::<u32>(exists, outer, 0), b.select::<u32>(exists, token, 0))
    }

    /// Brings the first entries of the list of a tile's token, where there is one, to L2: a line per lane.
    #[track_caller]
    pub fn prefetch_list(&self, b: &mut Builder, open: &OpenTile) {
        if self.keys.lists.is_none() {
            return;
        }
        let list = self.list(b, open);
        let first = b.eval(self.lane * (LINE_BYTES / 4));
        let exists = b.setp(Cmp::Lt, first, open.sequence.k_len);
        let line = element(b, list, first);
        b.if_(exists, |b| b.prefetch_to_l2(line));
    }

    /// The number of the first key of tile `n` that this lane looks up.
    #[track_caller]
    pub fn key(&self, b: &mut Builder, n: KvTile) -> Reg<i32> {
        let first = n.first_key(b, self.tile);
        let row = self.share.first(b, self.lane).reinterpret::<i32>();
        b.eval(first + row)
    }

    /// Whether a row that was looked up is there: a list or table may hold any number.
    #[track_caller]
    pub fn exists(&self, b: &mut Builder, row: &Row) -> Reg<bool> {
        if let Some(lists) = self.keys.lists {
            return b.setp(Cmp::Lt, row.token, lists.rows);
        }
        let exists = b.setp(Cmp::Ge, row.token.reinterpret::<i32>(), 0);
        let Some(pages) = self.keys.page_table else { return exists };
        let page = b.setp(Cmp::Lt, row.outer, pages.pages);
        b.and(exists, page)
    }
}

/// The first row of a tile that lane `lane` of warp `warp` looks up, as [`Lookup::look_up`] finds it.
#[cfg(test)]
pub fn row_of_lane(warp: u32, lane: u32) -> u32 {
    (lane / ROWS * WARPS + warp) * ROWS + lane % ROWS
}

/// Loads element `index` of a table of 32-bit numbers; the result is negative where `p` does not hold.
#[track_caller]
fn load_if(b: &mut Builder, p: Reg<bool>, table: GlobalPtr, index: Reg<u32>, to: Reg<u32>) {
    let at = element(b, table, index);
    b.assign(to, NOWHERE);
    b.ld_global_if(p, at, &[to]);
}
