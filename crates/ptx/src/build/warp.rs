//! Threads, lanes and warps: indices, shuffles, votes, matrix loads and stores.

use super::arith::Cmp;
use super::builder::Builder;
use super::memory::SmemPtr;
use super::value::{Arg, Reg, Scalar};
use crate::Symbol;
use crate::ast::Operand;

/// All 32 lanes.
pub const FULL_MASK: i64 = 0xffff_ffff;

impl Builder {
    /// Reads a special register such as `%tid.x`.
    #[track_caller]
    pub fn special(&mut self, name: &str) -> Reg<u32> {
        let d = self.reg();
        self.emit("mov.u32", vec![d.operand(), Operand::Name(Symbol::new(name))]);
        d
    }

    /// The time, in nanoseconds of a clock that all processors share.
    #[track_caller]
    pub fn global_timer(&mut self) -> Reg<u64> {
        let d = self.reg();
        let name = Operand::Name(Symbol::new("%globaltimer"));
        self.emit("mov.u64", vec![d.operand(), name]);
        d
    }

    /// The thread's index in its CTA.
    #[track_caller]
    pub fn thread(&mut self) -> Reg<u32> {
        self.special("%tid.x")
    }

    /// The CTA's index in its grid.
    #[track_caller]
    pub fn cta(&mut self) -> Reg<u32> {
        self.special("%ctaid.x")
    }

    /// The thread's index in its grid.
    #[track_caller]
    pub fn thread_in_grid(&mut self) -> Reg<u32> {
        let (cta, threads, thread) = (self.cta(), self.special("%ntid.x"), self.thread());
        self.mad(cta, threads, thread)
    }

    /// The 32-bit value of one lane, in all lanes.
    #[track_caller]
    pub fn lane_value<T: Scalar>(&mut self, value: Reg<T>, lane: impl Into<Arg<u32>>) -> Reg<T> {
        self.shuffle("idx", value, lane.into())
    }

    /// The 32-bit value of the lane whose number differs in the bits of `mask`.
    #[track_caller]
    pub fn shuffle_xor<T: Scalar>(&mut self, value: Reg<T>, mask: u32) -> Reg<T> {
        self.shuffle("bfly", value, mask.into())
    }

    /// The sum of this lane's number and those of all lanes below it.
    #[track_caller]
    pub fn sum_up_to_lane(&mut self, value: Reg<u32>, lane: Reg<u32>) -> Reg<u32> {
        let mut sum = value;
        for step in 0..5 {
            let from = self.sub(lane, 1 << step);
            let other = self.shuffle("idx", sum, from.into());
            let exists = self.setp(Cmp::Ge, lane, 1 << step);
            let other = self.select::<u32>(exists, other, 0);
            sum = self.add(sum, other);
        }
        sum
    }

    #[track_caller]
    fn shuffle<T: Scalar>(&mut self, how: &str, value: Reg<T>, lane: Arg<u32>) -> Reg<T> {
        assert_eq!(T::BITS, "b32", "shuffles move 32 bits");
        let lane = self.operand(lane);
        let d = self.reg();
        let operands =
            vec![d.operand(), value.operand(), lane, Operand::int(31), Operand::int(FULL_MASK)];
        self.emit(&format!("shfl.sync.{how}.b32"), operands);
        d
    }

    /// The values of every `lanes` neighbouring lanes (a power of two) joined, in all of them.
    #[track_caller]
    pub fn join_lanes<T: Scalar>(
        &mut self,
        value: Reg<T>,
        lanes: u32,
        join: impl Fn(&mut Self, Reg<T>, Reg<T>) -> Reg<T>,
    ) -> Reg<T> {
        let mut joined = value;
        for step in 0..lanes.ilog2() {
            let other = self.shuffle_xor(joined, 1 << step);
            joined = join(self, joined, other);
        }
        joined
    }

    /// True in exactly one lane of the (converged) warp.
    #[track_caller]
    pub fn elect(&mut self) -> Reg<bool> {
        let p = self.reg::<bool>();
        let pair = Operand::Pair(Box::new(Operand::Sink), Box::new(p.operand()));
        self.emit("elect.sync", vec![pair, Operand::int(FULL_MASK)]);
        p
    }

