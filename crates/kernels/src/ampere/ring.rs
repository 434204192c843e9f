//! The ring of keys and values: where a tile's rows are, and which buffer they go to.
//!
//! Rows in order are found by arithmetic. Those of pages and lists are looked up a tile ahead: the tile's keys are
//! copied first, its values a step later, from the same rows.

use super::config::Behind;
use super::copies::{Columns, Copier, Count};
use super::kernel::Frame;
use super::narrow::{self, Staged, Staging};
use crate::call::index::{KvTile, TensorToken};
use crate::call::rows::Block;
use crate::call::task::{Keys, OpenTile};
use crate::call::tensors::CHUNK;
use crate::math::exact::{Rows, Tensor};
use crate::moves::gather::Packed;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedTile, SharedTiles, SmemPtr};

/// In place of the row of a key that does not exist.
const NOWHERE: u32 = u32::MAX;

/// The keys and values of a work tile.
pub struct Ring<'a> {
    frame: &'a Frame,
    /// The segment's.
    keys: &'a Keys,
    open: &'a OpenTile,
    copier: Copier,
    finder: Finder,
    /// Buffer of the tile in work, where there are several.
    stage: Option<Reg<u32>>,
    /// First value column of this CTA, where they are shared out.
    column: Option<Reg<u32>>,
}

/// How the rows of tiles are found.
enum Finder {
    /// They lie in order: the thread's vectors of the sequence's first key and value.
    InOrder([GlobalPtr; 2]),
    /// By page table or list: page and row of each row that the thread copies.
    LookedUp(Vec<[Reg<u32>; 2]>),
}

/// Where a tile's rows go.
enum To<'a> {
    /// To 16-bit elements: the thread's vector of its first row.
    Tile(SharedTile, SmemPtr),
    /// To bytes that are unpacked when they have come.
    Bytes(Staged<'a>),
}

/// Rows of which a tile is filled.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Keys,
    Values,
}

impl<'a> Ring<'a> {
    /// The keys and values of segment `segment` that `open` visits.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        frame: &'a Frame,
        (segment, open): (usize, &'a OpenTile),
        copier: Copier,
        stage: Option<Reg<u32>>,
    ) -> Self {
        let config = &frame.config;
        let columns = config.shape.halves * config.columns();
        let keys = &frame.params.segments[segment];
        let column = open.slice.map(|slice| b.eval(slice.reg() * columns));
        let mut ring =
            Ring { frame, keys, open, copier, finder: Finder::LookedUp(vec![]), stage, column };
        ring.finder = ring.finder(b);
        ring
    }

    #[track_caller]
    fn finder(&self, b: &mut Builder) -> Finder {
        let keys = self.keys;
        let scattered = keys.page_table.is_some() || keys.lists.is_some();
        match keys.exact {
            Rows::Elements(k, v) if !scattered => {
                let streams = [(k, What::Keys), (v, What::Values)];
                let firsts = streams.map(|(t, what)| self.first_row(b, &t, what));
                if let Some(parked) = &self.frame.parked {
                    parked.leave_firsts(b, firsts);
                }
                Finder::InOrder(firsts)
            }
            _ => {
                let turns = self.copier.turns(self.frame.config.shape.tile);
                Finder::LookedUp((0..turns).map(|_| [b.reg(), b.reg()]).collect())
            }
        }
    }

    #[track_caller]
    fn first_row(&self, b: &mut Builder, tensor: &Tensor, what: What) -> GlobalPtr {
        let sequence = &self.open.sequence;
        let first =
            tensor.row(b, [sequence.k_batch.reg(), self.open.tile.kv_head.reg(), sequence.k_start]);
        self.first_column(b, first, what)
    }

    /// The thread's vectors of the row at `row`, in this CTA's columns.
    #[track_caller]
    fn first_column(&self, b: &mut Builder, row: GlobalPtr, what: What) -> GlobalPtr {
        let narrow = self.frame.config.e4m3.is_some();
        let from = match narrow {
            true => self.copier.bytes_of_row(b, row),
            false => self.copier.from(b, row),
        };
        match self.column {
            Some(column) if what == What::Values => {
                let bytes = if narrow { 1 } else { self.frame.config.precision.bytes() };
                b.global_add(from, column.widening_mul(bytes))
            }
            _ => from,
        }
    }

    /// Groups of copies that are under way when the first tile in work is awaited.
    pub fn groups(&self) -> u32 {
        let stages = self.frame.config.stages;
        if self.frame.config.shared_kv { stages - 1 } else { 2 * stages - 1 }
    }

