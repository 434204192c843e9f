//! `sixwarp demo`: a DeepSeek-V4 decode step on the CPU and on a simulated Blackwell GPU.

use crate::{Outcome, engine, output};
use cases::{Case, CaseData, Expected};
use kernels::Arch;
use sixwarp::Device;
use std::time::Instant;

/// Answers a DeepSeek-V4 decode step on the CPU and on a simulated Blackwell, beside the oracle
#[derive(clap::Args)]
pub struct Args {
    /// Query heads
    #[arg(long, default_value_t = 64)]
    heads: u64,
    /// Compressed rows beside the window of 128 tokens
    #[arg(long, default_value_t = 512)]
    compressed: u64,
}

/// Computes, compares and prints.
pub fn run(args: Args) -> Outcome {
    let case = case(&args);
    let data = CaseData::new(&case)?;
    output::print(&format!(
        "DeepSeek-V4 decode: 1 query, {} heads on one KV head of dim 512, K = V,\n\
         a window of 128 rows and {} compressed rows under one softmax with sinks, bf16\n\n",
        args.heads, args.compressed
    ))?;
    let start = Instant::now();
    let expected = Expected::new(&data)?;
    output::print(&format!("oracle     f64 from the definition, {:.1?}\n", start.elapsed()))?;
    let mut wrong = 0;
    for device in [Device::cpu(), Device::simulated(Arch::Sm100)] {
        wrong += u32::from(!step(&device, &data, &expected)?);
    }
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} of 2 devices computed something else than the oracle").into()),
    }
}

/// One device's answer; whether it is right.
fn step(device: &Device, data: &CaseData, expected: &Expected) -> Result<bool, crate::AnyError> {
    let plan = sixwarp::plan(&data.problem, device)?;
    let start = Instant::now();
    let outputs = engine::run(&plan, data)?;
    let time = start.elapsed();
    let outcome = cases::judge(&data.problem, &outputs, expected);
    let name = device.to_string();
    output::print(&format!("{name:10} {}, {time:.1?}\n", plan.summary()))?;
    output::print(&format!("{:10} {outcome}\n", ""))?;
    Ok(outcome.passed())
}

fn case(args: &Args) -> Case {
    let text = format!(
        "[[case]]\nname = \"demo\"\nheads = {}\nkv_heads = 1\ndim = 512\nqueries = 1\nkeys = 128\n\
         shared = true\nsinks = \"random\"\nsecond = {{ keys = {}, shared = true }}\n",
        args.heads, args.compressed
    );
    let mut cases = cases::parse(&text).expect("the demo's own row is readable");
    cases.remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_a_valid_problem() {
        let problem = case(&Args { heads: 64, compressed: 512 }).problem().unwrap();
        assert_eq!((problem.segments.len(), problem.key_dim()), (2, 512));
    }
}
