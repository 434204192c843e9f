//! Warpgroup matrix multiply (sm_90a).

use super::HalfType;
use super::builder::Builder;
use super::value::Reg;
use crate::ast::Operand;

/// The A operand of a warpgroup multiply.
#[derive(Clone, Debug)]
pub enum WgmmaA {
    /// A matrix descriptor; the flag says whether A is MN-major.
    Shared(Reg<u64>, bool),
    /// The fragment of each thread: four registers of two 16-bit values.
    Registers([Reg<u32>; 4]),
}

impl Builder {
    /// `d = a·b` or `d += a·b`: m64 × n × k16, 16-bit inputs, f32 accumulators. `n` is twice the
    /// number of accumulator registers. `accumulate` false overwrites `d`.
    #[track_caller]
    pub fn wgmma(
        &mut self,
        half: HalfType,
        d: &[Reg<f32>],
        a: &WgmmaA,
        b: Reg<u64>,
        b_mn_major: bool,
        accumulate: Reg<bool>,
    ) {
        let (n, name) = (d.len() * 2, half.name());
        let text = format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{name}.{name}");
        let mut operands = vec![Operand::Vector(d.iter().map(|r| r.operand()).collect())];
        let bit = |x: bool| Operand::int(x as i32);
        let (left, a_major) = match a {
            WgmmaA::Shared(descriptor, mn_major) => (descriptor.operand(), Some(bit(*mn_major))),
            WgmmaA::Registers(fragment) => {
                (Operand::Vector(fragment.iter().map(|r| r.operand()).collect()), None)
            }
        };
        operands.extend([
            left,
            b.operand(),
            accumulate.operand(),
            Operand::int(1),
            Operand::int(1),
        ]);
        operands.extend(a_major);
        operands.push(bit(b_mn_major));
        self.emit(&text, operands);
    }

    /// Orders register and shared-memory accesses before the multiplies that follow.
    #[track_caller]
    pub fn wgmma_fence(&mut self) {
        self.emit("wgmma.fence.sync.aligned", vec![]);
    }

    /// Closes the group of multiplies issued since the last one.
    #[track_caller]
    pub fn wgmma_commit(&mut self) {
        self.emit("wgmma.commit_group.sync.aligned", vec![]);
    }

    /// Waits until at most `pending` groups are unfinished.
    #[track_caller]
    pub fn wgmma_wait(&mut self, pending: u32) {
        self.emit("wgmma.wait_group.sync.aligned", vec![Operand::int(pending)]);
    }
}
