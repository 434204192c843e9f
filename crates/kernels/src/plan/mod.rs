//! From a problem to a program: what is supported, which kernel takes it, in how many parts, in which launches.

pub mod options;
pub mod schedule;
mod splits;
pub mod tuning;

use crate::call::memory::Memory;
use crate::call::task::{Destination, Overlap, Sharing, Task, Tiling};
use crate::call::tensors;
use crate::combine;
use crate::moves::gather;
use crate::realign;
use crate::repack::Repacked;
use crate::work::exchange::{self, Buffers};
use crate::work::order::TileList;
use crate::work::shares::SharesOf;
use crate::work::stamps::Stamps;
use options::{Arch, Loads, PlanOptions, Split};
use problem::{
    DType, Mask, MaskElement, Problem, QueryLengths, Segment, Storage, Unsupported, Values,
};
use program::{BufferId, Launch, Program};
use ptx::build::{Kernel, module};
use schedule::Schedule;
use splits::Work;
use std::sync::Arc;
use tuning::Tuning;
use tuning::hopper::{WIDE_FEW, WIDE_SHARE};

/// A program and why it looks the way it does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What an engine runs.
    pub program: Program,
    /// The chosen kernel, its tile and its splits, for people.
    pub summary: String,
}

/// Plans `problem` for `arch`.
///
/// # Errors
/// As [`check`].
pub fn plan(problem: &Problem, arch: Arch, options: &PlanOptions) -> Result<Plan, Unsupported> {
    let arch = family(problem, arch);
    let repacked = Repacked::of(problem, arch);
    check_all(problem, &repacked, arch, options)?;
    let problem = repacked.as_ref().map_or(problem, |repacked| &repacked.problem);
    Ok(launches(&Request { problem, repacked: repacked.as_ref(), arch, options }))
}

/// What a plan is made for.
struct Request<'a> {
    problem: &'a Problem,
    /// How the problem's tensors come from those of the caller, where they are others.
    repacked: Option<&'a Repacked>,
    arch: Arch,
    options: &'a PlanOptions,
}

/// The generation whose kernels take `problem` on a GPU of generation `arch`.
///
/// Kernels of Hopper and of datacenter Blackwell multiply 16-bit numbers. Those GPUs run the kernels of `sm_80` too.
fn family(problem: &Problem, arch: Arch) -> Arch {
    match problem.dtype() {
        DType::F32 if !arch.is_mma_sync() => Arch::Sm80,
        _ => arch,
    }
}

/// Checks that `problem` can be planned, without planning it.
///
/// # Errors
/// What the kernels of `arch` cannot do, and why.
pub fn check(problem: &Problem, arch: Arch, options: &PlanOptions) -> Result<(), Unsupported> {
    let arch = family(problem, arch);
    check_all(problem, &Repacked::of(problem, arch), arch, options)
}

fn check_all(
    problem: &Problem,
    repacked: &Option<Repacked>,
    arch: Arch,
    options: &PlanOptions,
) -> Result<(), Unsupported> {
    repacked.as_ref().map_or(Ok(()), Repacked::check)?;
    let problem = repacked.as_ref().map_or(problem, |repacked| &repacked.problem);
    check_problem(problem, arch)?;
    check_loads(problem, options)
}

