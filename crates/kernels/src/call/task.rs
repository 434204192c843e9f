//! What a launch is about (segments of a problem, and where their results go), and its parameters
//! in a kernel.

use crate::call::descale::Factors;
use crate::call::index::{QueryToken, RowBlockIndex, SliceIndex, SplitIndex};
use crate::call::memory::Memory;
use crate::call::precision::Precision;
use crate::call::rows::{Block, Packing};
use crate::call::sequence::{Lengths, Sequence};
use crate::call::tensors::{self, Panel, QueryBox};
use crate::call::visible::{Bounds, TileRange, Visible};
use crate::math::bias::MaskTensor;
use crate::math::exact::{self, Finite, SegmentRows, Watch};
use crate::math::softmax::Softmax;
use crate::moves::gather::{self, Elements, Mapped, Packed, Scattered};
use crate::work::exchange::{Exchange, Part};
use crate::work::order::{Tile, TileList, TileOrder};
use crate::work::shares::{Lead, Shares, SharesOf};
use crate::work::stamps::Stamps;
use problem::{Problem, SegmentSlot, Slot, Storage, Values, View};
use program::BufferId;
use program::build::{Arguments, Divisor};
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, TensorMapParam};

/// Where finished rows go.
#[derive(Clone, Copy, Debug)]
pub enum Destination {
    /// The output, and the LSE where it is asked for.
    Output,
    /// Partial results of one of several parts, to be combined: buffers of f32 rows and LSEs, and the
    /// number of parts written before this launch.
    Partial {
        /// f32 `[part, row, value dim]`.
        rows: BufferId,
        /// f32 `[part, row]`.
        lse: BufferId,
        /// Sums of exponentials, f32 `[part, row]`; `lse` then has what they are relative to. Beside a mask tensor,
        /// where all scores of a row may be so low that the logarithm of a sum is lost beside them.
        sums: Option<BufferId>,
        /// Index of this launch's first part.
        first: u32,
    },
}

/// How work is shared out.
#[derive(Clone, Copy, Debug)]
pub enum Sharing {
    /// By a list that the host knows.
    List(TileList),
    /// By lengths on the device.
    Shares(SharesOf),
}

impl Sharing {
    /// Parts into which the keys of every tile are split, each with results of its own.
    pub fn splits(&self) -> u32 {
        match self {
            Sharing::List(list) => list.splits,
            Sharing::Shares(_) => 1,
        }
    }
}

/// How work is shared out, in a kernel.
pub enum Order {
    /// By a list.
    List(TileOrder),
    /// By lengths on the device.
    Shares(Shares),
}

/// What a launch is about: segments of a problem, and where their results go.
pub struct Task<'p> {
    /// The problem.
    pub problem: &'p Problem,
    /// Segments, under one softmax.
    pub segments: Vec<u8>,
    /// Where results go.
    pub destination: Destination,
    /// How its work is shared out.
    pub sharing: Sharing,
    /// KV tiles per part, of each segment.
    pub tiles_per_split: Vec<u32>,
    /// Parts that a cluster merges: neighbours in it have the same part.
    pub merged_parts: u32,
    /// How it overlaps the launches around it.
    pub overlap: Overlap,
    /// Where warps leave the times at which they begin and end, if that is asked for.
    pub stamps: Option<BufferId>,
}

/// How a launch overlaps the one before it and the one behind it.
///
/// Launches of a call touch nothing of each other and run side by side: who comes later need not wait
/// before it begins if the first one let it start only when it had waited itself. It waits before it ends,
/// so that who waits for it has waited for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Lets the next one start at once, which waits.
    Early,
    /// Lets the next one start when everything before this one has ended.
    Late,
    /// Begins beside a launch of the same call that let it start late.
    Beside,
}

