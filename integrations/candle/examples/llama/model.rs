//! A Llama of a few layers: RMS norms, rotary embeddings, shared KV heads, a gated MLP, and a KV cache.

use candle_core::{D, DType, Device, IndexOp, Result, Tensor};
use candle_nn::{
    Embedding, Linear, Module, RmsNorm, VarBuilder, embedding, linear_no_bias, ops, rms_norm,
    rotary_emb,
};

/// Sizes of a model.
#[derive(Clone, Copy)]
pub struct Config {
    pub vocabulary: usize,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub context: usize,
}

impl Config {
    fn dim(&self) -> usize {
        self.hidden / self.heads
    }
}

/// Causal attention of `(batch, tokens, heads, dim)`, the last query at the last key.
pub type Attend = fn(&Tensor, &Tensor, &Tensor, f32) -> Result<Tensor>;

/// By sixwarp, which reads keys and values where they lie.
pub fn sixwarp(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32) -> Result<Tensor> {
    sixwarp_candle::flash_attn(q, k, v, scale, true)
}

/// By candle's operations, as candle-transformers does without flash-attn: heads are repeated and scores are stored.
pub fn candle(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32) -> Result<Tensor> {
    let (_, queries, heads, _) = q.dims4()?;
    let (batch, keys, kv_heads, dim) = k.dims4()?;
    let repeat = |x: &Tensor| {
        let x = x.transpose(1, 2)?.unsqueeze(2)?;
        x.broadcast_as((batch, kv_heads, heads / kv_heads, keys, dim))?
            .reshape((batch, heads, keys, dim))
    };
    let q = q.transpose(1, 2)?.contiguous()?;
    let scores = (q.matmul(&repeat(k)?.transpose(2, 3)?.contiguous()?)? * f64::from(scale))?;
    let hidden =
        |n: usize| if n % keys + queries > n / keys + keys { f32::NEG_INFINITY } else { 0. };
    let mask: Vec<f32> = (0..queries * keys).map(hidden).collect();
    let mask = Tensor::from_vec(mask, (1, 1, queries, keys), q.device())?;
    let weights = ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    weights.matmul(&repeat(v)?)?.transpose(1, 2)
}

struct Layer {
    norms: [RmsNorm; 2],
    projections: [Linear; 4],
    mlp: [Linear; 3],
}

impl Layer {
    fn new(config: &Config, weights: VarBuilder) -> Result<Self> {
        let Config { hidden, kv_heads, .. } = *config;
        let narrow = kv_heads * config.dim();
        let linear = |from, to, name: &str| linear_no_bias(from, to, weights.pp(name));
        Ok(Layer {
            norms: [
                rms_norm(hidden, 1e-5, weights.pp("input_layernorm"))?,
                rms_norm(hidden, 1e-5, weights.pp("post_attention_layernorm"))?,
            ],
            projections: [
                linear(hidden, hidden, "self_attn.q_proj")?,
                linear(hidden, narrow, "self_attn.k_proj")?,
                linear(hidden, narrow, "self_attn.v_proj")?,
                linear(hidden, hidden, "self_attn.o_proj")?,
            ],
            mlp: [
                linear(hidden, 2 * hidden, "mlp.gate_proj")?,
                linear(hidden, 2 * hidden, "mlp.up_proj")?,
                linear(2 * hidden, hidden, "mlp.down_proj")?,
            ],
        })
    }

    fn mlp(&self, x: &Tensor) -> Result<Tensor> {
        let [gate, up, down] = &self.mlp;
        down.forward(&(gate.forward(x)?.silu()? * up.forward(x)?)?)
    }
}

/// Keys and values of one layer so far, `(batch, tokens, heads, dim)`.
type Cache = Option<(Tensor, Tensor)>;

/// A model, its cache, and how it attends.
pub struct Llama {
    config: Config,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    rotations: (Tensor, Tensor),
    attend: Attend,
    caches: Vec<Cache>,
}

impl Llama {
    pub fn new(config: Config, weights: VarBuilder, attend: Attend) -> Result<Self> {
        let layer = |i: usize| Layer::new(&config, weights.pp(format!("model.layers.{i}")));
        Ok(Llama {
            embedding: embedding(
                config.vocabulary,
                config.hidden,
                weights.pp("model.embed_tokens"),
            )?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            norm: rms_norm(config.hidden, 1e-5, weights.pp("model.norm"))?,
            head: linear_no_bias(config.hidden, config.vocabulary, weights.pp("lm_head"))?,
            rotations: rotations(&config, weights.device())?,
            attend,
            caches: vec![None; config.layers],
            config,
        })
    }

    /// Logits of the token behind `tokens`, which stand behind those of earlier calls.
    pub fn next(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let ids = Tensor::new(tokens, self.embedding.embeddings().device())?.unsqueeze(0)?;
        let mut x = self.embedding.forward(&ids)?;
        for i in 0..self.layers.len() {
            let attended = self.attention(i, &self.layers[i].norms[0].forward(&x)?)?;
            x = (x + attended)?;
            let layer = &self.layers[i];
            x = (&x + layer.mlp(&layer.norms[1].forward(&x)?)?)?;
        }
        self.head
            .forward(&self.norm.forward(&x.i((0, tokens.len() - 1))?.unsqueeze(0)?)?)?
            .squeeze(0)
    }

    fn attention(&mut self, layer: usize, x: &Tensor) -> Result<Tensor> {
        let Config { heads, kv_heads, .. } = self.config;
        let (batch, tokens, hidden) = x.dims3()?;
        let [q, k, v, o] = &self.layers[layer].projections;
        let split = |x: Tensor, heads: usize| x.reshape((batch, tokens, heads, self.config.dim()));
        let seen = self.caches[layer].as_ref().map_or(Ok(0), |(k, _)| k.dim(1))?;
        let (cos, sin) = &self.rotations;
        let (cos, sin) = (cos.narrow(0, seen, tokens)?, sin.narrow(0, seen, tokens)?);
        let q = rotary_emb::rope_thd(&split(q.forward(x)?, heads)?, &cos, &sin)?;
        let k = rotary_emb::rope_thd(&split(k.forward(x)?, kv_heads)?, &cos, &sin)?;
        let v = split(v.forward(x)?, kv_heads)?;
        let (k, v) = match self.caches[layer].take() {
            None => (k, v),
            Some((old_k, old_v)) => (Tensor::cat(&[old_k, k], 1)?, Tensor::cat(&[old_v, v], 1)?),
        };
        let out = (self.attend)(&q, &k, &v, (self.config.dim() as f32).powf(-0.5))?;
        self.caches[layer] = Some((k, v));
        o.forward(&out.reshape((batch, tokens, hidden))?)
    }
}

/// Cosines and sines of all positions, `(context, dim / 2)`.
fn rotations(config: &Config, device: &Device) -> Result<(Tensor, Tensor)> {
    let dim = config.dim();
    let rates: Vec<f32> =
        (0..dim).step_by(2).map(|i| 1e4f32.powf(-(i as f32) / dim as f32)).collect();
    let rates = Tensor::from_vec(rates, (1, dim / 2), device)?;
    let positions = Tensor::arange(0u32, config.context as u32, device)?.to_dtype(DType::F32)?;
    let angles = positions.reshape((config.context, 1))?.matmul(&rates)?;
    Ok((angles.cos()?, angles.sin()?))
}
