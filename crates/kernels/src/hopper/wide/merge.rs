//! Parts of the keys, merged in a cluster.
//!
//! Where there are fewer row blocks than processors, the CTAs of a cluster take parts of the keys
//! of one block. At the end every CTA finishes some of the columns: the others send it theirs,
//! register by register, through distributed shared memory (`st.async`, counted in bytes on the
//! receiver's barrier), and their rows' states. This takes no second launch and no way through memory.
//!
//! Strips of columns go to the parts in order: the left warpgroup's to the first half of the parts, the
//! right one's to the second. They land where keys and values were, states where probabilities were,
//! so a sender first waits until all parts are done with both.

use super::kernel::{Frame, WARPS};
use crate::call::task::OpenTile;
use crate::hopper::ROWS;
use crate::hopper::epilogue::{self, Columns};
use crate::hopper::fragment;
use crate::math::softmax::RowState;
use crate::moves::output::BlockOutput;
use layout::Layout;
use ptx::build::{Builder, Cmp, Reg, SharedArray, Signals, SmemPtr};

/// Threads of a warpgroup.
const THREADS: u32 = WARPS * 32;
/// Numbers of a row's state.
const STATE: u32 = 2;
/// Registers stored at once.
const VECTOR: usize = 4;

/// Where the parts of the keys meet.
#[derive(Clone, Copy)]
pub struct Meeting {
    columns: SmemPtr,
    states: SmemPtr,
    /// Every part is done with the memory that the others will write to.
    ready: Signals,
    /// Everything has come.
    come: Signals,
}

impl Meeting {
    /// Reserves barriers; columns and states come to places that are free by then.
    pub fn reserve(b: &mut Builder, base: SmemPtr, columns: SmemPtr, states: SmemPtr) -> Self {
        let [ready, come] = [0, 1].map(|_| Signals::reserve(b, base, 1));
        Meeting { columns, states, ready, come }
    }

    /// Initialises the barriers (one thread).
    #[track_caller]
    pub fn init(&self, b: &mut Builder, parts: u32) {
        self.ready.init(b, parts * 2 * WARPS);
        // Each warpgroup says once what it expects.
        self.come.init(b, 2);
    }
}

/// One warpgroup's share of a merge.
pub struct Merging<'a> {
    frame: &'a Frame,
    /// All columns of the warpgroup.
    all: Columns<'a>,
    /// The part that finishes the first strip of the columns.
    owner: u32,
}

impl<'a> Merging<'a> {
    /// The left warpgroup's share.
    pub fn left(frame: &'a Frame, all: Columns<'a>) -> Self {
        Merging { frame, all, owner: 0 }
    }

    /// The right warpgroup's share.
    pub fn right(frame: &'a Frame, all: Columns<'a>) -> Self {
        Merging { frame, all, owner: frame.config.parts / 2 }
    }