/// How a CTA's tile covers queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    /// How queries fill a row block.
    pub packing: Packing,
    /// Query heads per KV head.
    pub group: u32,
    /// Row blocks per tile.
    pub blocks: u32,
    /// CTAs that work on a tile together.
    pub cluster: u32,
    /// Keys per tile.
    pub tile: u32,
    /// Rows of a tile that one copy brings at most.
    pub copied_rows: u32,
    /// Whether one copy brings all queries of a block where it can.
    pub whole_queries: bool,
    /// CTAs that share the value columns of a row block.
    pub slices: u32,
    /// How tensor copies arrange rows in shared memory.
    pub panel: Panel,
    /// Whether threads copy keys and values, not tensor copies.
    pub gathers: bool,
    /// Whether tensor copies bring the bytes of packed rows.
    pub raw: bool,
    /// Whether threads copy queries, keys and values, and find their rows one by one.
    pub finds_rows: bool,
}

impl Tiling {
    /// Tiles of one KV head of a sequence of `q_len` queries.
    #[track_caller]
    pub fn tiles(&self, b: &mut Builder, q_len: Reg<u32>) -> Reg<u32> {
        let tokens = self.packing.tokens;
        let mut blocks = b.eval((q_len + (tokens - 1)) / tokens);
        let head_blocks = self.packing.head_blocks(self.group);
        if head_blocks > 1 {
            blocks = b.eval(blocks * head_blocks);
        }
        let tiles = b.eval((blocks + (self.blocks - 1)) / self.blocks);
        if self.slices > 1 { b.eval(tiles * self.slices) } else { tiles }
    }
}

/// Parameters, in registers.
pub struct Params {
    /// The map of queries, where tensor copies bring them.
    pub tma_q: Option<TensorMapParam>,
    /// Keys and values of each segment.
    pub segments: Vec<Keys>,
    pub order: Order,
    pub softmax: Softmax,
    /// This CTA's split of the keys, where the cluster merges splits.
    pub part: Option<SplitIndex>,
    pub output: Output,
    pub sinks: Option<GlobalPtr>,
    pub tiling: Tiling,
    /// Columns of a whole value row.
    pub value_dim: u32,
    /// What one copy of queries brings.
    pub query_box: QueryBox,
    /// How it overlaps the launches around it.
    pub overlap: Overlap,
    /// Queries, row by row.
    pub exact_queries: exact::Tensor,
    watch: Option<Watch>,
    stamps: Option<Stamps>,
    /// Element type.
    pub precision: Precision,
}

/// Keys and values of a segment.
pub struct Keys {
    pub k: Source,
    /// Values, where they are copied apart from keys.
    pub v: Option<Source>,
    pub page_table: Option<PageTable>,
    /// Lists of keys, where each token has its own.
    pub lists: Option<Lists>,
    pub lengths: Lengths,
    pub visible: Visible,
    /// What is added to scores.
    pub attn_mask: Option<MaskTensor>,
    /// Tiles of a part, where there are several.
    pub tiles_per_split: Option<Reg<u32>>,
    /// How tensor copies arrange rows in shared memory.
    pub panel: Panel,
    /// Rows one copy brings.
    pub rows_per_copy: u32,
    /// Whether rows past a sequence's end may hold anything, and are zeroed. Behind a packed sequence lies the next one:
    /// its rows are numbers, and where they are not, [`exact`] computes what they spoil.
    pub dirty_tail: bool,
    /// Keys and values, row by row.
    pub exact: exact::Rows,
    /// Factors on keys, and on values, where they are e4m3.
    pub descales: [Option<Factors>; 2],
}

/// How rows of keys or values are copied.
#[derive(Clone, Copy)]
pub enum Source {
    /// By tensor copies.
    Boxes(TensorMapParam),
    /// By threads.
    Scattered(Scattered),
    /// By threads that find them as [`Keys::exact`] does.
    Rows,
}

impl Source {
    /// The map of tensor copies.
    pub fn map(self) -> TensorMapParam {
        self.boxes().expect("tensor copies")
    }

    fn boxes(self) -> Option<TensorMapParam> {
        match self {
            Source::Boxes(map) => Some(map),
            Source::Scattered(_) | Source::Rows => None,
        }
    }

    /// The tensor that threads copy.
    pub fn scattered(self) -> Scattered {
        match self {
            Source::Boxes(_) => panic!("rows come by tensor copies"),
            Source::Rows => panic!("rows are found one by one"),
            Source::Scattered(rows) => rows,
        }
    }
}