    /// Starts the copies of the tiles from `n` down.
    #[track_caller]
    pub fn fill(&self, b: &mut Builder, n: KvTile) {
        let config = &self.frame.config;
        let ahead = if config.shared_kv { config.stages - 1 } else { config.stages };
        for s in 0..ahead {
            let n = n.before(b, s as i32);
            self.look_up(b, n);
            self.bring(b, What::Keys, n, s);
            b.cp_async_commit();
            if !config.shared_kv && s + 1 < ahead {
                self.bring(b, What::Values, n, s);
                b.cp_async_commit();
            }
        }
        if config.shared_kv {
            let n = n.before(b, ahead as i32);
            self.look_up(b, n);
        }
    }

    /// Starts the copies of the last tile's keys, where queries come to the buffers behind them; they are one group
    /// with the queries that were brought before, and its values another one.
    #[track_caller]
    pub fn fill_first(&self, b: &mut Builder, n: KvTile, behind: Behind) {
        self.bring(b, What::Keys, n, 0);
        b.cp_async_commit();
        if behind == Behind::FirstTile {
            self.bring(b, What::Values, n, 0);
            b.cp_async_commit();
        }
    }

    /// Starts the copies to the buffers that queries have left, a group per tile.
    #[track_caller]
    pub fn fill_behind(&self, b: &mut Builder, n: KvTile, behind: Behind) {
        let stages = self.frame.config.stages;
        if behind == Behind::FirstKeys || stages > 2 {
            b.barrier_all();
        }
        if behind == Behind::FirstKeys {
            self.bring(b, What::Values, n, 0);
            b.cp_async_commit();
        }
        for s in 1..stages - 1 {
            let n = n.before(b, s as i32);
            self.bring_both(b, n, s);
        }
    }

    /// Waits for the keys and values of tile `n`, and starts the copies to the buffer of the tile before.
    #[track_caller]
    pub fn await_tile(&self, b: &mut Builder, n: KvTile) {
        let stages = self.frame.config.stages;
        b.cp_async_wait(stages - 2);
        b.barrier_all();
        let next = n.before(b, stages as i32 - 1);
        self.bring_both(b, next, stages - 1);
    }

    /// Copies the keys and values of tile `n`, one group.
    #[track_caller]
    fn bring_both(&self, b: &mut Builder, n: KvTile, ahead: u32) {
        self.bring(b, What::Keys, n, ahead);
        self.bring(b, What::Values, n, ahead);
        b.cp_async_commit();
    }

    /// Waits for the keys of tile `n` and starts the copies whose buffer is free then.
    #[track_caller]
    pub fn await_keys(&self, b: &mut Builder, n: KvTile) {
        let config = &self.frame.config;
        let stages = config.stages;
        let alone = config.shared_kv && stages == 1;
        if !alone {
            b.cp_async_wait(self.groups() - 1);
        }
        if !config.shared_kv {
            self.unpack_staged(b, What::Keys);
        }
        b.barrier_all();
        if config.shared_kv && self.unpacks_staged() && !alone {
            // The tile that it takes the place of was multiplied up to this barrier.
            self.unpack_staged(b, What::Keys);
            b.barrier_all();
        }
        let what = if config.shared_kv { What::Keys } else { What::Values };
        let next = n.before(b, stages as i32 - 1);
        self.bring(b, what, next, stages - 1);
        b.cp_async_commit();
        let after = n.before(b, stages as i32);
        self.look_up(b, after);
        if alone {
            b.cp_async_wait(0);
            self.unpack_staged(b, What::Keys);
            b.barrier_all();
        }
    }

    /// Whether rows come as bytes that are unpacked when their turn comes.
    fn unpacks_staged(&self) -> bool {
        self.frame.staging.is_some() || self.frame.packed.is_some()
    }

    /// Stores the thread's numbers of the tile in work as 16-bit elements, where they came as bytes.
    #[track_caller]
    fn unpack_staged(&self, b: &mut Builder, what: What) {
        let config = &self.frame.config;
        if let Some(waiting) = self.frame.packed {
            let all = b.predicate(true);
            let copies = self.copier.among(b, config.shape.tile, all);
            b.if_(copies, |b| {
                waiting.unpack(b, &self.copier, self.frame.k.tile(0), config.turns());
            });
        }
        let Some(staging) = self.staging(what) else { return };
        let tiles = if what == What::Keys { self.frame.k } else { self.frame.v };
        let all = b.predicate(true);
        let copies = self.copier.among(b, config.shape.tile, all);
        b.if_(copies, |b| {
            let stage = self.buffer(b, 0);
            staging.of_thread(b, stage).unpack(b, &self.copier, config, tiles.tile(0));
        });
    }

