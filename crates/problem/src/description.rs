use crate::{
    AttnMask, Descale, IndexList, InvalidProblem, KeyLengths, Mask, Paging, Problem, QueryLengths,
    Segment, Storage, Values, View,
};
use serde::{Deserialize, Serialize};

/// A problem as text formats hold it (JSON, TOML); nothing is checked yet.
///
/// The table of cases, the command line and Python all describe problems in this form, so there is one way from a
/// description to a [`Problem`]. A problem is read from and written to the same form itself:
///
/// ```
/// use sixwarp_problem::{Description, Mask, Problem};
/// let text = r#"{
///     "q": {"shape": [1, 4, 2, 8], "strides": [64, 16, 8, 1], "dtype": "f32"},
///     "segments": [{
///         "k": {"shape": [1, 1, 9, 8], "strides": [72, 72, 8, 1], "dtype": "f32"},
///         "mask": "window(3,0)"
///     }]
/// }"#;
/// let problem = Problem::try_from(serde_json::from_str::<Description>(text)?)?;
/// assert_eq!(problem.segments[0].mask, Mask::Window { left: Some(3), right: Some(0) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Queries.
    pub q: View,
    /// Output; `q`'s memory order with the length of value rows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<View>,
    /// Number of packed sequences and a bound of their queries, where queries are packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed_queries: Option<[u64; 2]>,
    /// One or two segments.
    pub segments: Vec<SegmentDescription>,
    /// Factor on scores, `1/sqrt(dim)` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Soft cap on scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f32>,
    /// Whether sink logits are given.
    #[serde(default)]
    pub sinks: bool,
    /// Whether the log-sum-exp is written.
    #[serde(default)]
    pub return_lse: bool,
}

/// A segment as text formats hold it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentDescription {
    /// Keys.
    pub k: View,
    /// Values of their own; the first `value_dim` columns of the keys if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<View>,
    /// Length of a value row, where values are columns of the keys; that of a key row if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_dim: Option<u64>,
    /// Visibility.
    pub mask: Mask,
    /// A bound of the keys of a sequence, where keys are packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<u64>,
    /// Whether lengths in use are given.
    #[serde(default)]
    pub used: bool,
    /// Columns of the page table, where keys are paged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_per_sequence: Option<u64>,
    /// Entries of each query's index list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indices: Option<u64>,
    /// Entries from one list to the next, unless they lie side by side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_pitch: Option<u64>,
    /// How rows lie in memory, unless they are elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Bytes from one page of packed rows to the next, unless they are the format's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u64>,
    /// A tensor that hides keys or is added to scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attn_mask: Option<AttnMask>,
    /// Strides of the factors on e4m3 keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k_descale: Option<Descale>,
    /// Strides of the factors on e4m3 values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v_descale: Option<Descale>,
}

impl SegmentDescription {
    /// A segment whose values are the first `value_dim` columns of its keys, all of them seen.
    pub fn new(k: View) -> Self {
        Self {
            k,
            v: None,
            value_dim: None,
            mask: Mask::Full,
            packed: None,
            used: false,
            pages_per_sequence: None,
            indices: None,
            list_pitch: None,
            storage: None,
            page_bytes: None,
            attn_mask: None,
            k_descale: None,
            v_descale: None,
        }
    }
}

impl TryFrom<Description> for Problem {
    type Error = InvalidProblem;

    /// Checks every rule and returns the problem.
    fn try_from(from: Description) -> Result<Self, InvalidProblem> {
        let mut builder = Problem::builder(from.q).options(from.scale, from.softcap);
        if let Some(out) = from.out {
            builder = builder.out(out);
        }
        if let Some([batch, longest]) = from.packed_queries {
            builder = builder.query_lengths(QueryLengths::Packed { batch, longest });
        }
        if from.sinks {
            builder = builder.sinks();
        }
        if from.return_lse {
            builder = builder.return_lse();
        }
        from.segments.into_iter().map(Segment::from).fold(builder, |b, s| b.segment(s)).build()
    }
}

impl From<SegmentDescription> for Segment {
    fn from(from: SegmentDescription) -> Self {
        let values = match from.v {
            Some(v) => Values::Separate(v),
            None => Values::SameAsKeys { dim: from.value_dim.unwrap_or(from.k.dim()) },
        };
        let list = |width| IndexList { width, pitch: from.list_pitch.unwrap_or(width) };
        Segment {
            k: from.k,
            values,
            lengths: KeyLengths { packed: from.packed, used: from.used },
            paging: from.pages_per_sequence.map(|pages_per_sequence| Paging { pages_per_sequence }),
            indices: from.indices.map(list),
            mask: from.mask,
            storage: from.storage.unwrap_or_default(),
            page_bytes: from.page_bytes,
            attn_mask: from.attn_mask,
            k_descale: from.k_descale,
            v_descale: from.v_descale,
        }
    }
}

impl From<Problem> for Description {
    fn from(problem: Problem) -> Self {
        let parts = problem.into_parts();
        Self {
            q: parts.q,
            out: Some(parts.out),
            packed_queries: match parts.query_lengths {
                QueryLengths::Full => None,
                QueryLengths::Packed { batch, longest } => Some([batch, longest]),
            },
            segments: parts.segments.into_iter().map(SegmentDescription::from).collect(),
            scale: Some(parts.scale),
            softcap: parts.softcap,
            sinks: parts.sinks,
            return_lse: parts.return_lse,
        }
    }
}

impl From<Segment> for SegmentDescription {
    fn from(segment: Segment) -> Self {
        let (v, value_dim) = match segment.values {
            Values::Separate(v) => (Some(v), None),
            Values::SameAsKeys { dim } => (None, Some(dim)),
        };
        Self {
            v,
            value_dim,
            mask: segment.mask,
            packed: segment.lengths.packed,
            used: segment.lengths.used,
            pages_per_sequence: segment.paging.map(|paging| paging.pages_per_sequence),
            indices: segment.indices.map(|list| list.width),
            list_pitch: segment.indices.map(|list| list.pitch),
            storage: Some(segment.storage).filter(|storage| *storage != Storage::Elements),
            page_bytes: segment.page_bytes,
            attn_mask: segment.attn_mask,
            k_descale: segment.k_descale,
            v_descale: segment.v_descale,
            ..Self::new(segment.k)
        }
    }
}
