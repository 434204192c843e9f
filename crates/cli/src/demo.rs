//! `sixwarp demo`: a DeepSeek-V4 decode step on the CPU and on a simulated Blackwell GPU.

use crate::{AnyError, Outcome, engine, output, timeline, trace};
use cases::{Case, CaseData, Expected};
use kernels::Arch;
use serde::Serialize;
use sim::{Row, Trace};
use sixwarp::{Device, Plan};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
  sixwarp demo                          needs no GPU and takes seconds
  sixwarp demo --trace decode.json      the timeline for chrome://tracing or Perfetto";

/// Answers a DeepSeek-V4 decode step on the CPU and on a simulated Blackwell, beside the oracle
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Query heads
    #[arg(long, default_value_t = 64)]
    heads: u64,
    /// Compressed rows beside the window of 128 tokens
    #[arg(long, default_value_t = 512)]
    compressed: u64,
    /// Writes the timeline of the compressed rows' kernel
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Computes, compares and prints.
pub fn run(args: Args) -> Outcome {
    let case = case(&args);
    let data = CaseData::new(&case)?;
    let show = |text: String| if args.json { Ok(()) } else { output::print(&text) };
    show(format!(
        "DeepSeek-V4 decode: 1 query, {} heads on one KV head of dim 512, K = V,\n\
         a window of 128 rows and {} compressed rows under one softmax with sinks, bf16\n\n",
        args.heads, args.compressed
    ))?;
    let expected = Expected::new(&data)?;
    let mut answers = Vec::new();
    for device in [Device::cpu(), Device::simulated(Arch::Sm100)] {
        let plan = sixwarp::plan(&data.problem, &device)?;
        let answer = Answer::of(&plan, &data, &expected)?;
        show(answer.to_string())?;
        answers.push(answer);
        if let Some(program) = plan.program() {
            let kernel = format!("attention{}", data.problem.segments.len() - 1);
            let report = trace::of_kernel(program, &data, Some(&kernel))?;
            let trace = report.trace.ok_or("the simulator recorded no timeline")?;
            show(picture(&trace))?;
            if let Some(path) = &args.trace {
                files::write(path, trace.to_json())?;
            }
        }
    }
    if args.json {
        output::print_json(&answers)?;
    }
    match answers.iter().filter(|answer| !answer.passes).count() {
        0 => Ok(()),
        n => Err(format!("{n} of {} devices computed something else", answers.len()).into()),
    }
}

/// What one device made of the problem.
#[derive(Serialize)]
struct Answer {
    device: String,
    kernel: String,
    milliseconds: f64,
    passes: bool,
    /// How it compares with the f64 oracle.
    oracle: String,
}

impl Answer {
    fn of(plan: &Plan, data: &CaseData, expected: &Expected) -> Result<Self, AnyError> {
        let start = Instant::now();
        let outputs = engine::run(plan, data)?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let outcome = cases::judge(&data.problem, &outputs, expected);
        Ok(Self {
            device: plan.device().to_string(),
            kernel: plan.summary(),
            milliseconds,
            passes: outcome.passed(),
            oracle: outcome.to_string(),
        })
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:10} {:.1} ms, {}", self.device, self.milliseconds, self.oracle)?;
        writeln!(f, "{:10} {}\n", "", self.kernel)
    }
}

fn picture(trace: &Trace) -> String {
    let name = |row: Row| match row {
        Row::Warp(n @ 0..=3) => format!("warp {n} softmax"),
        Row::Warp(4) => "warp 4 multiply".to_string(),
        Row::Warp(n) => format!("warp {n} load"),
        Row::Copy => "copy engine".to_string(),
        Row::Tensor => "tensor unit".to_string(),
    };
    format!(
        "The compressed rows' kernel, first CTA (cycles are a model's, not a GPU's):\n\n{}",
        timeline::picture(&timeline::lanes(trace, [0; 3], name))
    )
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
        let args = Args { heads: 64, compressed: 512, trace: None, json: false };
        let problem = case(&args).problem().unwrap();
        assert_eq!((problem.segments.len(), problem.key_dim()), (2, 512));
    }
}
