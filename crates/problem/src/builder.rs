//! Building a [`Problem`] and the rules every engine may rely on.
//!
//! Rules, by number:
//! 1. Every extent is at least 1 (tokens and the batch may be 0) and below 2^56, the last stride is 1,
//!    and no tensor, table or list spans 2^56 bytes or more.
//! 2. `q` and `out` share one dtype, which is not e4m3; `k` and `v` have the same, or both are e4m3.
//! 3. `k` has `q`'s dim; `v` has `out`'s dim; K = V needs value dim ≤ key dim.
//! 4. KV heads divide query heads; both segments agree on heads and dims.
//! 5. Batches agree; packed views have batch 1; paged views have at least one page of at least one row.
//! 6. One or two segments; a segment is not both packed and paged.
//! 7. `scale` and `softcap` are finite; `softcap` is positive; a compression ratio is at least 1.
//! 8. Outputs do not overlap themselves: by rising stride, each dimension steps over all smaller ones.
//! 9. An index list has at least one entry, a full mask, and keys that are not packed.
//! 10. Packed rows are bf16 of their format's dim, one KV head, K = V; their pages do not overlap.
//! 11. Each extent of an `attn_mask` is 1 or that of the problem: batch, query heads, queries, and the
//!     segment's keys (those that its page table has room for, where it is paged). Queries and keys are
//!     not packed, and keys not listed. Its elements are not e4m3.
//! 12. Descales need e4m3 keys and values, and span less than 2^56 bytes.

use crate::{
    AttnMask, DType, InvalidProblem, Mask, MaskElement, Parts, Problem, QueryLengths, Segment,
    SegmentSlot, Slot, Values, View,
};

/// Collects the parts of a [`Problem`].
#[derive(Clone, Debug)]
pub struct ProblemBuilder {
    q: View,
    out: Option<View>,
    query_lengths: QueryLengths,
    segments: Vec<Segment>,
    scale: Option<f64>,
    softcap: Option<f32>,
    sinks: bool,
    return_lse: bool,
}

impl ProblemBuilder {
    pub(crate) fn new(q: View) -> Self {
        Self {
            q,
            out: None,
            query_lengths: QueryLengths::Full,
            segments: Vec::new(),
            scale: None,
            softcap: None,
            sinks: false,
            return_lse: false,
        }
    }

    /// Adds a key/value segment.
    pub fn segment(mut self, segment: Segment) -> Self {
        self.segments.push(segment);
        self
    }
    /// Sets the output view (default: `q`'s memory order with the value dim).
    pub fn out(mut self, out: View) -> Self {
        self.out = Some(out);
        self
    }
    /// Sets how queries are grouped into sequences.
    pub fn query_lengths(mut self, lengths: QueryLengths) -> Self {
        self.query_lengths = lengths;
        self
    }
    /// Sets the factor on scores (default `1/sqrt(dim)`).
    pub fn scale(mut self, scale: impl Into<f64>) -> Self {
        self.scale = Some(scale.into());
        self
    }
    /// Caps scores softly.
    pub fn softcap(mut self, softcap: f32) -> Self {
        self.softcap = Some(softcap);
        self
    }
    /// Takes one sink logit per query head.
    pub fn sinks(mut self) -> Self {
        self.sinks = true;
        self
    }
    /// Returns the log-sum-exp.
    pub fn return_lse(mut self) -> Self {
        self.return_lse = true;
        self
    }

    pub(crate) fn options(self, scale: Option<f64>, softcap: Option<f32>) -> Self {
        Self { scale, softcap, ..self }
    }

    /// Checks every rule and returns the problem.
    pub fn build(self) -> Result<Problem, InvalidProblem> {
        let Some(first) = self.segments.first() else {
            return Err(InvalidProblem::new("segments", "one or two are needed (rule 6)", 0));
        };
        let out = self.out.unwrap_or_else(|| default_out(&self.q, first.value_dim()));
        let parts = Parts {
            scale: rounded_scale(&self.q, self.scale),
            q: self.q,
            out,
            query_lengths: self.query_lengths,
            segments: self.segments,
            softcap: self.softcap,
            sinks: self.sinks,
            return_lse: self.return_lse,
        };
        Problem::checked(parts)
    }
}

