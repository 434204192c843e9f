//! Work shared out by lengths that only the device knows.
//!
//! Work tiles stand in a row: by KV head, by sequence,
//! by tile. Each costs its KV tiles and a little for its ends, and every CTA (or cluster) takes the
//! same share of the whole cost, from one boundary to the next. A boundary may cut a work tile between two
//! KV tiles; the last of the CTAs that have parts of it finishes it (see
//! [`exchange`](crate::work::exchange)).
//!
//! Rows of all heads of a token are neighbours in memory. Heads come first in the row of work tiles, so that CTAs read the same
//! tokens of several heads at the same time: where the number of CTAs is a multiple of that of heads, of all.
//!
//! Before its roles begin, each CTA finds its two boundaries by itself: the cost of a sequence's tiles has
//! a closed form, threads add up sequences, and the one whose sequence a boundary falls into says so.
//! Costs are integers there, so that all CTAs find the same boundaries, in order.
//!
//! Where CTAs do not end together, the last part of the work is no part of the shares: it goes to those that are done
//! first (see [`tail`](crate::work::tail)).
//!
//! Nothing depends on the largest lengths that the host was told, so a captured launch serves any batch.

use crate::call::index::{KvHead, SequenceIndex, SplitIndex, WorkTileIndex};
use crate::call::sequence::{Sequence, prefetch_line};
use crate::call::task::{OpenTile, Params};
use crate::call::visible::{Ramp, TileRange};
use crate::plan::tuning::ShareTuning;
use crate::work::exchange::{Buffers, Exchange, Part};
use crate::work::order::Tile;
use crate::work::tail::{PART, Tail};
use layout::Layout;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, Reg, SharedArray, SmemPtr};

/// The most that all costs add up to.
const MOST: f32 = (1u64 << 31) as f32;
/// Cost of a KV tile, where there is room for it.
const FINEST: f32 = 64.0;
/// Words of a boundary: work tile, step, sequence (counted over all heads), index of the work tile in it.
const WORDS: u32 = 4;

/// Where the boundaries of a piece of the tail are, behind those of the share.
const TAIL_OFFSET: u32 = 2 * WORDS * 4;

/// What work there is, as far as the host knows.
#[derive(Clone, Copy, Debug)]
pub struct SharesOf {
    /// Sequences.
    pub batch: u32,
    /// KV heads of one sequence.
    pub kv_heads: u32,
    /// KV tiles of all work tiles at most, whatever numbers stand for lengths.
    pub most_tiles: f32,
    /// Threads of a CTA.
    pub threads: u32,
    /// What a KV tile costs where only one row block has queries; 1 where all have.
    pub lonely_tile: f32,
    /// Memory for the parts of work tiles that are cut; none are without it.
    pub exchange: Option<Buffers>,
    /// KV tiles of a share from which on there is a tail, where its memory has room for one.
    pub tail_from: u32,
    /// The architecture's choices.
    pub tuning: ShareTuning,
}

impl SharesOf {
    /// Cost of a KV tile.
    fn scale(&self) -> f32 {
        FINEST.min(MOST / self.most_tiles)
    }
}

/// The shares, in a kernel.
pub struct Shares {
    batch: Reg<u32>,
    kv_heads: Reg<u32>,
    scale: Reg<f32>,
    unscale: Reg<f32>,
    lonely_tile: f32,
    tuning: ShareTuning,
    exchange: Option<Exchange>,
    tail: Option<Tail>,
    tail_from: f32,
    cluster: u32,
    /// Threads that add up sequences.
    threads: u32,
    one_round: bool,
    shared: Option<Shared>,
}

#[derive(Clone, Copy)]
struct Shared {
    /// Cost and work tiles of each warp's sequences.
    sums: SmemPtr,
    /// The sequence that each boundary falls into, the cost before it in the sequence, its head, and the work
    /// tiles before the sequence in that head.
    found: SmemPtr,
    /// Both boundaries, and behind them those of the piece of the tail that the CTA takes.
    boundaries: SmemPtr,
}

/// Cost and number of work tiles.
type Amount = [Reg<u32>; 2];

