//! Runs cases on the simulator: `simulate ARCH GLOB [option…]`, with options `two-blocks`,
//! `one-block`, `shared-p`, `plain`, `packed-copies`, `split=KEYS`, `latest`, `random=SEED`.

use cases::{CaseData, EngineError, Outputs, Problem};
use problem::Slot;
use sixwarp_kernels::{Arch, Loads, PlanOptions, Probabilities, RowBlocks, Split, plan};

const USAGE: &str = "ARCH and GLOB are needed, as in `simulate sm100 'real-llama-*'`";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.len() < 2 {
        eprintln!("simulate: {USAGE}");
        std::process::exit(2);
    }
    let arch = match args[0].as_str() {
        "sm80" => Arch::Sm80,
        "sm86" => Arch::Sm86,
        "sm89" => Arch::Sm89,
        "sm120" => Arch::Sm120,
        "sm90" => Arch::Sm90,
        _ => Arch::Sm100,
    };
    let (plan_options, sim_options) = options(arch, &args[2..]);
    let mut engine = |problem: &Problem, data: &CaseData| {
        simulate(problem, data, arch, &plan_options, &sim_options)
    };
    for case in cases::table().iter().filter(|case| cases::matches_glob(&args[1], &case.name)) {
        let start = std::time::Instant::now();
        let outcome = cases::check(case, &mut engine);
        let mark = if outcome.failed() { "FAIL" } else { "ok" };
        println!("{mark:5}{:30} {:6.1}s  {outcome}", case.name, start.elapsed().as_secs_f64());
    }
}

fn options(arch: Arch, args: &[String]) -> (PlanOptions, sim::Options) {
    let (mut plan, mut sim) = (PlanOptions::for_arch(arch), sim::Options::default());
    plan.processors = 8;
    for arg in args {
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("two-blocks", _) => plan.row_blocks = RowBlocks::Two,
            ("one-block", _) => plan.row_blocks = RowBlocks::One,
            ("shared-p", _) => plan.probabilities = Probabilities::SharedMemory,
            ("packed-copies", _) => plan.packed_copies = true,
            ("plain", _) => plan.loads = Loads::Plain,
            ("split", keys) => plan.split = Split::Every { keys: keys.parse().expect("keys") },
            ("latest", _) => sim.completion = sim::Completion::Latest,
            ("random", seed) => {
                sim.seed = seed.parse().expect("a seed");
                sim.completion = sim::Completion::Random;
                sim.schedule = sim::Schedule::Random;
            }
            _ => panic!("unknown option {arg}"),
        }
    }
    (plan, sim)
}

fn simulate(
    problem: &Problem,
    data: &CaseData,
    arch: Arch,
    plan_options: &PlanOptions,
    sim_options: &sim::Options,
) -> Result<Outputs, EngineError> {
    let plan = plan(problem, arch, plan_options)?;
    let slots = problem.slots();
    let memory: Vec<Vec<u8>> = plan
        .program
        .buffers
        .iter()
        .map(|buffer| {
            let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
            slot.map_or_else(|| vec![0; buffer.bytes as usize], |slot| data.bytes(*slot))
        })
        .collect();
    let report = sim::run(&plan.program, &memory, sim_options)
        .map_err(|error| EngineError::Failed(error.to_string()))?;
    let buffer = |slot: Slot| {
        let at = plan.program.buffer(&slot.to_string()).expect("every slot is a buffer");
        &report.buffers[at.0]
    };
    let lse = problem.return_lse.then(|| buffer(Slot::Lse).as_slice());
    Ok(Outputs::from_bytes(problem, buffer(Slot::Out), lse))
}
