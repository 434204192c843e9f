//! Which bytes a `wgmma` reads.

use super::WgmmaWork;
use crate::instruction::MatrixSource;
use crate::judge::{Operand, Touched, operand};
use crate::machine::CtaRank;

impl WgmmaWork {
    /// What it touches of the shared memory of its CTA.
    pub(crate) fn footprint(&self, cta: CtaRank) -> Vec<Touched> {
        let mut list = Vec::new();
        let op = &self.op;
        let depth = op.mma.depth();
        if matches!(op.a, MatrixSource::Descriptor(_)) {
            let a = op.mma.decode_a(self.descriptors[0], op.transpose[0]);
            let ranges = a.footprint(64, depth, op.mma.a);
            operand(&mut list, cta, Operand { name: "operand A", matrix: a }, &ranges);
        }
        let b = op.mma.decode_b(self.descriptors[1], op.transpose[1]);
        let ranges = b.footprint(op.mma.columns, depth, op.mma.b);
        operand(&mut list, cta, Operand { name: "operand B", matrix: b }, &ranges);
        list
    }
}