/// What the work tiles of one head of a sequence cost.
struct Costs {
    /// What the ends of a work tile cost.
    ends: f32,
    sequence: Sequence,
    number: SequenceIndex,
    tiles: Reg<u32>,
    step: Reg<f32>,
    end: Ramp,
    begin: Option<Ramp>,
}

impl Costs {
    /// What the first `x` work tiles cost, in KV tiles.
    #[track_caller]
    fn of_first(&self, b: &mut Builder, x: Reg<f32>) -> Reg<f32> {
        let mut keys = self.end.area(b, x);
        if let Some(begin) = &self.begin {
            let hidden = begin.area(b, x);
            keys = b.sub(keys, hidden);
        }
        let keys = b.mul(keys, self.step);
        b.fma(x, self.ends, keys)
    }
}

/// This CTA's part of the work, in a role: from the end to the beginning.
#[derive(Clone, Copy)]
struct Share {
    /// Work tiles that remain.
    remaining: Reg<u32>,
    /// Where the work tile behind the next one is: its sequence, counted over all heads, and its index there.
    place: Reg<u32>,
    index: Reg<u32>,
    /// Whether this is a piece of the tail, where there can be one.
    in_tail: Option<Reg<bool>>,
}

/// What a role does about pieces of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// It has the CTA's first thread, which takes them.
    Leads,
    /// It waits until they have been taken.
    Follows,
}

/// A boundary of a share, read from shared memory.
struct Boundary {
    /// Work tiles before it.
    work_tile: Reg<u32>,
    /// KV tiles of that work tile before it.
    step: Reg<u32>,
}

