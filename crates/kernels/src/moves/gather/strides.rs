//! Where the rows of a strided tensor are.

use crate::call::index::KvHead;
use program::build::Arguments;
use ptx::build::{Builder, Reg};

/// How far batches or pages, heads, and tokens of a tensor lie apart, in whatever its places count.
#[derive(Clone, Copy, Debug)]
pub struct RowStrides([Reg<u32>; 3]);

impl RowStrides {
    /// Declares the parameters of the tensor called `name`.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, name: &str, strides: [u64; 3]) -> Self {
        let parameter = |d: usize| args.u32(b, &format!("{name}_stride{d}"), strides[d] as u32);
        RowStrides([0, 1, 2].map(parameter))
    }

    /// The place of a row.
    #[track_caller]
    pub fn place(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        head: KvHead,
        token: Reg<u32>,
    ) -> Reg<u32> {
        let [of_outer, of_head, of_token] = self.0;
        b.eval(token * of_token + (outer * of_outer + head.reg() * of_head))
    }
}
