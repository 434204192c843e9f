//! Pairs of floats in one 64-bit register (sm_100a): two lanes of arithmetic per instruction.

use super::builder::Builder;
use super::value::Reg;
use crate::ast::Operand;

/// Two single-precision numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(Reg<u64>);

impl Builder {
    /// The pair of two numbers.
    #[track_caller]
    pub fn pair(&mut self, low: Reg<f32>, high: Reg<f32>) -> Pair {
        let d = self.reg();
        let parts = Operand::Vector(vec![low.operand(), high.operand()]);
        self.emit("mov.b64", vec![d.operand(), parts]);
        Pair(d)
    }

    /// A pair of the same constant twice.
    #[track_caller]
    pub fn pair_of(&mut self, value: f32) -> Pair {
        let bits = u64::from(value.to_bits());
        Pair(self.value(bits << 32 | bits))
    }

    /// The two numbers of a pair.
    #[track_caller]
    pub fn unpair(&mut self, pair: Pair) -> [Reg<f32>; 2] {
        let parts = [self.reg(), self.reg()];
        let vector = Operand::Vector(parts.iter().map(|r| r.operand()).collect());
        self.emit("mov.b64", vec![vector, pair.0.operand()]);
        parts
    }

    /// `a · b + c`.
    #[track_caller]
    pub fn pair_fma(&mut self, a: Pair, b: Pair, c: Pair) -> Pair {
        self.pairwise("fma.rn.f32x2", &[a, b, c])
    }

    /// `a · b`.
    #[track_caller]
    pub fn pair_mul(&mut self, a: Pair, b: Pair) -> Pair {
        self.pairwise("mul.rn.f32x2", &[a, b])
    }

    /// `a + b`.
    #[track_caller]
    pub fn pair_add(&mut self, a: Pair, b: Pair) -> Pair {
        self.pairwise("add.rn.f32x2", &[a, b])
    }

    /// `a + b`, rounded down.
    #[track_caller]
    pub fn pair_add_down(&mut self, a: Pair, b: Pair) -> Pair {
        self.pairwise("add.rm.f32x2", &[a, b])
    }

    /// `a - b`.
    #[track_caller]
    pub fn pair_sub(&mut self, a: Pair, b: Pair) -> Pair {
        self.pairwise("sub.rn.f32x2", &[a, b])
    }

    #[track_caller]
    fn pairwise(&mut self, opcode: &str, sources: &[Pair]) -> Pair {
        let d = self.reg();
        let mut operands = vec![d.operand()];
        operands.extend(sources.iter().map(|pair| pair.0.operand()));
        self.emit(opcode, operands);
        Pair(d)
    }
}
