//! The last part of the work, which CTAs take when they are done with their shares.
//!
//! CTAs with equal shares do not end together: on an H200 processors with the same work differ by up to 8 %. So a
//! sixteenth of the cost, behind the last share, is cut into pieces, one per CTA, the first ones larger than the last. A CTA
//! that is done with its share takes the next piece: the first to come gets the largest one.
//!
//! Where pieces begin and end depends on lengths alone, and so does who adds what to whose sum: bits are the same
//! whoever takes a piece. No work tile lies in a share and in a piece.
//!
//! CTA `n` finds where piece `n` begins and ends, with its own share, and leaves that in memory. A CTA waits for that
//! of a piece of number `n` when `n` others have been there before it. So `n + 1` CTAs have started, and as CTAs
//! start in the order of their numbers, CTA `n` is one of them. The same holds for parts of work tiles that pieces
//! exchange.
//!
//! One thread of a CTA takes its piece, and tells the others by a barrier in shared memory.

use crate::work::exchange::Buffers;
use layout::Layout;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedArray, Signals, SmemPtr};

/// The tail is so many times smaller than the whole. By counting, not by measuring: with times of processors spread over
/// 8 % and 2.5 µs for one more cut, a batch of 150 µs ends 4 % earlier, and one of 75 µs neither earlier nor later.
pub const PART: u32 = 16;

/// Words of a boundary.
const WORDS: u32 = 4;
/// Bytes of a piece: its two boundaries.
const PIECE_BYTES: u32 = 2 * WORDS * 4;
/// How large the first piece is, if the mean is 1; the last is as much smaller than the mean.
const FIRST: f32 = 1.75;

/// The last part of the work, in a kernel.
#[derive(Clone, Copy)]
pub struct Tail {
    /// Boundaries of pieces.
    pieces: GlobalPtr,
    /// A word per piece, raised when its boundaries are there; then the number of pieces that have been taken.
    flags: GlobalPtr,
    shared: Option<Shared>,
}

#[derive(Clone, Copy)]
struct Shared {
    /// Where the last share ends; whether there are pieces; the numbers of this CTA's share and of its piece.
    words: SmemPtr,
    /// The piece has been taken.
    taken: Signals,
}

/// Places of words of shared memory.
const BORDER: u32 = 0;
const ANY: u32 = 4;
const SHARE: u32 = 8;
const PIECE: u32 = 12;

impl Tail {
    /// Bytes of the boundaries of so many pieces.
    pub fn bytes(pieces: u32) -> u64 {
        u64::from(pieces) * u64::from(PIECE_BYTES)
    }

    /// Words, lowered before the launch, of so many pieces.
    pub fn flags(pieces: u32) -> u32 {
        pieces + 1
    }

