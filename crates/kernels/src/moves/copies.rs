//! Copies of rows of keys and values to shared memory: in one piece, or page by page.

use crate::call::index::{KvTile, RowBlockIndex};
use crate::call::rows::Block;
use crate::call::sequence::element;
use crate::call::task::{Keys, OpenTile, Params};
use crate::call::tensors::QueryBox;
use ptx::build::{
    Arg, Builder, Cmp, Mbarrier, Reg, RemoteMbarrier, SharedTile, SignalCursor, Signals, SmemPtr,
    TensorMapParam,
};

/// Lanes of a warp.
const LANES: u32 = 32;

/// Where one tile of rows goes: panels side by side.
#[derive(Clone, Copy, Debug)]
pub struct Panels {
    /// First panel.
    pub at: SmemPtr,
    /// Bytes of a panel.
    pub bytes: u32,
    /// Panels.
    pub count: u32,
    /// Rows.
    pub rows: u32,
    /// CTAs of the cluster that get the copy, `None` for this one alone.
    pub ctas: Option<Reg<u16>>,
}

/// The barrier a copy is counted on.
#[derive(Clone, Copy, Debug)]
pub enum Counter {
    /// Of the CTA that gets the copy.
    Own(Mbarrier),
    /// Of the even CTA of a CTA pair, for the copies of both.
    OfCtaPair(PairBarrier),
    /// No barrier: the rows come no nearer than L2.
    Prefetch,
}

/// The barrier of the even CTA on which the like copies of both CTAs of a CTA pair are counted. The even CTA announces
/// the bytes of both. Copies of the odd one may come before that: the phase still lacks the even CTA's arrival.
#[derive(Clone, Copy, Debug)]
pub struct PairBarrier {
    /// The barrier at this place in this CTA.
    own: Mbarrier,
    /// That of the even CTA.
    counts: RemoteMbarrier,
    even: Reg<bool>,
    fills: PairFills,
}

/// Who arrives where both CTAs of a CTA pair fill their buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairFills {
    /// The even CTA: whatever comes is announced.
    Copies,
    /// Both: sometimes threads finish what copies brought, and arrive for it.
    CopiesAndThreads,
}

impl PairFills {
    /// Arrivals that make a buffer full.
    pub fn arrivals(self) -> u32 {
        match self {
            PairFills::Copies => 1,
            PairFills::CopiesAndThreads => 2,
        }
    }
}

impl PairBarrier {
    /// The barrier for copies to the place that `own` guards, in a CTA that is `even` or not.
    #[track_caller]
    pub fn new(b: &mut Builder, own: Mbarrier, even: Reg<bool>, fills: PairFills) -> Self {
        PairBarrier { own, counts: own.in_cta(b, 0), even, fills }
    }

    #[track_caller]
    fn arrive_expect(&self, b: &mut Builder, bytes: u32) {
        self.own.arrive_expect_if(b, self.even, 2 * bytes);
        if self.fills == PairFills::CopiesAndThreads {
            let odd = b.not(self.even);
            self.counts.arrive_if(b, odd);
        }
    }
}

impl Counter {
    /// Arrives once and announces `bytes` of copies; a prefetch has nobody to tell.
    #[track_caller]
    pub fn arrive_expect(self, b: &mut Builder, bytes: u32) {
        match self {
            Counter::Own(barrier) => barrier.arrive_expect(b, bytes),
            Counter::OfCtaPair(barrier) => barrier.arrive_expect(b, bytes),
            Counter::Prefetch => {}
        }
    }

    /// Arrives once where `p` holds.
    #[track_caller]
    pub fn arrive_if(self, b: &mut Builder, p: Reg<bool>) {
        match self {
            Counter::Own(barrier) => barrier.arrive_if(b, p),
            Counter::OfCtaPair(barrier) => barrier.counts.arrive_if(b, p),
            Counter::Prefetch => {}
        }
    }
}

