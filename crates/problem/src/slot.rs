use crate::{DType, MaskElement, Problem, Segment, Storage, Values};
use std::fmt;

/// A tensor of a [`Problem`], by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// Queries.
    Q,
    /// Output.
    Out,
    /// Log-sum-exp, f32 `[batch, heads, tokens]`.
    Lse,
    /// Sink logits, f32 `[heads]`.
    Sinks,
    /// Offsets of packed queries, i32 `[batch + 1]`.
    CuSeqlensQ,
    /// Absolute position of the first query of each sequence, i32 `[batch]`.
    Positions,
    /// A tensor of segment 0 or 1.
    Segment(u8, SegmentSlot),
}

/// A tensor of one key/value segment, by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentSlot {
    /// Keys.
    K,
    /// Values.
    V,
    /// Offsets of packed keys, i32 `[batch + 1]`.
    CuSeqlens,
    /// Keys in use, i32 `[batch]`.
    Used,
    /// Page table, i32 `[batch, pages_per_sequence]`.
    PageTable,
    /// Index lists, i32 `[batch, tokens, width]`.
    Indices,
    /// Masks or biases of scores ([`AttnMask`](crate::AttnMask)).
    AttnMask,
    /// Factors on keys, f32 ([`Descale`](crate::Descale)).
    KDescale,
    /// Factors on values, f32.
    VDescale,
}

impl Slot {
    /// Keys of segment 0.
    pub const K: Slot = Slot::Segment(0, SegmentSlot::K);
    /// Values of segment 0.
    pub const V: Slot = Slot::Segment(0, SegmentSlot::V);

    /// Whether engines write this slot.
    pub fn is_output(self) -> bool {
        matches!(self, Slot::Out | Slot::Lse)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Q => f.write_str("q"),
            Slot::Out => f.write_str("out"),
            Slot::Lse => f.write_str("lse"),
            Slot::Sinks => f.write_str("sinks"),
            Slot::CuSeqlensQ => f.write_str("cu_seqlens_q"),
            Slot::Positions => f.write_str("positions"),
            Slot::Segment(0, part) => write!(f, "{part}"),
            Slot::Segment(n, part) => write!(f, "segment {n} {part}"),
        }
    }
}

impl fmt::Display for SegmentSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SegmentSlot::K => "k",
            SegmentSlot::V => "v",
            SegmentSlot::CuSeqlens => "cu_seqlens_k",
            SegmentSlot::Used => "seqused_k",
            SegmentSlot::PageTable => "page_table",
            SegmentSlot::Indices => "indices",
            SegmentSlot::AttnMask => "attn_mask",
            SegmentSlot::KDescale => "k_descale",
            SegmentSlot::VDescale => "v_descale",
        })
    }
}

/// What a slot's elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Floating-point numbers.
    Float(DType),
    /// Offsets, lengths, tables.
    I32,
    /// Bytes of a packed row format (see [`Storage`]).
    U8,
    /// Booleans: bytes, true unless 0.
    Bool,
}

impl Element {
    /// Whether host memory of `found` holds these; booleans are held by bytes.
    pub fn is_held_by(self, found: Element) -> bool {
        self == found || (self, found) == (Element::Bool, Element::U8)
    }

    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        match self {
            Element::Float(dtype) => dtype.bytes(),
            Element::I32 => 4,
            Element::U8 | Element::Bool => 1,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Float(dtype) => dtype.fmt(f),
            Element::I32 => f.write_str("i32"),
            Element::U8 => f.write_str("u8"),
            Element::Bool => f.write_str("bool"),
        }
    }
}

pub(crate) fn element_of(problem: &Problem, slot: Slot) -> Element {
    match slot {
        Slot::Q | Slot::Out => Element::Float(problem.dtype()),
        Slot::Lse | Slot::Sinks => Element::Float(DType::F32),
        Slot::CuSeqlensQ | Slot::Positions => Element::I32,
        Slot::Segment(n, SegmentSlot::K)
            if problem.segments[n as usize].storage != Storage::Elements =>
        {
            Element::U8
        }
        Slot::Segment(n, SegmentSlot::K) => Element::Float(problem.segments[n as usize].k.dtype),
        Slot::Segment(n, SegmentSlot::V) => {
            Element::Float(problem.segments[n as usize].value_view().dtype)
        }
        Slot::Segment(_, SegmentSlot::KDescale | SegmentSlot::VDescale) => {
            Element::Float(DType::F32)
        }
        Slot::Segment(n, SegmentSlot::AttnMask) => {
            match problem.segments[n as usize].attn_mask.map(|mask| mask.element) {
                Some(MaskElement::Float(dtype)) => Element::Float(dtype),
                Some(MaskElement::Bool) | None => Element::Bool,
            }
        }
        Slot::Segment(..) => Element::I32,
    }
}

