//! Prints the PTX of a case of the table, `emit ARCH CASE [PROCESSORS]`, or of a dense problem,
//! `emit ARCH D DV T S MASK HEADS KV_HEADS BATCH [DTYPE]`.

use problem::{DType, Mask, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};

const USAGE: &str = "emit ARCH CASE [PROCESSORS], as in `emit sm90 mixed-d128`, or emit ARCH D DV T S MASK HEADS KV_HEADS BATCH [DTYPE], \
                     as in `emit sm100 128 128 4096 4096 causal 32 8 1`";

fn main() {
    let mut a: Vec<String> = std::env::args().skip(1).collect();
    if ![2, 3, 9, 10].contains(&a.len()) {
        eprintln!("emit: 2, 3, 9 or 10 arguments are needed, and {} are given: {USAGE}", a.len());
        std::process::exit(2);
    }
    let arch = match a.remove(0).as_str() {
        "sm80" => Arch::Sm80,
        "sm86" => Arch::Sm86,
        "sm89" => Arch::Sm89,
        "sm120" => Arch::Sm120,
        "sm90" => Arch::Sm90,
        "sm100" => Arch::Sm100,
        _ => Arch::Sm103,
    };
    let problem = if a.len() <= 2 { case(&a[0]) } else { dense(&a) };
    let mut options = PlanOptions::for_arch(arch);
    if let [_, processors] = &a[..] {
        options.processors = processors.parse().expect("a number of processors");
    }
    let plan = plan(&problem, arch, &options).expect("supported");
    eprintln!("{}", plan.summary);
    println!("{}", plan.program.module);
}

/// The case of the table with this name.
fn case(name: &str) -> Problem {
    let case = cases::table().into_iter().find(|case| case.name == name);
    case.expect("a case of the table").problem().expect("a valid problem")
}

fn dense(a: &[String]) -> Problem {
    let n = |i: usize| a[i].parse::<u64>().expect("a number");
    let (d, dv, t, s, h, hk, b) = (n(0), n(1), n(2), n(3), n(5), n(6), n(7));
    let mask = match a[4].as_str() {
        "full" => Mask::Full,
        "causal" => Mask::Causal,
        _ => Mask::Window { left: Some(128), right: Some(0) },
    };
    let dtype = a.get(8).map_or(DType::Bf16, |name| name.parse().expect("a dtype"));
    let q = View::bshd(dtype, [b, h, t, d]);
    let k = View::bshd(dtype, [b, hk, s, d]);
    let v = View::bshd(dtype, [b, hk, s, dv]);
    Problem::builder(q)
        .segment(Segment::new(k, v).mask(mask))
        .return_lse()
        .build()
        .expect("a valid problem")
}