impl From<Mbarrier> for Counter {
    fn from(barrier: Mbarrier) -> Self {
        Counter::Own(barrier)
    }
}

impl From<PairBarrier> for Counter {
    fn from(barrier: PairBarrier) -> Self {
        Counter::OfCtaPair(barrier)
    }
}

/// The first column of a copy: known when the kernel is emitted, or behind one that is not.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Column found at run time.
    pub base: Option<Reg<u32>>,
    /// Columns behind it.
    pub offset: u32,
}

impl Column {
    /// Column `offset` of every row.
    pub fn fixed(offset: u32) -> Self {
        Column { base: None, offset }
    }

    /// The coordinate so many columns on.
    #[track_caller]
    pub fn plus(self, b: &mut Builder, columns: u32) -> Arg<i32> {
        let offset = self.offset + columns;
        match self.base {
            None => (offset as i32).into(),
            Some(base) => Builder::coordinate(b.eval(base + offset)),
        }
    }
}

impl Panels {
    /// The blocks of a K-major tile, for this CTA alone.
    pub fn of(tile: SharedTile) -> Self {
        let layout = tile.layout();
        Panels {
            at: tile.at(),
            bytes: layout.block_bytes() as u32,
            count: layout.blocks() as u32,
            rows: layout.lines() as u32,
            ctas: None,
        }
    }

    /// Bytes of the tile.
    pub fn total_bytes(&self) -> u32 {
        self.bytes * self.count
    }

    /// Bytes of a row of a panel.
    pub fn row_bytes(&self) -> u32 {
        self.bytes / self.rows
    }

    /// Zeroes the rows from `first` on, all lanes of a warp together.
    #[track_caller]
    pub fn clear_rows(&self, b: &mut Builder, first: Reg<u32>) {
        let lane = b.special("%laneid");
        let start = b.eval(first * self.row_bytes());
        let start = b.eval(lane * 16 + start);
        let zero = b.value::<u32>(0);
        for panel in 0..self.count {
            let at = self.at.plus(panel * self.bytes);
            let offset = b.value(start);
            b.while_(
                |b| b.setp(Cmp::Lt, offset, self.bytes),
                |b| {
                    let to = b.smem_add(at, offset);
                    b.st_shared_vector(to, &[zero; 4]);
                    b.assign(offset, offset + 32 * 16);
                },
            );
        }
    }
}

/// How one warp publishes tiles whose last rows may lie past the end of a sequence, where memory may
/// hold anything: a probability of zero times whatever lies there must be zero.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    /// Signals that the copies of a tile that is not published yet have arrived.
    arrived: SignalCursor,
}

impl Tail {
    /// A warp's tail, over signals of its own of one arrival each.
    #[track_caller]
    pub fn new(b: &mut Builder, lead: Reg<bool>, signals: &Signals) -> Self {
        Tail { lead, arrived: signals.cursor(b) }
    }

    /// Publishes tile `n` on `full`. `copy` issues its copies on the barrier it is given: on `full`
    /// itself, or, where rows past the end of the sequence must be zeroed first, on the tail's.
    #[track_caller]
    pub fn publish(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        to: Panels,
        full: impl Into<Counter>,
        copy: impl Fn(&mut Builder, Counter),
    ) {
        let full = full.into();
        let first = n.first_key(b, to.rows);
        let rows_left = b.eval(open.sequence.k_len.reinterpret::<i32>() - first);
        let partial = b.setp(Cmp::Lt, rows_left, to.rows as i32);
        b.if_else(
            partial,
            |b| {
                let arrived = self.arrived.barrier(b);
                copy(b, arrived.into());
                self.arrived.wait(b);
                self.arrived.advance(b);
                let rows = b.eval(rows_left.max(0));
                to.clear_rows(b, rows.reinterpret());
                b.fence_proxy_async();
                b.warp_sync();
                full.arrive_if(b, self.lead);
            },
            |b| copy(b, full),
        );
    }
}

