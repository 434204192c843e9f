//! Queries and outputs `[requests, tokens, heads, dim]`.

use super::given::{Given, Mismatch, dense, tuple};
use problem::{DType, View};

/// Queries, or an output, of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queries {
    pub requests: u64,
    pub tokens: u64,
    pub heads: u64,
    pub dim: u64,
    pub dtype: DType,
    strides: [u64; 3],
}

impl Queries {
    /// Queries of four dimensions, or of three, which are those of one token per request. Rows must be `dim` long, if
    /// that is given.
    pub fn of(x: &Given, dim: Option<u64>) -> Result<Self, Mismatch> {
        x.ensure_strides()?;
        let four = match x.shape[..] {
            [requests, heads, dim] => Some([requests, 1, heads, dim]),
            [requests, tokens, heads, dim] => Some([requests, tokens, heads, dim]),
            _ => None,
        };
        let known = four.filter(|four| dim.is_none_or(|dim| four[3] == dim)).zip(x.float());
        let Some(([requests, tokens, heads, columns], dtype)) = known else {
            let found = format!("has shape {} of {}", tuple(&x.shape), x.numbers);
            let rows = dim.map_or("dim".to_string(), |dim| dim.to_string());
            let needed = format!("floats of [requests, tokens, heads, {rows}] are needed");
            return Err(x.mismatch(found, needed));
        };
        // Libraries differ in what they say of tensors without elements.
        let empty = x.shape.contains(&0).then(|| dense(&x.shape));
        if empty.is_none() {
            x.ensure_unit_stride()?;
        }
        let strides = match empty.as_deref().unwrap_or(&x.strides) {
            [request, head, _] => [*request, 0, *head],
            [request, token, head, _] => [*request, *token, *head],
            _ => return Err(x.apart("rows")),
        };
        Ok(Queries { requests, tokens, heads, dim: columns, dtype, strides })
    }

    /// The same with rows of `dim`, contiguous.
    pub fn contiguous(self, dim: u64) -> Self {
        let row = self.heads.saturating_mul(dim);
        Queries { dim, strides: [row.saturating_mul(self.tokens), row, dim], ..self }
    }

    /// Whether all tokens lie evenly.
    pub fn is_even(&self) -> bool {
        let [request, token, _] = self.strides;
        self.requests == 1 || self.tokens == 1 || request == self.tokens.saturating_mul(token)
    }

    /// As problems have them; `per_token` makes every token a request.
    pub fn view(&self, per_token: bool) -> View {
        let [request, token, head] = self.strides;
        let (shape, strides) = if per_token && self.tokens > 1 {
            let tokens = self.requests.saturating_mul(self.tokens);
            ([tokens, self.heads, 1, self.dim], [token, head, 0, 1])
        } else {
            ([self.requests, self.heads, self.tokens, self.dim], [request, head, token, 1])
        };
        let used = [0, 1, 2].map(|d| if shape[d] > 1 { strides[d] } else { 0 });
        View { shape, strides: [used[0], used[1], used[2], 1], dtype: self.dtype }
    }
}