impl Shares {
    /// Declares the parameters; `cluster` CTAs have a share together.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, of: &SharesOf, cluster: u32) -> Self {
        Shares {
            batch: args.u32(b, "batch", of.batch),
            kv_heads: args.u32(b, "kv_heads", of.kv_heads),
            scale: args.f32(b, "cost_scale", of.scale()),
            unscale: args.f32(b, "cost_unscale", 1.0 / of.scale()),
            lonely_tile: of.lonely_tile,
            tuning: of.tuning,
            exchange: of.exchange.map(|buffers| Exchange::declare(b, args, &buffers)),
            tail: of.exchange.and_then(|buffers| Tail::declare(b, args, &buffers)),
            tail_from: of.tail_from as f32,
            cluster,
            threads: of.threads,
            one_round: of.batch <= of.threads,
            shared: None,
        }
    }

    /// Reserves shared memory.
    pub fn reserve(&mut self, b: &mut Builder) {
        let base = b.shared_base();
        let mut words = |n: u32| {
            let words = Layout::column_major(u64::from(n)).expect("a small layout");
            SharedArray::<u32>::reserve(b, base, &words).at()
        };
        let (sums, found, boundaries) =
            (words(2 * self.warps()), words(self.ends() * WORDS), words(self.ends() * WORDS));
        self.shared = Some(Shared { sums, found, boundaries });
        if let Some(tail) = &mut self.tail {
            tail.reserve(b);
        }
    }

    /// Boundaries that a CTA finds: of its share, and of the piece of the tail with its number.
    fn ends(&self) -> u32 {
        if self.tail.is_some() { 4 } else { 2 }
    }

    fn warps(&self) -> u32 {
        self.threads / 32
    }

    fn shared(&self) -> Shared {
        self.shared.expect("reserved shared memory")
    }

    /// The number of this CTA's share.
    #[track_caller]
    fn number(&self, b: &mut Builder) -> Reg<u32> {
        let cta = b.special("%ctaid.x");
        if self.cluster > 1 { b.eval(cta / self.cluster) } else { cta }
    }

    /// How many shares there can be.
    #[track_caller]
    fn count(&self, b: &mut Builder) -> Reg<u32> {
        let ctas = b.special("%nctaid.x");
        if self.cluster > 1 { b.eval(ctas / self.cluster) } else { ctas }
    }

    /// Brings lengths and the page table to L2 (all threads of all CTAs): what every CTA asks for first. That may come
    /// before the grids before have ended, because what they write is written there.
    pub fn prefetch(&self, b: &mut Builder, params: &Params) {
        let keys = params.keys();
        let thread = b.thread();
        keys.lengths.prefetch(b, thread, self.batch);
        let Some(pages) = keys.page_table else { return };
        let cta = b.special("%ctaid.x");
        let line = b.eval(cta * self.threads + thread);
        let entries = b.eval(self.batch * pages.pages_per_sequence);
        prefetch_line(b, pages.table, line, entries);
    }

    /// Finds this CTA's boundaries (all threads).
    pub fn find(&self, b: &mut Builder, params: &Params) {
        let thread = b.thread();
        if let Some(tail) = &self.tail {
            let first = b.setp(Cmp::Eq, thread, 0);
            b.if_(first, |b| {
                let number = self.number(b);
                tail.init(b, number);
            });
        }
        let total = (!self.one_round).then(|| {
            let own = [b.value::<u32>(0), b.value::<u32>(0)];
            self.for_each_round(b, thread, |b, at| {
                let amount = self.amount(b, params, at);
                for (sum, more) in own.into_iter().zip(amount) {
                    b.assign(sum, sum + more);
                }
            });
            let all = own.map(|own| b.join_lanes(own, 32, |b, x, y| b.eval(x + y)));
            self.leave_sum(b, thread, 0, all);
            b.barrier_all();
            let (_, total) = self.sums(b, thread);
            b.barrier_all();
            total
        });
        let before = [b.value::<u32>(0), b.value::<u32>(0)];
        let targets: Vec<_> = (0..self.ends()).map(|_| b.value::<u32>(0)).collect();
        let each = b.value::<u32>(0);
        self.for_each_round(b, thread, |b, at| {
            let amount = self.amount(b, params, at);
            let lane = b.eval(thread % 32);
            let sums = amount.map(|n| b.sum_up_to_lane(n, lane));
            self.leave_sum(b, thread, 31, sums);
            b.barrier_all();
            let (warps_before, all) = self.sums(b, thread);
            let next = [0, 1].map(|n| b.eval(before[n] + all[n]));
            let of_head = total.unwrap_or(next)[0];
            let total = b.eval(of_head * self.kv_heads);
            let starts = |b: &mut Builder| {
                [0, 1].map(|n| b.eval(sums[n] + warps_before[n] + before[n] - amount[n]))
            };
            let border = match self.tail {
                None => total,
                Some(tail) => {
                    let [start, _] = starts(b);
                    self.border(b, params, tail, at, [start, amount[0], of_head, total])
                }
            };
            self.set_targets(b, [border, total], &targets, each);
            let start = starts(b);
            self.claim(b, &targets, at, of_head, amount, start);
            for (before, next) in before.into_iter().zip(next) {
                b.assign(before, next);
            }
            b.barrier_all();
        });
        self.leave_boundaries(b, params, thread, &targets, each, before);
        // Nothing that was stored here is left for a fence of the roles to publish.
        b.fence_proxy_async();
        b.barrier_all();
    }

    /// Runs `body` with the thread's sequence of each round.
    fn for_each_round(
        &self,
        b: &mut Builder,
        thread: Reg<u32>,
        body: impl FnOnce(&mut Builder, Reg<u32>),
    ) {
        if self.one_round {
            return body(b, thread);
        }
        let first = b.value::<u32>(0);
        b.while_(
            |b| b.setp(Cmp::Lt, first, self.batch),
            |b| {
                let at = b.eval(first + thread);
                body(b, at);
                b.assign(first, first + self.threads);
            },
        );
    }

    /// Cost and number of the work tiles of one head of sequence `at`, none if there is no such sequence.
    fn amount(&self, b: &mut Builder, params: &Params, at: Reg<u32>) -> Amount {
        let amount = [b.value::<u32>(0), b.value::<u32>(0)];
        let exists = b.setp(Cmp::Lt, at, self.batch);
        b.if_(exists, |b| {
            let costs = self.costs(b, params, SequenceIndex::new(at));
            let of_head = self.of_head(b, &costs);
            for (amount, of_head) in amount.into_iter().zip([of_head, costs.tiles]) {
                b.assign(amount, of_head);
            }
        });
        amount
    }

    fn costs(&self, b: &mut Builder, params: &Params, number: SequenceIndex) -> Costs {
        let tiling = &params.tiling;
        let keys = params.keys();
        let sequence = keys.lengths.sequence(b, number);
        let tiles = params.tiling.tiles(b, sequence.q_len);
        let tokens = tiling.packing.tokens * tiling.blocks;
        let tokens = tokens as f32 / tiling.packing.head_blocks(tiling.group) as f32;
        let bounds = keys.visible.bounds(b, &sequence, number);
        let (end, begin) = bounds.ramps(b, tokens);
        let blocks = b.setp(Cmp::Le, sequence.q_len, tiling.packing.tokens);
        let step = 1.0 / bounds.tile() as f32;
        let lonely = tiling.packing.head_blocks(tiling.group) == 1 && tiling.blocks > 1;
        let step = match lonely {
            true => b.select::<f32>(blocks, self.lonely_tile * step, step),
            false => b.value(step),
        };
        Costs { ends: self.tuning.ends, sequence, number, tiles, step, end, begin }
    }

    /// The cost of one head, 0 only if there are no work tiles.
    fn of_head(&self, b: &mut Builder, costs: &Costs) -> Reg<u32> {
        let tiles = b.to_f32(costs.tiles);
        let cost = costs.of_first(b, tiles);
        let cost = b.mul(cost, self.scale);
        let cost = b.round_to_u32(cost);
        b.eval(cost.max(costs.tiles.min(1)))
    }

    /// Leaves the amounts that `lane` has where the other warps find them.
    fn leave_sum(&self, b: &mut Builder, thread: Reg<u32>, lane: u32, sums: Amount) {
        let at = b.eval(thread % 32);
        let writes = b.setp(Cmp::Eq, at, lane);
        b.if_(writes, |b| {
            let at = b.eval(thread / 32 * 8);
            let at = b.smem_add(self.shared().sums, at);
            b.st_shared_vector(at, &sums);
        });
    }

    /// The amounts of the warps before this one, and of all.
    fn sums(&self, b: &mut Builder, thread: Reg<u32>) -> (Amount, Amount) {
        let warp = b.eval(thread / 32);
        let zero = b.value::<u32>(0);
        let (mut before, mut all) = ([zero; 2], [zero; 2]);
        for other in 0..self.warps() {
            let at = self.shared().sums.plus(other * 8);
            let amount = b.ld_shared_vector::<u32>(at, 2);
            let is_before = b.setp(Cmp::Gt, warp, other);
            for n in 0..2 {
                let counted = b.select::<u32>(is_before, amount[n], 0);
                before[n] = b.eval(before[n] + counted);
                all[n] = b.eval(all[n] + amount[n]);
            }
        }
        (before, all)
    }

    /// Where shares end and the tail begins: at `total` if there is none. Thread by thread, a sequence `at` begins at
    /// `start` of each head and costs `cost`; a head costs `of_head`.
    fn border(
        &self,
        b: &mut Builder,
        params: &Params,
        tail: Tail,
        at: Reg<u32>,
        [start, cost, of_head, total]: [Reg<u32>; 4],
    ) -> Reg<u32> {
        let border = b.value(total);
        let in_tiles = b.to_f32(total);
        let in_tiles = b.mul(in_tiles, self.unscale);
        let count = self.count(b);
        let least = b.to_f32(count);
        let least = b.mul(least, self.tail_from);
        let large = b.setp(Cmp::Ge, in_tiles, least);
        b.if_(large, |b| {
            let part = b.eval(total / PART);
            let target = b.eval(total - part);
            let (head, within_head) = head_at(b, target, of_head);
            let falls_into = falls_into(b, within_head, start, cost);
            b.if_(falls_into, |b| {
                let before = self.work_tile_before(b, params, at, start, within_head);
                let before = b.eval(head * of_head + before);
                tail.set_border(b, before);
            });
            b.barrier_all();
            let found = tail.border(b);
            // A work tile may be longer than the tail should be.
            let more = b.eval(target - found);
            let near = b.setp(Cmp::Le, more, part);
            let found = b.select::<u32>(near, found, total);
            b.assign(border, found);
        });
        border
    }

    /// The cost in a head before the work tile of sequence `at`, which begins at `start`, that `target` falls into.
    fn work_tile_before(
        &self,
        b: &mut Builder,
        params: &Params,
        at: Reg<u32>,
        start: Reg<u32>,
        target: Reg<u32>,
    ) -> Reg<u32> {
        let costs = self.costs(b, params, SequenceIndex::new(at));
        let rest = b.eval(target - start);
        let rest = b.to_f32(rest);
        let rest = b.mul(rest, self.unscale);
        let tile = self.tile_at(b, &costs, rest);
        let tile = b.to_f32(tile);
        let before = costs.of_first(b, tile);
        let before = b.mul(before, self.scale);
        let before = b.round_to_u32(before);
        b.eval((start + before).min(target))
    }

    /// The cost before each of the boundaries, and that of a share, whose last one ends at `border`.
    fn set_targets(
        &self,
        b: &mut Builder,
        [border, total]: [Reg<u32>; 2],
        targets: &[Reg<u32>],
        each: Reg<u32>,
    ) {
        let in_tiles = b.to_f32(total);
        let in_tiles = b.mul(in_tiles, self.unscale);
        let shares = b.mul(in_tiles, 1.0 / self.tuning.least);
        let shares = b.round_to_u32(shares);
        let shares = b.eval(shares.max(1));
        let most = self.count(b);
        let shares = b.eval(shares.min(most));
        b.assign(each, border / shares);
        let rest = b.eval(border - each * shares);
        let number = self.number(b);
        for (n, &target) in targets[..2].iter().enumerate() {
            let number = b.eval(number + n as u32);
            let number = b.eval(number.min(shares));
            b.assign(target, number * each + number.min(rest));
        }
        let Some(tail) = &self.tail else { return };
        for (n, &target) in targets[2..].iter().enumerate() {
            let number = b.eval(number + n as u32);
            let cost = tail.target(b, number, most, [border, total]);
            b.assign(target, cost);
        }
    }

    /// Leaves word of the boundaries that fall into sequence `at`, which begins at `start` of a head, in any head.
    fn claim(
        &self,
        b: &mut Builder,
        targets: &[Reg<u32>],
        at: Reg<u32>,
        of_head: Reg<u32>,
        [cost, _]: Amount,
        [start, work_tiles]: Amount,
    ) {
        for (n, &target) in targets.iter().enumerate() {
            let (head, target) = head_at(b, target, of_head);
            let falls_into = falls_into(b, target, start, cost);
            b.if_(falls_into, |b| {
                let rest = b.eval(target - start);
                let to = self.shared().found.plus(n as u32 * WORDS * 4);
                b.st_shared_vector(to, &[at, rest, head, work_tiles]);
            });
        }
    }

    /// A thread per boundary works it out.
    fn leave_boundaries(
        &self,
        b: &mut Builder,
        params: &Params,
        thread: Reg<u32>,
        targets: &[Reg<u32>],
        each: Reg<u32>,
        of_head: Amount,
    ) {
        let [total, work_tiles] = of_head.map(|of_head| b.eval(of_head * self.kv_heads));
        let works = b.setp(Cmp::Lt, thread, targets.len() as u32);
        b.if_(works, |b| {
            let (last, others) = targets.split_last().expect("boundaries");
            let target = others.iter().enumerate().rev().fold(*last, |target, (n, &other)| {
                let own = b.setp(Cmp::Eq, thread, n as u32);
                b.select::<u32>(own, other, target)
            });
            // Behind everything.
            let places = b.eval(self.batch * self.kv_heads);
            let boundary = [work_tiles, b.value::<u32>(0), places, b.value::<u32>(0)];
            let boundary = boundary.map(|word| b.value::<u32>(word));
            let within = b.setp(Cmp::Lt, target, total);
            b.if_(within, |b| {
                let inside = self.inside(b, params, thread, each, of_head[1]);
                for (word, inside) in boundary.into_iter().zip(inside) {
                    b.assign(word, inside);
                }
            });
            let to = b.smem_add(self.shared().boundaries, thread * (WORDS * 4));
            b.st_shared_vector(to, &boundary);
            if let Some(tail) = &self.tail {
                self.leave_piece(b, tail, thread, &boundary);
            }
        });
        if let Some(tail) = &self.tail {
            b.warp_sync();
            let tells = b.setp(Cmp::Eq, thread, 2);
            // Where there is no tail all pieces begin and end behind everything.
            let any = b.setp(Cmp::Lt, targets[2], total);
            let number = self.number(b);
            b.if_(tells, |b| tail.publish(b, number, any));
        }
    }

    /// Leaves the boundaries of a piece of the tail, which are those behind the first two, in memory.
    fn leave_piece(&self, b: &mut Builder, tail: &Tail, thread: Reg<u32>, boundary: &[Reg<u32>]) {
        let of_piece = b.setp(Cmp::Ge, thread, 2);
        b.if_(of_piece, |b| {
            let (number, end) = (self.number(b), b.eval(thread - 2));
            tail.leave(b, number, end, boundary);
        });
    }

    /// The boundary that falls into a sequence, of this thread's number.
    fn inside(
        &self,
        b: &mut Builder,
        params: &Params,
        thread: Reg<u32>,
        share: Reg<u32>,
        tiles_of_head: Reg<u32>,
    ) -> [Reg<u32>; WORDS as usize] {
        let from = b.smem_add(self.shared().found, thread * (WORDS * 4));
        let found = b.ld_shared_vector::<u32>(from, 4);
        let (sequence, rest, head, work_tiles) = (found[0], found[1], found[2], found[3]);
        let costs = self.costs(b, params, SequenceIndex::new(sequence));
        let rest = b.to_f32(rest);
        let rest = b.mul(rest, self.unscale);
        let tile = self.tile_at(b, &costs, rest);
        let (step, of) = self.step_at(b, params, &costs, KvHead::new(head), tile, rest);
        let step = self.snap(b, step, of, share);
        // At the end of a work tile is the beginning of the next one.
        let ends = b.setp(Cmp::Ge, step, of);
        let begun = b.setp(Cmp::Gt, step, 0);
        let ends = b.and(ends, begun);
        let step = b.select::<u32>(ends, 0, step);
        let further = b.select::<u32>(ends, 1, 0);
        let index = b.eval(tile + further);
        let work_tile = b.eval(head * tiles_of_head + work_tiles + index);
        let leaves = b.setp(Cmp::Ge, index, costs.tiles);
        let further = b.select::<u32>(leaves, 1, 0);
        let place = b.eval(head * self.batch + sequence + further);
        let index = b.select::<u32>(leaves, 0, index);
        [work_tile, step, place, index]
    }

    /// The work tile at `cost` of a head.
    fn tile_at(&self, b: &mut Builder, costs: &Costs, cost: Reg<f32>) -> Reg<u32> {
        let low = b.value::<u32>(0);
        let high = b.value(costs.tiles);
        b.while_(
            |b| {
                let width = b.eval(high - low);
                b.setp(Cmp::Gt, width, 1)
            },
            |b| {
                let middle = b.eval((low + high) / 2);
                let x = b.to_f32(middle);
                let before = costs.of_first(b, x);
                let behind = b.setp(Cmp::Le, before, cost);
                let next = b.select::<u32>(behind, middle, low);
                b.assign(low, next);
                let next = b.select::<u32>(behind, high, middle);
                b.assign(high, next);
            },
        );
        low
    }

    /// How many KV tiles of a work tile are before `cost`, and how many there are.
    fn step_at(
        &self,
        b: &mut Builder,
        params: &Params,
        costs: &Costs,
        kv_head: KvHead,
        tile: Reg<u32>,
        cost: Reg<f32>,
    ) -> (Reg<u32>, Reg<u32>) {
        let x = b.to_f32(tile);
        let next = b.add(x, 1.0);
        let [start, end] = [x, next].map(|x| costs.of_first(b, x));
        let into = b.sub(cost, start);
        let into = b.sub(into, self.tuning.ends);
        let width = b.sub(end, start);
        let width = b.sub(width, self.tuning.ends);
        let width = b.max(width, 1e-3);
        let inverse = b.rcp(width);
        let share = b.mul(into, inverse);
        let share = b.min(share, 1.0);
        let split = SplitIndex::new(b.value(0));
        let index = WorkTileIndex::new(tile);
        let tile = Tile { sequence: costs.number, kv_head, index, split, counter: None };
        let open = params.open_work_tile(b, costs.sequence, tile);
        let steps = open.range.count(b).reinterpret::<u32>();
        let all = b.to_f32(steps);
        let step = b.mul(share, all);
        let step = b.round_to_u32(step);
        (b.eval(step.min(steps)), steps)
    }

    /// Where a work tile of `of` steps is cut instead of at `step`: not at all where that saves little of a
    /// share.
    fn snap(&self, b: &mut Builder, step: Reg<u32>, of: Reg<u32>, share: Reg<u32>) -> Reg<u32> {
        let twice = b.eval(step + step);
        let late = b.setp(Cmp::Gt, twice, of);
        let nearest = b.select::<u32>(late, of, 0);
        if self.exchange.is_none() {
            return nearest;
        }
        let smaller = b.eval(step.min(of - step));
        let small = b.to_f32(share);
        let small = b.mul(small, self.unscale);
        let small = b.mul(small, self.tuning.smallest);
        let small = b.round_to_u32(small);
        let tiny = b.setp(Cmp::Le, smaller, small);
        let short = b.setp(Cmp::Lt, of, self.tuning.whole);
        let whole = b.or(tiny, short);
        b.select::<u32>(whole, nearest, step)
    }

    /// Memory for parts of work tiles, where they are cut.
    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
    }

    /// Runs `body` for each of this CTA's work tiles, last to first, with the part of it that is its own.
    #[track_caller]
    pub fn for_each(
        &self,
        b: &mut Builder,
        params: &Params,
        lead: Lead,
        body: impl FnOnce(&mut Builder, OpenTile),
    ) {
        let in_tail = self.tail.map(|_| b.predicate(false));
        let share = self.share(b, in_tail);
        b.while_(
            |b| b.setp(Cmp::Gt, share.remaining, 0),
            |b| {
                let back = b.setp(Cmp::Eq, share.index, 0);
                let one = b.select::<u32>(back, 1, 0);
                b.assign(share.place, share.place - one);
                let head = b.eval(share.place / self.batch);
                let sequence = SequenceIndex::new(b.eval(share.place - head * self.batch));
                let lengths = params.keys().lengths.sequence(b, sequence);
                let tiles = params.tiling.tiles(b, lengths.q_len);
                let next = b.select::<u32>(back, tiles, share.index);
                b.assign(share.index, next);
                let any = b.setp(Cmp::Gt, share.index, 0);
                b.if_(any, |b| {
                    b.assign(share.index, share.index - 1);
                    let open = self.open(b, params, &share, lengths, (sequence, KvHead::new(head)));
                    body(b, open);
                    b.assign(share.remaining, share.remaining - 1);
                    self.go_on(b, &share, lead);
                });
            },
        );
    }

    /// Goes on to this CTA's piece of the tail, where there is one, when its share is done.
    fn go_on(&self, b: &mut Builder, share: &Share, lead: Lead) {
        let Some((tail, in_tail)) = self.tail.zip(share.in_tail) else { return };
        let done = b.setp(Cmp::Eq, share.remaining, 0);
        let in_share = b.not(in_tail);
        let ends = b.and(done, in_share);
        // Votes keep the warp together, as the assembler wants it around matrix products.
        let ends = b.vote_any(ends);
        b.if_(ends, |b| {
            let any = tail.any(b);
            let any = b.vote_any(any);
            b.if_(any, |b| {
                if lead == Lead::Leads {
                    self.take_piece(b, &tail);
                }
                tail.wait(b);
                let yes = b.predicate(true);
                b.assign(in_tail, yes);
                let piece = self.share(b, share.in_tail);
                b.assign(share.remaining, piece.remaining);
                b.assign(share.place, piece.place);
                b.assign(share.index, piece.index);
            });
        });
    }

    /// The first thread of the CTA, which brings keys and is ahead of those that multiply, takes the piece.
    fn take_piece(&self, b: &mut Builder, tail: &Tail) {
        let thread = b.thread();
        let takes = b.setp(Cmp::Eq, thread, 0);
        b.if_(takes, |b| {
            let pieces = self.count(b);
            tail.take(b, pieces, self.shared().boundaries.plus(TAIL_OFFSET));
        });
        b.warp_sync();
    }

    fn share(&self, b: &mut Builder, in_tail: Option<Reg<bool>>) -> Share {
        let at = self.boundaries(b, in_tail);
        let [start, end] = self.both(b, at);
        let place = b.ld_shared_vector::<u32>(at.plus(WORDS * 4 + 8), 2);
        let cut = b.setp(Cmp::Gt, end.step, 0);
        let one = b.select::<u32>(cut, 1, 0);
        let work_tiles = b.eval(end.work_tile - start.work_tile);
        Share {
            remaining: b.eval(work_tiles + one),
            place: b.value(place[0]),
            index: b.eval(place[1] + one),
            in_tail,
        }
    }

    /// Where the boundaries of the share are, or those of the piece of the tail.
    fn boundaries(&self, b: &mut Builder, in_tail: Option<Reg<bool>>) -> SmemPtr {
        let at = self.shared().boundaries;
        match in_tail {
            None => at,
            Some(in_tail) => {
                let offset = b.select::<u32>(in_tail, TAIL_OFFSET, 0);
                b.smem_add(at, offset)
            }
        }
    }

    /// Both boundaries. Roles read them again for each work tile: registers are scarcer.
    fn both(&self, b: &mut Builder, at: SmemPtr) -> [Boundary; 2] {
        [0, WORDS * 4].map(|offset| {
            let words = b.ld_shared_vector::<u32>(at.plus(offset), 2);
            Boundary { work_tile: words[0], step: words[1] }
        })
    }

    /// The number of the share, or of the piece of the tail behind all shares.
    fn number_of_part(&self, b: &mut Builder, in_tail: Option<Reg<bool>>) -> Reg<u32> {
        let Some((tail, in_tail)) = self.tail.zip(in_tail) else { return self.number(b) };
        tail.number(b, in_tail)
    }

    fn open(
        &self,
        b: &mut Builder,
        params: &Params,
        share: &Share,
        lengths: Sequence,
        (sequence, kv_head): (SequenceIndex, KvHead),
    ) -> OpenTile {
        let split = SplitIndex::new(b.value(0));
        let index = WorkTileIndex::new(b.value(share.index));
        let tile = Tile { sequence, kv_head, index, split, counter: None };
        let mut open = params.open_work_tile(b, lengths, tile);
        let Some(_) = self.exchange else { return open };
        let end = open.range.end.reg();
        let all = open.range.count(b).reinterpret::<u32>();
        let at = self.boundaries(b, share.in_tail);
        let [start, end_of_share] = self.both(b, at);
        let last = b.setp(Cmp::Gt, share.remaining, end_of_share.work_tile - start.work_tile);
        let upto = b.select::<u32>(last, end_of_share.step, all);
        let first = b.setp(Cmp::Eq, share.remaining, 1);
        let skipped = b.select::<u32>(first, start.step, 0);
        open.range = TileRange::new(
            b.eval(end - upto.reinterpret::<i32>()),
            b.eval(end - skipped.reinterpret::<i32>()),
        );
        open.part = Some(Part {
            gives: b.setp(Cmp::Lt, upto, all),
            follows: b.setp(Cmp::Gt, skipped, 0),
            share: self.number_of_part(b, share.in_tail),
        });
        open
    }
}

/// The head that `target` falls into, where heads cost `of_head` each, and the cost before it there.
#[track_caller]
fn head_at(b: &mut Builder, target: Reg<u32>, of_head: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
    let head = b.eval(target / of_head.max(1));
    (head, b.eval(target - head * of_head))
}

/// Whether `target` falls into what begins at `start` and costs `cost`.
#[track_caller]
fn falls_into(b: &mut Builder, target: Reg<u32>, start: Reg<u32>, cost: Reg<u32>) -> Reg<bool> {
    let end = b.eval(start + cost);
    let begun = b.setp(Cmp::Ge, target, start);
    let within = b.setp(Cmp::Lt, target, end);
    b.and(begun, within)
}
