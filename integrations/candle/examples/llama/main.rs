//! A small Llama with random weights, its attention by candle's operations and by sixwarp: the tokens are the same.
//!
//! ```sh
//! cargo run --example llama
//! ```

#![allow(missing_docs)]

mod generate;
mod model;

use candle_core::Result;
use generate::{CONFIG, generate, weights};

fn main() -> Result<()> {
    let prompt: Vec<u32> = (0..24).map(|i| i * 37 % CONFIG.vocabulary as u32).collect();
    let weights = weights()?;
    for (name, attend) in [("candle", model::candle as model::Attend), ("sixwarp", model::sixwarp)]
    {
        let (tokens, _) = generate(&weights, attend, &prompt, 16)?;
        println!("{name:8} {tokens:?}");
    }
    Ok(())
}
