//! What a user asks for: one attention call, described without saying where it runs.
//!
//! A [`Problem`] names the tensors by [`Slot`], says how each is laid out ([`View`]), which keys each
//! query may see ([`Mask`], lengths, paging, index lists), and what is returned. Engines take a
//! `Problem` plus memory for its slots; nothing here knows of devices or kernels.
//!
//! Conventions (they hold for every engine):
//! - Views are `[batch, heads, tokens, dim]`, strides in elements, the last one 1.
//! - Scores are `scale · q·k`, then `softcap · tanh(s / softcap)` where a soft cap is set, plus the
//!   [`AttnMask`] where there is one. A number of e4m3 keys or values is itself times its [`Descale`]. Then masks, lengths and the `-inf` of an `AttnMask` hide keys.
//! - LSE is a natural logarithm without the sink; `-inf` for a row that sees no key, whose output is 0.
//! - A sink is one logit per query head, added to the denominator once, never scaled.
//! - Causal is bottom-right aligned: the last query of a sequence sees its last key.
//! - What a row does not see never changes it, whatever numbers are there. A row sees a key if the mask, the lengths
//!   and the lists show it and its score is not −∞.
//! - NaN that is seen makes NaN: in the query, in a key or as a score of +∞, of the whole row and its LSE; in the
//!   sink, of the whole row; in a value, of its column. An infinite value makes its column infinite, or NaN where its
//!   probability is too small for the engine.
//! - A result that fits its type is computed, however near the values are to the largest number. Scores before the
//!   scale must fit f32.

mod attn_mask;
mod builder;
mod descale;
mod description;
mod dtype;
mod e4m3;
mod error;
mod host;
mod host_vec;
mod mask;
mod memory;
mod segment;
mod slot;
mod storage;
mod text;
mod view;

pub use attn_mask::{AttnMask, MaskElement};
pub use builder::ProblemBuilder;
pub use descale::Descale;
pub use description::{Description, SegmentDescription};
pub use dtype::DType;
pub use e4m3::E4m3;
pub use error::{InvalidProblem, Unsupported};
pub use host::{HostBuffers, HostMut, HostRef};
pub use host_vec::HostVec;
pub use mask::Mask;
pub use memory::{Inputs, RowAt, SegmentInputs};
pub use segment::{IndexList, KeyLengths, Paging, Segment, Values};
pub use slot::{Element, SegmentSlot, Slot};
pub use storage::{PackedRows, Scales, Storage};
pub use view::View;

use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// How query tokens are grouped into sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryLengths {
    /// The view's batch dimension: every sequence has as many queries as the view has tokens.
    Full,
    /// Sequences lie one after the other in the token dimension of a view of batch 1;
    /// [`Slot::CuSeqlensQ`] holds `batch + 1` offsets (i32).
    Packed {
        /// Number of sequences.
        batch: u64,
        /// An upper bound of the queries of one sequence, known to the host.
        longest: u64,
    },
}

/// One attention call that keeps every rule: engines rely on them, and check nothing again.
///
/// Its [`Parts`] are read as its own fields. None can be written, so [`ProblemBuilder::build`], [`Problem::with`]
/// and reading a [`Description`] are the only ways to a problem, and each checks it once.
///
/// ```compile_fail,E0594
/// # fn change(mut problem: sixwarp_problem::Problem) {
/// problem.softcap = Some(50.0);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub struct Problem(Parts);

/// The parts of a [`Problem`].
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// Queries.
    pub q: View,
    /// Output, `[batch, heads, tokens, value dim]`.
    pub out: View,
    /// How queries are grouped into sequences.
    pub query_lengths: QueryLengths,
    /// One or two key/value segments under one softmax.
    pub segments: Vec<Segment>,
    /// Factor on `q·k`; single precision unless the tensors are f64.
    pub scale: f64,
    /// Soft cap on scores.
    pub softcap: Option<f32>,
    /// Whether [`Slot::Sinks`] (f32, one logit per query head) is given.
    pub sinks: bool,
    /// Whether [`Slot::Lse`] (f32 `[batch, heads, tokens]`, packed like `q`) is written.
    pub return_lse: bool,
}

