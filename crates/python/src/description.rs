//! A problem as JSON.

use problem::{
    AttnMask, DType, InvalidProblem, Mask, Problem, QueryLengths, Segment, Storage, View,
};
use serde::Deserialize;
use sixwarp::{Error, Split};

/// A problem and how to plan it, as a caller writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Queries.
    q: Tensor,
    /// Output.
    out: Tensor,
    /// Number of packed sequences and a bound of their queries.
    #[serde(default)]
    packed_queries: Option<[u64; 2]>,
    /// One or two segments.
    segments: Vec<Keys>,
    /// Factor on scores.
    #[serde(default)]
    scale: Option<f64>,
    /// Soft cap on scores.
    #[serde(default)]
    softcap: Option<f32>,
    /// Whether sink logits are given.
    #[serde(default)]
    sinks: bool,
    /// Whether the log-sum-exp is written.
    #[serde(default)]
    return_lse: bool,
    /// Keys per part where results must not depend on the rest of the batch.
    #[serde(default)]
    split: Option<u64>,
}

/// A view in name order: batch, heads, tokens, dim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tensor {
    shape: [u64; 4],
    strides: [u64; 4],
    dtype: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    k: Tensor,
    /// Values of their own; the first `value_dim` columns of the keys if absent.
    #[serde(default)]
    v: Option<Tensor>,
    #[serde(default)]
    value_dim: Option<u64>,
    mask: String,
    #[serde(default)]
    packed: Option<u64>,
    #[serde(default)]
    used: bool,
    #[serde(default)]
    pages_per_sequence: Option<u64>,
    #[serde(default)]
    indices: Option<u64>,
    /// Entries from one list to the next, unless they lie side by side.
    #[serde(default)]
    list_pitch: Option<u64>,
    /// How rows lie in memory, unless they are elements.
    #[serde(default)]
    storage: Option<String>,
    /// Bytes from one page of packed rows to the next, unless they are the format's.
    #[serde(default)]
    page_bytes: Option<u64>,
    #[serde(default)]
    attn_mask: Option<MaskTensor>,
}

/// A mask in name order: batch, heads, queries, keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MaskTensor {
    shape: [u64; 4],
    strides: [u64; 4],
    dtype: String,
}

impl Description {
    /// Reads JSON.
    ///
    /// # Errors
    /// If the text is not JSON of this form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |error: serde_json::Error| {
            InvalidProblem::new("description", "must be a problem as JSON", error)
        };
        Ok(serde_json::from_str(text).map_err(wrong)?)
    }

    /// The problem.
    ///
    /// # Errors
    /// If it breaks a rule.
    pub fn problem(&self) -> Result<Problem, Error> {
        let mut builder = Problem::builder(self.q.view("q")?).out(self.out.view("out")?);
        if let Some([batch, longest]) = self.packed_queries {
            builder = builder.query_lengths(QueryLengths::Packed { batch, longest });
        }
        for keys in &self.segments {
            builder = builder.segment(keys.segment()?);
        }
        if let Some(scale) = self.scale {
            builder = builder.scale(scale);
        }
        if let Some(softcap) = self.softcap {
            builder = builder.softcap(softcap);
        }
        if self.sinks {
            builder = builder.sinks();
        }
        if self.return_lse {
            builder = builder.return_lse();
        }
        Ok(builder.build()?)
    }

    /// How keys are divided among CTAs.
    pub(crate) fn split(&self) -> Split {
        self.split.map_or(Split::Auto, |keys| Split::Every { keys })
    }
}

impl Tensor {
    pub(crate) fn view(&self, name: &str) -> Result<View, InvalidProblem> {
        let wrong = |rule: String| InvalidProblem::new(name, rule, &self.dtype);
        let dtype: DType = self.dtype.parse().map_err(wrong)?;
        Ok(View { shape: self.shape, strides: self.strides, dtype })
    }
}

impl Keys {
    fn segment(&self) -> Result<Segment, InvalidProblem> {
        let k = self.k.view("k")?;
        let segment = match &self.v {
            Some(v) => Segment::new(k, v.view("v")?),
            None => Segment::shared(k, self.value_dim.unwrap_or(k.dim())),
        };
        let wrong = |rule: String| InvalidProblem::new("mask", rule, &self.mask);
        let mut segment = segment.mask(self.mask.parse::<Mask>().map_err(wrong)?);
        if let Some(longest) = self.packed {
            segment = segment.packed(longest);
        }
        if self.used {
            segment = segment.used();
        }
        if let Some(pages) = self.pages_per_sequence {
            segment = segment.paged(pages);
        }
        if let Some(width) = self.indices {
            segment = segment.indexed(width).list_pitch(self.list_pitch.unwrap_or(width));
        }
        if let Some(name) = &self.storage {
            let wrong = |rule: String| InvalidProblem::new("storage", rule, name);
            segment = segment.stored(name.parse::<Storage>().map_err(wrong)?);
        }
        segment.page_bytes = self.page_bytes;
        if let Some(mask) = &self.attn_mask {
            segment = segment.attn_mask(mask.mask()?);
        }
        Ok(segment)
    }
}

impl MaskTensor {
    fn mask(&self) -> Result<AttnMask, InvalidProblem> {
        let wrong = |rule: String| InvalidProblem::new("attn_mask", rule, &self.dtype);
        let element = self.dtype.parse().map_err(wrong)?;
        Ok(AttnMask { shape: self.shape, strides: self.strides, element })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "q": {"shape": [1, 4, 2, 8], "strides": [64, 8, 32, 1], "dtype": "f32"},
        "out": {"shape": [1, 4, 2, 8], "strides": [64, 8, 32, 1], "dtype": "f32"},
        "segments": [{
            "k": {"shape": [1, 1, 9, 8], "strides": [72, 72, 8, 1], "dtype": "f32"},
            "mask": "window(3,0)"
        }],
        "sinks": true, "return_lse": true
    }"#;

    #[test]
    fn a_description_becomes_a_problem() {
        let problem = Description::parse(TEXT).unwrap().problem().unwrap();
        let names: Vec<String> = problem.slots().iter().map(|slot| slot.to_string()).collect();
        assert_eq!(names, ["q", "out", "lse", "sinks", "k"]);
        assert_eq!(problem.group(), 4);
    }

    #[test]
    fn mistakes_are_named() {
        let error = Description::parse(&TEXT.replace("sinks", "sink")).unwrap_err().to_string();
        assert!(error.contains("unknown field `sink`"), "{error}");
        let text = TEXT.replace("window(3,0)", "window(-3,0)");
        let error = Description::parse(&text).unwrap().problem().unwrap_err().to_string();
        assert!(error.starts_with("mask:"), "{error}");
    }
}
