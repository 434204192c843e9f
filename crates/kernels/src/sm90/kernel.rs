//! The kernel's frame: parameters, shared memory, barriers, roles.

use super::config::Config;
use super::{consumer, producer};
use crate::arguments::{Arguments, Memory};
use crate::order::{Tile, TileList, TileOrder};
use crate::rows::Block;
use crate::sequence::{Lengths, Sequence};
use crate::softmax::Softmax;
use crate::tensors;
use crate::visible::{Bounds, TileRange, Visible};
use problem::{Problem, SegmentSlot, Slot, Values};
use program::{Argument, BufferId};
use ptx::build::{
    Builder, Cmp, GlobalPtr, Kernel, Mbarrier, Pipeline, Reg, SmemPtr, Target, TensorMapParam,
};

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
        /// Index of this launch's first part.
        first: u32,
    },
}

/// What a launch is about: one segment of a problem, and where its results go.
pub struct Task<'p> {
    /// The problem.
    pub problem: &'p Problem,
    /// Segment.
    pub segment: u8,
    /// Where results go.
    pub destination: Destination,
    /// Work list.
    pub list: TileList,
    /// Tiles of keys per part.
    pub tiles_per_split: u32,
}

/// Parameters, in registers.
pub struct Params {
    pub tma_q: TensorMapParam,
    pub tma_k: TensorMapParam,
    pub tma_v: Option<TensorMapParam>,
    pub page_table: Option<PageTable>,
    pub order: TileOrder,
    pub lengths: Lengths,
    pub visible: Visible,
    pub softmax: Softmax,
    pub tiles_per_split: Option<Reg<u32>>,
    pub output: Output,
    pub sinks: Option<GlobalPtr>,
}

/// Where a sequence's pages are.
#[derive(Clone, Copy)]
pub struct PageTable {
    pub table: GlobalPtr,
    pub pages_per_sequence: Reg<u32>,
    pub page_rows: Reg<u32>,
}

/// Addresses of results.
pub struct Output {
    /// Output rows with byte strides of batch, head and token; `None` where results are partial.
    pub rows: Option<(GlobalPtr, [Reg<u64>; 3])>,
    /// Partial rows.
    pub partial: Option<GlobalPtr>,
    /// LSE rows.
    pub lse: Option<GlobalPtr>,
    /// Query heads and tokens of the views, for row numbers.
    pub heads: Reg<u32>,
    pub tokens: Reg<u32>,
    /// Rows of one part.
    pub rows_per_part: Option<Reg<u32>>,
}

/// Shared memory.
pub struct Shared {
    pub q: SmemPtr,
    pub k: SmemPtr,
    pub v: SmemPtr,
    pub q_ring: Pipeline,
    pub k_ring: Pipeline,
    pub v_ring: Pipeline,
    /// Counts a tile of values whose tail must be cleared before it is published.
    pub tail: Mbarrier,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
    /// Copies that bring one panel of keys.
    pub rows_per_copy: u32,
    /// Whether rows past a sequence's end may hold anything.
    pub dirty_tail: bool,
}

/// A CTA's tile, opened: its sequence, the keys it visits.
pub struct OpenTile {
    pub tile: Tile,
    pub sequence: Sequence,
    pub bounds: Bounds,
    pub range: TileRange,
    /// Number of the first warpgroup's block.
    pub first_block: Reg<u32>,
}

/// Emits the kernel `name` and its arguments.
pub fn emit(
    name: &str,
    config: Config,
    task: &Task<'_>,
    memory: &Memory,
) -> (Kernel, Vec<Argument>) {
    let mut b = Builder::new(name, Target::Sm90a);
    b.directive("maxntid", &[config.threads() as u64, 1, 1]);
    b.directive("minnctapersm", &[1]);
    let mut args = Arguments::default();
    let params = declare(&mut b, &mut args, &config, task, memory);
    let segment = &task.problem.segments[task.segment as usize];
    let shared = reserve(&mut b, &config);
    let frame = Frame {
        config,
        params,
        shared,
        rows_per_copy: tensors::rows_per_copy(segment, config.tile),
        dirty_tail: segment.paging.is_some()
            || segment.lengths.used
            || segment.lengths.packed.is_some(),
    };
    frame.emit(&mut b);
    (b.finish(), args.into_values())
}

