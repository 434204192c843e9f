//! What a kernel counts, each with a type of its own: an index of one kind is no index of another.
//!
//! They are registers. Where one is an operand of arithmetic, [`reg`](KvHead::reg) says so; what comes of it is an
//! index again only where the code says which.

use ptx::build::{Arg, Builder, Reg};

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident($scalar:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(Reg<$scalar>);

        impl $name {
            /// The index that a register holds.
            pub fn new(register: Reg<$scalar>) -> Self {
                $name(register)
            }

            /// The register, for arithmetic.
            pub fn reg(self) -> Reg<$scalar> {
                self.0
            }
        }
    )*};
}

indices! {
    /// A sequence of the batch, whether packed or not.
    SequenceIndex(u32);
    /// The batch coordinate of `q` and `out`: 0 where queries are packed.
    QueryBatch(u32);
    /// The batch coordinate of `k` and `v`: 0 where keys are packed.
    KeyBatch(u32);
    /// A KV head of a sequence.
    KvHead(u32);
    /// A query head of a sequence.
    QueryHead(u32);
    /// A query head among those of its KV head.
    HeadOfKvHead(u32);
    /// A work tile of a KV head, in the order of queries.
    WorkTileIndex(u32);
    /// A split of the keys.
    SplitIndex(u32);
    /// A slice of the value columns.
    SliceIndex(u32);
    /// A row block of a KV head, in the order of queries.
    RowBlockIndex(u32);
    /// A query of a sequence.
    QueryToken(u32);
    /// A query in the token dimension of `q` and `out`.
    TensorToken(u32);
    /// A KV tile of a sequence.
    KvTile(i32);
}

impl RowBlockIndex {
    /// The row block `later` behind this one.
    #[track_caller]
    pub fn plus(self, b: &mut Builder, later: impl Into<Arg<u32>>) -> Self {
        RowBlockIndex(b.eval(self.0 + later))
    }
}

impl KvTile {
    /// The KV tile `tiles` before this one.
    #[track_caller]
    pub fn before(self, b: &mut Builder, tiles: i32) -> Self {
        KvTile(b.eval(self.0 - tiles))
    }

    /// The first key of this tile, where tiles have `keys` keys.
    #[track_caller]
    pub fn first_key(self, b: &mut Builder, keys: u32) -> Reg<i32> {
        b.eval(self.0 * keys as i32)
    }

    /// Becomes `other`.
    #[track_caller]
    pub fn assign(self, b: &mut Builder, other: KvTile) {
        b.assign(self.0, other.0);
    }
}

impl QueryHead {
    /// The query head that is `head` of those of `kv_head`, each of which has `group`.
    #[track_caller]
    pub fn of(b: &mut Builder, kv_head: KvHead, group: u32, head: HeadOfKvHead) -> Self {
        QueryHead::new(b.eval(kv_head.0 * group + head.0))
    }
}