    /// Registers of each strip.
    fn strips(&self) -> std::slice::ChunksExact<'a, Reg<f32>> {
        self.all.out.chunks_exact(self.all.out.len() / (self.frame.config.parts as usize / 2))
    }

    /// Says that this warpgroup is done with its memory, waits until all parts are, and sends them
    /// columns and, where this warpgroup has them, the rows' `states`.
    #[track_caller]
    pub fn meet(&self, b: &mut Builder, states: Option<[RowState; 2]>) {
        let Frame { config, shared, part, .. } = self.frame;
        let first = b.setp(Cmp::Eq, self.all.thread, 0);
        b.if_(first, |b| {
            let strip = self.all.out.len() as u32 * 2 / config.parts * THREADS * 4;
            let since_owner = b.eval(part.reg() - self.owner);
            let owns = b.setp(Cmp::Lt, since_owner, config.parts / 2);
            let columns = b.select::<u32>(owns, (config.parts - 1) * strip, 0);
            let states = states.map_or(0, |_| config.parts * ROWS * STATE * 4);
            let bytes = b.eval(columns + states);
            let come = shared.meeting.come.cursor(b).barrier(b);
            come.arrive_expect(b, bytes);
        });
        let ready = shared.meeting.ready.cursor(b);
        let barrier = ready.barrier(b);
        let lane = b.eval(self.all.thread % 32);
        let lead = b.setp(Cmp::Eq, lane, 0);
        b.warp_sync();
        b.if_(lead, |b| {
            for part in 0..config.parts {
                let rank = self.rank_of(b, part);
                barrier.arrive_remote(b, rank);
            }
        });
        ready.wait(b);
        if let Some(states) = states {
            self.send_states(b, states);
        }
        self.send_columns(b);
    }

    /// The CTA of a part with the same row block.
    #[track_caller]
    fn rank_of(&self, b: &mut Builder, part: u32) -> Reg<u32> {
        b.eval(self.frame.block + part * self.frame.config.multicast)
    }

    /// Sends the states of this thread's two rows to every part.
    #[track_caller]
    fn send_states(&self, b: &mut Builder, states: [RowState; 2]) {
        let meeting = &self.frame.shared.meeting;
        let quad = b.eval(self.all.thread % 4);
        let first_of_row = b.setp(Cmp::Eq, quad, 0);
        let row = fragment::first_row(b, self.all.thread);
        let places = self.states();
        let at = places.element(b, &[row, self.frame.part.reg()]);
        b.if_(first_of_row, |b| {
            for part in 0..self.frame.config.parts {
                let rank = self.rank_of(b, part);
                let (to, come) = (at.in_cta(b, rank), meeting.come.cursor(b).barrier(b));
                let come = come.in_cta(b, rank);
                for (half, state) in states.iter().enumerate() {
                    let to = to.plus(places.offset(&[half as u32 * 8]));
                    b.st_async_vector(to, &[state.max, state.sum], come);
                }
            }
        });
    }

    /// Sends every strip to the part that finishes it.
    #[track_caller]
    fn send_columns(&self, b: &mut Builder) {
        let Frame { shared, part, .. } = self.frame;
        for (owner, registers) in (self.owner..).zip(self.strips()) {
            let others = b.setp(Cmp::Ne, part.reg(), owner);
            b.if_(others, |b| {
                let places = self.columns(registers.len());
                let rank = self.rank_of(b, owner);
                let to = places.element(b, &[self.all.thread, part.reg()]).in_cta(b, rank);
                let come = shared.meeting.come.cursor(b).barrier(b).in_cta(b, rank);
                for (i, some) in registers.chunks_exact(VECTOR).enumerate() {
                    b.st_async_vector(to.plus(places.offset(&[0, 0, i as u32])), some, come);
                }
            });
        }
    }

    /// Where the parts' strips of `registers` registers per thread come: by thread, part and vector of
    /// registers. Neighbouring threads are neighbours, so that no two of them meet in a bank.
    fn columns(&self, registers: usize) -> SharedArray<f32> {
        let (vectors, vector) = ((registers / VECTOR) as u64, VECTOR as u64);
        let (threads, parts) = (u64::from(THREADS), u64::from(self.frame.config.parts));
        let strides = (vector, registers as u64 * threads, vector * threads);
        let layout = Layout::new((threads, parts, vectors), strides);
        SharedArray::over(self.frame.shared.meeting.columns, &layout.expect("a small layout"))
    }

    /// Where the parts' row states come: by row and part.
    fn states(&self) -> SharedArray<f32> {
        let (rows, state) = (u64::from(ROWS), u64::from(STATE));
        let shape = (rows, u64::from(self.frame.config.parts));
        let layout = Layout::new(shape, (state, rows * state));
        SharedArray::over(self.frame.shared.meeting.states, &layout.expect("a small layout"))
    }

    /// Finishes the strip that is this CTA's, if one is.
    #[track_caller]
    pub fn finish(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        for (n, (owner, registers)) in (self.owner..).zip(self.strips()).enumerate() {
            let owns = b.setp(Cmp::Eq, self.frame.part.reg(), owner);
            b.if_(owns, |b| {
                let come = self.frame.shared.meeting.come.cursor(b);
                come.wait(b);
                let (states, factors) = self.merged_states(b, output);
                self.add_parts(b, owner, registers, &factors);
                let factors = epilogue::finish_rows(b, self.all.thread, states, output, owner == 0);
                self.strip(n, registers).write(b, output, factors);
            });
        }
    }

    /// Computes the rows again that the warpgroup wrote of a work tile and that are not finite but should be.
    pub fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        let block = self.frame.block(b, open);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        match self.frame.config.parts {
            1 => open.if_finished_here(b, |b| self.all.write_again(b, &output)),
            _ => self.finish_again(b, &output),
        }
    }

    /// The same for the strip that this CTA finished.
    #[track_caller]
    fn finish_again(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        for (n, (owner, registers)) in (self.owner..).zip(self.strips()).enumerate() {
            let owns = b.setp(Cmp::Eq, self.frame.part.reg(), owner);
            b.if_(owns, |b| self.strip(n, registers).write_again(b, output));
        }
    }

    /// The columns of strip `n`.
    fn strip(&self, n: usize, registers: &'a [Reg<f32>]) -> Columns<'a> {
        let first = self.all.first + (n * registers.len() * 2) as u32;
        Columns { out: registers, first, ..self.all }
    }

    /// The states of this thread's two rows over all keys, and the factors of each part.
    #[track_caller]
    fn merged_states(
        &self,
        b: &mut Builder,
        output: &BlockOutput<'_>,
    ) -> ([RowState; 2], [Vec<Reg<f32>>; 2]) {
        let row = fragment::first_row(b, self.all.thread);
        let places = self.states();
        let at = places.element(b, &[row]);
        let [(upper, f), (lower, g)] = [0, 8].map(|below| {
            let parts: Vec<RowState> = (0..self.frame.config.parts)
                .map(|part| {
                    let at = at.plus(places.offset(&[below, part]));
                    let state = b.ld_shared_vector::<f32>(at, STATE as usize);
                    RowState { max: state[0], sum: state[1] }
                })
                .collect();
            output.params.softmax.merge(b, &parts)
        });
        ([upper, lower], [f, g])
    }

    /// Adds what the other parts sent of a strip to this part's `registers`.
    #[track_caller]
    fn add_parts(
        &self,
        b: &mut Builder,
        owner: u32,
        registers: &[Reg<f32>],
        factors: &[Vec<Reg<f32>>; 2],
    ) {
        let of = |part: u32| [0, 1].map(|half: usize| factors[half][part as usize]);
        fragment::scale_rows(b, registers, of(owner));
        for part in (0..self.frame.config.parts).filter(|part| *part != owner) {
            let places = self.columns(registers.len());
            let from = places.element(b, &[self.all.thread]);
            let factors = of(part);
            for (i, some) in registers.chunks_exact(VECTOR).enumerate() {
                let at = from.plus(places.offset(&[0, part, i as u32]));
                let sent = b.ld_shared_vector::<f32>(at, VECTOR);
                for (j, (&register, sent)) in some.iter().zip(sent).enumerate() {
                    let sum = b.fma(sent, factors[j / 2], register);
                    b.assign(register, sum);
                }
            }
        }
    }
}
