//! Tile sizes, stages and warps of a kernel, and the budget that limits them.
//!
//! Shared memory of a CTA: 163 KiB on sm_80, 99 KiB on sm_86, sm_89 and sm_120; a multiprocessor has 1 KiB more, and
//! keeps 1 KiB per CTA. Registers: 64 Ki per multiprocessor, 255 per thread. A thread holds, per fragment, `S`
//! (tile/2), `P` (tile/4) and `O` (value columns/2).

use super::copies::Copier;
use super::matrices::STEP;
use super::narrow::Staging;
use super::packed::Waiting;
use super::parked::Parked;
use super::{MOST_COLUMNS, ROWS, single};
use crate::call::precision::Precision;
use crate::call::rows::Packing;
use crate::call::task::Tiling;
use crate::call::tensors::{CHUNK, Panel};
use crate::hopper::tile::TileShape;
use crate::moves::gather::Format;
use crate::plan::options::{Arch, PlanOptions};
use problem::{Mask, Problem, QueryLengths, Storage, Values};
use program::Limits;
use ptx::build::HalfType;

/// Shared memory that a multiprocessor keeps of every CTA's.
const SYSTEM_SHARED: u32 = 1024;
/// Shared memory for words of warps and marks of keys.
const SHARED_RESERVE: u32 = 512;
/// Columns of queries that fit registers, of all fragments of a warp together.
const MOST_HELD_COLUMNS: u32 = 128;
/// The same beside tiles of few keys.
const MOST_PASSING_COLUMNS: u32 = 256;
/// Buffers of keys and values behind which queries pass.
const MOST_PASSING_STAGES: u32 = 3;

/// Everything a kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Element type.
    pub precision: Precision,
    /// Length of a query or key row.
    pub key_dim: u32,
    /// Length of a whole value row.
    pub value_dim: u32,
    /// How queries fill 64 rows.
    pub packing: Packing,
    /// Rows of a row block that can be queries: fewer than it has where all sequences are short.
    pub rows: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// CTAs that share the value columns.
    pub slices: u32,
    /// Whether values are the first columns of the keys.
    pub shared_kv: bool,
    /// Whether each token has a list of its keys.
    pub listed: bool,
    /// How e4m3 keys and values come, where they are that.
    pub e4m3: Option<Coming>,
    /// How packed rows come, where they are that.
    pub packed: Option<Coming>,
    /// Bytes that a thread has of a packed row on its way.
    packed_bytes: u32,
    /// Whether rows do not see all keys before their last one, where queries pass through the ring.
    windowed: bool,
    /// Where queries are while keys come by.
    pub query_place: QueryPlace,
    /// Warps, tile and CTAs per multiprocessor.
    pub shape: Shape,
    /// Buffers of keys (and of values, where they are separate).
    pub stages: u32,
}

/// How the bytes of e4m3 rows come to 16-bit tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coming {
    /// Through buffers of bytes, ahead of their turn.
    Staged,
    /// Through registers, when their turn comes: where shared memory has no room for such buffers.
    Direct,
}

/// Where the queries of a work tile are while keys come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryPlace {
    /// In tiles of their own; and in registers, where they are few.
    Tiles,
    /// In registers. They came to where KV tiles go behind them.
    Passed(Behind),
    /// In memory, from where warps read them for every KV tile: f32, where shared memory has no room for them.
    Memory,
}

/// Where queries that pass through the ring begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Behind {
    /// Behind the first buffer: a tile of keys and its values come beside them.
    FirstTile,
    /// Behind its keys, where shared memory is short: the values follow when queries are in registers.
    FirstKeys,
}

/// How much a CTA works on at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Warps: 4 or 8.
    pub warps: u32,
    /// Fragments of 16 rows that a warp has.
    pub fragments: u32,
    /// Halves of the columns, of keys and of values: 2 where two warps share the same rows.
    pub halves: u32,
    /// Keys per tile.
    pub tile: u32,
    /// CTAs that a multiprocessor is to have room for.
    pub resident: u32,
}