pub(crate) fn slots_of(problem: &Problem) -> Vec<Slot> {
    let mut slots = vec![Slot::Q, Slot::Out];
    let mut push = |slot, wanted: bool| wanted.then(|| slots.push(slot));
    push(Slot::Lse, problem.return_lse);
    push(Slot::Sinks, problem.sinks);
    push(Slot::CuSeqlensQ, problem.query_lengths != crate::QueryLengths::Full);
    push(Slot::Positions, problem.needs_positions());
    for (n, segment) in problem.segments.iter().enumerate() {
        let part = |p| Slot::Segment(n as u8, p);
        push(part(SegmentSlot::K), true);
        push(part(SegmentSlot::V), matches!(segment.values, Values::Separate(_)));
        push(part(SegmentSlot::CuSeqlens), segment.lengths.packed.is_some());
        push(part(SegmentSlot::Used), segment.lengths.used);
        push(part(SegmentSlot::PageTable), segment.reads_page_table());
        push(part(SegmentSlot::Indices), segment.indices.is_some());
        push(part(SegmentSlot::AttnMask), segment.attn_mask.is_some());
        push(part(SegmentSlot::KDescale), segment.k_descale.is_some());
        push(part(SegmentSlot::VDescale), segment.v_descale.is_some());
    }
    slots
}

pub(crate) fn bytes_of(problem: &Problem, slot: Slot) -> u64 {
    let factors = |descale: Option<crate::Descale>| {
        let (batch, heads) = (problem.batch(), problem.kv_heads());
        descale.map_or(0, |d| d.span(batch, heads).unwrap_or(u64::MAX / 16) * 4)
    };
    let view_bytes = |v: &crate::View| v.span().unwrap_or(u64::MAX / 16) * v.dtype.bytes();
    match slot {
        Slot::Q => view_bytes(&problem.q),
        Slot::Out => view_bytes(&problem.out),
        Slot::Lse => problem.lse_len() * 4,
        Slot::Sinks => problem.query_heads() * 4,
        Slot::CuSeqlensQ => (problem.batch() + 1) * 4,
        Slot::Positions => problem.batch() * 4,
        Slot::Segment(n, part) => {
            let segment = &problem.segments[n as usize];
            match part {
                SegmentSlot::K => packed_bytes(segment).unwrap_or_else(|| view_bytes(&segment.k)),
                SegmentSlot::V => view_bytes(&segment.value_view()),
                SegmentSlot::CuSeqlens => (problem.batch() + 1) * 4,
                SegmentSlot::Used => problem.batch() * 4,
                SegmentSlot::PageTable => {
                    problem.batch() * segment.paging.map_or(0, |p| p.pages_per_sequence) * 4
                }
                SegmentSlot::Indices => {
                    let tokens = problem.q.batch() * problem.q.tokens();
                    let lists = segment.indices.filter(|_| tokens > 0);
                    lists.map_or(0, |i| (tokens - 1) * i.pitch + i.width) * 4
                }
                SegmentSlot::KDescale => factors(segment.k_descale),
                SegmentSlot::VDescale => factors(segment.v_descale),
                SegmentSlot::AttnMask => segment
                    .attn_mask
                    .map_or(0, |mask| mask.span().unwrap_or(u64::MAX / 16) * mask.element.bytes()),
            }
        }
    }
}

/// Bytes from the first packed row to the last; none for elements.
fn packed_bytes(segment: &Segment) -> Option<u64> {
    let page = segment.storage.packed()?.page_bytes(segment.k.tokens());
    let before = segment.k.batch().checked_sub(1);
    Some(before.map_or(0, |pages| pages * segment.page_stride() + page))
}