fn check_problem(problem: &Problem, arch: Arch) -> Result<(), Unsupported> {
    if problem.dtype() == DType::F64 {
        let why = "kernels take inputs of bf16, f16 and f32";
        return Err(Unsupported::new("dtype f64", why).nearest("f32"));
    }
    // (Kernels of f32 queries read f32 keys.)
    if problem.has_e4m3() && !matches!(problem.dtype(), DType::F16 | DType::Bf16) {
        let what = format!("e4m3 keys beside queries of {}", problem.dtype());
        let why = "e4m3 numbers are unpacked to 16-bit floats";
        return Err(Unsupported::new(what, why).nearest("bf16 queries"));
    }
    let mut masks = problem.segments.iter().filter_map(|segment| segment.attn_mask);
    if masks.any(|mask| mask.element == MaskElement::Float(DType::F64)) {
        let why = "kernels read masks of bool, f32, f16 and bf16";
        return Err(Unsupported::new("attn_mask of f64", why).nearest("f32"));
    }
    for (name, dim) in [("key dim", problem.key_dim()), ("value dim", problem.value_dim())] {
        check_dim(name, dim, arch)?;
    }
    if problem.lse_len() >= 1 << 31 {
        let rows = problem.lse_len();
        return Err(Unsupported::new(format!("{rows} query rows"), "row numbers have 31 bits"));
    }
    check_tiles(problem)?;
    check_gathered(problem)?;
    tensors::check("q", &problem.q)?;
    tensors::check("out", &problem.out)?;
    for segment in &problem.segments {
        if segment.storage == Storage::Elements {
            tensors::check("k", &segment.k)?;
        }
        if let Values::Separate(v) = &segment.values {
            tensors::check("v", v)?;
        }
    }
    Ok(())
}

/// Rows that are listed or packed are gathered.
fn check_gathered(problem: &Problem) -> Result<(), Unsupported> {
    let Some(segment) = problem.segments.iter().find(|segment| gather::must(segment)) else {
        return Ok(());
    };
    let what = match segment.storage {
        Storage::Elements => "index lists".to_string(),
        Storage::Model1 => "fp8 rows".to_string(),
        storage => format!("{storage} rows"),
    };
    problem.segments.iter().try_for_each(check_packed)?;
    if !problem.segments.iter().all(gather::reaches) {
        let why = "gathered rows are found by 32-bit numbers of 16 bytes";
        return Err(Unsupported::new(format!("{what} beside a tensor of 64 GiB or more"), why));
    }
    let widths = problem.segments.iter().filter_map(|segment| segment.indices);
    let widths = widths.map(|list| list.width.max(list.pitch));
    match widths.max() {
        Some(width) if width >> 30 > 0 => Err(Unsupported::new(
            format!("index lists of {width} entries"),
            "a list has less than 4 GiB",
        )),
        _ => Ok(()),
    }
}

/// Pages of packed rows are copied in units of 16 bytes.
fn check_packed(segment: &Segment) -> Result<(), Unsupported> {
    if segment.page_stride().is_multiple_of(16) {
        return Ok(());
    }
    let what = format!("{} bytes between pages", segment.page_stride());
    Err(Unsupported::new(what, "rows are copied in units of 16 bytes"))
}

/// Tiles of work, of 64 rows or more, are numbered; so are keys.
fn check_tiles(problem: &Problem) -> Result<(), Unsupported> {
    // Room for heads that fill no tile, and for slices and splits.
    const MOST: u64 = 1 << 28;
    let group = problem.group();
    let per_head = problem.longest_query().saturating_mul(group).div_ceil(64).saturating_add(group);
    let heads = problem.kv_heads().saturating_mul(problem.batch());
    let tiles = per_head.saturating_mul(heads);
    if tiles > MOST {
        let why = format!("the longest query times the batch is more than {MOST} tiles of 64 rows");
        return Err(Unsupported::new(format!("{tiles} tiles of work"), why));
    }
    match problem.segments.iter().map(|segment| segment.longest()).find(|keys| keys >> 31 > 0) {
        Some(keys) => {
            Err(Unsupported::new(format!("{keys} keys per query"), "key numbers have 31 bits"))
        }
        None => Ok(()),
    }
}