pub const fn shape(warps: u32, fragments: u32, tile: u32, resident: u32) -> Shape {
    Shape { warps, fragments, halves: 1, tile, resident }
}

/// Eight warps that share 64 rows.
pub const fn shared_rows(tile: u32) -> Shape {
    Shape { halves: 2, ..shape(8, 1, tile, 1) }
}

/// Shapes for rows of so many columns of keys and of values, the best first: the first one that fits is taken.
/// Beside what takes registers of its own, as lookups do, tiles are smaller (`roomy` is false).
fn shapes(keys: u32, values: u32, blocks: u32, roomy: bool) -> &'static [Shape] {
    if values > MOST_COLUMNS {
        return const { &[shared_rows(32), shared_rows(16), shape(4, 1, 16, 1)] };
    }
    match (keys.max(values), blocks) {
        (0..=64, 2..) => const { &[shape(4, 2, 64, 2), shape(4, 1, 64, 2)] },
        (65..=128, 2..) if !roomy => const { &[shape(4, 2, 32, 2), shape(4, 1, 32, 1)] },
        (65..=128, 2..) => const { &[shape(4, 2, 64, 2), shape(4, 2, 32, 2), shape(4, 1, 32, 1)] },
        (129..=256, 2..) => const { &[shape(8, 1, 64, 1), shape(8, 1, 32, 1), shape(4, 1, 32, 1)] },
        (0..=128, _) => const { &[shape(4, 1, 64, 2), shape(4, 1, 32, 2), shape(4, 1, 32, 1)] },
        _ => const { &[shape(4, 1, 64, 1), shape(4, 1, 32, 1), shape(4, 1, 16, 1)] },
    }
}

/// Shapes whose queries pass through the ring, the best first.
fn passing_shapes(keys: u32, values: u32, blocks: u32) -> &'static [Shape] {
    if values > MOST_COLUMNS {
        return const { &[shared_rows(32), shared_rows(16)] };
    }
    match (keys.max(values), blocks) {
        (129..=256, 2..) => const { &[shape(4, 1, 32, 2), shape(8, 1, 32, 1)] },
        _ => &[],
    }
}

/// Whether nothing but scores and output takes many registers: rows lie in order, lengths are known, nothing is
/// unpacked, and there are no mask tensors or soft caps.
fn is_roomy(problem: &Problem, n: usize) -> bool {
    let segment = &problem.segments[n];
    let in_order = segment.paging.is_none() && segment.indices.is_none();
    let known = !segment.lengths.used && segment.lengths.packed.is_none();
    let full = problem.query_lengths == QueryLengths::Full && !segment.is_e4m3();
    in_order && known && full && segment.attn_mask.is_none() && problem.softcap.is_none()
}

/// The most rows of a row block that are queries.
fn most_rows(packing: &Packing, problem: &Problem) -> u32 {
    packing.heads * packing.tokens.min(problem.longest_query().min(ROWS.into()) as u32)
}

