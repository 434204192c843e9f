//! Work shared out by lengths that only the device knows.
//!
//! A unit is a tile of queries of one KV head of one sequence. Units stand in a row: by sequence, by head,
//! by tile. Each costs its tiles of keys and a little for its ends, and every CTA (or cluster) takes the
//! same share of the whole cost, from one boundary to the next. A boundary may cut a unit between two
//! tiles of keys; the last of the CTAs that have parts of it finishes it (see
//! [`exchange`](crate::work::exchange)).
//!
//! Before its roles begin, each CTA finds its two boundaries by itself: the cost of a sequence's tiles has
//! a closed form, threads add up sequences, and the one whose sequence a boundary falls into says so.
//! Costs are integers there, so that all CTAs find the same boundaries, in order.
//!
//! Nothing depends on the largest lengths that the host was told, so a captured launch serves any batch.

use crate::call::sequence::Sequence;
use crate::call::task::{OpenTile, Params};
use crate::call::visible::{Ramp, TileRange};
use crate::work::exchange::{Buffers, Exchange, Part};
use crate::work::order::Tile;
use layout::Layout;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, Reg, SharedArray, SmemPtr};

/// What the ends of a unit cost, in tiles of keys.
pub const ENDS: f32 = 1.0;
/// The least share, in tiles of keys.
const LEAST: f32 = 4.0;
/// Units of fewer tiles of keys are not cut.
const WHOLE: u32 = 6;
/// No part is smaller than this fraction of a share.
const SMALLEST: f32 = 1.0 / 32.0;
/// The most that all costs add up to.
const MOST: f32 = (1u64 << 31) as f32;
/// Cost of a tile of keys, where there is room for it.
const FINEST: f32 = 64.0;
/// Words of a boundary: unit, step, sequence, index of the unit in the sequence.
const WORDS: u32 = 4;

/// What work there is, as far as the host knows.
#[derive(Clone, Copy, Debug)]
pub struct SharesOf {
    /// Sequences.
    pub batch: u32,
    /// KV heads of one sequence.
    pub kv_heads: u32,
    /// Tiles of keys of all units at most, whatever numbers stand for lengths.
    pub most_tiles: f32,
    /// Threads of a CTA.
    pub threads: u32,
    /// What a tile of keys costs where only one block of rows has queries; 1 where all have.
    pub lonely_tile: f32,
    /// Memory for the parts of units that are cut; none are without it.
    pub exchange: Option<Buffers>,
}

impl SharesOf {
    /// Cost of a tile of keys.
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
    exchange: Option<Exchange>,
    cluster: u32,
    /// Threads that add up sequences.
    threads: u32,
    one_round: bool,
    shared: Option<Shared>,
}

#[derive(Clone, Copy)]
struct Shared {
    /// Cost and units of each warp's sequences.
    sums: SmemPtr,
    /// The sequence that each boundary falls into, the cost before it in the sequence, and the units
    /// before the sequence.
    found: SmemPtr,
    /// Both boundaries.
    boundaries: SmemPtr,
}

/// Cost and number of units.
type Amount = [Reg<u32>; 2];

/// What the units of one head of a sequence cost.
struct Costs {
    sequence: Sequence,
    batch: Reg<u32>,
    tiles: Reg<u32>,
    step: Reg<f32>,
    end: Ramp,
    begin: Option<Ramp>,
}

impl Costs {
    /// What the first `x` tiles of queries cost, in tiles of keys.
    #[track_caller]
    fn of_first(&self, b: &mut Builder, x: Reg<f32>) -> Reg<f32> {
        let mut keys = self.end.area(b, x);
        if let Some(begin) = &self.begin {
            let hidden = begin.area(b, x);
            keys = b.sub(keys, hidden);
        }
        let keys = b.mul(keys, self.step);
        b.fma(x, ENDS, keys)
    }
}

/// This CTA's part of the work, in a role: from the end to the beginning.
#[derive(Clone, Copy)]
struct Share {
    /// Units that are left.
    left: Reg<u32>,
    /// Where the unit behind the next one is: its sequence, and its index there.
    batch: Reg<u32>,
    index: Reg<u32>,
}