impl Counter {
    /// Issues a copy that is counted here, for `ctas` or this CTA alone.
    #[track_caller]
    fn load(
        self,
        b: &mut Builder,
        at: SmemPtr,
        map: TensorMapParam,
        coordinates: &[Arg<i32>],
        ctas: Option<Reg<u16>>,
    ) {
        match (self, ctas) {
            (Counter::Own(barrier), None) => b.tma_load(at, map, coordinates, barrier),
            (Counter::Own(barrier), Some(ctas)) => {
                b.tma_load_multicast(at, map, coordinates, barrier, ctas);
            }
            (Counter::OfCtaPair(barrier), _) => {
                b.tma_load_cta_pair(at, map, coordinates, barrier.counts);
            }
            (Counter::Prefetch, _) => b.tma_prefetch(map, coordinates),
        }
    }
}

impl Counter {
    /// Issues a copy of four rows of a tensor from `column` on that is counted here, for this CTA.
    #[track_caller]
    pub fn gather(
        self,
        b: &mut Builder,
        at: SmemPtr,
        map: TensorMapParam,
        column: Arg<i32>,
        rows: [Reg<u32>; 4],
    ) {
        match self {
            Counter::Own(barrier) => b.tma_gather(at, map, column, rows, barrier),
            Counter::OfCtaPair(barrier) => {
                b.tma_gather_cta_pair(at, map, column, rows, barrier.counts);
            }
            Counter::Prefetch => panic!("rows that lists name come from memory at once"),
        }
    }
}

impl Params {
    /// Issues (one thread) the copies of the queries of block `number`, counted on `barrier`.
    #[track_caller]
    pub fn copy_queries(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        number: RowBlockIndex,
        to: Panels,
        barrier: impl Into<Counter>,
    ) {
        let barrier = barrier.into();
        let block = Block::at(b, self.tiling.packing, self.tiling.group, number);
        let token = b.eval(open.sequence.q_start + block.token.reg());
        let rows = [block.head.reg(), token].map(Builder::coordinate);
        let kv_head = Builder::coordinate(open.tile.kv_head.reg());
        let batch = Builder::coordinate(open.sequence.q_batch.reg());
        let mut load = |column: u32, at, [inner, outer]: [Arg<i32>; 2]| {
            let [head, token] = rows.clone();
            let coordinates = [Arg::from(column as i32), head, token, inner, outer];
            let map = self.tma_q.expect("tensor copies of queries");
            barrier.load(b, at, map, &coordinates, to.ctas);
        };
        match self.query_box {
            QueryBox::OfSequence => load(0, to.at, [0.into(), batch]),
            QueryBox::OfKvHead => load(0, to.at, [0.into(), kv_head]),
            QueryBox::Panel => (0..to.count).for_each(|panel| {
                let (column, at) = (panel * self.tiling.panel.columns(), panel * to.bytes);
                load(column, to.at.plus(at), [kv_head.clone(), batch.clone()]);
            }),
        }
    }
}

/// Where the runs of rows of a KV tile are that lie in one page each: lane `n` of a warp knows run `n`.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Page of the run.
    page: Reg<u32>,
    /// Its first row there.
    within: Reg<u32>,
}

impl Keys {
    /// Asks (a whole warp) where the rows of tile `n` are, of `rows` keys; `None` where they are not in pages, or a
    /// warp has fewer lanes than there are runs.
    ///
    /// What is asked for before the wait for a place in shared memory comes during that wait. The copies would wait
    /// for it otherwise, one after the other.
    #[track_caller]
    pub fn look_up_runs(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        rows: u32,
    ) -> Option<Runs> {
        let pages = self.page_table?;
        let (step, runs) = (self.rows_per_copy, rows / self.rows_per_copy);
        if runs > LANES {
            return None;
        }
        let first = n.first_key(b, rows).reinterpret::<u32>();
        let key = match runs {
            1 => first,
            _ => {
                let lane = b.special("%laneid");
                let key = b.eval(lane.min(runs - 1) * step + first);
                // Behind the last key the first rows come once more: they are on their way already.
                let exists = b.setp(Cmp::Lt, key, open.sequence.k_len);
                b.select::<u32>(exists, key, first)
            }
        };
        let (entry, within) = pages.page_rows.divide(b, key);
        let entry = b.eval(open.tile.sequence.reg() * pages.pages_per_sequence + entry);
        let at = element(b, pages.table, entry);
        let page = b.ld_global::<u32>(at);
        Some(Runs { page, within })
    }