impl Config {
    /// The kernel for the problem's segment `n`.
    pub fn choose(problem: &Problem, n: usize, arch: Arch, options: &PlanOptions) -> Self {
        let segment = &problem.segments[n];
        let (key_dim, value_dim) = (problem.key_dim() as u32, problem.value_dim() as u32);
        let group = problem.group() as u32;
        let listed = segment.indices.is_some();
        let ragged = problem.query_lengths != QueryLengths::Full;
        let packing = match (listed, ragged) {
            (true, _) => Packing::of_one_token(problem, ROWS),
            (_, true) => Packing::of_heads(problem, ROWS),
            _ => Packing::choose(problem, ROWS),
        };
        let packed = segment.storage != Storage::Elements;
        let packed_bytes =
            packed.then(|| Waiting::bytes_of_row(Format::of(segment.storage)).unwrap_or(0));
        let config = Config {
            precision: Precision::of(problem),
            key_dim,
            value_dim,
            packing,
            rows: most_rows(&packing, problem),
            group,
            slices: 1,
            shared_kv: matches!(segment.values, Values::SameAsKeys { .. }),
            listed,
            e4m3: segment.is_e4m3().then_some(Coming::Staged),
            packed: packed_bytes
                .map(|bytes| if bytes > 0 { Coming::Staged } else { Coming::Direct }),
            packed_bytes: packed_bytes.unwrap_or(0),
            windowed: false,
            query_place: QueryPlace::Tiles,
            shape: shape(4, 1, 16, 1),
            stages: 1,
        };
        let blocks = config.blocks_together(problem, options);
        if is_roomy(problem, n) {
            let windowed = !matches!(segment.mask, Mask::Full | Mask::Causal);
            if let Some(config) = (Config { windowed, ..config }).passing(blocks, arch) {
                return config;
            }
        }
        let shapes = match config.precision {
            Precision::Half(_) => shapes(key_dim, value_dim, blocks, is_roomy(problem, n)),
            Precision::Single => single::shapes(key_dim, value_dim, blocks),
        };
        let shapes = shapes.iter().map(|shape| config.shaped(*shape));
        let spare = shapes.clone().filter_map(|config| config.in_less_memory());
        let config = shapes.chain(spare).find(|config| config.fits(arch));
        let config = config.expect("the smallest shape fits every chip");
        // Rows that are unpacked as they come do so while nothing else is under way.
        let direct = [config.packed, config.e4m3].contains(&Some(Coming::Direct));
        let most = if direct { 1 } else { 2 };
        let mut with_more = (2..=most).rev().map(|stages| Config { stages, ..config });
        with_more.find(|c| c.fits(arch)).unwrap_or(config)
    }

    /// The same kernel with queries that pass through the ring, if there is one.
    fn passing(&self, blocks: u32, arch: Arch) -> Option<Self> {
        if self.shared_kv || self.precision == Precision::Single {
            return None;
        }
        let shapes = passing_shapes(self.key_dim, self.value_dim, blocks);
        let shapes = shapes.iter().map(|shape| self.shaped(*shape));
        let fitting = shapes.flat_map(|config| {
            let stages = (2..=MOST_PASSING_STAGES).rev();
            let ways = stages.map(|stages| (stages, Behind::FirstTile));
            let ways = ways.chain([(2, Behind::FirstKeys)]);
            ways.map(move |(stages, behind)| Config {
                stages,
                query_place: QueryPlace::Passed(behind),
                ..config
            })
        });
        let held = |config: &Config| config.held_columns() <= MOST_PASSING_COLUMNS;
        fitting.filter(held).find(|config| config.fits(arch))
    }

    /// The same kernel where shared memory is short: f32 queries are read from memory, and bytes unpacked as they come.
    fn in_less_memory(self) -> Option<Self> {
        match (self.precision, self.e4m3) {
            (Precision::Single, _) => Some(Config { query_place: QueryPlace::Memory, ..self }),
            (_, Some(_)) => Some(Config { e4m3: Some(Coming::Direct), ..self }),
            _ if self.packed == Some(Coming::Staged) => {
                Some(Config { packed: Some(Coming::Direct), ..self })
            }
            _ => None,
        }
    }

    /// The same kernel of another shape. Value columns that one has no accumulators for are shared out among CTAs.
    fn shaped(&self, shape: Shape) -> Self {
        let most = match self.precision {
            Precision::Half(_) => MOST_COLUMNS,
            Precision::Single => single::MOST_COLUMNS,
        };
        let slices = self.value_dim.div_ceil(most * shape.halves);
        Config { shape, slices, ..*self }
    }

