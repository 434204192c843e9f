//! Attention by candle's own operations, score by score: what every result is compared with.
#![allow(dead_code, missing_docs)]

use candle_core::{D, DType, Device, Result, Tensor};

/// What may be seen, and what is added.
pub struct Rules {
    pub scale: f64,
    pub left: Option<usize>,
    pub right: Option<usize>,
    pub softcap: f64,
    pub slopes: Option<Vec<f32>>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { scale: 0.125, left: None, right: None, softcap: 0., slopes: None }
    }
}

impl Rules {
    /// What is added to the score of query `i` and key `j` of a head: `-inf` hides the key.
    fn bias(&self, head: usize, i: usize, j: usize, queries: usize, keys: usize) -> f32 {
        let distance = j as i64 - (i as i64 + keys as i64 - queries as i64);
        let too_far_left = self.left.is_some_and(|left| distance < -(left as i64));
        let too_far_right = self.right.is_some_and(|right| distance > right as i64);
        match &self.slopes {
            _ if too_far_left || too_far_right => f32::NEG_INFINITY,
            Some(slopes) => -slopes[head] * distance.abs() as f32,
            None => 0.,
        }
    }

    fn biases(&self, heads: usize, queries: usize, keys: usize) -> Result<Tensor> {
        let at = |n: usize| {
            let (head, i, j) = (n / (queries * keys), n / keys % queries, n % keys);
            self.bias(head, i, j, queries, keys)
        };
        let values: Vec<f32> = (0..heads * queries * keys).map(at).collect();
        Tensor::from_vec(values, (1, heads, queries, keys), &Device::Cpu)
    }
}

/// Attention of `(batch, tokens, heads, dim)` in f32. Rows that see no key are 0.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, rules: &Rules) -> Result<Tensor> {
    let heads = q.dim(2)?;
    let q = q.to_dtype(DType::F32)?.transpose(1, 2)?.contiguous()?;
    let (k, v) = (by_query_head(k, heads)?, by_query_head(v, heads)?);
    let scores = (q.matmul(&k.transpose(2, 3)?.contiguous()?)? * rules.scale)?;
    let scores = match rules.softcap > 0. {
        true => ((scores / rules.softcap)?.tanh()? * rules.softcap)?,
        false => scores,
    };
    let biases = rules.biases(heads, q.dim(2)?, k.dim(2)?)?;
    let scores = scores.broadcast_add(&biases)?;
    // A maximum of -inf would make NaN of a row that sees nothing.
    let most = scores.max_keepdim(D::Minus1)?.maximum(-1e30)?;
    let weights = scores.broadcast_sub(&most)?.exp()?;
    let sums = weights.sum_keepdim(D::Minus1)?.maximum(1e-30)?;
    weights.broadcast_div(&sums)?.matmul(&v)?.transpose(1, 2)
}

/// `(batch, heads, tokens, dim)` with the heads of the queries.
fn by_query_head(x: &Tensor, heads: usize) -> Result<Tensor> {
    let (batch, tokens, kv_heads, dim) = x.dims4()?;
    let x = x.to_dtype(DType::F32)?.transpose(1, 2)?.unsqueeze(2)?;
    let x = x.broadcast_as((batch, kv_heads, heads / kv_heads, tokens, dim))?;
    x.reshape((batch, heads, tokens, dim))
}

pub fn random(shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(0f32, 1., shape, &Device::Cpu)
}

#[track_caller]
pub fn assert_close(ours: &Tensor, theirs: &Tensor, most: f32) {
    assert_eq!(ours.dims(), theirs.dims());
    let difference = || -> Result<f32> {
        let ours = ours.to_dtype(DType::F32)?;
        (ours - theirs)?.abs()?.flatten_all()?.max(0)?.to_scalar()
    };
    let difference = difference().expect("tensors of one shape");
    assert!(difference <= most, "differs by {difference}, at most {most}");
}