/// Where a sequence's pages are.
#[derive(Clone, Copy)]
pub struct PageTable {
    pub table: GlobalPtr,
    pub pages_per_sequence: Reg<u32>,
    /// Pages of all sequences: an entry that is no number of them names no page.
    pub pages: Reg<u32>,
    pub page_rows: Divisor,
}

/// Lists of keys: one per query token, in the order of `q`.
#[derive(Clone, Copy)]
pub struct Lists {
    pub entries: GlobalPtr,
    /// Bytes of a list.
    pub bytes: Reg<u32>,
    /// Tokens of `q`'s view.
    pub tokens: Reg<u32>,
    /// Rows that an entry can name: any other entry names none.
    pub rows: Reg<u32>,
    /// Rows of a page, where an entry counts rows of all pages.
    pub page_rows: Option<Divisor>,
}

/// Addresses of results.
pub struct Output {
    /// Output rows with byte strides of batch, head and token; `None` where results are partial.
    pub rows: Option<(GlobalPtr, [Reg<u64>; 3])>,
    /// Partial rows.
    pub partial: Option<GlobalPtr>,
    /// LSE rows.
    pub lse: Option<GlobalPtr>,
    /// Sums of exponentials, where `lse` has what they are relative to.
    pub sums: Option<GlobalPtr>,
    /// Query heads and tokens of the views, for row numbers.
    pub heads: Reg<u32>,
    pub tokens: Reg<u32>,
    /// Rows of one part.
    pub rows_per_part: Option<Reg<u32>>,
}

/// A CTA's tile, opened: its sequence, the keys of one segment that it visits.
#[derive(Clone, Copy)]
pub struct OpenTile {
    pub tile: Tile,
    pub sequence: Sequence,
    pub bounds: Bounds,
    pub range: TileRange,
    /// Number of the first row block.
    pub first_block: RowBlockIndex,
    /// Which slice of the value columns, where they are shared out.
    pub slice: Option<SliceIndex>,
    /// Which part of a work tile it is, where work tiles are cut.
    pub part: Option<Part>,
}

impl OpenTile {
    /// Runs `body` unless another CTA finishes the work tile of which this is a part.
    #[track_caller]
    pub fn if_finished_here(&self, b: &mut Builder, body: impl FnOnce(&mut Builder)) {
        match &self.part {
            None => body(b),
            Some(part) => {
                let finishes = b.not(part.gives);
                b.if_(finishes, body);
            }
        }
    }
}