    /// Blocks of 64 rows that a CTA may take: one where there are few, or where a list is one token's.
    fn blocks_together(&self, problem: &Problem, options: &PlanOptions) -> u32 {
        if self.listed {
            return if self.packing.head_blocks(self.group).is_multiple_of(2) { 2 } else { 1 };
        }
        let blocks = self.packing.blocks(self.group, problem.longest_query());
        let all = blocks * problem.kv_heads() * problem.batch();
        if blocks > 1 && all > options.processors.into() { 2 } else { 1 }
    }

    fn fits(&self, arch: Arch) -> bool {
        let limits = Limits::of(arch.target().name()).expect("a target with known limits");
        let each = (limits.shared_bytes + SYSTEM_SHARED) / self.shape.resident - SYSTEM_SHARED;
        self.shared_bytes() + SHARED_RESERVE <= each
    }

    fn shared_bytes(&self) -> u32 {
        let parked = if self.parks() { Parked::bytes(self.shape.warps) } else { 0 };
        let exchanged = self.exchanged_words() * self.threads() * 4;
        self.ring_bytes() + self.staged_bytes() + exchanged + parked
    }

    /// Bytes of queries, keys and values.
    pub fn ring_bytes(&self) -> u32 {
        let queries = self.query_tiles() * self.queries().bytes();
        let tiles = self.tiles() * self.stage_bytes();
        match self.query_place {
            QueryPlace::Passed(behind) => tiles.max(self.first_bytes(behind) + queries),
            QueryPlace::Tiles | QueryPlace::Memory => tiles + queries,
        }
    }

    /// Bytes of a buffer of keys and values.
    pub fn stage_bytes(&self) -> u32 {
        let values = if self.shared_kv { 0 } else { self.values().bytes() };
        self.keys().bytes() + values
    }

    /// Bytes of the ring that passing queries leave to the first KV tile.
    pub fn first_bytes(&self, behind: Behind) -> u32 {
        match behind {
            Behind::FirstTile => self.stage_bytes(),
            Behind::FirstKeys => self.keys().bytes(),
        }
    }

    /// What e4m3 numbers are unpacked to.
    pub fn unpacked_to(&self) -> HalfType {
        self.precision.half().expect("e4m3 keys are beside 16-bit queries")
    }

    /// Tiles of 16-bit keys (and of values, where they are separate).
    pub fn tiles(&self) -> u32 {
        if self.e4m3.is_some() || self.packed.is_some() { 1 } else { self.stages }
    }

    fn staged_bytes(&self) -> u32 {
        let values = if self.shared_kv { 0 } else { self.values().chunks };
        let panels = self.keys().chunks + values;
        match (self.e4m3, self.packed) {
            (Some(Coming::Staged), _) => Staging::bytes(self, panels),
            (_, Some(Coming::Staged)) => self.packed_bytes * self.threads() * self.turns(),
            _ => 0,
        }
    }

    /// Rows of a tile that a thread copies.
    pub fn turns(&self) -> u32 {
        (self.shape.tile * Copier::THREADS_PER_ROW).div_ceil(self.threads())
    }

    /// Scores that a thread hands to the one that has the same rows and the other half of the columns.
    pub fn exchanged_words(&self) -> u32 {
        if self.shape.halves > 1 { self.shape.tile / 2 } else { 0 }
    }

    /// Panels of keys that a warp multiplies, the first of two halves perhaps one more.
    pub fn key_panels(&self) -> u32 {
        self.queries().chunks.div_ceil(self.shape.halves)
    }

    /// Products of 16 columns that both of two halves have.
    pub fn steps_of_both(&self) -> u32 {
        (self.queries().chunks - self.key_panels()) * (CHUNK / STEP)
    }

    /// 16-bit columns that so many elements of a row are in shared memory.
    pub fn units(&self, elements: u32) -> u32 {
        elements * self.precision.bytes() / 2
    }

    /// Row blocks whose queries are in shared memory: all, unless it has no room for them.
    pub fn query_tiles(&self) -> u32 {
        if self.query_place == QueryPlace::Memory { 0 } else { self.blocks() }
    }

