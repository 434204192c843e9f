//! Prefill on a caller's tensors: new tokens of one request beside each other, or of several from pages.

use super::call::{Call, Inputs, Preparation, listed};
use super::given::{Given, Mismatch, tuple};
use super::pages::Pages;
use super::{HEAD_DIM, by_position, near};
use crate::Error;
use problem::{Problem, ProblemBuilder, QueryLengths, Scales, Segment, SegmentSlot, Slot, View};
use serde::Deserialize;

/// New tokens of one request, whose rows lie one behind the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefill {
    /// Queries `[tokens, heads, 512]`.
    pub q: Given,
    /// Rows `[rows, 512]` of the new tokens, behind those of up to 127 tokens before them.
    pub window: Given,
    /// Compressed rows `[rows, 512]`.
    pub compressed: Option<Given>,
    /// Lists `[tokens, entries]` of compressed rows; without them these are seen by position.
    pub compressed_lists: Option<Given>,
    /// The position of the first token, i32 `[1]`, where compressed rows are seen by position.
    pub position: Option<Given>,
    /// One logit per head.
    pub sinks: Option<Given>,
    /// Factor on scores.
    pub scale: Option<f64>,
}

/// New tokens of several requests, one request behind the other, whose rows are in pages of any format.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillPages {
    /// Queries `[tokens, heads, 512]`.
    pub q: Given,
    /// Where the queries of each request begin, `[requests + 1]`.
    pub cu_seqlens: Given,
    /// Where the first new token of each request stands, `[requests]`.
    pub positions: Given,
    /// Tokens of each request, the new ones included, `[requests]`.
    pub lengths: Given,
    /// No request has more new tokens; all have as many as `q`, if it is absent.
    pub longest: Option<u64>,
    /// Pages of windows ([`Pages::of`]).
    pub window: Given,
    /// The pages of each request from its first token on, `[requests, pages]`.
    pub window_table: Given,
    /// Rows of a page of the window, where pages are plain bytes.
    pub page_rows: Option<u64>,
    /// Pages of compressed rows.
    pub compressed: Option<Given>,
    /// Lists `[tokens, entries]` of compressed rows.
    pub compressed_lists: Option<Given>,
    /// A table `[requests, pages]` of compressed rows that are seen by position, where there are no lists.
    pub page_table: Option<Given>,
    /// Rows of a compressed page, where pages are plain bytes.
    pub compressed_page_rows: Option<u64>,
    /// One logit per head.
    pub sinks: Option<Given>,
    /// Factor on scores.
    pub scale: Option<f64>,
}

impl Prefill {
    /// The call.
    ///
    /// # Errors
    /// If a tensor is not as the others need it, or the problem breaks a rule.
    pub fn call(&self) -> Result<Call, Error> {
        let mut inputs = Inputs::default();
        let (builder, view) = begun(&self.q, self.sinks.as_ref(), self.scale, &mut inputs)?;
        let window = Segment::shared(self.window.rows(HEAD_DIM)?, HEAD_DIM).mask(near());
        inputs.add(Slot::K, &self.window, Preparation::AsGiven);
        let builder = builder.segment(window);
        let builder = match &self.compressed {
            None => builder,
            Some(compressed) => builder.segment(self.far(compressed, view, &mut inputs)?),
        };
        ended(builder, inputs, &self.q)
    }

    fn far(&self, rows: &Given, q: View, inputs: &mut Inputs) -> Result<Segment, Error> {
        let segment = Segment::shared(rows.rows(HEAD_DIM)?, HEAD_DIM);
        inputs.add(Slot::Segment(1, SegmentSlot::K), rows, Preparation::AsGiven);
        match (&self.compressed_lists, &self.position) {
            (Some(lists), _) => {
                let list = inputs.add_lists(1, lists, [q.tokens(), 1])?;
                Ok(segment.indexed(list.width).list_pitch(list.pitch))
            }
            (None, Some(position)) => {
                inputs.add_integers(Slot::Positions, position, 1);
                Ok(segment.mask(by_position()))
            }
            (None, None) => Err(unseen(rows, "compressed_lists (CSA), or position (HCA)")),
        }
    }
}