/// Without swizzle a row of a copy is 16 bytes, and copies go to multiples of 128. (Rows that are gathered are always
/// swizzled.)
fn check_loads(problem: &Problem, options: &PlanOptions) -> Result<(), Unsupported> {
    let paged = |segment: &&Segment| segment.paging.is_some() && !gather::must(segment);
    let paged = problem.segments.iter().filter(paged);
    let odd = paged.map(|segment| segment.k.tokens()).find(|rows| !rows.is_multiple_of(8));
    match (options.loads, odd) {
        (Loads::Plain, Some(rows)) => Err(Unsupported::new(
            format!("pages of {rows} rows without swizzle"),
            "copies without swizzle bring multiples of 8 rows",
        )
        .nearest("swizzled loads")),
        _ => Ok(()),
    }
}

fn check_dim(name: &str, dim: u64, arch: Arch) -> Result<(), Unsupported> {
    let (largest, step) = Schedule::largest_dim(arch, name);
    if dim > largest || (dim > 256 && !dim.is_multiple_of(step)) {
        return Err(Unsupported::new(
            format!("{name} {dim}"),
            format!("the largest on {arch} is {largest}, in steps of {step} above 256"),
        )
        .nearest(dim.next_multiple_of(step).min(largest).to_string()));
    }
    Ok(())
}

fn launches(request: &Request<'_>) -> Plan {
    let &Request { problem, arch, options, .. } = request;
    let tuning = Tuning::of(arch.target());
    let launches = segments_of_launches(problem, arch, options);
    if let [(schedule, segments)] = &launches[..]
        && let [segment] = segments[..]
        && let Some(cuts) = cuts(problem, segment, schedule, options, tuning)
    {
        return shared_out(request, *schedule, segment, cuts);
    }
    let mut memory = Memory::of(problem);
    let stages: Vec<Stage> = launches
        .into_iter()
        .map(|(schedule, segments)| Stage::new(problem, segments, schedule, options, tuning))
        .collect();
    let parts: u32 = stages.iter().map(|stage| stage.list.splits).sum();
    // Without any key the combination of no parts writes what an empty row is.
    let partial = (parts != 1).then(|| Partial::reserve(&mut memory, problem, parts));
    let mut kernels = Vec::new();
    let mut launches = Vec::new();
    let mut summary = Vec::new();
    let mut first = 0;
    let count = stages.len();
    for stage in stages {
        let destination = match partial {
            None => Destination::Output,
            Some(Partial { rows, lse, sums }) => Destination::Partial { rows, lse, sums, first },
        };
        first += stage.list.splits;
        let overlap = stage.overlap(launches.len(), count);
        let task = stage.task(problem, destination, overlap);
        let clusters = stage.list.len().min(at_once(&stage.schedule, options));
        let (kernel, launch) = launch(&stage.schedule, &task, arch, clusters, &memory);
        summary.push(format!("{}, {} split(s)", stage.schedule, stage.list.splits));
        launches.push(launch);
        kernels.push(kernel);
    }
    if let Some(partial) = partial {
        let (kernel, launch) =
            combine::emit(arch.target(), problem, &memory, partial, parts, options.processors);
        kernels.push(kernel);
        launches.push(launch);
    }
    finished(request, memory, kernels, launches, summary.join("; "))
}

fn finished(
    request: &Request<'_>,
    mut memory: Memory,
    mut kernels: Vec<Kernel>,
    mut launches: Vec<Launch>,
    mut summary: String,
) -> Plan {
    let &Request { problem, repacked, arch, options } = request;
    if options.any_address {
        let already = |slot| repacked.is_some_and(|repacked| repacked.has(slot));
        realign::prepend(problem, already, arch.target(), &mut memory, &mut kernels, &mut launches);
        summary.push_str("; q, k and v copied first");
    }
    if let Some(repacked) = repacked {
        repacked.wrap(arch.target(), &mut memory, &mut kernels, &mut launches);
        summary.push_str(&format!("; {} repacked", repacked.names()));
    }
    if problem.lse_len() == 0 || problem.longest_query() == 0 {
        launches.clear();
    }
    let module = Arc::new(module(arch.target(), kernels));
    let program = Program { module, buffers: memory.into_buffers(), launches };
    Plan { program, summary }
}

