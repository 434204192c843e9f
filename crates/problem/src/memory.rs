//! A problem's input memory, checked once so that every later access is in range.
//!
//! Rules on memory, beyond those of [`Problem`]:
//! 1. Every input slot has memory of its element type, large enough for its view.
//! 2. `cu_seqlens` start at 0 or later, never decrease, end within the packed tokens, and no
//!    sequence is longer than the stated bound.
//! 3. `seqused_k` lies between 0 and the keys (or list entries) a sequence has.
//! 4. Page-table entries of keys in use name existing pages.
//! 5. Positions are not negative.

use crate::{
    AttnMask, DType, HostBuffers, HostRef, InvalidProblem, MaskElement, Problem, QueryLengths,
    Segment, SegmentSlot, Slot, Storage, Values,
};
use std::ops::Range;

/// Where a key row lies: an index into the batch and token dimensions of its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAt {
    /// Index into the batch dimension: a sequence, or a page.
    pub batch: u64,
    /// Index into the token dimension.
    pub token: u64,
}

impl RowAt {
    /// The row `count` tokens further.
    pub fn after(self, count: u64) -> Self {
        Self { token: self.token + count, ..self }
    }
}

/// Checked memory of one segment.
#[derive(Clone, Copy)]
pub struct SegmentInputs<'a> {
    /// The segment.
    pub segment: &'a Segment,
    /// Keys.
    pub k: HostRef<'a>,
    /// Values; the keys' memory where they are the keys.
    pub v: HostRef<'a>,
    cu_seqlens: Option<&'a [i32]>,
    used: Option<&'a [i32]>,
    page_table: Option<&'a [i32]>,
    indices: Option<&'a [i32]>,
    /// The mask tensor, in its element type.
    pub attn_mask: Option<(AttnMask, HostRef<'a>)>,
    k_descale: Option<&'a [f32]>,
    v_descale: Option<&'a [f32]>,
}

/// Checked memory of a whole problem.
pub struct Inputs<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Queries.
    pub q: HostRef<'a>,
    /// Sink logits.
    pub sinks: Option<&'a [f32]>,
    /// Memory of each segment.
    pub segments: Vec<SegmentInputs<'a>>,
    cu_seqlens_q: Option<&'a [i32]>,
    positions: Option<&'a [i32]>,
}

fn fail(slot: Slot, rule: impl Into<String>, value: impl std::fmt::Display) -> InvalidProblem {
    InvalidProblem::new(slot, rule, value)
}

/// Finds typed memory for slots and checks its length.
struct Finder<'p, 'b, 'a> {
    problem: &'p Problem,
    buffers: &'b HostBuffers<'a>,
}

impl<'a> Finder<'_, '_, 'a> {
    fn memory(&self, slot: Slot, element_bytes: u64) -> Result<HostRef<'a>, InvalidProblem> {
        let memory = self
            .buffers
            .get(slot)
            .ok_or_else(|| fail(slot, "needs memory (memory rule 1)", "missing"))?;
        let needed = self.problem.slot_bytes(slot) / element_bytes;
        if (memory.len() as u64) < needed {
            let rule = format!("must hold {needed} elements (memory rule 1)");
            return Err(fail(slot, rule, memory.len()));
        }
        Ok(memory)
    }

    fn floats(&self, slot: Slot, dtype: DType) -> Result<HostRef<'a>, InvalidProblem> {
        let memory = self.memory(slot, dtype.bytes())?;
        if memory.dtype() == Some(dtype) {
            return Ok(memory);
        }
        let found = memory.dtype().map_or("not a float".to_string(), |d| d.to_string());
        Err(fail(slot, format!("must hold {dtype} (memory rule 1)"), found))
    }

    fn bytes(&self, slot: Slot) -> Result<HostRef<'a>, InvalidProblem> {
        match self.memory(slot, 1)? {
            HostRef::U8(bytes) => Ok(HostRef::U8(bytes)),
            _ => Err(fail(slot, "must hold bytes (memory rule 1)", "another element type")),
        }
    }

    fn f32s(&self, slot: Slot, wanted: bool) -> Result<Option<&'a [f32]>, InvalidProblem> {
        match wanted.then(|| self.floats(slot, DType::F32)).transpose()? {
            Some(HostRef::F32(values)) => Ok(Some(values)),
            _ => Ok(None),
        }
    }

    fn i32s(&self, slot: Slot, wanted: bool) -> Result<Option<&'a [i32]>, InvalidProblem> {
        match wanted.then(|| self.memory(slot, 4)).transpose()? {
            None => Ok(None),
            Some(HostRef::I32(values)) => Ok(Some(values)),
            Some(_) => Err(fail(slot, "must hold i32 (memory rule 1)", "another element type")),
        }
    }

    fn segment(&self, n: u8, segment: &'a Segment) -> Result<SegmentInputs<'a>, InvalidProblem> {
        let slot = |part| Slot::Segment(n, part);
        let k = match segment.storage {
            Storage::Elements => self.floats(slot(SegmentSlot::K), segment.k.dtype)?,
            _ => self.bytes(slot(SegmentSlot::K))?,
        };
        let v = match segment.values {
            Values::Separate(view) => self.floats(slot(SegmentSlot::V), view.dtype)?,
            Values::SameAsKeys { .. } => k,
        };
        let packed = segment.lengths.packed.is_some();
        Ok(SegmentInputs {
            segment,
            k,
            v,
            cu_seqlens: self.i32s(slot(SegmentSlot::CuSeqlens), packed)?,
            used: self.i32s(slot(SegmentSlot::Used), segment.lengths.used)?,
            page_table: self.i32s(slot(SegmentSlot::PageTable), segment.reads_page_table())?,
            indices: self.i32s(slot(SegmentSlot::Indices), segment.indices.is_some())?,
            attn_mask: self.attn_mask(slot(SegmentSlot::AttnMask), segment)?,
            k_descale: self.f32s(slot(SegmentSlot::KDescale), segment.k_descale.is_some())?,
            v_descale: self.f32s(slot(SegmentSlot::VDescale), segment.v_descale.is_some())?,
        })
    }

    fn attn_mask(
        &self,
        slot: Slot,
        segment: &Segment,
    ) -> Result<Option<(AttnMask, HostRef<'a>)>, InvalidProblem> {
        let Some(mask) = segment.attn_mask else { return Ok(None) };
        let memory = match mask.element {
            MaskElement::Bool => self.bytes(slot)?,
            MaskElement::Float(dtype) => self.floats(slot, dtype)?,
        };
        Ok(Some((mask, memory)))
    }
}