impl Deref for Problem {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Problem {
    /// Starts a problem from its queries.
    pub fn builder(q: View) -> ProblemBuilder {
        ProblemBuilder::new(q)
    }

    /// The problem of these parts.
    ///
    /// # Errors
    /// The first rule that does not hold, and what breaks it.
    fn checked(parts: Parts) -> Result<Self, InvalidProblem> {
        let problem = Problem(parts);
        builder::check(&problem)?;
        Ok(problem)
    }

    /// The same problem with some parts changed, checked again.
    ///
    /// # Errors
    /// The first rule that does not hold, and what breaks it.
    pub fn with(self, change: impl FnOnce(&mut Parts)) -> Result<Self, InvalidProblem> {
        let mut parts = self.0;
        change(&mut parts);
        Self::checked(parts)
    }

    /// The parts, to change them at will.
    pub fn into_parts(self) -> Parts {
        self.0
    }

    /// Number of sequences.
    pub fn batch(&self) -> u64 {
        match self.query_lengths {
            QueryLengths::Full => self.q.batch(),
            QueryLengths::Packed { batch, .. } => batch,
        }
    }

    /// The most queries one sequence can have.
    pub fn longest_query(&self) -> u64 {
        match self.query_lengths {
            QueryLengths::Full => self.q.tokens(),
            QueryLengths::Packed { longest, .. } => longest.min(self.q.tokens()),
        }
    }

    /// Number of query heads.
    pub fn query_heads(&self) -> u64 {
        self.q.heads()
    }

    /// Number of key/value heads.
    pub fn kv_heads(&self) -> u64 {
        self.segments[0].k.heads()
    }

    /// Query heads that share one key/value head.
    pub fn group(&self) -> u64 {
        self.query_heads() / self.kv_heads()
    }

    /// Length of a query or key row.
    pub fn key_dim(&self) -> u64 {
        self.q.dim()
    }

    /// Length of a value or output row.
    pub fn value_dim(&self) -> u64 {
        self.out.dim()
    }

    /// Element type of queries and output, and of keys and values unless those are e4m3.
    pub fn dtype(&self) -> DType {
        self.q.dtype
    }

    /// Whether any slot carries the absolute position of the first query of each sequence.
    pub fn needs_positions(&self) -> bool {
        self.segments.iter().any(|s| matches!(s.mask, Mask::Compressed { .. }))
    }

    /// Whether keys and values of some segment are e4m3.
    pub fn has_e4m3(&self) -> bool {
        self.segments.iter().any(Segment::is_e4m3)
    }

    /// Whether a tensor is added to the scores of some segment.
    pub fn has_attn_mask(&self) -> bool {
        self.segments.iter().any(|segment| segment.attn_mask.is_some())
    }

    /// Elements of the LSE tensor, packed `[batch, heads, tokens]` in the shape of `q`.
    pub fn lse_len(&self) -> u64 {
        self.q.batch() * self.q.heads() * self.q.tokens()
    }

    /// Floating-point operations of the two matrix products over all visible scores, if lengths are
    /// those of the views (bottom-right causal and windows counted exactly).
    pub fn flops(&self) -> f64 {
        let per_score = 2.0 * (self.key_dim() + self.value_dim()) as f64;
        let t = self.longest_query();
        let scores: f64 = self.segments.iter().map(|s| s.mask.visible(t, s.longest()) as f64).sum();
        scores * per_score * self.batch() as f64 * self.query_heads() as f64
    }

    /// Every slot this problem reads or writes, in a fixed order.
    pub fn slots(&self) -> Vec<Slot> {
        slot::slots_of(self)
    }

    /// The slot that a buffer of this name holds; none for scratch memory. Programs name their buffers so.
    pub fn slot_named(&self, name: &str) -> Option<Slot> {
        self.slots().into_iter().find(|slot| slot.to_string() == name)
    }

    /// The bytes a slot's memory must hold.
    pub fn slot_bytes(&self, slot: Slot) -> u64 {
        slot::bytes_of(self, slot)
    }

    /// What the elements of a slot are.
    ///
    /// # Panics
    /// If the slot is of a segment the problem does not have.
    pub fn slot_element(&self, slot: Slot) -> Element {
        slot::element_of(self, slot)
    }
}
