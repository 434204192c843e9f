//! Factors on e4m3 keys and values: one load per work tile.
//!
//! The factor of keys is put on raw scores, before anything else is done to them; that of values on finished rows.

use crate::call::index::{KvHead, SequenceIndex};
use problem::{Descale, Problem};
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, GlobalPtr, Reg};

/// The factors of keys or of values, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Factors {
    base: GlobalPtr,
    /// Bytes between sequences, and between KV heads.
    strides: [Reg<u64>; 2],
}

impl Factors {
    /// Declares the parameters.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        name: &str,
        (problem, descale): (&Problem, Descale),
        buffer: BufferId,
    ) -> Self {
        let base = args.pointer(b, name, buffer);
        let extents = [problem.batch(), problem.kv_heads()];
        let strides = [0, 1].map(|d| {
            // The stride of a dimension of extent 1 is never used and may be anything.
            let stride = if extents[d] > 1 { descale.strides[d] * 4 } else { 0 };
            args.u64(b, &format!("{name}_stride{d}"), stride)
        });
        Factors { base, strides }
    }

    /// The factor of a sequence's KV head.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, sequence: SequenceIndex, head: KvHead) -> Reg<f32> {
        let mut at = self.base;
        for (index, stride) in [sequence.reg(), head.reg()].into_iter().zip(self.strides) {
            let index = b.widen(index);
            at = b.global_add(at, index * stride);
        }
        b.ld_global::<f32>(at)
    }
}