/// A boundary of a share, read from shared memory.
struct Boundary {
    /// Units before it.
    unit: Reg<u32>,
    /// Tiles of keys of that unit before it.
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
            exchange: of.exchange.map(|buffers| Exchange::declare(b, args, &buffers)),
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
            (words(2 * self.warps()), words(2 * WORDS), words(2 * WORDS));
        self.shared = Some(Shared { sums, found, boundaries });
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
        if self.cluster > 1 { b.div(cta, self.cluster) } else { cta }
    }

    /// How many shares there can be.
    #[track_caller]
    fn count(&self, b: &mut Builder) -> Reg<u32> {
        let ctas = b.special("%nctaid.x");
        if self.cluster > 1 { b.div(ctas, self.cluster) } else { ctas }
    }

    /// Finds this CTA's boundaries (all threads).
    pub fn find(&self, b: &mut Builder, params: &Params) {
        let thread = b.thread();
        let total = (!self.one_round).then(|| {
            let own = [b.value::<u32>(0), b.value::<u32>(0)];
            self.for_each_round(b, thread, |b, at| {
                let amount = self.amount(b, params, at);
                for (sum, more) in own.into_iter().zip(amount) {
                    let more = b.add(sum, more);
                    b.assign(sum, more);
                }
            });
            let all = own.map(|own| b.join_lanes(own, 32, |b, x, y| b.add(x, y)));
            self.leave_sum(b, thread, 0, all);
            b.barrier_all();
            let (_, total) = self.sums(b, thread);
            b.barrier_all();
            total
        });
        let before = [b.value::<u32>(0), b.value::<u32>(0)];
        let targets = [b.value::<u32>(0), b.value::<u32>(0)];
        let each = b.value::<u32>(0);
        self.for_each_round(b, thread, |b, at| {
            let amount = self.amount(b, params, at);
            let lane = b.and(thread, 31);
            let sums = amount.map(|n| b.sum_up_to_lane(n, lane));
            self.leave_sum(b, thread, 31, sums);
            b.barrier_all();
            let (warps_before, all) = self.sums(b, thread);
            let next = [0, 1].map(|n| b.add(before[n], all[n]));
            let total = total.unwrap_or(next);
            self.set_targets(b, total[0], targets, each);
            let start = [0, 1].map(|n| {
                let lanes = b.add(sums[n], warps_before[n]);
                let end = b.add(lanes, before[n]);
                b.sub(end, amount[n])
            });
            self.claim(b, targets, at, amount, start);
            for (before, next) in before.into_iter().zip(next) {
                b.assign(before, next);
            }
            b.barrier_all();
        });
        self.leave_boundaries(b, params, thread, targets, each, before);
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
                let at = b.add(first, thread);
                body(b, at);
                let next = b.add(first, self.threads);
                b.assign(first, next);
            },
        );
    }

    /// Cost and number of the units of sequence `at`, none if there is no such sequence.
    fn amount(&self, b: &mut Builder, params: &Params, at: Reg<u32>) -> Amount {
        let amount = [b.value::<u32>(0), b.value::<u32>(0)];
        let exists = b.setp(Cmp::Lt, at, self.batch);
        b.if_(exists, |b| {
            let costs = self.costs(b, params, at);
            let of_head = self.of_head(b, &costs);
            for (amount, of_head) in amount.into_iter().zip([of_head, costs.tiles]) {
                let all = b.mul(of_head, self.kv_heads);
                b.assign(amount, all);
            }
        });
        amount
    }

    fn costs(&self, b: &mut Builder, params: &Params, batch: Reg<u32>) -> Costs {
        let tiling = &params.tiling;
        let keys = params.keys();
        let sequence = keys.lengths.sequence(b, batch);
        let tiles = params.tiling.tiles(b, sequence.q_len);
        let tokens = tiling.packing.tokens * tiling.blocks;
        let tokens = tokens as f32 / tiling.packing.head_blocks(tiling.group) as f32;
        let bounds = keys.visible.bounds(b, &sequence, batch);
        let (end, begin) = bounds.ramps(b, tokens);
        let blocks = b.setp(Cmp::Le, sequence.q_len, tiling.packing.tokens);
        let step = 1.0 / bounds.tile() as f32;
        let lonely = tiling.packing.head_blocks(tiling.group) == 1 && tiling.blocks > 1;
        let step = match lonely {
            true => b.select::<f32>(blocks, self.lonely_tile * step, step),
            false => b.value(step),
        };
        Costs { sequence, batch, tiles, step, end, begin }
    }

    /// The cost of one head, 0 only if there are no units.
    fn of_head(&self, b: &mut Builder, costs: &Costs) -> Reg<u32> {
        let tiles = b.to_f32(costs.tiles);
        let cost = costs.of_first(b, tiles);
        let cost = b.mul(cost, self.scale);
        let cost = b.round_to_u32(cost);
        let least = b.min(costs.tiles, 1);
        b.max(cost, least)
    }

    /// Leaves the amounts that `lane` has where the other warps find them.
    fn leave_sum(&self, b: &mut Builder, thread: Reg<u32>, lane: u32, sums: Amount) {
        let at = b.and(thread, 31);
        let writes = b.setp(Cmp::Eq, at, lane);
        b.if_(writes, |b| {
            let warp = b.shr(thread, 5);
            let at = b.mul(warp, 8);
            let at = b.smem_add(self.shared().sums, at);
            b.st_shared_vector(at, &sums);
        });
    }

    /// The amounts of the warps before this one, and of all.
    fn sums(&self, b: &mut Builder, thread: Reg<u32>) -> (Amount, Amount) {
        let warp = b.shr(thread, 5);
        let zero = b.value::<u32>(0);
        let (mut before, mut all) = ([zero; 2], [zero; 2]);
        for other in 0..self.warps() {
            let at = self.shared().sums.plus(other * 8);
            let amount = b.ld_shared_vector::<u32>(at, 2);
            let is_before = b.setp(Cmp::Gt, warp, other);
            for n in 0..2 {
                let counted = b.select::<u32>(is_before, amount[n], 0);
                before[n] = b.add(before[n], counted);
                all[n] = b.add(all[n], amount[n]);
            }
        }
        (before, all)
    }

    /// The cost before each of the two boundaries, and that of a share.
    fn set_targets(&self, b: &mut Builder, total: Reg<u32>, targets: Amount, each: Reg<u32>) {
        let in_tiles = b.to_f32(total);
        let in_tiles = b.mul(in_tiles, self.unscale);
        let shares = b.mul(in_tiles, 1.0 / LEAST);
        let shares = b.round_to_u32(shares);
        let shares = b.max(shares, 1);
        let most = self.count(b);
        let shares = b.min(shares, most);
        let quotient = b.div(total, shares);
        b.assign(each, quotient);
        let whole = b.mul(each, shares);
        let rest = b.sub(total, whole);
        let number = self.number(b);
        for (n, target) in targets.into_iter().enumerate() {
            let number = b.add(number, n as u32);
            let number = b.min(number, shares);
            let larger = b.min(number, rest);
            let cost = b.mad(number, each, larger);
            b.assign(target, cost);
        }
    }

    /// Leaves word of the boundaries that fall into sequence `at`, which begins at `start`.
    fn claim(
        &self,
        b: &mut Builder,
        targets: Amount,
        at: Reg<u32>,
        [cost, _]: Amount,
        [start, units]: Amount,
    ) {
        let end = b.add(start, cost);
        for (n, target) in targets.into_iter().enumerate() {
            let begun = b.setp(Cmp::Ge, target, start);
            let within = b.setp(Cmp::Lt, target, end);
            let falls_into = b.and(begun, within);
            b.if_(falls_into, |b| {
                let rest = b.sub(target, start);
                let to = self.shared().found.plus(n as u32 * WORDS * 4);
                b.st_shared_vector(to, &[at, rest, units, units]);
            });
        }
    }

    /// Two threads work out the boundaries.
    fn leave_boundaries(
        &self,
        b: &mut Builder,
        params: &Params,
        thread: Reg<u32>,
        targets: Amount,
        each: Reg<u32>,
        [total, units]: Amount,
    ) {
        let works = b.setp(Cmp::Lt, thread, 2);
        b.if_(works, |b| {
            let first = b.setp(Cmp::Eq, thread, 0);
            let target = b.select::<u32>(first, targets[0], targets[1]);
            // Behind everything.
            let boundary = [units, b.value::<u32>(0), self.batch, b.value::<u32>(0)];
            let boundary = boundary.map(|word| b.value::<u32>(word));
            let within = b.setp(Cmp::Lt, target, total);
            b.if_(within, |b| {
                let inside = self.inside(b, params, thread, each);
                for (word, inside) in boundary.into_iter().zip(inside) {
                    b.assign(word, inside);
                }
            });
            let offset = b.mul(thread, WORDS * 4);
            let to = b.smem_add(self.shared().boundaries, offset);
            b.st_shared_vector(to, &boundary);
        });
    }

    /// The boundary that falls into a sequence, of this thread's number.
    fn inside(
        &self,
        b: &mut Builder,
        params: &Params,
        thread: Reg<u32>,
        share: Reg<u32>,
    ) -> [Reg<u32>; WORDS as usize] {
        let offset = b.mul(thread, WORDS * 4);
        let from = b.smem_add(self.shared().found, offset);
        let found = b.ld_shared_vector::<u32>(from, 4);
        let (batch, rest, units) = (found[0], found[1], found[2]);
        let costs = self.costs(b, params, batch);
        let of_head = self.of_head(b, &costs);
        let head = b.div(rest, of_head);
        let heads = b.mul(head, of_head);
        let rest = b.sub(rest, heads);
        let rest = b.to_f32(rest);
        let rest = b.mul(rest, self.unscale);
        let tile = self.tile_at(b, &costs, rest);
        let index = b.mad(head, costs.tiles, tile);
        let (step, of) = self.step_at(b, params, &costs, head, tile, rest);
        let step = self.snap(b, step, of, share);
        // At the end of a unit is the beginning of the next one.
        let ends = b.setp(Cmp::Ge, step, of);
        let begun = b.setp(Cmp::Gt, step, 0);
        let ends = b.and(ends, begun);
        let step = b.select::<u32>(ends, 0, step);
        let further = b.select::<u32>(ends, 1, 0);
        let index = b.add(index, further);
        let unit = b.add(units, index);
        let all = b.mul(costs.tiles, self.kv_heads);
        let leaves = b.setp(Cmp::Ge, index, all);
        let further = b.select::<u32>(leaves, 1, 0);
        let batch = b.add(batch, further);
        let index = b.select::<u32>(leaves, 0, index);
        [unit, step, batch, index]
    }

    /// The tile of queries at `cost` of a head.
    fn tile_at(&self, b: &mut Builder, costs: &Costs, cost: Reg<f32>) -> Reg<u32> {
        let low = b.value::<u32>(0);
        let high = b.value(costs.tiles);
        b.while_(
            |b| {
                let width = b.sub(high, low);
                b.setp(Cmp::Gt, width, 1)
            },
            |b| {
                let sum = b.add(low, high);
                let middle = b.shr(sum, 1);
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

    /// How many tiles of keys of a unit are before `cost`, and how many there are.
    fn step_at(
        &self,
        b: &mut Builder,
        params: &Params,
        costs: &Costs,
        kv_head: Reg<u32>,
        tile: Reg<u32>,
        cost: Reg<f32>,
    ) -> (Reg<u32>, Reg<u32>) {
        let x = b.to_f32(tile);
        let next = b.add(x, 1.0);
        let [start, end] = [x, next].map(|x| costs.of_first(b, x));
        let into = b.sub(cost, start);
        let into = b.sub(into, ENDS);
        let width = b.sub(end, start);
        let width = b.sub(width, ENDS);
        let width = b.max(width, 1e-3);
        let inverse = b.rcp(width);
        let share = b.mul(into, inverse);
        let share = b.min(share, 1.0);
        let split = b.value::<u32>(0);
        let tile = Tile { batch: costs.batch, kv_head, index: tile, split };
        let open = params.open_unit(b, costs.sequence, tile);
        let steps = b.sub(open.range.end, open.range.begin).reinterpret::<u32>();
        let all = b.to_f32(steps);
        let step = b.mul(share, all);
        let step = b.round_to_u32(step);
        (b.min(step, steps), steps)
    }

    /// Where a unit of `of` steps is cut instead of at `step`: not at all where that saves little of a
    /// share.
    fn snap(&self, b: &mut Builder, step: Reg<u32>, of: Reg<u32>, share: Reg<u32>) -> Reg<u32> {
        let twice = b.add(step, step);
        let late = b.setp(Cmp::Gt, twice, of);
        let nearest = b.select::<u32>(late, of, 0);
        if self.exchange.is_none() {
            return nearest;
        }
        let left = b.sub(of, step);
        let smaller = b.min(step, left);
        let small = b.to_f32(share);
        let small = b.mul(small, self.unscale);
        let small = b.mul(small, SMALLEST);
        let small = b.round_to_u32(small);
        let tiny = b.setp(Cmp::Le, smaller, small);
        let short = b.setp(Cmp::Lt, of, WHOLE);
        let whole = b.or(tiny, short);
        b.select::<u32>(whole, nearest, step)
    }

    /// Memory for parts of units, where they are cut.
    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
    }

    /// Runs `body` for each of this CTA's units, last to first, with the part of it that is its own.
    #[track_caller]
    pub fn for_each(
        &self,
        b: &mut Builder,
        params: &Params,
        body: impl FnOnce(&mut Builder, OpenTile),
    ) {
        let share = self.share(b);
        b.while_(
            |b| b.setp(Cmp::Gt, share.left, 0),
            |b| {
                let back = b.setp(Cmp::Eq, share.index, 0);
                let one = b.select::<u32>(back, 1, 0);
                let batch = b.sub(share.batch, one);
                b.assign(share.batch, batch);
                let sequence = params.keys().lengths.sequence(b, share.batch);
                let tiles = params.tiling.tiles(b, sequence.q_len);
                let all = b.mul(tiles, self.kv_heads);
                b.if_else(
                    back,
                    |b| b.assign(share.index, all),
                    |b| {
                        let index = b.sub(share.index, 1);
                        b.assign(share.index, index);
                        let open = self.open(b, params, &share, sequence, tiles);
                        body(b, open);
                        let left = b.sub(share.left, 1);
                        b.assign(share.left, left);
                    },
                );
            },
        );
    }

    fn share(&self, b: &mut Builder) -> Share {
        let [start, end] = self.both(b);
        let at = self.shared().boundaries.plus(WORDS * 4 + 8);
        let place = b.ld_shared_vector::<u32>(at, 2);
        let cut = b.setp(Cmp::Gt, end.step, 0);
        let one = b.select::<u32>(cut, 1, 0);
        let units = b.sub(end.unit, start.unit);
        Share { left: b.add(units, one), batch: b.value(place[0]), index: b.add(place[1], one) }
    }

    /// Both boundaries. Roles read them again for each unit: registers are scarcer.
    fn both(&self, b: &mut Builder) -> [Boundary; 2] {
        [0, WORDS * 4].map(|offset| {
            let at = self.shared().boundaries.plus(offset);
            let words = b.ld_shared_vector::<u32>(at, 2);
            Boundary { unit: words[0], step: words[1] }
        })
    }

    fn open(
        &self,
        b: &mut Builder,
        params: &Params,
        share: &Share,
        sequence: Sequence,
        tiles: Reg<u32>,
    ) -> OpenTile {
        let kv_head = b.div(share.index, tiles);
        let heads = b.mul(kv_head, tiles);
        let index = b.sub(share.index, heads);
        let split = b.value::<u32>(0);
        let tile = Tile { batch: share.batch, kv_head, index, split };
        let mut open = params.open_unit(b, sequence, tile);
        let Some(_) = self.exchange else { return open };
        let TileRange { begin, end } = open.range;
        let all = b.sub(end, begin).reinterpret::<u32>();
        let [start, end_of_share] = self.both(b);
        let behind = b.sub(end_of_share.unit, start.unit);
        let last = b.setp(Cmp::Gt, share.left, behind);
        let upto = b.select::<u32>(last, end_of_share.step, all);
        let first = b.setp(Cmp::Eq, share.left, 1);
        let skipped = b.select::<u32>(first, start.step, 0);
        open.range = TileRange {
            begin: b.sub(end, upto.reinterpret::<i32>()),
            end: b.sub(end, skipped.reinterpret::<i32>()),
        };
        open.part = Some(Part {
            gives: b.setp(Cmp::Lt, upto, all),
            follows: b.setp(Cmp::Gt, skipped, 0),
            share: self.number(b),
        });
        open
    }
}