/// The factor on scores, in the precision that engines compute with.
fn rounded_scale(q: &View, scale: Option<f64>) -> f64 {
    match (q.dtype, scale) {
        (DType::F64, _) => scale.unwrap_or(1.0 / (q.dim() as f64).sqrt()),
        (_, Some(scale)) => f64::from(scale as f32),
        (_, None) => f64::from(1.0 / (q.dim() as f32).sqrt()),
    }
}

fn default_out(q: &View, dim: u64) -> View {
    let [b, h, t, _] = q.shape;
    if q.strides[1] < q.strides[2] {
        View::bshd(q.dtype, [b, h, t, dim])
    } else {
        View::bhsd(q.dtype, [b, h, t, dim])
    }
}

fn ensure(
    holds: bool,
    subject: impl std::fmt::Display,
    rule: &str,
    value: impl std::fmt::Display,
) -> Result<(), InvalidProblem> {
    if holds { Ok(()) } else { Err(InvalidProblem::new(subject, rule, value)) }
}

pub(crate) fn check(problem: &Problem) -> Result<(), InvalidProblem> {
    check_view(Slot::Q, &problem.q)?;
    check_view(Slot::Out, &problem.out)?;
    check_scalars(problem)?;
    check_queries(problem)?;
    let count = problem.segments.len();
    ensure((1..=2).contains(&count), "segments", "one or two are needed (rule 6)", count)?;
    for (n, segment) in problem.segments.iter().enumerate() {
        check_segment(problem, n as u8, segment)?;
    }
    Ok(())
}

fn check_view(slot: Slot, view: &View) -> Result<(), InvalidProblem> {
    let [_, h, _, d] = view.shape;
    ensure(h > 0 && d > 0, slot, "heads and dim must be at least 1 (rule 1)", view)?;
    let most = view.shape.into_iter().fold(0, u64::max);
    ensure(most < 1 << 56, slot, "every extent must be below 2^56 (rule 1)", view)?;
    ensure(view.strides[3] == 1, slot, "the last stride must be 1 (rule 1)", view.strides[3])?;
    let bytes = view.span().and_then(|n| n.checked_mul(view.dtype.bytes()));
    ensure(
        bytes.is_some_and(|n| n < 1 << 56),
        slot,
        "must span less than 2^56 bytes (rule 1)",
        view,
    )
}

fn check_scalars(problem: &Problem) -> Result<(), InvalidProblem> {
    ensure(problem.scale.is_finite(), "scale", "must be finite (rule 7)", problem.scale)?;
    if let Some(cap) = problem.softcap {
        ensure(
            cap.is_finite() && cap > 0.0,
            "softcap",
            "must be finite and positive (rule 7)",
            cap,
        )?;
    }
    Ok(())
}

fn check_queries(problem: &Problem) -> Result<(), InvalidProblem> {
    let (q, out) = (&problem.q, &problem.out);
    ensure(q.dtype != DType::E4m3, Slot::Q, "must not be e4m3 (rule 2)", q.dtype)?;
    ensure(out.dtype == q.dtype, Slot::Out, "must have q's dtype (rule 2)", out.dtype)?;
    let same = out.shape[..3] == q.shape[..3];
    ensure(same, Slot::Out, "must have q's batch, heads and tokens (rule 5)", out)?;
    ensure(!overlaps(out), Slot::Out, "must not overlap itself (rule 8)", out)?;
    if let QueryLengths::Packed { batch, .. } = problem.query_lengths {
        ensure(q.batch() == 1, Slot::Q, "packed sequences need a view of batch 1 (rule 5)", q)?;
        let some = (1..1 << 31).contains(&batch);
        ensure(some, Slot::CuSeqlensQ, "1 to 2^31 - 1 sequences are possible (rule 5)", batch)?;
    }
    Ok(())
}

/// Whether two elements may share an address.
fn overlaps(view: &View) -> bool {
    if view.shape.contains(&0) {
        return false;
    }
    let mut dims = [0, 1, 2, 3].map(|n| (view.strides[n], view.shape[n]));
    dims.sort_unstable();
    let mut span = 1u64;
    for (stride, extent) in dims.into_iter().filter(|(_, extent)| *extent > 1) {
        if stride < span {
            return true;
        }
        span = span.saturating_add(stride.saturating_mul(extent - 1));
    }
    false
}

