//! Parts of cut work tiles on their way from one CTA to another.
//!
//! A work tile that several [shares](crate::work::shares) have parts of is finished by the last of them. The others
//! each leave what their threads hold (accumulators, maxima, sums) in memory, in the order of registers,
//! and raise a flag per warp. Who adds what is fixed by the numbers of shares, so that equal inputs give
//! equal bits.
//!
//! A CTA waits only for CTAs of lower numbers, which start no later, and these raise their flags before
//! they wait themselves: shares are worked on from their end to their beginning. A launch before lowers
//! the flags.

use crate::call::memory::Memory;
use crate::work::tail::Tail;
use program::build::Arguments;
use program::{Argument, BufferId, Launch};
use ptx::build::{Builder, Cmp, GlobalPtr, Kernel, Reg, Target};

/// Threads of a CTA that lowers flags.
const THREADS: u32 = 256;
/// Bytes from four words of a warp's threads to the next four.
const FOUR_WORDS: i64 = 16 * 32;
/// A flag: not raised, a part that others come before, the first part.
const LATER: u32 = 1;
const FIRST: u32 = 2;

/// Memory for parts.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// Parts, one per share.
    pub parts: BufferId,
    /// Flags, one per share and warp.
    pub flags: BufferId,
    /// How large a part is.
    pub size: Size,
    /// Shares that can have parts, pieces of the [tail](crate::work::tail) among them.
    pub shares: u32,
    /// Boundaries of pieces of the tail, where there is one.
    pub pieces: Option<BufferId>,
}

impl Buffers {
    /// Reserves memory for the parts of so many shares, and of as many pieces of a tail where there is one.
    pub fn reserve(memory: &mut Memory, size: Size, shares: u32, tail: bool) -> Self {
        let parts = if tail { 2 * shares } else { shares };
        let flags = size.flags(parts) + if tail { Tail::flags(shares) } else { 0 };
        Buffers {
            parts: memory.workspace("parts", size.bytes(parts)),
            flags: memory.workspace("flags", u64::from(flags) * 4),
            size,
            shares: parts,
            pieces: tail.then(|| memory.workspace("pieces", Tail::bytes(shares))),
        }
    }

    /// Flags of parts.
    pub fn part_flags(&self) -> u32 {
        self.size.flags(self.shares)
    }

    /// All words that are lowered before the launch.
    pub fn flags(&self) -> u32 {
        self.part_flags() + self.pieces.map_or(0, |_| Tail::flags(self.shares / 2))
    }
}

/// How large the part of a share is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Warps that have rows.
    pub warps: u32,
    /// Words of a thread, a multiple of four.
    pub words: u32,
}

impl Size {
    /// Bytes of a warp's part.
    fn warp_bytes(&self) -> u32 {
        self.words * 4 * 32
    }

    /// Bytes of the parts of so many shares.
    pub fn bytes(&self, shares: u32) -> u64 {
        u64::from(shares) * u64::from(self.warps * self.warp_bytes())
    }

    /// Flags of so many shares.
    pub fn flags(&self, shares: u32) -> u32 {
        shares * self.warps
    }
}

/// Memory for parts, in a kernel.
#[derive(Clone, Copy)]
pub struct Exchange {
    parts: GlobalPtr,
    flags: GlobalPtr,
    size: Size,
}

/// What a thread leaves for its namesake in another CTA.
#[derive(Clone, Copy)]
pub struct Given {
    at: GlobalPtr,
}

impl Given {
    /// Words `first` to `first + n`, both multiples of four.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, first: usize, n: usize) -> Vec<Reg<f32>> {
        let fours = (first / 4..(first + n) / 4).map(|n| self.four_words(n));
        fours.flat_map(|at| b.ld_global_vector::<f32>(at, 4)).collect()
    }

    /// Leaves `words` from word `first` on, both multiples of four.
    #[track_caller]
    pub fn store(&self, b: &mut Builder, first: usize, words: &[Reg<f32>]) {
        for (n, four) in words.chunks_exact(4).enumerate() {
            b.st_global_vector(self.four_words(first / 4 + n), four);
        }
    }

    fn four_words(&self, n: usize) -> GlobalPtr {
        self.at.plus(n as i64 * FOUR_WORDS)
    }
}

/// What a CTA does with the part of a work tile that it has computed.
#[derive(Clone, Copy)]
pub struct Part {
    /// Whether another CTA finishes the work tile.
    pub gives: Reg<bool>,
    /// Whether parts of other CTAs come before it.
    pub follows: Reg<bool>,
    /// The share that the part is of.
    pub share: Reg<u32>,
}

