//! Decode on a caller's tensors: one or two caches under one softmax.

use super::call::{Call, Inputs, Preparation, listed};
use super::given::{Given, Mismatch};
use super::pages::Pages;
use super::queries::Queries;
use crate::Error;
use problem::{Problem, Scales, Segment, SegmentSlot, Slot};
use serde::Deserialize;

/// Pages of rows, and which of them each query sees: those of its list, or all that a page table names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The pages ([`Pages::of`]).
    pub pages: Given,
    /// Rows of a page, where pages are plain bytes.
    #[serde(default)]
    pub page_rows: Option<u64>,
    /// Whether each row of DeepSeek-V4.1 has its scales behind it, instead of the page behind all rows.
    #[serde(default)]
    pub inline_scales: bool,
    /// Lists `[requests, tokens, entries]` of rows, counted as `page · page_rows + row`. Entries that name none are
    /// skipped.
    #[serde(default)]
    pub lists: Option<Given>,
    /// A table `[requests, pages]`, where there are no lists.
    #[serde(default)]
    pub table: Option<Given>,
    /// How many leading entries or rows count: `[requests]`, or `[requests, tokens]`.
    #[serde(default)]
    pub lengths: Option<Given>,
}

/// A few queries for each of several requests, over one cache or two.
///
/// ```
/// use sixwarp::dsv4::{Cache, Decode, Given, Numbers, Preparation};
/// use sixwarp::{DType, Element};
/// let given = |name: &str, shape: &[u64], strides: &[u64], element| Given {
///     name: name.into(),
///     shape: shape.to_vec(),
///     strides: strides.to_vec(),
///     numbers: Numbers::Known(element),
/// };
/// let bf16 = Element::Float(DType::Bf16);
/// // Two tokens of each of 3 requests, 16 heads; the window's lists are a view with gaps.
/// let call = Decode {
///     q: given("q", &[3, 2, 16, 512], &[16384, 8192, 512, 1], bf16),
///     caches: vec![Cache {
///         pages: given("window", &[9, 64, 512], &[32768, 512, 1], bf16),
///         page_rows: None,
///         inline_scales: false,
///         lists: Some(given("window_lists", &[3, 2, 128], &[512, 256, 1], Element::I32)),
///         table: None,
///         lengths: None,
///     }],
///     sinks: None,
///     out: None,
///     dim: Some(512),
///     value_dim: 512,
///     scale: None,
///     return_lse: true,
/// }
/// .call()?;
/// assert_eq!(call.problem.segments[0].indices.unwrap().pitch, 256);
/// assert!(call.inputs.iter().all(|input| input.preparation == Preparation::AsGiven));
/// # Ok::<(), sixwarp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// Queries `[requests, tokens, heads, dim]`; three dimensions are one token of each request.
    pub q: Given,
    /// One or two caches.
    pub caches: Vec<Cache>,
    /// One logit per head.
    pub sinks: Option<Given>,
    /// Where the output goes, unless it is made.
    pub out: Option<Given>,
    /// What queries must be long, if it is one length.
    pub dim: Option<u64>,
    /// Leading numbers of a row that are its value.
    pub value_dim: u64,
    /// Factor on scores.
    pub scale: Option<f64>,
    /// Whether the log-sum-exp is written.
    pub return_lse: bool,
}

impl Decode {
    /// The call.
    ///
    /// # Errors
    /// If a tensor is not as the others need it, or the problem breaks a rule.
    pub fn call(&self) -> Result<Call, Error> {
        let mut inputs = Inputs::default();
        let given = Queries::of(&self.q, self.dim)?;
        let per_token = self.caches.iter().try_fold(false, |any, cache| {
            let of_tokens = cache.has_lengths_of_tokens(&given)?;
            Ok::<bool, Mismatch>(any || of_tokens)
        })?;
        let (q, preparation) = match per_token && !given.is_even() {
            true => (given.contiguous(given.dim), Preparation::Contiguous),
            false => (given, Preparation::AsGiven),
        };
        inputs.add(Slot::Q, &self.q, preparation);
        inputs.add_sinks(self.sinks.as_ref(), q.heads)?;
        let mut out_shape = self.q.shape.clone();
        out_shape.pop();
        out_shape.push(self.value_dim);
        let own = self.out_of(&q, &out_shape)?;
        let out = own.filter(|out| !per_token || out.is_even());
        let view = out.unwrap_or(q.contiguous(self.value_dim)).view(per_token);
        let mut builder = Problem::builder(q.view(per_token)).out(view);
        for (n, cache) in (0..).zip(&self.caches) {
            let repeat = if per_token { q.tokens } else { 1 };
            builder = builder.segment(cache.segment(n, &q, repeat, self.value_dim, &mut inputs)?);
        }
        builder = if self.sinks.is_some() { builder.sinks() } else { builder };
        builder = if self.return_lse { builder.return_lse() } else { builder };
        builder = self.scale.map_or(builder.clone(), |scale| builder.scale(scale));
        Ok(Call {
            problem: inputs.problem(builder)?,
            inputs: inputs.all(),
            out_shape,
            out_is_apart: own.is_some() && out.is_none(),
            per_token,
        })
    }

    /// The output that the caller gave.
    fn out_of(&self, q: &Queries, shape: &[u64]) -> Result<Option<Queries>, Mismatch> {
        let Some(out) = &self.out else { return Ok(None) };
        out.ensure_shape(shape)?;
        if out.float() != Some(q.dtype) {
            return Err(
                out.mismatch(format!("is {}", out.numbers), format!("{} is needed", q.dtype))
            );
        }
        Ok(Some(Queries::of(out, None)?))
    }
}