    /// Whether `p` holds in any lane.
    #[track_caller]
    pub fn vote_any(&mut self, p: Reg<bool>) -> Reg<bool> {
        let d = self.reg::<bool>();
        let operands = vec![d.operand(), p.operand(), Operand::int(FULL_MASK)];
        self.emit("vote.sync.any.pred", operands);
        d
    }

    /// Bit `l` says whether `p` holds in lane `l`.
    #[track_caller]
    pub fn ballot(&mut self, p: Reg<bool>) -> Reg<u32> {
        let d = self.reg::<u32>();
        let operands = vec![d.operand(), p.operand(), Operand::int(FULL_MASK)];
        self.emit("vote.sync.ballot.b32", operands);
        d
    }

    /// Waits for the lanes of the warp.
    #[track_caller]
    pub fn warp_sync(&mut self) {
        self.emit("bar.warp.sync", vec![Operand::int(FULL_MASK)]);
    }

    /// Stores four 8×8 matrices of 16-bit elements; lane `l` gives the address of row `l % 8` of
    /// matrix `l / 8`.
    #[track_caller]
    pub fn stmatrix4(&mut self, to: SmemPtr, values: [Reg<u32>; 4]) {
        let vector = Operand::Vector(values.iter().map(|v| v.operand()).collect());
        self.emit("stmatrix.sync.aligned.m8n8.x4.shared.b16", vec![to.operand(), vector]);
    }

    /// Stores two 8×8 matrices; lanes 0 to 15 give the row addresses.
    #[track_caller]
    pub fn stmatrix2(&mut self, to: SmemPtr, values: [Reg<u32>; 2]) {
        let vector = Operand::Vector(values.iter().map(|v| v.operand()).collect());
        self.emit("stmatrix.sync.aligned.m8n8.x2.shared.b16", vec![to.operand(), vector]);
    }

    /// Loads four 8×8 matrices of 16-bit elements, transposed if asked.
    #[track_caller]
    pub fn ldmatrix4(&mut self, from: SmemPtr, transposed: bool) -> [Reg<u32>; 4] {
        let values: [Reg<u32>; 4] = std::array::from_fn(|_| self.reg());
        let vector = Operand::Vector(values.iter().map(|v| v.operand()).collect());
        let text = if transposed {
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
        } else {
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
        };
        self.emit(text, vec![vector, from.operand()]);
        values
    }

    /// `d = a·b + d` of one warp: m16n8k16, 16-bit inputs, f32 accumulator.
    #[track_caller]
    pub fn mma_m16n8k16(
        &mut self,
        half: super::HalfType,
        d: &[Reg<f32>; 4],
        a: &[Reg<u32>; 4],
        b: &[Reg<u32>; 2],
    ) {
        let name = half.name();
        let acc = Operand::Vector(d.iter().map(|r| r.operand()).collect());
        let left = Operand::Vector(a.iter().map(|r| r.operand()).collect());
        let right = Operand::Vector(b.iter().map(|r| r.operand()).collect());
        let text = format!("mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32");
        self.emit(&text, vec![acc.clone(), left, right, acc]);
    }

    /// `d = a·b + d` of one warp: m16n8k8, tf32 inputs, f32 accumulator. Inputs are the bits of floats, of which the
    /// upper 19 are read.
    #[track_caller]
    pub fn mma_m16n8k8_tf32(&mut self, d: &[Reg<f32>; 4], a: &[Reg<u32>; 4], b: &[Reg<u32>; 2]) {
        let acc = Operand::Vector(d.iter().map(|r| r.operand()).collect());
        let left = Operand::Vector(a.iter().map(|r| r.operand()).collect());
        let right = Operand::Vector(b.iter().map(|r| r.operand()).collect());
        let text = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
        self.emit(text, vec![acc.clone(), left, right, acc]);
    }

    /// Waits `ns` nanoseconds or so.
    #[track_caller]
    pub fn nanosleep(&mut self, ns: impl Into<Arg<u32>>) {
        let ns = self.operand(ns);
        self.emit("nanosleep.u32", vec![ns]);
    }
}