    /// Declares the addresses, where there are pieces.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, buffers: &Buffers) -> Option<Self> {
        let pieces = buffers.pieces?;
        let flags = u64::from(buffers.part_flags()) * 4;
        Some(Tail {
            pieces: args.pointer(b, "pieces", pieces),
            flags: args.pointer_at(b, "piece_flags", buffers.flags, flags),
            shared: None,
        })
    }

    /// Reserves shared memory.
    pub fn reserve(&mut self, b: &mut Builder) {
        let base = b.shared_base();
        let words = Layout::column_major(u64::from(WORDS)).expect("a small layout");
        let words = SharedArray::<u32>::reserve(b, base, &words).at();
        self.shared = Some(Shared { words, taken: Signals::reserve(b, base, 1) });
    }

    fn shared(&self) -> Shared {
        self.shared.expect("reserved shared memory")
    }

    /// Initialises the barrier, and the number of this CTA's share (one thread, before a barrier of all).
    #[track_caller]
    pub fn init(&self, b: &mut Builder, number: Reg<u32>) {
        self.shared().taken.init(b, 1);
        b.fence_mbarrier_init();
        b.st_shared(self.shared().words.plus(SHARE), number);
    }

    /// Leaves word of where the last share ends.
    #[track_caller]
    pub fn set_border(&self, b: &mut Builder, border: Reg<u32>) {
        b.st_shared(self.shared().words.plus(BORDER), border);
    }

    /// Where the last share ends, as one thread has said.
    #[track_caller]
    pub fn border(&self, b: &mut Builder) -> Reg<u32> {
        b.ld_shared::<u32>(self.shared().words.plus(BORDER))
    }

    /// The cost before piece `number` of `pieces`, which begin at `border` and end at `total`.
    #[track_caller]
    pub fn target(
        &self,
        b: &mut Builder,
        number: Reg<u32>,
        pieces: Reg<u32>,
        [border, total]: [Reg<u32>; 2],
    ) -> Reg<u32> {
        let (x, all) = (b.to_f32(number), b.to_f32(pieces));
        let inverse = b.rcp(all);
        let x = b.mul(x, inverse);
        // FIRST · x − (FIRST − 1) · x²
        let first = b.value(FIRST);
        let slope = b.fma(x, 1.0 - FIRST, first);
        let part = b.mul(x, slope);
        let cost = b.eval(total - border);
        let cost = b.to_f32(cost);
        let part = b.mul(part, cost);
        let part = b.round_to_u32(part);
        let target = b.eval((border + part).min(total));
        let last = b.setp(Cmp::Ge, number, pieces);
        b.select::<u32>(last, total, target)
    }

    /// Leaves boundary `end` (0 or 1) of piece `number` in memory.
    #[track_caller]
    pub fn leave(&self, b: &mut Builder, number: Reg<u32>, end: Reg<u32>, boundary: &[Reg<u32>]) {
        let at = self.piece(b, number);
        let at = b.global_add(at, end.widening_mul(WORDS * 4));
        b.st_global_vector(at, boundary);
    }

    /// Says that piece `number` is in memory (one thread of the warp that left it), and whether there are pieces.
    #[track_caller]
    pub fn publish(&self, b: &mut Builder, number: Reg<u32>, any: Reg<bool>) {
        let word = b.select::<u32>(any, 1, 0);
        b.st_shared(self.shared().words.plus(ANY), word);
        let (flag, raised) = (self.flag(b, number), b.value::<u32>(1));
        b.st_release(flag, raised);
    }

    /// Whether there are pieces.
    #[track_caller]
    pub fn any(&self, b: &mut Builder) -> Reg<bool> {
        let word = b.ld_shared::<u32>(self.shared().words.plus(ANY));
        b.setp(Cmp::Ne, word, 0)
    }

    /// The number of this CTA's share or, `in_tail`, of its piece: pieces are counted behind all shares.
    #[track_caller]
    pub fn number(&self, b: &mut Builder, in_tail: Reg<bool>) -> Reg<u32> {
        let offset = b.select::<u32>(in_tail, PIECE, SHARE);
        let at = b.smem_add(self.shared().words, offset);
        b.ld_shared::<u32>(at)
    }

    /// Takes the next of so many pieces (one thread) and leaves its boundaries at `to`.
    #[track_caller]
    pub fn take(&self, b: &mut Builder, pieces: Reg<u32>, to: SmemPtr) {
        let counter = self.flag(b, pieces);
        let number = b.atomic_add(counter, 1);
        let flag = self.flag(b, number);
        b.loop_(|b| {
            let seen = b.ld_acquire(flag);
            b.setp(Cmp::Eq, seen, 0)
        });
        let piece = self.piece(b, number);
        for end in 0..2 {
            let bytes = end * WORDS * 4;
            let words = b.ld_global_vector::<u32>(piece.plus(i64::from(bytes)), WORDS as usize);
            b.st_shared_vector(to.plus(bytes), &words);
        }
        let number = b.eval(pieces + number);
        b.st_shared(self.shared().words.plus(PIECE), number);
        let taken = self.shared().taken.cursor(b).barrier(b);
        taken.arrive(b);
    }

    /// Waits until this CTA's piece has been taken.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        self.shared().taken.cursor(b).wait(b);
    }

    #[track_caller]
    fn piece(&self, b: &mut Builder, number: Reg<u32>) -> GlobalPtr {
        b.global_add(self.pieces, number.widening_mul(PIECE_BYTES))
    }

    #[track_caller]
    fn flag(&self, b: &mut Builder, number: Reg<u32>) -> GlobalPtr {
        b.global_add(self.flags, number.widening_mul(4))
    }
}
