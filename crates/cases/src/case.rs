use crate::attn_mask;
use problem::{
    DType, Descale, Description, InvalidProblem, Mask, Problem, Segment, SegmentDescription,
    Storage, View,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One attention case, as a row of the table says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique name.
    pub name: String,
    /// Seed of the inputs; drawn from the name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Element type, `bf16` if absent.
    #[serde(default = "bf16")]
    pub dtype: DType,
    /// Sequences, where `queries` is one number.
    #[serde(default = "one")]
    pub batch: u64,
    /// Query heads.
    #[serde(default = "one")]
    pub heads: u64,
    /// KV heads; as many as query heads if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// Length of a query or key row.
    pub dim: u64,
    /// Length of a value row, `dim` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_dim: Option<u64>,
    /// Query tokens: one number for all sequences, or a list that is packed.
    pub queries: Lengths,
    /// The first segment.
    #[serde(flatten)]
    pub first: Keys,
    /// The second segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Keys>,
    /// Factor on scores, `1/sqrt(dim)` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f32>,
    /// Soft cap on scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f32>,
    /// Sink logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sinks: Option<Sinks>,
    /// Whether the log-sum-exp is returned (it is, if absent).
    #[serde(default = "yes")]
    pub lse: bool,
    /// Memory order of every tensor.
    #[serde(default)]
    pub order: Order,
    /// Elements left unused after each row.
    #[serde(default)]
    pub gap: u64,
    /// Position of each sequence's first query, for compressed masks; repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<u64>,
    /// Factor on the standard normal inputs, 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amplitude: Option<f32>,
    /// Added to every element of queries and taken from every one of keys and values: scores then lean
    /// to the negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lean: Option<f32>,
    /// Numbers in the place of random ones: `v[40] = nan` (row 40 of every sequence), `q[*,3] = 1e30`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<String>,
}

/// The keys of a segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// Keys per sequence: one number for all, or a list.
    pub keys: Lengths,
    /// Visibility: `full`, `causal`, `window(L,R)`, `compressed(R)`.
    #[serde(default = "full")]
    pub mask: Mask,
    /// How sequences lie in memory.
    #[serde(default)]
    pub layout: Layout,
    /// Rows per page, where paged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// Whether values are the first columns of the keys.
    #[serde(default)]
    pub shared: bool,
    /// Entries of each query's index list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indices: Option<u64>,
    /// Entries in use of each sequence's index lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<u64>,
    /// What the entries of index lists are.
    #[serde(default, skip_serializing_if = "Lists::is_default")]
    pub lists: Lists,
    /// Whether rows are packed in DeepSeek-V4's fp8 format.
    #[serde(default)]
    pub model1: bool,
    /// The format of rows that are packed otherwise, `V3.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// A mask tensor: element type and dimensions, `bool-bhqk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attn_mask: Option<String>,
    /// Keys and values are e4m3, and have factors: none, one per `tensor`, per `head`, or per `sequence` and head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e4m3: Option<Factors>,
}

/// What shares a factor on e4m3 keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Factors {
    /// There are none.
    None,
    /// The whole tensor.
    Tensor,
    /// A KV head.
    Head,
    /// A sequence's KV head.
    Sequence,
}

impl Factors {
    /// How factors lie, for so many KV heads.
    fn descale(self, heads: u64) -> Option<Descale> {
        match self {
            Factors::None => None,
            Factors::Tensor => Some(Descale::PER_TENSOR),
            Factors::Head => Some(Descale::PER_HEAD),
            Factors::Sequence => Some(Descale { strides: [heads, 1] }),
        }
    }
}

/// A length for every sequence, or one each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Lengths {
    /// The same for all.
    Same(u64),
    /// One per sequence.
    Each(Vec<u64>),
}

/// How the sequences of a segment lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One batch entry each; lists of lengths become `seqused_k`.
    #[default]
    Batched,
    /// One after the other.
    Packed,
    /// In pages, in random order, among pages that nobody uses.
    Paged,
}

/// What the entries of index lists are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lists {
    /// Different rows in random order, one of eight unused where all entries are in use.
    #[default]
    Mixed,
    /// Rows at random, so that some come again.
    Repeated,
    /// The same, but every other run of 128 entries is unused, and all entries of every fourth list.
    Holes,
}

