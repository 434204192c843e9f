//! Greedy generation with a model of random weights.

use crate::model::{Attend, Config, Llama};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};

/// A Llama of two layers, 8 query heads on 2 KV heads.
pub const CONFIG: Config =
    Config { vocabulary: 101, hidden: 128, layers: 2, heads: 8, kv_heads: 2, context: 128 };

/// Weights that candle draws at random.
pub fn weights() -> Result<VarMap> {
    let weights = VarMap::new();
    Llama::new(
        CONFIG,
        VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu),
        crate::model::candle,
    )?;
    Ok(weights)
}

/// The tokens behind `prompt`, and the logits that each was chosen by.
pub fn generate(
    weights: &VarMap,
    attend: Attend,
    prompt: &[u32],
    count: usize,
) -> Result<(Vec<u32>, Vec<Tensor>)> {
    let weights = VarBuilder::from_varmap(weights, DType::F32, &Device::Cpu);
    let mut model = Llama::new(CONFIG, weights, attend)?;
    let (mut tokens, mut chosen_by) = (Vec::new(), vec![model.next(prompt)?]);
    while tokens.len() < count {
        let token = chosen_by[tokens.len()].argmax(0)?.to_scalar()?;
        tokens.push(token);
        chosen_by.push(model.next(&[token])?);
    }
    Ok((tokens, chosen_by))
}