impl<'a> Inputs<'a> {
    /// Finds and checks the memory of every input slot.
    ///
    /// # Errors
    /// The slot, the rule and the value, where one is broken.
    pub fn new(problem: &'a Problem, buffers: &HostBuffers<'a>) -> Result<Self, InvalidProblem> {
        let finder = Finder { problem, buffers };
        let packed = problem.query_lengths != QueryLengths::Full;
        let segments = problem.segments.iter().enumerate();
        let inputs = Self {
            problem,
            q: finder.floats(Slot::Q, problem.dtype())?,
            sinks: finder.f32s(Slot::Sinks, problem.sinks)?,
            segments: segments
                .map(|(n, s)| finder.segment(n as u8, s))
                .collect::<Result<_, _>>()?,
            cu_seqlens_q: finder.i32s(Slot::CuSeqlensQ, packed)?,
            positions: finder.i32s(Slot::Positions, problem.needs_positions())?,
        };
        inputs.check_values()?;
        Ok(inputs)
    }

    fn check_values(&self) -> Result<(), InvalidProblem> {
        let batch = self.problem.batch();
        if let Some(cu) = self.cu_seqlens_q {
            let longest = self.problem.longest_query();
            check_offsets(Slot::CuSeqlensQ, cu, batch, self.problem.q.tokens(), longest)?;
        }
        for (b, &position) in
            self.positions.iter().flat_map(|p| p[..batch as usize].iter().enumerate())
        {
            if position < 0 {
                let rule = format!("entry {b} must not be negative (memory rule 5)");
                return Err(fail(Slot::Positions, rule, position));
            }
        }
        for (n, segment) in self.segments.iter().enumerate() {
            segment.check_values(n as u8, self.problem)?;
        }
        Ok(())
    }

    /// Number of sequences.
    pub fn batch(&self) -> u64 {
        self.problem.batch()
    }

    /// Batch index and tokens of sequence `b`'s queries within `q`.
    pub fn queries(&self, b: u64) -> (u64, Range<u64>) {
        match self.cu_seqlens_q {
            Some(cu) => (0, cu[b as usize] as u64..cu[b as usize + 1] as u64),
            None => (b, 0..self.problem.q.tokens()),
        }
    }

    /// Absolute position of the first query of sequence `b`.
    pub fn position(&self, b: u64) -> u64 {
        self.positions.map_or(0, |p| p[b as usize] as u64)
    }
}