impl Params {
    /// Declares the parameters of `task`; values are copied apart from keys if `values_apart`.
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        tiling: Tiling,
        task: &Task<'_>,
        memory: &Memory,
        values_apart: bool,
    ) -> Params {
        let problem = task.problem;
        let query_box = QueryBox::choose(problem, &tiling);
        let tma_q = (!tiling.finds_rows).then(|| {
            let q = tensors::queries(problem, memory.slot(Slot::Q), &tiling, query_box);
            args.tensor_map(b, "tma_q", q)
        });
        let segments = task.segments.iter().enumerate().map(|(index, &n)| {
            args.name_with(if index == 0 { String::new() } else { format!("_{}", index + 1) });
            let split = task.sharing.splits() * task.merged_parts > 1;
            let tiles_per_split = split.then_some(task.tiles_per_split[index]);
            Keys::declare(b, args, &tiling, (problem, n), memory, values_apart, tiles_per_split)
        });
        let segments: Vec<Keys> = segments.collect();
        args.name_with("");
        let descaled = segments[0].descales[0].is_some();
        Params {
            tma_q,
            segments,
            order: match &task.sharing {
                Sharing::List(list) => {
                    Order::List(TileOrder::declare(b, args, list, tiling.cluster))
                }
                Sharing::Shares(of) => Order::Shares(Shares::declare(b, args, of, tiling.cluster)),
            },
            softmax: Softmax::declare(b, args, problem).descaled(b, descaled),
            part: (task.merged_parts > 1).then(|| {
                let rank = b.special("%cluster_ctarank");
                SplitIndex::new(b.eval(rank / (tiling.cluster / task.merged_parts)))
            }),
            output: Output::declare(b, args, task, memory),
            sinks: (problem.sinks && matches!(task.destination, Destination::Output))
                .then(|| args.pointer(b, "sinks", memory.slot(Slot::Sinks))),
            tiling,
            value_dim: problem.value_dim() as u32,
            query_box,
            overlap: task.overlap,
            exact_queries: exact::Tensor::declare(b, args, "q", &problem.q, memory.slot(Slot::Q)),
            watch: None,
            stamps: task.stamps.map(|buffer| Stamps::declare(b, args, buffer)),
            precision: Precision::of(problem),
        }
    }

    /// The keys of the first segment: the only one but for kernels that take two.
    pub fn keys(&self) -> &Keys {
        &self.segments[0]
    }

    /// Loads the factor on the keys of a tile, where there is one, for all raw scores from here on.
    #[track_caller]
    pub fn load_descale(&self, b: &mut Builder, open: &OpenTile) {
        if let ([Some(factors), _], Some(factor)) = (self.keys().descales, self.softmax.descale) {
            let loaded = factors.load(b, open.tile.sequence, open.tile.kv_head);
            b.assign(factor, loaded);
        }
    }

    /// Fetches the tensor maps into their cache (one thread).
    #[track_caller]
    pub fn prefetch_maps(&self, b: &mut Builder) {
        self.tma_q.iter().for_each(|map| b.prefetch_tensor_map(*map));
        for keys in &self.segments {
            let sources = [Some(keys.k), keys.v].into_iter().flatten();
            sources.filter_map(Source::boxes).for_each(|map| b.prefetch_tensor_map(map));
        }
    }

    /// Reserves words of shared memory for what is noted of written rows, instead of registers.
    pub fn reserve_watch(&mut self, b: &mut Builder) {
        self.watch = Some(Watch::reserve(b));
    }

    /// Reserves the shared memory that sharing out work takes.
    pub fn reserve_shares(&mut self, b: &mut Builder) {
        if let Order::Shares(shares) = &mut self.order {
            shares.reserve(b);
        }
    }

    /// Waits for the threads of the CTA, or of all CTAs of its cluster. Where work is shared out by lengths, those
    /// of a CTA find its share together.
    pub fn share_out(&self, b: &mut Builder) {
        let clustered = self.tiling.cluster > 1;
        match &self.order {
            Order::List(_) if clustered => b.cluster_barrier(),
            Order::List(_) => b.barrier_all(),
            Order::Shares(shares) => {
                if clustered {
                    b.cluster_barrier();
                }
                shares.prefetch(b, self);
                self.begin(b);
                shares.find(b, self);
            }
        }
    }

    /// Where a warp that writes rows takes note of those that are not finite; the warp begins.
    #[track_caller]
    pub fn watch(&self, b: &mut Builder) -> Watch {
        if let Some(stamps) = &self.stamps {
            stamps.begin(b);
        }
        match self.watch {
            Some(words) => words.begin(b),
            None => Watch::Register(Finite::new(b)),
        }
    }

    /// Whether work tiles are cut.
    pub fn cuts(&self) -> bool {
        matches!(&self.order, Order::Shares(shares) if shares.exchange().is_some())
    }

    /// How a tile's part of a work tile is exchanged, where work tiles are cut.
    pub fn exchange<'a>(&'a self, open: &'a OpenTile) -> Option<(&'a Exchange, &'a Part)> {
        let Order::Shares(shares) = &self.order else { return None };
        shares.exchange().zip(open.part.as_ref())
    }

    /// Lets the next grid start and waits for those before, in the order of `overlap`.
    #[track_caller]
    fn begin(&self, b: &mut Builder) {
        match self.overlap {
            Overlap::Early => {
                b.launch_next_grid();
                b.wait_previous_grid();
            }
            Overlap::Late => {
                b.wait_previous_grid();
                b.launch_next_grid();
            }
            Overlap::Beside => b.launch_next_grid(),
        }
    }

    /// Runs `body` for each tile of this CTA that has queries, once the grids before this call's have
    /// ended. What comes before touches no memory of the problem, and overlaps their tail.
    #[track_caller]
    pub fn for_each_tile(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, OpenTile)) {
        self.visit_tiles(b, Lead::Follows, body);
    }

    /// The same in the role that has the CTA's first thread, where that one takes work for all.
    #[track_caller]
    pub fn lead_tiles(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, OpenTile)) {
        self.visit_tiles(b, Lead::Leads, body);
    }

    #[track_caller]
    fn visit_tiles(&self, b: &mut Builder, lead: Lead, body: impl FnOnce(&mut Builder, OpenTile)) {
        match &self.order {
            Order::Shares(shares) => shares.for_each(b, self, lead, body),
            Order::List(order) => {
                self.begin(b);
                self.for_each_open(b, order, body);
                if self.overlap == Overlap::Beside {
                    b.wait_previous_grid();
                }
            }
        }
    }

    /// Takes note that a warp has written all its rows.
    #[track_caller]
    pub fn end(&self, b: &mut Builder) {
        if let Some(stamps) = &self.stamps {
            stamps.end(b);
        }
    }

    /// Runs `body` once more for each tile, when the warp is done with all of them.
    #[track_caller]
    pub fn revisit_tiles(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, OpenTile)) {
        match &self.order {
            Order::Shares(shares) => shares.for_each(b, self, Lead::Follows, body),
            Order::List(order) => self.for_each_open(b, order, body),
        }
    }

    #[track_caller]
    fn for_each_open(
        &self,
        b: &mut Builder,
        order: &TileOrder,
        body: impl FnOnce(&mut Builder, OpenTile),
    ) {
        order.for_each(b, |b, tile| {
            let sequence = self.keys().lengths.sequence(b, tile.sequence);
            let (first_block, slice) = self.first_block(b, tile);
            let block = Block::at(b, self.tiling.packing, self.tiling.group, first_block);
            let live = b.setp(Cmp::Lt, block.token.reg(), sequence.q_len);
            b.if_(live, |b| {
                let open = self.open(b, self.keys(), sequence, tile, first_block, slice);
                body(b, open);
            });
        });
    }

    /// A tile that has queries, over the keys of the first segment.
    #[track_caller]
    pub fn open_work_tile(&self, b: &mut Builder, sequence: Sequence, tile: Tile) -> OpenTile {
        let (first_block, slice) = self.first_block(b, tile);
        self.open(b, self.keys(), sequence, tile, first_block, slice)
    }

    /// The first row block of a tile, and its slice of the value columns.
    #[track_caller]
    fn first_block(&self, b: &mut Builder, tile: Tile) -> (RowBlockIndex, Option<SliceIndex>) {
        let Tiling { blocks, slices, .. } = self.tiling;
        let index = tile.index.reg();
        let (index, slice) = match slices {
            1 => (index, None),
            _ => (b.eval(index / slices), Some(SliceIndex::new(b.eval(index % slices)))),
        };
        (RowBlockIndex::new(b.eval(index * blocks)), slice)
    }

    /// Runs `body` with a tile over each of the segments in turn; it has been opened over the first one.
    #[track_caller]
    pub fn for_each_segment(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        mut body: impl FnMut(&mut Builder, usize, &OpenTile),
    ) {
        body(b, 0, open);
        for (n, keys) in self.segments.iter().enumerate().skip(1) {
            let OpenTile { tile, first_block, slice, .. } = *open;
            let sequence = keys.lengths.sequence(b, tile.sequence);
            let other = self.open(b, keys, sequence, tile, first_block, slice);
            body(b, n, &other);
        }
    }

    /// A tile over each of the segments; it has been opened over the first one.
    #[track_caller]
    pub fn open_segments(&self, b: &mut Builder, open: &OpenTile) -> Vec<OpenTile> {
        let mut opened = Vec::new();
        self.for_each_segment(b, open, |_, _, open| opened.push(*open));
        opened
    }

    /// The number of KV tiles in all segments.
    #[track_caller]
    pub fn count_tiles(&self, b: &mut Builder, open: &OpenTile) -> Reg<i32> {
        let mut sum = None;
        self.for_each_segment(b, open, |b, _, open| {
            let tiles = open.range.count(b);
            let tiles = b.eval(tiles.max(0));
            sum = Some(sum.map_or(tiles, |sum| b.eval(sum + tiles)));
        });
        sum.expect("a segment")
    }

    #[track_caller]
    fn open(
        &self,
        b: &mut Builder,
        keys: &Keys,
        sequence: Sequence,
        tile: Tile,
        first_block: RowBlockIndex,
        slice: Option<SliceIndex>,
    ) -> OpenTile {
        let Tiling { packing, group, blocks, .. } = self.tiling;
        let block = Block::at(b, packing, group, first_block);
        let last_block = first_block.plus(b, blocks - 1);
        let last = Block::at(b, packing, group, last_block).last_token(b);
        let last = QueryToken::new(b.eval(last.reg().min(sequence.q_len - 1)));
        let mut bounds = keys.visible.bounds(b, &sequence, tile.sequence);
        let mut sequence = sequence;
        if self.begins_at_window(keys) {
            let (first, end, own) = bounds.of_one(b, block.token);
            sequence = sequence.of_keys(b, first, end, keys.page_table.is_some());
            bounds = own;
        }
        let mut range = bounds.tiles(b, block.token, last);
        if let Some(per_split) = keys.tiles_per_split {
            range = range.part(b, self.part.unwrap_or(tile.split), per_split);
        }
        OpenTile { tile, sequence, bounds, range, first_block, slice, part: None }
    }

    /// Whether the keys of a KV tile that its one token sees are those that are there: they are listed, or the tile has
    /// no others.
    pub fn tiles_are_marked(&self) -> bool {
        let marked = |keys: &Keys| keys.lists.is_some() || self.begins_at_window(keys);
        self.segments.iter().all(|keys| keys.attn_mask.is_none() && marked(keys))
    }

    /// Whether the first KV tile begins with the first key that is seen, and not at a multiple of a tile: the work tile
    /// is one token's, and its rows are looked up one by one. A window of two tiles would lie in three otherwise.
    fn begins_at_window(&self, keys: &Keys) -> bool {
        let Tiling { packing, group, blocks, gathers, finds_rows, .. } = self.tiling;
        let one_token = packing.tokens == 1 && packing.head_blocks(group).is_multiple_of(blocks);
        let listed = matches!(self.order, Order::List(_)) && gathers && !finds_rows;
        one_token && listed && keys.visible.has_left() && keys.attn_mask.is_none()
    }
}

