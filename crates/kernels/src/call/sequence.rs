//! Lengths and offsets of one sequence, read on the device.

use crate::call::index::{KeyBatch, QueryBatch, SequenceIndex};
use crate::call::memory::Memory;
use problem::{Problem, QueryLengths, SegmentSlot, Slot};
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

/// Where lengths come from.
///
/// Whatever stands in memory, a sequence lies within its tensor: offsets and lengths are limited to it.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Queries of a sequence; of all of them where they are packed.
    queries: Reg<u32>,
    /// Keys likewise.
    keys: Reg<u32>,
    cu_seqlens_q: Option<GlobalPtr>,
    cu_seqlens_k: Option<GlobalPtr>,
    used: Option<GlobalPtr>,
}

/// One sequence.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Batch coordinate of `q` and `out` (0 where sequences are packed).
    pub q_batch: QueryBatch,
    /// First query in the token dimension.
    pub q_start: Reg<u32>,
    /// Queries.
    pub q_len: Reg<u32>,
    /// Batch coordinate of `k` and `v`.
    pub k_batch: KeyBatch,
    /// First key in the token dimension.
    pub k_start: Reg<u32>,
    /// Keys.
    pub k_len: Reg<u32>,
    /// Keys of its pages that come before its first one, where a tile sees no others.
    pub k_skipped: Option<Reg<u32>>,
}

impl Sequence {
    /// The key in its pages that is key `key` of the sequence.
    #[track_caller]
    pub fn key_in_pages(&self, b: &mut Builder, key: Reg<u32>) -> Reg<u32> {
        self.k_skipped.map_or(key, |skipped| b.eval(key + skipped))
    }

    /// Keys `first` up to, not including, `end` as a sequence of their own.
    #[track_caller]
    pub fn of_keys(
        self,
        b: &mut Builder,
        first: Reg<i32>,
        end: Reg<i32>,
        in_pages: bool,
    ) -> Sequence {
        let k_len = b.eval(end - first).reinterpret();
        let first = first.reinterpret::<u32>();
        match in_pages {
            true => Sequence { k_len, k_skipped: Some(first), ..self },
            false => Sequence { k_len, k_start: b.eval(self.k_start + first), ..self },
        }
    }
}

impl Lengths {
    /// Declares the length parameters of segment `n`.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        memory: &Memory,
        problem: &Problem,
        n: u8,
    ) -> Self {
        let segment = &problem.segments[n as usize];
        let packed_q = problem.query_lengths != QueryLengths::Full;
        let mut table = |b: &mut Builder, wanted: bool, name: &str, slot: Slot| {
            wanted.then(|| args.pointer(b, name, memory.slot(slot)))
        };
        let part = |p| Slot::Segment(n, p);
        let packed_k = segment.lengths.packed.is_some();
        Lengths {
            cu_seqlens_q: table(b, packed_q, "cu_seqlens_q", Slot::CuSeqlensQ),
            cu_seqlens_k: table(b, packed_k, "cu_seqlens_k", part(SegmentSlot::CuSeqlens)),
            used: table(b, segment.lengths.used, "seqused_k", part(SegmentSlot::Used)),
            queries: args.u32(b, "queries", problem.q.tokens() as u32),
            keys: args.u32(b, "keys", segment.most_keys() as u32),
        }
    }

    /// Brings line `line` of the lengths and offsets of `batch` sequences to L2.
    #[track_caller]
    pub fn prefetch(&self, b: &mut Builder, line: Reg<u32>, batch: Reg<u32>) {
        for table in [self.cu_seqlens_q, self.cu_seqlens_k, self.used].into_iter().flatten() {
            prefetch_line(b, table, line, batch);
        }
    }

    /// The sequence of number `number`.
    #[track_caller]
    pub fn sequence(&self, b: &mut Builder, number: SequenceIndex) -> Sequence {
        let number = number.reg();
        let zero = b.value::<u32>(0);
        let (q_batch, q_start, q_len) = match self.cu_seqlens_q {
            None => (number, zero, self.queries),
            Some(offsets) => {
                let (start, len) = span(b, offsets, number, self.queries);
                (zero, start, len)
            }
        };
        let (k_batch, k_start, mut k_len) = match self.cu_seqlens_k {
            None => (number, zero, self.keys),
            Some(offsets) => {
                let (start, len) = span(b, offsets, number, self.keys);
                (zero, start, len)
            }
        };
        if let Some(used) = self.used {
            let at = element(b, used, number);
            let used = b.ld_global::<i32>(at);
            k_len = limited(b, used, k_len);
        }
        let (q_batch, k_batch) = (QueryBatch::new(q_batch), KeyBatch::new(k_batch));
        Sequence { q_batch, q_start, q_len, k_batch, k_start, k_len, k_skipped: None }
    }
}

/// 32-bit elements of a line of L2.
const LINE: u32 = 32;

/// Brings line `line` of a table of `count` 32-bit elements to L2, if there is one.
#[track_caller]
pub fn prefetch_line(b: &mut Builder, table: GlobalPtr, line: Reg<u32>, count: Reg<u32>) {
    let first = b.eval(line * LINE);
    let exists = b.setp(Cmp::Lt, first, count);
    let at = element(b, table, first);
    b.if_(exists, |b| b.prefetch_to_l2(at));
}

/// Address of a 32-bit element.
#[track_caller]
pub fn element(b: &mut Builder, table: GlobalPtr, index: Reg<u32>) -> GlobalPtr {
    b.global_add(table, index.widening_mul(4))
}

/// First token and length of a packed sequence, within `tokens`.
#[track_caller]
fn span(
    b: &mut Builder,
    offsets: GlobalPtr,
    number: Reg<u32>,
    tokens: Reg<u32>,
) -> (Reg<u32>, Reg<u32>) {
    let at = element(b, offsets, number);
    let ends = [at, at.plus(4)].map(|at| b.ld_global::<i32>(at));
    let [start, end] = ends.map(|end| limited(b, end, tokens));
    (start, b.eval(end.max(start) - start))
}

/// `number`, at least 0 and at most `most`.
#[track_caller]
fn limited(b: &mut Builder, number: Reg<i32>, most: Reg<u32>) -> Reg<u32> {
    let number = b.eval(number.max(0));
    b.eval(number.reinterpret::<u32>().min(most))
}
