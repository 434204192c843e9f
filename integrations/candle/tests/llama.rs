//! The example's Llama generates the same tokens whichever attention it has.

#![allow(missing_docs, dead_code)]

#[path = "../examples/llama/generate.rs"]
mod generate;
#[path = "../examples/llama/model.rs"]
mod model;

use candle_core::Result;

#[test]
fn tokens_and_logits_are_those_of_candles_own_attention() -> Result<()> {
    let weights = generate::weights()?;
    for length in [1, 7, 40] {
        let prompt: Vec<u32> = (0..length).map(|i| (i * 37 + 5) % 101).collect();
        let (theirs, their_logits) = generate::generate(&weights, model::candle, &prompt, 12)?;
        let (ours, our_logits) = generate::generate(&weights, model::sixwarp, &prompt, 12)?;
        assert_eq!(ours, theirs);
        for (ours, theirs) in our_logits.iter().zip(&their_logits) {
            let difference: f32 = (ours - theirs)?.abs()?.max(0)?.to_scalar()?;
            assert!(difference < 1e-4, "{difference}");
        }
    }
    Ok(())
}