impl Exchange {
    /// Declares the addresses.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, buffers: &Buffers) -> Self {
        Exchange {
            parts: args.pointer(b, "parts", buffers.parts),
            flags: args.pointer(b, "flags", buffers.flags),
            size: buffers.size,
        }
    }

    /// Leaves what the warp of number `warp` holds, by `store`, and raises its flag to `flag_value`.
    #[track_caller]
    pub fn give(
        &self,
        b: &mut Builder,
        part: &Part,
        warp: Reg<u32>,
        flag_value: Reg<u32>,
        store: impl FnOnce(&mut Builder, Given),
    ) {
        let number = b.eval(part.share * self.size.warps + warp);
        let given = Given { at: self.place(b, number) };
        store(b, given);
        b.warp_sync();
        let lane = b.special("%laneid");
        let leads = b.setp(Cmp::Eq, lane, 0);
        b.if_(leads, |b| {
            let flag = self.flag(b, number);
            b.st_release(flag, flag_value);
        });
    }

    /// Runs `body` with what the warp's namesakes in the shares before have left, one after the other.
    /// Returns what flag the sum has: whether it begins with the work tile's first part.
    ///
    /// Shares are the nodes of a Fenwick tree. One that gives its part away first adds those that its
    /// node covers, so that the one that finishes the work tile finds few sums, however many parts there are.
    #[track_caller]
    pub fn take(
        &self,
        b: &mut Builder,
        part: &Part,
        warp: Reg<u32>,
        body: impl FnOnce(&mut Builder, Given),
    ) -> Reg<u32> {
        let node = b.eval(part.share + 1);
        let down_to = without_lowest_bit(b, node);
        let down_to = b.select::<u32>(part.gives, down_to, 0);
        let flag_value = b.select::<u32>(part.follows, LATER, FIRST);
        // Node `n` is share `n − 1`.
        let next = b.value(part.share);
        let more = |b: &mut Builder| {
            let later = b.setp(Cmp::Eq, flag_value, LATER);
            let within = b.setp(Cmp::Gt, next, down_to);
            let more = b.and(later, within);
            b.vote_any(more)
        };
        b.while_(more, |b| {
            let number = b.eval((next - 1) * self.size.warps + warp);
            let seen = self.await_flag(b, number);
            b.assign(flag_value, seen);
            let given = Given { at: self.place(b, number) };
            body(b, given);
            let further = without_lowest_bit(b, next);
            b.assign(next, further);
        });
        flag_value
    }

    /// This lane's first word of the part of a warp.
    #[track_caller]
    fn place(&self, b: &mut Builder, number: Reg<u32>) -> GlobalPtr {
        let lane = b.special("%laneid");
        let offset = b.eval(number.widening_mul(self.size.warp_bytes()) + lane.widening_mul(16));
        b.global_add(self.parts, offset)
    }

    #[track_caller]
    fn flag(&self, b: &mut Builder, number: Reg<u32>) -> GlobalPtr {
        b.global_add(self.flags, number.widening_mul(4))
    }

    /// Waits until a flag is raised. Votes keep the warp together, as the assembler wants it around
    /// matrix products.
    #[track_caller]
    fn await_flag(&self, b: &mut Builder, number: Reg<u32>) -> Reg<u32> {
        let flag = self.flag(b, number);
        let flag_value = b.value::<u32>(0);
        b.loop_(|b| {
            let seen = b.ld_acquire(flag);
            b.assign(flag_value, seen);
            let lowered = b.setp(Cmp::Eq, flag_value, 0);
            b.vote_any(lowered)
        });
        flag_value
    }
}

/// `n` without the lowest of its bits that are set.
#[track_caller]
fn without_lowest_bit(b: &mut Builder, n: Reg<u32>) -> Reg<u32> {
    b.eval(n & (n - 1))
}

/// The launch that lowers the flags.
pub fn lower_flags(target: Target, buffers: &Buffers) -> (Kernel, Launch) {
    let mut b = Builder::new("lower_flags", target);
    b.directive("maxntid", &[u64::from(THREADS), 1, 1]);
    let mut args = Arguments::default();
    let flags = args.pointer(&mut b, "flags", buffers.flags);
    let count = buffers.flags();
    let limit = args.u32(&mut b, "count", count);
    b.launch_next_grid();
    b.wait_previous_grid();
    let (cta, thread) = (b.special("%ctaid.x"), b.thread());
    let number = b.eval(cta * THREADS + thread);
    let exists = b.setp(Cmp::Lt, number, limit);
    b.if_(exists, |b| {
        let at = b.global_add(flags, number.widening_mul(4));
        let zero = b.value::<u32>(0);
        b.st_global(at, zero);
    });
    let kernel = b.finish();
    let args: Vec<Argument> = args.into_values();
    let launch = Launch {
        kernel: "lower_flags".to_string(),
        grid: [count.div_ceil(THREADS), 1, 1],
        block: [THREADS, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: 0,
        args,
        overlaps_previous: target.overlaps_launches(),
    };
    (kernel, launch)
}