fn check_segment(problem: &Problem, n: u8, segment: &Segment) -> Result<(), InvalidProblem> {
    let slot = |part| Slot::Segment(n, part);
    let (k_slot, v_slot) = (slot(SegmentSlot::K), slot(SegmentSlot::V));
    let (k, v) = (&segment.k, segment.value_view());
    check_view(k_slot, k)?;
    check_view(v_slot, &v)?;
    let known = [problem.dtype(), DType::E4m3].contains(&k.dtype);
    ensure(known, k_slot, "must have q's dtype or be e4m3 (rule 2)", k.dtype)?;
    ensure(v.dtype == k.dtype, v_slot, "must have k's dtype (rule 2)", v.dtype)?;
    ensure(k.dim() == problem.q.dim(), k_slot, "must have q's dim (rule 3)", k.dim())?;
    ensure(v.dim() == problem.out.dim(), v_slot, "must have out's dim (rule 3)", v.dim())?;
    if let Values::SameAsKeys { dim } = segment.values {
        ensure(
            dim <= k.dim(),
            v_slot,
            "K = V needs a value dim of at most the key dim (rule 3)",
            dim,
        )?;
    }
    ensure(
        v.shape[..3] == k.shape[..3],
        v_slot,
        "must have k's batch, heads and tokens (rule 5)",
        v,
    )?;
    let divides = problem.query_heads().is_multiple_of(k.heads());
    ensure(divides, k_slot, "KV heads must divide query heads (rule 4)", k.heads())?;
    ensure(
        k.heads() == problem.kv_heads(),
        k_slot,
        "segments must agree on heads (rule 4)",
        k.heads(),
    )?;
    if let Mask::Compressed { ratio } = segment.mask {
        ensure(ratio > 0, k_slot, "a compression ratio must be at least 1 (rule 7)", ratio)?;
    }
    check_tables(problem, n, segment)?;
    check_indices(k_slot, segment)?;
    check_storage(k_slot, segment)?;
    check_descales(problem, n, segment)?;
    check_batches(problem, n, segment)?;
    match &segment.attn_mask {
        Some(mask) => check_attn_mask(problem, n, segment, mask),
        None => Ok(()),
    }
}

fn check_tables(problem: &Problem, n: u8, segment: &Segment) -> Result<(), InvalidProblem> {
    let small = |entries: Option<u64>| entries.is_some_and(|entries| entries < 1 << 54);
    let rule = "must span less than 2^56 bytes (rule 1)";
    if let Some(paging) = segment.paging {
        let columns = paging.pages_per_sequence;
        let holds = small(columns.checked_mul(problem.batch()))
            && small(columns.checked_mul(segment.k.tokens()));
        ensure(holds, Slot::Segment(n, SegmentSlot::PageTable), rule, columns)?;
    }
    if let Some(list) = segment.indices {
        let tokens = problem.q.shape[0].checked_mul(problem.q.shape[2]);
        let most = list.width.max(list.pitch);
        let holds = small(tokens.and_then(|tokens| tokens.checked_mul(most)));
        ensure(holds, Slot::Segment(n, SegmentSlot::Indices), rule, most)?;
    }
    Ok(())
}

fn check_indices(slot: Slot, segment: &Segment) -> Result<(), InvalidProblem> {
    let Some(list) = segment.indices else { return Ok(()) };
    ensure(list.width > 0, slot, "an index list has at least one entry (rule 9)", list.width)?;
    let full = segment.mask == Mask::Full;
    ensure(full, slot, "an index list needs a full mask (rule 9)", segment.mask)?;
    let packed = segment.lengths.packed.is_some();
    ensure(!packed, slot, "an index list needs keys that are not packed (rule 9)", "packed")
}