/// How work is shared out by lengths on the device: whether work tiles may be cut. `None` where there are no
/// such lengths and processors wait little for each other, or the kernel cannot. Problems with a mask tensor take a list, whose kernels need fewer registers.
fn cuts(
    problem: &Problem,
    n: u8,
    schedule: &Schedule,
    options: &PlanOptions,
    tuning: &Tuning,
) -> Option<bool> {
    let segment = &problem.segments[n as usize];
    let on_device = problem.query_lengths != QueryLengths::Full
        || segment.lengths.used
        || segment.lengths.packed.is_some();
    if !schedule.shares_out() || problem.has_attn_mask() || !on_device {
        return None;
    }
    match options.split {
        Split::Never => Some(false),
        // Parts are smaller than work tiles, and the same whatever else there is.
        Split::Every { keys } if keys < segment.longest() => None,
        Split::Every { .. } => Some(false),
        Split::Auto => {
            // A few long work tiles are cut into many parts each, which another launch merges faster.
            let work_tiles = most_work_tiles(problem, &schedule.tiling());
            let shares = options.processors / schedule.cluster();
            let many = |few: u64| work_tiles * few >= shares.into();
            let wide = matches!(schedule, Schedule::HopperWide(_));
            let pays = match problem.query_lengths {
                QueryLengths::Full if wide => {
                    let work = work_tiles.saturating_mul(visible_tiles(problem, n, schedule));
                    many(WIDE_FEW) && work >= u64::from(shares * WIDE_SHARE)
                }
                _ => many(tuning.few_work_tiles),
            };
            pays.then_some(true)
        }
    }
}

/// KV tiles that a work tile visits at most.
fn visible_tiles(problem: &Problem, n: u8, schedule: &Schedule) -> u64 {
    let segment = &problem.segments[n as usize];
    let seen = match segment.mask {
        Mask::Window { left: Some(left), right } => {
            left.saturating_add(right.unwrap_or(0)).saturating_add(problem.longest_query())
        }
        _ => segment.longest(),
    };
    seen.min(segment.longest()).div_ceil(schedule.tile().into()) + 1
}

/// The plan in which CTAs take equal shares of the work, whatever the lengths.
fn shared_out(request: &Request<'_>, schedule: Schedule, n: u8, cuts: bool) -> Plan {
    let &Request { problem, arch, options, .. } = request;
    let tuning = Tuning::of(arch.target());
    let mut memory = Memory::of(problem);
    let tiling = schedule.tiling();
    let most_work_tiles = most_work_tiles(problem, &tiling);
    let key_tiles = key_tiles(problem, n, &schedule);
    let shares = in_step(problem, &tiling, options.processors / schedule.cluster());
    let shares = most_work_tiles.saturating_mul(key_tiles.into()).clamp(1, shares.into()) as u32;
    let exchange = cuts.then(|| {
        let tail = has_tail(problem, &schedule, options);
        Buffers::reserve(&mut memory, schedule.part_size(), shares, tail)
    });
    let of = SharesOf {
        batch: problem.batch() as u32,
        kv_heads: problem.kv_heads() as u32,
        most_tiles: most_tiles(problem, n, &schedule, tuning),
        threads: schedule.threads(),
        lonely_tile: schedule.lonely_tile(),
        exchange,
        tail_from: options.tail_from.unwrap_or(u32::MAX),
        tuning: tuning.shares,
    };
    let task = Task {
        problem,
        segments: vec![n],
        destination: Destination::Output,
        sharing: Sharing::Shares(of),
        tiles_per_split: vec![key_tiles],
        merged_parts: 1,
        overlap: Overlap::Early,
        stamps: options
            .stamps
            .then(|| memory.output("stamps", Stamps::bytes(shares * schedule.cluster()))),
    };
    let lower = exchange.map(|buffers| exchange::lower_flags(arch.target(), &buffers));
    let attention = launch(&schedule, &task, arch, shares, &memory);
    let (kernels, launches) = lower.into_iter().chain([attention]).unzip();
    let summary = format!("{schedule}, shared out by lengths on the device");
    finished(request, memory, kernels, launches, summary)
}