impl PrefillPages {
    /// The call.
    ///
    /// # Errors
    /// If a tensor is not as the others need it, or the problem breaks a rule.
    pub fn call(&self) -> Result<Call, Error> {
        let mut inputs = Inputs::default();
        let (builder, view) = begun(&self.q, self.sinks.as_ref(), self.scale, &mut inputs)?;
        let [requests] = self.positions.shape[..] else {
            return Err(self.positions.misshapen("(requests,)").into());
        };
        self.cu_seqlens.ensure_shape(&[requests.saturating_add(1)])?;
        inputs.add_integers(Slot::CuSeqlensQ, &self.cu_seqlens, 1);
        let used = Slot::Segment(0, SegmentSlot::Used);
        self.lengths.ensure_shape(&[requests])?;
        inputs.add_integers(used, &self.lengths, 1);
        let longest = self.longest.unwrap_or(view.tokens());
        let builder = builder.query_lengths(QueryLengths::Packed { batch: requests, longest });
        let window = pages(0, &self.window, self.page_rows, &mut inputs)?;
        let window = tabled(0, window, &self.window_table, requests, &mut inputs)?;
        let builder = builder.segment(window.mask(near()).used());
        let builder = match &self.compressed {
            None => builder,
            Some(rows) => builder.segment(self.far(rows, requests, view, &mut inputs)?),
        };
        ended(builder, inputs, &self.q)
    }

    fn far(
        &self,
        rows: &Given,
        requests: u64,
        q: View,
        inputs: &mut Inputs,
    ) -> Result<Segment, Error> {
        let segment = pages(1, rows, self.compressed_page_rows.or(self.page_rows), inputs)?;
        match (&self.compressed_lists, &self.page_table) {
            (Some(lists), _) => Ok(listed(segment, inputs.add_lists(1, lists, [q.tokens(), 1])?)),
            (None, Some(table)) => {
                inputs.add_integers(Slot::Positions, &self.positions, 1);
                Ok(tabled(1, segment, table, requests, inputs)?.mask(by_position()))
            }
            (None, None) => Err(unseen(rows, "compressed_lists (CSA), or page_table (HCA)")),
        }
    }
}

/// A problem of queries `[tokens, heads, 512]` with their output, and the queries.
fn begun(
    q: &Given,
    sinks: Option<&Given>,
    scale: Option<f64>,
    inputs: &mut Inputs,
) -> Result<(ProblemBuilder, View), Mismatch> {
    let view = queries(q)?;
    inputs.add(Slot::Q, q, Preparation::AsGiven);
    inputs.add_sinks(sinks, view.heads())?;
    let out = View::bshd(view.dtype, view.shape);
    let builder = Problem::builder(view).out(out).return_lse();
    let builder = if sinks.is_some() { builder.sinks() } else { builder };
    Ok((scale.map_or(builder.clone(), |scale| builder.scale(scale)), view))
}

fn ended(builder: ProblemBuilder, inputs: Inputs, q: &Given) -> Result<Call, Error> {
    let problem = inputs.problem(builder)?;
    let out_shape = q.shape.clone();
    Ok(Call { problem, inputs: inputs.all(), out_shape, out_is_apart: false, per_token: false })
}

/// Queries `[tokens, heads, 512]`.
fn queries(q: &Given) -> Result<View, Mismatch> {
    q.ensure_strides()?;
    let (&[tokens, heads, HEAD_DIM], Some(dtype)) = (&q.shape[..], q.float()) else {
        let found = format!("has shape {} of {}", tuple(&q.shape), q.numbers);
        return Err(q.mismatch(found, format!("floats of [tokens, heads, {HEAD_DIM}] are needed")));
    };
    q.ensure_unit_stride()?;
    let [token, head] = [q.strides[0], q.strides[1]];
    Ok(View { shape: [1, heads, tokens, HEAD_DIM], strides: [0, head, token, 1], dtype })
}

fn pages(
    n: u8,
    x: &Given,
    page_rows: Option<u64>,
    inputs: &mut Inputs,
) -> Result<Segment, Mismatch> {
    let pages = Pages::of(x, page_rows, Scales::Footer)?;
    inputs.add(Slot::Segment(n, SegmentSlot::K), x, Preparation::AsGiven);
    Ok(pages.segment(HEAD_DIM))
}

fn tabled(
    n: u8,
    segment: Segment,
    table: &Given,
    requests: u64,
    inputs: &mut Inputs,
) -> Result<Segment, Mismatch> {
    let columns = table.table_columns(requests)?;
    inputs.add_integers(Slot::Segment(n, SegmentSlot::PageTable), table, 1);
    Ok(segment.paged(columns))
}

fn unseen(rows: &Given, needed: &str) -> Error {
    rows.mismatch("is seen by nothing".into(), format!("{needed} is needed")).into()
}