fn check_descales(problem: &Problem, n: u8, segment: &Segment) -> Result<(), InvalidProblem> {
    let descales =
        [(SegmentSlot::KDescale, segment.k_descale), (SegmentSlot::VDescale, segment.v_descale)];
    for (part, descale) in descales {
        let (slot, Some(descale)) = (Slot::Segment(n, part), descale) else { continue };
        ensure(segment.is_e4m3(), slot, "needs e4m3 keys and values (rule 12)", segment.k.dtype)?;
        let span = descale.span(problem.batch(), problem.kv_heads());
        let small = span.is_some_and(|factors| factors < 1 << 54);
        let [sequences, heads] = descale.strides;
        let rule = "must span less than 2^56 bytes (rule 12)";
        ensure(small, slot, rule, format!("strides [{sequences}, {heads}]"))?;
    }
    Ok(())
}

fn check_storage(slot: Slot, segment: &Segment) -> Result<(), InvalidProblem> {
    let (k, storage) = (&segment.k, segment.storage);
    let Some(format) = storage.packed() else {
        let rule = "only pages of packed rows are given a size (rule 10)";
        return ensure(segment.page_bytes.is_none(), slot, rule, segment.page_stride());
    };
    let shape = k.dim() == format.dim && k.heads() == 1 && k.dtype == DType::Bf16;
    let rule = format!("{storage} rows are bf16 of dim {} with one KV head (rule 10)", format.dim);
    ensure(shape, slot, &rule, k)?;
    let shared = matches!(segment.values, Values::SameAsKeys { .. });
    let rule = format!("{storage} rows are keys and values in one (rule 10)");
    ensure(shared, slot, &rule, "separate values")?;
    let (page, stride) = (format.page_bytes(k.tokens()), segment.page_stride());
    let rule = format!("pages of {page} bytes must begin at least as far apart (rule 10)");
    ensure(stride >= page, slot, &rule, stride)?;
    let bytes = k.batch() as u128 * stride as u128;
    ensure(bytes < 1 << 56, slot, "must span less than 2^56 bytes (rule 1)", k)
}

fn check_attn_mask(
    problem: &Problem,
    n: u8,
    segment: &Segment,
    mask: &AttnMask,
) -> Result<(), InvalidProblem> {
    let slot = Slot::Segment(n, SegmentSlot::AttnMask);
    let packed = problem.query_lengths != QueryLengths::Full || segment.lengths.packed.is_some();
    let rule = "needs queries and keys that are not packed (rule 11)";
    ensure(!packed, slot, rule, "beside packed sequences")?;
    let rule = "needs keys that are not listed (rule 11)";
    ensure(segment.indices.is_none(), slot, rule, "beside index lists")?;
    let narrow = mask.element == MaskElement::Float(DType::E4m3);
    ensure(!narrow, slot, "must not be e4m3 (rule 11)", mask.element)?;
    let names = ["batch", "query heads", "queries", "keys"];
    let extents =
        [problem.batch(), problem.query_heads(), problem.longest_query(), segment.longest()];
    for ((name, extent), found) in names.iter().zip(extents).zip(mask.shape) {
        if found != 1 && found != extent {
            let rule = format!("its extent of {name} must be 1 or {extent} (rule 11)");
            return Err(InvalidProblem::new(slot, rule, found));
        }
    }
    let bytes = mask.span().and_then(|n| n.checked_mul(mask.element.bytes()));
    let small = bytes.is_some_and(|n| n < 1 << 56);
    ensure(small, slot, "must span less than 2^56 bytes (rule 1)", mask)
}

fn check_batches(problem: &Problem, n: u8, segment: &Segment) -> Result<(), InvalidProblem> {
    let k = &segment.k;
    let slot = Slot::Segment(n, SegmentSlot::K);
    let packed = segment.lengths.packed.is_some();
    ensure(
        !(packed && segment.paging.is_some()),
        slot,
        "is either packed or paged (rule 6)",
        "both",
    )?;
    if segment.paging.is_some() {
        ensure(k.batch() > 0, slot, "there is at least one page (rule 5)", k.batch())?;
        return ensure(k.tokens() > 0, slot, "a page holds at least one row (rule 5)", k.tokens());
    }
    if packed {
        return ensure(k.batch() == 1, slot, "packed sequences need a view of batch 1 (rule 5)", k);
    }
    let (batch, found) = (problem.batch(), k.batch());
    if found == batch {
        return Ok(());
    }
    Err(InvalidProblem::new(slot, format!("must have batch {batch} (rule 5)"), found))
}