impl Lists {
    fn is_default(&self) -> bool {
        *self == Lists::default()
    }
}

/// Memory order of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Batch, heads, tokens, dim.
    #[default]
    Bhsd,
    /// Batch, tokens, heads, dim.
    Bshd,
}

/// Sink logits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sinks {
    /// Standard normal (written as any text).
    Random(String),
    /// These, repeated over the heads.
    Values(Vec<f64>),
}

impl PartialEq for Sinks {
    /// The same numbers, of which NaN is one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Sinks::Random(a), Sinks::Random(b)) => a == b,
            (Sinks::Values(a), Sinks::Values(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.total_cmp(y).is_eq())
            }
            _ => false,
        }
    }
}

/// The fields of a row of the table.
pub(crate) const CASE_FIELDS: [&str; 20] = [
    "name",
    "seed",
    "dtype",
    "batch",
    "heads",
    "kv_heads",
    "dim",
    "value_dim",
    "queries",
    "second",
    "scale",
    "softcap",
    "sinks",
    "lse",
    "order",
    "gap",
    "positions",
    "amplitude",
    "lean",
    "special",
];
/// The fields of a segment: in the row itself for the first, in `second` for the second.
pub(crate) const KEYS_FIELDS: [&str; 12] = [
    "keys",
    "mask",
    "layout",
    "page",
    "shared",
    "indices",
    "entries",
    "lists",
    "model1",
    "storage",
    "attn_mask",
    "e4m3",
];

fn bf16() -> DType {
    DType::Bf16
}
fn full() -> Mask {
    Mask::Full
}
fn one() -> u64 {
    1
}
fn yes() -> bool {
    true
}

impl Lengths {
    /// The length of sequence `b`.
    pub fn of(&self, b: u64) -> u64 {
        match self {
            Lengths::Same(n) => *n,
            Lengths::Each(list) => list.get(b as usize).copied().unwrap_or(0),
        }
    }

    /// The largest length.
    pub fn longest(&self) -> u64 {
        match self {
            Lengths::Same(n) => *n,
            Lengths::Each(list) => list.iter().copied().max().unwrap_or(0),
        }
    }
}

impl Keys {
    /// How rows lie in memory.
    pub fn storage(&self) -> Result<Storage, InvalidProblem> {
        let Some(name) = &self.storage else {
            return Ok(if self.model1 { Storage::Model1 } else { Storage::Elements });
        };
        name.parse().map_err(|rule: String| InvalidProblem::new("storage", rule, name))
    }

    /// Rows per page.
    pub fn page_rows(&self) -> u64 {
        self.page.unwrap_or(1)
    }

    /// Pages per sequence.
    pub fn pages(&self) -> u64 {
        self.keys.longest().div_ceil(self.page_rows())
    }

    /// Whether `seqused_k` is needed to say how many keys (or list entries) a sequence has.
    pub fn has_used(&self) -> bool {
        if self.indices.is_some() {
            return !self.entries.is_empty();
        }
        match (self.layout, &self.keys) {
            (Layout::Packed, _) => false,
            (_, Lengths::Each(_)) => true,
            (Layout::Paged, Lengths::Same(n)) => !n.is_multiple_of(self.page_rows()),
            (Layout::Batched, Lengths::Same(_)) => false,
        }
    }
}

impl Case {
    /// Number of sequences.
    pub fn sequences(&self) -> u64 {
        match &self.queries {
            Lengths::Same(_) => self.batch,
            Lengths::Each(list) => list.len() as u64,
        }
    }

    /// Number of KV heads.
    pub fn kv_heads(&self) -> u64 {
        self.kv_heads.unwrap_or(self.heads)
    }

    /// Both segments.
    pub fn segments(&self) -> impl Iterator<Item = &Keys> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// The seed of the inputs: the one given, or one drawn from the name (FNV-1a, kept to the 53
    /// bits that every reader of the table can hold).
    pub fn seed(&self) -> u64 {
        let step = |h: u64, b: u8| (h ^ b as u64).wrapping_mul(0x100_0000_01b3);
        self.seed.unwrap_or_else(|| self.name.bytes().fold(0xcbf2_9ce4_8422_2325, step) >> 11)
    }

    /// The problem this case asks.
    ///
    /// # Errors
    /// If it breaks a rule.
    pub fn problem(&self) -> Result<Problem, InvalidProblem> {
        self.description()?.try_into()
    }