    /// Blocks of 64 rows of a CTA.
    pub fn blocks(&self) -> u32 {
        self.shape.warps / 4 * self.shape.fragments / self.shape.halves
    }

    /// A block's queries.
    pub fn queries(&self) -> TileShape {
        TileShape::new(ROWS, self.units(self.key_dim))
    }

    /// The keys of a KV tile, with room for all parts of the values that they are.
    pub fn keys(&self) -> TileShape {
        let values = if self.shared_kv { self.parts() * self.columns() } else { 0 };
        TileShape::new(self.shape.tile, self.units(self.key_dim.max(values)))
    }

    /// A tile of the values that a CTA accumulates.
    pub fn values(&self) -> TileShape {
        TileShape::new(self.shape.tile, self.units(self.shape.halves * self.columns()))
    }

    /// Warps or CTAs among which the value columns of a row are shared out.
    pub fn parts(&self) -> u32 {
        self.slices * self.shape.halves
    }

    /// Value columns that a warp accumulates: whole panels, where they are shared out.
    pub fn columns(&self) -> u32 {
        match self.parts() {
            1 => self.value_dim,
            parts => self.value_dim.div_ceil(parts).next_multiple_of(CHUNK),
        }
    }

    /// Output registers of a thread and fragment, two columns of a row each: of whole panels where they are f32.
    pub fn out_registers(&self) -> usize {
        let columns = match self.precision {
            Precision::Half(_) => self.columns(),
            Precision::Single => self.columns().next_multiple_of(single::PANEL),
        };
        columns as usize / 2
    }

    /// Whether queries stay in registers while keys come by.
    pub fn holds_queries(&self) -> bool {
        let alone = self.shape.halves == 1 && self.precision != Precision::Single;
        self.passes_queries() || (alone && self.held_columns() <= MOST_HELD_COLUMNS)
    }

    /// Whether queries come to where KV tiles go behind them.
    pub fn passes_queries(&self) -> bool {
        matches!(self.query_place, QueryPlace::Passed(_))
    }

    /// Whether addresses, and which work tile it is, wait in shared memory between tiles. It costs 5 % at head dim 256,
    /// where registers have room for them. Beside scores that two warps add up, or windows, they have not.
    pub fn parks(&self) -> bool {
        self.passes_queries() && (self.shape.halves > 1 || self.windowed)
    }

    /// Columns of queries that a warp multiplies, of all its fragments.
    fn held_columns(&self) -> u32 {
        self.query_steps() * STEP * self.shape.fragments
    }

    /// Products of 16 columns that make a score in a warp, in the first of two halves.
    pub fn query_steps(&self) -> u32 {
        match self.shape.halves {
            1 => self.key_dim.div_ceil(STEP),
            _ => self.key_panels() * (CHUNK / STEP),
        }
    }

    /// Whether warps may still read queries of a work tile when others begin the next one, or its next segment. Elsewhere
    /// there was a barrier behind the last scores, or queries were in registers; and buffers of keys and values that are
    /// filled first are those that were read first.
    pub fn waits_for_queries(&self) -> bool {
        let in_shared = !self.holds_queries() && self.query_place == QueryPlace::Tiles;
        self.shared_kv && in_shared
    }

    /// Whether one launch takes several segments: unless their values have factors, which finished rows are multiplied
    /// by.
    pub fn takes_segments(&self) -> bool {
        self.e4m3.is_none()
    }

    /// Whether some warps never have rows: those of a block that is not full.
    pub fn has_idle_warps(&self) -> bool {
        self.rows <= ROWS - 16
    }

    /// How a CTA's tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            packing: self.packing,
            group: self.group,
            blocks: self.blocks(),
            cluster: 1,
            tile: self.shape.tile,
            copied_rows: self.shape.tile,
            whole_queries: false,
            slices: self.slices,
            panel: Panel::Swizzled,
            gathers: false,
            raw: false,
            finds_rows: true,
        }
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.shape.warps * 32
    }
}