impl Keys {
    fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        tiling: &Tiling,
        (problem, n): (&Problem, u8),
        memory: &Memory,
        values_apart: bool,
        tiles_per_split: Option<u32>,
    ) -> Keys {
        let segment = &problem.segments[n as usize];
        let part = |p| memory.slot(Slot::Segment(n, p));
        let Tiling { tile, panel, .. } = *tiling;
        let rows_per_copy = tensors::rows_per_copy(segment, tiling.copied_rows);
        let mapped = b.target().gathers_rows() && !tiling.finds_rows && gather::mapped(segment);
        let mut source = |b: &mut Builder, name: &str, view: &View, buffer| {
            let gathered = match segment.storage {
                Storage::Elements if mapped => {
                    Some(Scattered::Mapped(Mapped::declare(b, args, name, view, buffer)))
                }
                Storage::Elements if tiling.gathers => {
                    Some(Scattered::Elements(Elements::declare(b, args, name, view, buffer)))
                }
                Storage::Elements => None,
                _ => {
                    let rows = Packed::declare(b, args, segment, buffer);
                    Some(Scattered::Packed(match tiling.raw {
                        true => rows.mapped(b, args, segment, buffer),
                        false => rows,
                    }))
                }
            };
            if let Some(rows) = gathered {
                return Source::Scattered(rows);
            }
            if tiling.finds_rows {
                return Source::Rows;
            }
            let map = tensors::rows(view, buffer, rows_per_copy, panel);
            Source::Boxes(args.tensor_map(b, &format!("tma_{name}"), map))
        };
        let k = source(b, "k", &segment.k, part(SegmentSlot::K));
        let values = match segment.values {
            Values::Separate(_) => part(SegmentSlot::V),
            Values::SameAsKeys { .. } => part(SegmentSlot::K),
        };
        let v = values_apart.then(|| match k {
            Source::Scattered(Scattered::Packed(_)) => k,
            _ => source(b, "v", &segment.value_view(), values),
        });
        let exact = match k {
            Source::Scattered(Scattered::Packed(rows)) => exact::Rows::Packed(rows),
            _ => {
                let mut tensor = |name: &str, view: &View, buffer| {
                    exact::Tensor::declare(b, args, name, view, buffer)
                };
                let k = tensor("k", &segment.k, part(SegmentSlot::K));
                exact::Rows::Elements(k, tensor("v", &segment.value_view(), values))
            }
        };
        Keys {
            k,
            v,
            page_table: segment.paging.filter(|_| segment.reads_page_table()).map(|paging| {
                PageTable {
                    table: args.pointer(b, "page_table", part(SegmentSlot::PageTable)),
                    pages_per_sequence: args.u32(b, "pages", paging.pages_per_sequence as u32),
                    pages: args.u32(b, "all_pages", segment.k.batch() as u32),
                    page_rows: Divisor::declare(b, args, "page_rows", segment.k.tokens() as u32),
                }
            }),
            lists: segment.indices.map(|list| Lists {
                entries: args.pointer(b, "indices", part(SegmentSlot::Indices)),
                bytes: args.u32(b, "list_bytes", list.pitch as u32 * 4),
                tokens: args.u32(b, "list_tokens", problem.q.tokens() as u32),
                rows: args.u32(b, "listed_rows", segment.listed_rows().min(1 << 31) as u32),
                page_rows: segment
                    .paging
                    .map(|_| Divisor::declare(b, args, "page_rows", segment.k.tokens() as u32)),
            }),
            lengths: Lengths::declare(b, args, memory, problem, n),
            visible: Visible::declare(b, args, memory, problem, n, tile),
            attn_mask: segment
                .attn_mask
                .map(|mask| MaskTensor::declare(b, args, &mask, part(SegmentSlot::AttnMask))),
            tiles_per_split: tiles_per_split.map(|tiles| args.u32(b, "tiles_per_split", tiles)),
            panel,
            rows_per_copy,
            dirty_tail: segment.paging.is_some() || segment.lengths.used,
            exact,
            descales: [
                ("k_descale", segment.k_descale, SegmentSlot::KDescale),
                ("v_descale", segment.v_descale, SegmentSlot::VDescale),
            ]
            .map(|(name, descale, slot)| {
                let of = descale.map(|descale| (problem, descale));
                of.map(|of| Factors::declare(b, args, name, of, part(slot)))
            }),
        }
    }

    /// The rows of the segment, to be found by key.
    pub fn exact_rows(&self, precision: Precision) -> SegmentRows<'_> {
        SegmentRows { keys: self, precision }
    }
}