impl SegmentInputs<'_> {
    /// The factors on the keys and on the values of sequence `b` and KV head `kv_head`.
    pub fn descales(&self, b: u64, kv_head: u64) -> [f32; 2] {
        let both =
            [(self.segment.k_descale, self.k_descale), (self.segment.v_descale, self.v_descale)];
        both.map(|(descale, factors)| match descale.zip(factors) {
            Some((descale, factors)) => factors[descale.offset(b, kv_head) as usize],
            None => 1.0,
        })
    }

    /// Keys of sequence `b` before masking (list entries, where keys are listed).
    pub fn keys(&self, b: u64) -> u64 {
        let b = b as usize;
        match (self.used, self.cu_seqlens) {
            (Some(used), _) => used[b] as u64,
            (None, Some(cu)) => (cu[b + 1] - cu[b]) as u64,
            (None, None) => self.segment.longest(),
        }
    }

    /// The visible keys of query `index` (of `queries`) of sequence `b`.
    pub fn visible(&self, b: u64, index: u64, queries: u64, position: u64) -> Range<u64> {
        let (first, end) = self.segment.mask.range(index, queries, self.keys(b), position);
        first..end
    }

    /// Where keys `keys` of sequence `b` lie, as the first row of each run of neighbouring tokens
    /// and the run's length. For segments without index lists.
    pub fn runs(&self, b: u64, keys: Range<u64>) -> impl Iterator<Item = (RowAt, u64)> {
        let page_size = match self.page_table {
            Some(_) => self.segment.k.tokens(),
            None => u64::MAX,
        };
        let mut next = keys.start;
        std::iter::from_fn(move || {
            let (page, token) = (next / page_size, next % page_size);
            let count = (keys.end.saturating_sub(next)).min(page_size - token);
            next += count;
            (count > 0).then(|| (self.row(b, page, token), count))
        })
    }

    fn row(&self, b: u64, page: u64, token: u64) -> RowAt {
        match (self.page_table, self.cu_seqlens) {
            (Some(table), _) => {
                let columns = self.segment.paging.map_or(0, |p| p.pages_per_sequence);
                RowAt { batch: table[(b * columns + page) as usize] as u64, token }
            }
            (_, Some(cu)) => RowAt { batch: 0, token: cu[b as usize] as u64 + token },
            _ => RowAt { batch: b, token },
        }
    }

    /// Whether each query has its own list of keys.
    pub fn is_listed(&self) -> bool {
        self.indices.is_some()
    }

    /// Where entry `j` of the list of query token `flat_token` (counted over `q`'s batch and
    /// tokens) lies; `None` if the entry names no row.
    pub fn listed_row(&self, b: u64, flat_token: u64, j: u64) -> Option<RowAt> {
        let pitch = self.segment.indices?.pitch;
        let entry = self.indices?[(flat_token * pitch + j) as usize];
        let entry = u64::try_from(entry).ok().filter(|row| *row < self.segment.listed_rows())?;
        let page_size = self.segment.k.tokens();
        Some(match self.segment.paging {
            Some(_) => RowAt { batch: entry / page_size, token: entry % page_size },
            None => RowAt { batch: b, token: entry },
        })
    }

    fn check_values(&self, n: u8, problem: &Problem) -> Result<(), InvalidProblem> {
        let slot = |part| Slot::Segment(n, part);
        let batch = problem.batch();
        let k = &self.segment.k;
        if let Some(cu) = self.cu_seqlens {
            let longest = self.segment.longest();
            check_offsets(slot(SegmentSlot::CuSeqlens), cu, batch, k.tokens(), longest)?;
        }
        self.check_used(slot(SegmentSlot::Used), batch)?;
        self.check_page_table(slot(SegmentSlot::PageTable), batch)
    }

    fn check_used(&self, slot: Slot, batch: u64) -> Result<(), InvalidProblem> {
        let Some(used) = self.used else { return Ok(()) };
        for b in 0..batch as usize {
            let capacity = match self.cu_seqlens {
                Some(cu) => (cu[b + 1] - cu[b]) as u64,
                None => self.segment.longest(),
            };
            if u64::try_from(used[b]).is_ok_and(|n| n <= capacity) {
                continue;
            }
            let rule = format!("entry {b} must lie in 0..={capacity} (memory rule 3)");
            return Err(fail(slot, rule, used[b]));
        }
        Ok(())
    }

    fn check_page_table(&self, slot: Slot, batch: u64) -> Result<(), InvalidProblem> {
        let Some(table) = self.page_table else { return Ok(()) };
        let columns = self.segment.paging.map_or(0, |p| p.pages_per_sequence);
        let pages = self.segment.k.batch();
        for b in 0..batch {
            let in_use = self.keys(b).div_ceil(self.segment.k.tokens());
            for column in 0..in_use {
                let page = table[(b * columns + column) as usize];
                if u64::try_from(page).is_ok_and(|p| p < pages) {
                    continue;
                }
                let rule = format!("entry [{b},{column}] must lie in 0..{pages} (memory rule 4)");
                return Err(fail(slot, rule, page));
            }
        }
        Ok(())
    }
}

fn check_offsets(
    slot: Slot,
    cu: &[i32],
    batch: u64,
    tokens: u64,
    longest: u64,
) -> Result<(), InvalidProblem> {
    let rule = "must rise from 0 or more to at most the packed tokens (memory rule 2)";
    let cu = &cu[..=batch as usize];
    if cu[0] < 0 {
        return Err(fail(slot, rule, cu[0]));
    }
    for (b, pair) in cu.windows(2).enumerate() {
        let length = pair[1] as i64 - pair[0] as i64;
        if length < 0 || pair[1] as u64 > tokens {
            return Err(fail(slot, rule, format!("{} after {}", pair[1], pair[0])));
        }
        if length as u64 > longest {
            let rule = format!("sequence {b} must have at most {longest} tokens (memory rule 2)");
            return Err(fail(slot, rule, length));
        }
    }
    Ok(())
}