/// One share in this many may be left out.
const LEFT_OVER: u32 = 16;

/// How many of so many shares there are. Where queries fill one row block, memory is what a batch waits for. It is read
/// fastest if all KV heads are at the same tokens, which takes as many shares of each.
fn in_step(problem: &Problem, tiling: &Tiling, shares: u32) -> u32 {
    let blocks = tiling.packing.blocks(tiling.group, problem.longest_query());
    let over = shares % problem.kv_heads().min(shares.into()) as u32;
    if blocks == 1 && over <= shares / LEFT_OVER { shares - over } else { shares }
}

/// Whether the last part of the work goes to the CTAs that are done first. Single tokens wait for memory alone, which
/// those that are done leave to the others. (The search for the tail goes over sequences once.)
fn has_tail(problem: &Problem, schedule: &Schedule, options: &PlanOptions) -> bool {
    options.tail_from.is_some()
        && schedule.leads()
        && problem.query_lengths != QueryLengths::Full
        && problem.batch() <= schedule.threads().into()
}

/// Tiles of queries that there can be, whatever the lengths.
fn most_work_tiles(problem: &Problem, tiling: &Tiling) -> u64 {
    let head_blocks = tiling.packing.head_blocks(tiling.group) as u64;
    let blocks = match problem.query_lengths {
        QueryLengths::Full => {
            tiling.packing.blocks(tiling.group, problem.longest_query()) * problem.batch()
        }
        _ => (problem.q.tokens() / tiling.packing.tokens as u64 + problem.batch()) * head_blocks,
    };
    let tiles = blocks / tiling.blocks as u64 + problem.batch();
    tiles * tiling.slices as u64 * problem.kv_heads()
}

/// KV tiles that all work tiles can cost, whatever stands where lengths should. Packed sequences that overlap
/// count the same queries several times.
fn most_tiles(problem: &Problem, n: u8, schedule: &Schedule, tuning: &Tuning) -> f32 {
    let packed = problem.query_lengths != QueryLengths::Full;
    let sequences = if packed { problem.batch() } else { 1 };
    let work_tiles = most_work_tiles(problem, &schedule.tiling()) as f32 * sequences as f32;
    let keys = problem.segments[n as usize].most_keys();
    let of_each = keys.div_ceil(schedule.tile().into()) as f32 + 1.0;
    work_tiles * (of_each + tuning.shares.ends)
}

/// One launch of the attention kernel on so many clusters.
fn launch(
    schedule: &Schedule,
    task: &Task<'_>,
    arch: Arch,
    clusters: u32,
    memory: &Memory,
) -> (Kernel, Launch) {
    let name = format!("attention{}", task.segments[0]);
    let (kernel, args) = schedule.emit(&name, arch.target(), task, memory);
    let launch = Launch {
        kernel: name,
        grid: [clusters * schedule.cluster(), 1, 1],
        block: [schedule.threads(), 1, 1],
        cluster: [schedule.cluster(), 1, 1],
        shared_bytes: kernel.shared_bytes,
        args,
        overlaps_previous: arch.target().overlaps_launches(),
    };
    (kernel, launch)
}

/// Where the results of parts go.
#[derive(Clone, Copy)]
pub struct Partial {
    /// f32 `[part, row, value dim]`.
    pub rows: BufferId,
    /// f32 `[part, row]`: LSEs, or what `sums` are relative to.
    pub lse: BufferId,
    /// f32 `[part, row]`: sums of exponentials, beside a mask tensor.
    pub sums: Option<BufferId>,
}

impl Partial {
    fn reserve(memory: &mut Memory, problem: &Problem, parts: u32) -> Self {
        let rows = problem.lse_len() * parts as u64;
        Partial {
            rows: memory.workspace("partial_out", rows * problem.value_dim() * 4),
            lse: memory.workspace("partial_lse", rows * 4),
            sums: problem.has_attn_mask().then(|| memory.workspace("partial_sums", rows * 4)),
        }
    }
}