impl Output {
    fn declare(b: &mut Builder, args: &mut Arguments, task: &Task<'_>, memory: &Memory) -> Output {
        let problem = task.problem;
        let heads = args.u32(b, "heads", problem.q.heads() as u32);
        let tokens = args.u32(b, "tokens", problem.q.tokens() as u32);
        let rows = problem.lse_len() as u32;
        match task.destination {
            Destination::Output => {
                let out = args.pointer(b, "out", memory.slot(Slot::Out));
                let strides = [0, 1, 2]
                    .map(|d| args.u64(b, &format!("out_stride{d}"), problem.out.step_bytes(d)));
                let lse =
                    problem.return_lse.then(|| args.pointer(b, "lse", memory.slot(Slot::Lse)));
                let rows = Some((out, strides));
                Output { rows, partial: None, lse, sums: None, heads, tokens, rows_per_part: None }
            }
            Destination::Partial { rows: buffer, lse, sums, first } => {
                let skipped = first as u64 * rows as u64;
                let partial =
                    args.pointer_at(b, "partial", buffer, skipped * problem.value_dim() * 4);
                let lse = args.pointer_at(b, "partial_lse", lse, skipped * 4);
                let rows_per_part = Some(args.u32(b, "rows_per_part", rows));
                let sums = sums.map(|sums| args.pointer_at(b, "partial_sums", sums, skipped * 4));
                let (partial, lse) = (Some(partial), Some(lse));
                Output { rows: None, partial, lse, sums, heads, tokens, rows_per_part }
            }
        }
    }
}