impl Cache {
    /// Whether lengths are those of tokens.
    fn has_lengths_of_tokens(&self, q: &Queries) -> Result<bool, Mismatch> {
        let Some(lengths) = &self.lengths else { return Ok(false) };
        match lengths.shape[..] {
            [requests] if requests == q.requests => Ok(false),
            [requests, tokens] if [requests, tokens] == [q.requests, q.tokens] => Ok(true),
            _ if q.tokens == 1 => Err(lengths.misshapen(format!("({},)", q.requests))),
            _ => {
                let [requests, tokens] = [q.requests, q.tokens];
                Err(lengths.misshapen(format!("({requests},) or ({requests}, {tokens})")))
            }
        }
    }

    /// The segment of cache `n`, where what requests have is repeated so often.
    fn segment(
        &self,
        n: u8,
        q: &Queries,
        repeat: u64,
        value_dim: u64,
        inputs: &mut Inputs,
    ) -> Result<Segment, Error> {
        let slot = |part| Slot::Segment(n, part);
        let scales = if self.inline_scales { Scales::Row } else { Scales::Footer };
        let pages = Pages::of(&self.pages, self.page_rows, scales)?;
        inputs.add(slot(SegmentSlot::K), &self.pages, Preparation::AsGiven);
        let segment = pages.segment(value_dim);
        let segment = match (&self.lists, &self.table) {
            (Some(lists), None) => {
                listed(segment, inputs.add_lists(n, lists, [q.requests, q.tokens])?)
            }
            (None, Some(table)) => {
                let columns = table.table_columns(q.requests)?;
                inputs.add_integers(slot(SegmentSlot::PageTable), table, repeat);
                segment.paged(columns)
            }
            (Some(_), Some(table)) => {
                return Err(table.mismatch("is given beside lists".into(), "one is needed").into());
            }
            (None, None) => {
                let found = "has neither lists nor a table".into();
                return Err(self.pages.mismatch(found, "one is needed").into());
            }
        };
        let Some(lengths) = &self.lengths else { return Ok(segment) };
        let of_tokens = lengths.shape.len() == 2;
        let repeat = if of_tokens { 1 } else { repeat };
        inputs.add_integers(slot(SegmentSlot::Used), lengths, repeat);
        Ok(segment.used())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Core, Layer, Numbers, Pool, Requests};
    use super::*;
    use problem::{DType, Element, Storage};

    fn given(name: &str, shape: &[u64], element: Element) -> Given {
        let (shape, strides) = (shape.to_vec(), super::super::given::dense(shape));
        Given { name: name.into(), shape, strides, numbers: Numbers::Known(element) }
    }

    /// Tensors that lie one behind the other are the problem that shapes alone give.
    #[test]
    fn tensors_are_what_their_shapes_say() {
        let page_bytes = Storage::model1_page_bytes(64);
        let cache = |width| Cache {
            pages: given("pages", &[9, page_bytes], Element::U8),
            page_rows: None,
            inline_scales: false,
            lists: Some(given("lists", &[3, 2, width], Element::I32)),
            table: None,
            lengths: None,
        };
        let decode = Decode {
            q: given("q", &[3, 2, 16, 512], Element::Float(DType::Bf16)),
            caches: vec![cache(128), cache(512)],
            sinks: Some(given("sinks", &[16], Element::Float(DType::F32))),
            out: None,
            dim: Some(512),
            value_dim: 512,
            scale: None,
            return_lse: true,
        };
        let core = Core { heads: 16, layer: Layer::Csa { top_k: 512 } };
        let storage = Storage::Model1;
        let pool = Pool { pages: 9, page_rows: 64, pages_per_request: 0, storage };
        let requests = Requests { count: 3, tokens: 2, lengths: false };
        let problem = core.decode(requests, pool, Some(pool)).unwrap();
        assert_eq!(decode.call().unwrap().problem, problem);
    }

    #[test]
    fn lengths_of_tokens_make_requests_of_them() {
        let mut cache = Cache {
            pages: given("pages", &[9, 4, 512], Element::Float(DType::Bf16)),
            page_rows: None,
            inline_scales: false,
            lists: None,
            table: Some(given("table", &[3, 5], Element::I32)),
            lengths: Some(given("lengths", &[3, 2], Element::I32)),
        };
        let q = given("q", &[3, 2, 16, 512], Element::Float(DType::Bf16));
        let decode = |cache: &Cache| Decode {
            q: q.clone(),
            caches: vec![cache.clone()],
            sinks: None,
            out: None,
            dim: None,
            value_dim: 512,
            scale: None,
            return_lse: true,
        };
        let call = decode(&cache).call().unwrap();
        assert_eq!((call.per_token, call.problem.batch()), (true, 6));
        let repeats = call.inputs.iter().map(|input| (input.argument.as_str(), input.repeat));
        let repeats: Vec<_> = repeats.collect();
        assert_eq!(repeats, [("q", 1), ("pages", 1), ("table", 2), ("lengths", 1)]);
        cache.lengths = Some(given("lengths", &[2], Element::I32));
        let error = decode(&cache).call().unwrap_err().to_string();
        assert_eq!(error, "lengths has shape (2,): (3,) or (3, 2) is needed");
    }
}