/// Bytes of keys and values that clusters work on at a time: most of the L2 of a data center's GPU.
const L2_BYTES: u64 = 32 << 20;

/// One launch of the attention kernel: segments, their kernel, its work list.
struct Stage {
    segments: Vec<u8>,
    schedule: Schedule,
    list: TileList,
    /// Tiles of keys per part, of each segment.
    tiles_per_split: Vec<u32>,
}

/// The segments of each launch, and the kernel for them: those that have keys, each on its own or, where
/// a kernel takes several, together.
fn segments_of_launches(
    problem: &Problem,
    arch: Arch,
    options: &PlanOptions,
) -> Vec<(Schedule, Vec<u8>)> {
    let mut launches: Vec<(Schedule, Vec<u8>)> = Vec::new();
    for n in (0..problem.segments.len()).filter(|n| problem.segments[*n].longest() > 0) {
        let schedule = Schedule::choose(problem, n, arch, options);
        match launches.last_mut() {
            Some((last, together)) if *last == schedule && schedule.takes_segments() => {
                together.push(n as u8);
            }
            _ => launches.push((schedule, vec![n as u8])),
        }
    }
    launches
}

impl Stage {
    fn new(
        problem: &Problem,
        segments: Vec<u8>,
        schedule: Schedule,
        options: &PlanOptions,
        tuning: &Tuning,
    ) -> Self {
        let key_tiles: Vec<u32> =
            segments.iter().map(|n| key_tiles(problem, *n, &schedule)).collect();
        let (schedule, tiles_per_split) = arrange(problem, &key_tiles, schedule, options, tuning);
        let shares = key_tiles.iter().zip(&tiles_per_split);
        let parts = shares.map(|(tiles, share)| tiles.div_ceil(*share)).max().unwrap_or(1);
        let list = TileList {
            tiles: schedule.tiles(problem),
            splits: parts.div_ceil(schedule.merged_parts()),
            kv_heads: problem.kv_heads() as u32,
            batch: problem.batch() as u32,
            sections: None,
        };
        let grow = segments.iter().any(|n| grows(&problem.segments[*n as usize].mask));
        let list = if grow {
            list.longest_first(at_once(&schedule, options), heads_in_l2(problem))
        } else {
            list
        };
        Stage { segments, schedule, list, tiles_per_split }
    }

    /// How the launch overlaps others, `before` of the `count` launches over keys being before it.
    fn overlap(&self, before: usize, count: usize) -> Overlap {
        // Clusters that merge parts are slowed down by the next call's, waiting beside them.
        match self.schedule.merged_parts() {
            _ if before > 0 => Overlap::Beside,
            1 if count == 1 => Overlap::Early,
            _ => Overlap::Late,
        }
    }

    fn task<'p>(
        &self,
        problem: &'p Problem,
        destination: Destination,
        overlap: Overlap,
    ) -> Task<'p> {
        Task {
            problem,
            segments: self.segments.clone(),
            destination,
            sharing: Sharing::List(self.list),
            tiles_per_split: self.tiles_per_split.clone(),
            merged_parts: self.schedule.merged_parts(),
            overlap,
            stamps: None,
        }
    }
}