    /// The problem this case asks, not yet checked.
    ///
    /// # Errors
    /// If a field of the row says nothing that can be described.
    pub fn description(&self) -> Result<Description, InvalidProblem> {
        let packed_queries = match &self.queries {
            Lengths::Same(_) => None,
            Lengths::Each(list) => Some([list.len() as u64, self.queries.longest()]),
        };
        Ok(Description {
            q: self.view(self.query_batch(), self.heads, self.query_tokens(), self.dim),
            out: Some(self.out_view()),
            packed_queries,
            segments: self.segments().map(|keys| self.segment(keys)).collect::<Result<_, _>>()?,
            scale: self.scale.map(f64::from),
            softcap: self.softcap,
            sinks: self.sinks.is_some(),
            return_lse: self.lse,
        })
    }

    fn out_view(&self) -> View {
        let dim = self.value_dim.unwrap_or(self.dim);
        self.view(self.query_batch(), self.heads, self.query_tokens(), dim)
    }

    fn query_batch(&self) -> u64 {
        if matches!(self.queries, Lengths::Each(_)) { 1 } else { self.batch }
    }

    /// Packed queries are followed by two tokens that belong to no sequence.
    fn query_tokens(&self) -> u64 {
        match &self.queries {
            Lengths::Same(n) => *n,
            Lengths::Each(list) => list.iter().fold(2, |sum, n| sum.saturating_add(*n)),
        }
    }

    fn view(&self, batch: u64, heads: u64, tokens: u64, dim: u64) -> View {
        let padded = [batch, heads, tokens, dim.saturating_add(self.gap)];
        let view = match self.order {
            Order::Bhsd => View::bhsd(self.dtype, padded),
            Order::Bshd => View::bshd(self.dtype, padded),
        };
        View { shape: [batch, heads, tokens, dim], ..view }
    }

    fn segment(&self, keys: &Keys) -> Result<SegmentDescription, InvalidProblem> {
        if keys.page == Some(0) {
            return Err(InvalidProblem::new("page", "a page has at least one row (rule 5)", 0));
        }
        let (batch, tokens) = self.key_rows(keys);
        let value_dim = self.value_dim.unwrap_or(self.dim);
        let dtype = if keys.e4m3.is_some() { DType::E4m3 } else { self.dtype };
        let view = |dim| View { dtype, ..self.view(batch, self.kv_heads(), tokens, dim) };
        let v = view(value_dim);
        let descale = keys.e4m3.and_then(|factors| factors.descale(self.kv_heads()));
        let described = SegmentDescription {
            v: (!keys.shared).then_some(v),
            value_dim: Some(value_dim),
            mask: keys.mask,
            packed: (keys.layout == Layout::Packed).then(|| keys.keys.longest()),
            used: keys.has_used(),
            pages_per_sequence: (keys.layout == Layout::Paged).then(|| keys.pages()),
            indices: keys.indices,
            storage: Some(keys.storage()?),
            k_descale: descale,
            v_descale: descale,
            ..SegmentDescription::new(view(self.dim))
        };
        let Some(text) = &keys.attn_mask else { return Ok(described) };
        let longest = Segment::from(described.clone()).longest();
        let extents = [self.query_batch(), self.heads, self.query_tokens(), longest];
        let attn_mask = Some(attn_mask::parse(text, extents, self.gap)?);
        Ok(SegmentDescription { attn_mask, ..described })
    }

    /// Batch and token extents of a segment's views. A third of the pages are used by nobody.
    fn key_rows(&self, keys: &Keys) -> (u64, u64) {
        let sequences = self.sequences();
        match keys.layout {
            Layout::Batched => (sequences, keys.keys.longest()),
            Layout::Packed => {
                let lengths = (0..sequences).map(|b| keys.keys.of(b));
                (1, lengths.fold(0, u64::saturating_add))
            }
            Layout::Paged => {
                let used = sequences.saturating_mul(keys.pages());
                (used.saturating_add(used / 2 + 1), keys.page_rows())
            }
        }
    }
}

impl fmt::Display for Case {
    /// The row of the table that gives this case, with its seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = Case { seed: Some(self.seed()), ..self.clone() };
        let text = toml::to_string(&row).map_err(|_| fmt::Error)?;
        f.write_str(text.trim_end())
    }
}