fn declare(
    b: &mut Builder,
    args: &mut Arguments,
    config: &Config,
    task: &Task<'_>,
    memory: &Memory,
) -> Params {
    let (problem, n) = (task.problem, task.segment);
    let segment = &problem.segments[n as usize];
    let part = |p| memory.slot(Slot::Segment(n, p));
    let copy = tensors::rows_per_copy(segment, config.tile);
    let q = tensors::queries(problem, memory.slot(Slot::Q), config.packing);
    let k = tensors::rows(&segment.k, part(SegmentSlot::K), copy);
    let tma_v = match segment.values {
        Values::Separate(v) => {
            let map = tensors::rows(&v, part(SegmentSlot::V), copy);
            Some(args.tensor_map(b, "tma_v", map))
        }
        Values::SameAsKeys { .. } => None,
    };
    Params {
        tma_q: args.tensor_map(b, "tma_q", q),
        tma_k: args.tensor_map(b, "tma_k", k),
        tma_v,
        page_table: segment.paging.map(|paging| PageTable {
            table: args.pointer(b, "page_table", part(SegmentSlot::PageTable)),
            pages_per_sequence: args.u32(b, "pages", paging.pages_per_sequence as u32),
            page_rows: args.u32(b, "page_rows", segment.k.tokens() as u32),
        }),
        order: TileOrder::declare(b, args, &task.list, 1),
        lengths: Lengths::declare(b, args, memory, problem, n),
        visible: Visible::declare(b, args, memory, problem, n, config.tile),
        softmax: Softmax::declare(b, args, problem),
        tiles_per_split: (task.list.splits > 1)
            .then(|| args.u32(b, "tiles_per_split", task.tiles_per_split)),
        output: declare_output(b, args, task, memory),
        sinks: (problem.sinks && matches!(task.destination, Destination::Output))
            .then(|| args.pointer(b, "sinks", memory.slot(Slot::Sinks))),
    }
}

fn declare_output(
    b: &mut Builder,
    args: &mut Arguments,
    task: &Task<'_>,
    memory: &Memory,
) -> Output {
    let problem = task.problem;
    let heads = args.u32(b, "heads", problem.q.heads() as u32);
    let tokens = args.u32(b, "tokens", problem.q.tokens() as u32);
    let rows = problem.lse_len() as u32;
    match task.destination {
        Destination::Output => {
            let out = args.pointer(b, "out", memory.slot(Slot::Out));
            let bytes = problem.out.dtype.bytes();
            let strides = [0, 1, 2]
                .map(|d| args.u64(b, &format!("out_stride{d}"), problem.out.strides[d] * bytes));
            let lse = problem.return_lse.then(|| args.pointer(b, "lse", memory.slot(Slot::Lse)));
            let rows = Some((out, strides));
            Output { rows, partial: None, lse, heads, tokens, rows_per_part: None }
        }
        Destination::Partial { rows: buffer, lse, first } => {
            let skipped = first as u64 * rows as u64;
            let partial = args.pointer_at(b, "partial", buffer, skipped * problem.value_dim() * 4);
            let lse = args.pointer_at(b, "partial_lse", lse, skipped * 4);
            let rows_per_part = Some(args.u32(b, "rows_per_part", rows));
            let (partial, lse) = (Some(partial), Some(lse));
            Output { rows: None, partial, lse, heads, tokens, rows_per_part }
        }
    }
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    let q_bytes = config.q_stages * config.warpgroups * config.queries().bytes();
    let q = base.plus(b.reserve_shared(q_bytes, 1024));
    let k = base.plus(b.reserve_shared(config.stages * config.keys().bytes(), 1024));
    let v = if config.shared_kv {
        k
    } else {
        base.plus(b.reserve_shared(config.stages * config.values().bytes(), 1024))
    };
    Shared {
        q,
        k,
        v,
        q_ring: Pipeline::reserve(b, base, config.q_stages),
        k_ring: Pipeline::reserve(b, base, config.stages),
        v_ring: Pipeline::reserve(b, base, config.stages),
        tail: Mbarrier(base.plus(b.reserve_shared(8, 8))),
    }
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        self.init(b);
        let warp = b.warp();
        let warpgroup = b.shr(warp, 2);
        let is_producer = b.setp(Cmp::Eq, warpgroup, 0);
        b.if_else(
            is_producer,
            |b| producer::emit(b, self, warp),
            |b| {
                let consumer = b.sub(warpgroup, 1);
                consumer::emit(b, self, consumer)
            },
        );
    }

    /// One thread initialises the barriers; everyone waits for it.
    fn init(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        let warps = self.config.warpgroups * 4;
        b.if_(first, |b| {
            self.shared.q_ring.init(b, 1, warps);
            self.shared.k_ring.init(b, 1, warps);
            self.shared.v_ring.init(b, 1, warps);
            self.shared.tail.init(b, 1);
            b.fence_mbarrier_init();
        });
        b.barrier_all();
    }

    /// Runs `body` for each tile of this CTA that has queries.
    #[track_caller]
    pub fn for_each_tile(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, OpenTile)) {
        self.params.order.for_each(b, |b, tile| {
            let sequence = self.params.lengths.sequence(b, tile.batch);
            let Config { packing, group, warpgroups, .. } = self.config;
            let first_block = b.mul(tile.index, warpgroups);
            let block = Block::at(b, packing, group, first_block);
            let live = b.setp(Cmp::Lt, block.token, sequence.q_len);
            b.if_(live, |b| {
                let last_block = b.add(first_block, warpgroups - 1);
                let last = Block::at(b, packing, group, last_block).last_token(b);
                let last_query = b.sub(sequence.q_len, 1);
                let last = b.min(last, last_query);
                let bounds = self.params.visible.bounds(b, &sequence, tile.batch);
                let mut range = bounds.tiles(b, block.token, last);
                if let Some(per_split) = self.params.tiles_per_split {
                    range = range.part(b, tile.split, per_split);
                }
                body(b, OpenTile { tile, sequence, bounds, range, first_block });
            });
        });
    }
}