/// The kernel for segments of so many tiles of keys, with or without a cluster that merges parts of them,
/// and the tiles of each segment in one part.
fn arrange(
    problem: &Problem,
    key_tiles: &[u32],
    schedule: Schedule,
    options: &PlanOptions,
    tuning: &Tuning,
) -> (Schedule, Vec<u32>) {
    let in_parts = |parts: u32| key_tiles.iter().map(|tiles| tiles.div_ceil(parts)).collect();
    match options.split {
        Split::Never => (schedule, in_parts(1)),
        Split::Every { keys } => {
            let tiles = keys.div_ceil(schedule.tile() as u64).max(1) as u32;
            (schedule, vec![tiles; key_tiles.len()])
        }
        Split::Auto => {
            let all = key_tiles.iter().sum();
            let split = work(problem, all, &schedule, options, tuning);
            let splits = split.best_splits();
            let merging = schedule.merging().into_iter().filter_map(|merging| {
                let work = work(problem, all, &merging, options, tuning);
                let time = work.merge_time(merging.merged_parts())?;
                Some((time, merging))
            });
            match merging.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
                Some((time, merging)) if time < split.time(splits) => {
                    (merging, in_parts(merging.merged_parts()))
                }
                _ => (schedule, in_parts(splits)),
            }
        }
    }
}

/// CTAs or clusters that are launched at once.
fn at_once(schedule: &Schedule, options: &PlanOptions) -> u32 {
    options.processors * schedule.resident() / schedule.cluster()
}

/// Clusters that run at once. A cluster lies within one cluster of processors (a GPC), and larger ones do not fill it.
fn clusters(cluster: u32, options: &PlanOptions, tuning: &Tuning) -> u32 {
    let whole = options.processors / cluster;
    if cluster > 2 { whole - whole / tuning.lost_clusters } else { whole }
}

fn key_tiles(problem: &Problem, n: u8, schedule: &Schedule) -> u32 {
    problem.segments[n as usize].longest().div_ceil(schedule.tile() as u64).max(1) as u32
}

/// Bytes of a key and its value, as memory sees them. The constants of [`Work`] were fitted to keys that are values
/// too, in order, counted twice; rows of lists are counted once, as was measured to be better.
fn row_bytes(problem: &Problem) -> u64 {
    let all = |what: fn(&Segment) -> bool| problem.segments.iter().all(what);
    let same = |segment: &Segment| matches!(segment.values, Values::SameAsKeys { .. });
    let (key, value) = (problem.key_dim(), problem.value_dim());
    if all(|segment| segment.storage != Storage::Elements) {
        let packed = problem.segments.iter().filter_map(|segment| segment.storage.packed());
        return packed.map(|rows| rows.page_bytes(1)).max().unwrap_or(0);
    }
    let once = all(|segment| segment.indices.is_some()) && all(same);
    let widest = problem.segments.iter().map(|segment| segment.k.dtype.bytes()).max();
    widest.unwrap_or(1) * if once { key } else { key + value }
}

fn work(
    problem: &Problem,
    key_tiles: u32,
    schedule: &Schedule,
    options: &PlanOptions,
    tuning: &Tuning,
) -> Work {
    let columns = (problem.key_dim() + problem.value_dim()) as u32;
    let (tiles, tile) = (schedule.tiles(problem), schedule.tile());
    let tile_bytes = row_bytes(problem) * tile as u64;
    Work {
        model: tuning.time,
        work_tiles: tiles * (problem.kv_heads() * problem.batch()) as u32,
        key_tiles,
        processors: clusters(schedule.cluster(), options, tuning) * schedule.resident(),
        tile,
        rows: schedule.rows(),
        columns,
        // Tiles of one KV head read the same keys at about the same time: memory sees them once.
        step_bytes: tile_bytes as f64 / tiles.max(1) as f64,
        partial_bytes: (problem.lse_len() * problem.value_dim() * 4) as f64,
    }
}

/// KV heads whose keys and values lie in L2 together, at least one.
fn heads_in_l2(problem: &Problem) -> u32 {
    let keys: u64 = problem.segments.iter().map(Segment::longest).sum();
    u32::try_from(L2_BYTES / (keys * row_bytes(problem)).max(1)).unwrap_or(u32::MAX)
}

/// Whether later queries see more keys.
fn grows(mask: &Mask) -> bool {
    match mask {
        Mask::Causal | Mask::Compressed { .. } => true,
        Mask::Window { left, right } => left.is_none() && right.is_some(),
        Mask::Full => false,
    }
}