    /// Where bytes of keys or values come first, if anywhere.
    fn staging(&self, what: What) -> Option<&'a Staging> {
        let (keys, values) = self.frame.staging.as_ref()?;
        if what == What::Keys { Some(keys) } else { values.as_ref() }
    }

    /// Waits for the values of tile `n`, whose scores are computed, and starts the copies of keys behind them.
    #[track_caller]
    pub fn await_values(&self, b: &mut Builder, n: KvTile) {
        let config = &self.frame.config;
        if config.shared_kv {
            return;
        }
        b.cp_async_wait(self.groups() - 1);
        self.unpack_staged(b, What::Values);
        b.barrier_all();
        let after = n.before(b, config.stages as i32);
        self.bring(b, What::Keys, after, 0);
        b.cp_async_commit();
    }

    /// Goes on to the next buffer.
    #[track_caller]
    pub fn advance(&self, b: &mut Builder) {
        if let Some(stage) = self.stage {
            let next = self.buffer(b, 1);
            b.assign(stage, next);
        }
    }

    /// The buffer `ahead` behind the one in work.
    #[track_caller]
    fn buffer(&self, b: &mut Builder, ahead: u32) -> Reg<u32> {
        let Some(stage) = self.stage else { return b.value(0) };
        let stages = self.frame.config.stages;
        let next = b.eval(stage + ahead);
        let wraps = b.setp(Cmp::Ge, next, stages);
        b.select::<u32>(wraps, next - stages, next)
    }

    /// The marks of the tile in work, where keys are listed.
    #[track_caller]
    pub fn marks(&self, b: &mut Builder) -> Option<Vec<Reg<u32>>> {
        let marks = self.frame.marks.as_ref()?;
        let stage = self.buffer(b, 0);
        Some(marks.read(b, stage))
    }

    /// Looks up the thread's rows of tile `n`, where that takes loads; it may be below those that are visited.
    #[track_caller]
    fn look_up(&self, b: &mut Builder, n: KvTile) {
        let Finder::LookedUp(rows) = &self.finder else { return };
        let config = &self.frame.config;
        let keys = self.keys.exact_rows(config.precision);
        let token = self.list_token(b);
        let n = KvTile::new(b.eval(n.reg().max(self.open.range.begin.reg())));
        let first = self.first_key(b, n);
        let last = b.eval(self.open.sequence.k_len - 1);
        for (turn, [outer, row]) in (0..).zip(rows) {
            let key = b.eval(first + turn * self.copier.rows());
            let inside = b.setp(Cmp::Le, key, last);
            let key = b.eval(key.min(last));
            let (page, found, exists) = keys.row_of(b, self.open, token, key);
            let exists = b.and(exists, inside);
            let found = b.select::<u32>(exists, found, NOWHERE);
            b.assign(*outer, page);
            b.assign(*row, found);
        }
    }

    /// The token whose list a tile's keys are on.
    #[track_caller]
    fn list_token(&self, b: &mut Builder) -> TensorToken {
        let config = &self.frame.config;
        let block = Block::at(b, config.packing, config.group, self.open.first_block);
        TensorToken::new(b.eval(self.open.sequence.q_start + block.token.reg()))
    }

    /// The key of the thread's first row of tile `n`.
    #[track_caller]
    fn first_key(&self, b: &mut Builder, n: KvTile) -> Reg<u32> {
        b.eval(n.reg().reinterpret::<u32>() * self.frame.config.shape.tile + self.copier.row)
    }

    /// Copies tile `n`, if it is visited, to the buffer `ahead` behind the one in work.
    #[track_caller]
    fn bring(&self, b: &mut Builder, what: What, n: KvTile, ahead: u32) {
        let visited = self.open.range.reaches(b, n);
        let copies = self.copier.among(b, self.frame.config.shape.tile, visited);
        b.if_(copies, |b| {
            let stage = self.buffer(b, ahead);
            let tiles: SharedTiles = if what == What::Keys { self.frame.k } else { self.frame.v };
            let to = match self.staging(what) {
                Some(staging) => To::Bytes(staging.of_thread(b, stage)),
                None => {
                    let tile = tiles.select(b, stage);
                    To::Tile(tile, self.copier.to(b, tile))
                }
            };
            match &self.finder {
                Finder::InOrder(firsts) => {
                    let which = usize::from(what == What::Values);
                    let first = match &self.frame.parked {
                        Some(parked) => parked.first(b, which, firsts[which]),
                        None => firsts[which],
                    };
                    self.copy_in_order(b, what, n, first, &to);
                }
                Finder::LookedUp(rows) => {
                    for (turn, row) in (0..).zip(rows) {
                        let exists = self.bring_row(b, what, row, &to, turn);
                        self.mark(b, what, stage, turn, exists);
                    }
                }
            }
        });
    }

    /// Writes whether the thread's row of turn `turn` exists, where keys are listed.
    #[track_caller]
    fn mark(&self, b: &mut Builder, what: What, stage: Reg<u32>, turn: u32, exists: Reg<bool>) {
        if let (What::Keys, Some(marks)) = (what, &self.frame.marks) {
            let row = b.eval(self.copier.row + turn * self.copier.rows());
            marks.write(b, stage, row, exists);
        }
    }

    #[track_caller]
    fn copy_in_order(&self, b: &mut Builder, what: What, n: KvTile, first: GlobalPtr, to: &To<'_>) {
        let columns = self.columns(b, what);
        let key = self.first_key(b, n);
        let tensor = self.tensor(what);
        let mut from = tensor.further(b, first, key);
        let step = tensor.bytes_of(b, self.copier.rows());
        for turn in 0..self.copier.turns(self.frame.config.shape.tile) {
            if turn > 0 {
                from = b.global_add(from, step);
            }
            let key = b.eval(key + turn * self.copier.rows());
            let exists = b.setp(Cmp::Lt, key, self.open.sequence.k_len);
            self.copy_row(b, exists, from, (to, turn), &columns);
        }
    }

    /// Copies the thread's vectors of its row of turn `turn` from `from` on.
    #[track_caller]
    fn copy_row(
        &self,
        b: &mut Builder,
        exists: Reg<bool>,
        from: GlobalPtr,
        (to, turn): (&To<'_>, u32),
        columns: &Columns,
    ) {
        match to {
            To::Bytes(staged) => staged.copy(b, &self.copier, exists, from, turn, columns),
            To::Tile(tile, first) => {
                let to = (*tile, self.copier.in_turn(*tile, *first, turn));
                match self.frame.config.e4m3 {
                    None => self.copier.copy(b, exists, from, to, columns),
                    Some(_) => {
                        let half = self.frame.config.unpacked_to();
                        narrow::unpack_row(b, &self.copier, half, exists, from, to, columns);
                    }
                }
            }
        }
    }

    /// Brings a row that was looked up; returns whether it exists.
    #[track_caller]
    fn bring_row(
        &self,
        b: &mut Builder,
        what: What,
        &[outer, row]: &[Reg<u32>; 2],
        to: &To<'_>,
        turn: u32,
    ) -> Reg<bool> {
        let exists = b.setp(Cmp::Ne, row, NOWHERE);
        let [outer, row] = [outer, row].map(|number| b.select::<u32>(exists, number, 0));
        match (self.keys.exact, self.frame.packed) {
            (Rows::Packed(rows), Some(waiting)) => {
                waiting.copy(b, &self.copier, &rows, [outer, row], exists, turn);
            }
            (Rows::Packed(rows), None) => {
                let To::Tile(tile, first) = *to else { panic!("packed rows are not e4m3 rows") };
                let to = self.copier.in_turn(tile, first, turn);
                self.unpack(b, &rows, [outer, row], exists, (tile, to));
            }
            (Rows::Elements(..), _) => {
                let columns = self.columns(b, what);
                let at = [outer, self.open.tile.kv_head.reg(), row];
                let from = self.tensor(what).row(b, at);
                let from = self.first_column(b, from, what);
                self.copy_row(b, exists, from, (to, turn), &columns);
            }
        }
        exists
    }

    /// Stores the thread's vectors of a packed row, zeros where it does not exist.
    #[track_caller]
    fn unpack(
        &self,
        b: &mut Builder,
        rows: &Packed,
        [outer, row]: [Reg<u32>; 2],
        exists: Reg<bool>,
        (tile, to): (SharedTile, SmemPtr),
    ) {
        let row = rows.row(b, outer, row, exists);
        let panels = tile.layout().blocks() as u32;
        b.range(0, panels, |b, panel| {
            let vector = b.eval(panel * (CHUNK / 8) + self.copier.vector);
            let words = rows.unpack_vector(b, vector, &row, exists);
            let to = b.smem_add(to, panel * tile.layout().block_bytes() as u32);
            b.st_shared_vector(to, &words);
        });
    }

    fn tensor(&self, what: What) -> Tensor {
        match (self.keys.exact, what) {
            (Rows::Elements(keys, _), What::Keys) => keys,
            (Rows::Elements(_, values), What::Values) => values,
            (Rows::Packed(_), _) => panic!("packed rows are unpacked, not copied"),
        }
    }

    /// The columns of keys or values that this CTA copies.
    #[track_caller]
    fn columns(&self, b: &mut Builder, what: What) -> Columns {
        let config = &self.frame.config;
        match (what, self.column) {
            (What::Keys, _) => {
                let count = Count::Fixed(config.units(config.key_dim));
                Columns { panels: config.keys().chunks, count }
            }
            (What::Values, Some(first)) => {
                let dim = b.value(config.value_dim);
                let count = Count::OfSlice(b.eval(match config.units(1) {
                    1 => dim - first,
                    units => (dim - first) * units,
                }));
                Columns { panels: config.values().chunks, count }
            }
            (What::Values, None) => {
                let count = Count::Fixed(config.units(config.value_dim));
                Columns { panels: config.values().chunks, count }
            }
        }
    }
}