    /// Issues (a whole warp, of which one thread is the `lead`) the copies of the rows of a tile whose runs have been
    /// looked up, counted on `barrier`.
    #[track_caller]
    pub fn copy_runs(
        &self,
        b: &mut Builder,
        lead: Reg<bool>,
        open: &OpenTile,
        runs: Runs,
        map: TensorMapParam,
        to: Panels,
        barrier: Counter,
    ) {
        let (step, column) = (self.rows_per_copy, Column::fixed(0));
        if step == to.rows {
            let at = [runs.within, runs.page];
            return b.if_(lead, |b| self.copy_box(b, open, at, map, column, to, barrier));
        }
        b.range(0, to.rows / step, |b, run| {
            let at = [runs.within, runs.page].map(|own| b.lane_value(own, run));
            let to = Panels { at: b.smem_add(to.at, run * (step * to.row_bytes())), ..to };
            b.if_(lead, |b| self.copy_box(b, open, at, map, column, to, barrier));
        });
    }

    /// Issues (one thread) the copies of the rows of tile `n`, columns from `column` on, counted on
    /// `barrier`.
    #[track_caller]
    pub fn copy_rows(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        map: TensorMapParam,
        column: Column,
        to: Panels,
        barrier: impl Into<Counter>,
    ) {
        let barrier = barrier.into();
        let first = n.first_key(b, to.rows).reinterpret::<u32>();
        if self.page_table.is_some() {
            self.copy_pages(b, open, first, map, column, to, barrier);
        } else {
            let token = b.eval(first + open.sequence.k_start);
            self.copy_box(b, open, [token, open.sequence.k_batch.reg()], map, column, to, barrier);
        }
    }

    /// One copy per run of rows that lies in one page.
    #[track_caller]
    fn copy_pages(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        first: Reg<u32>,
        map: TensorMapParam,
        column: Column,
        to: Panels,
        barrier: Counter,
    ) {
        let pages = self.page_table.expect("a paged segment");
        let step = self.rows_per_copy;
        let row = b.eval(open.tile.sequence.reg() * pages.pages_per_sequence);
        let last_key = b.eval(open.sequence.k_len - 1);
        b.range(0, to.rows / step, |b, run| {
            let key = b.eval(run * step + first);
            let known = b.eval(key.min(last_key));
            let (entry, _) = pages.page_rows.divide(b, known);
            let entry = b.eval(row + entry);
            let at = element(b, pages.table, entry);
            let page = b.ld_global::<u32>(at);
            let (_, within) = pages.page_rows.divide(b, key);
            let to = Panels { at: b.smem_add(to.at, run * (step * to.row_bytes())), ..to };
            self.copy_box(b, open, [within, page], map, column, to, barrier);
        });
    }

    #[track_caller]
    fn copy_box(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        [token, outer]: [Reg<u32>; 2],
        map: TensorMapParam,
        column: Column,
        to: Panels,
        barrier: Counter,
    ) {
        for panel in 0..to.count {
            let coordinates = [
                column.plus(b, panel * self.panel.columns()),
                Builder::coordinate(token),
                Builder::coordinate(open.tile.kv_head.reg()),
                Builder::coordinate(outer),
            ];
            barrier.load(b, to.at.plus(panel * to.bytes), map, &coordinates, to.ctas);
        }
    }
}
