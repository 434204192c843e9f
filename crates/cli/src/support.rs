//! Which problems kernels exist for, asked of the planner itself.

use kernels::{Arch, PlanOptions, check};
use problem::{
    AttnMask, DType, Descale, InvalidProblem, Mask, MaskElement, Problem, Scales, Segment, Storage,
    View,
};
use serde::Serialize;
use std::fmt;

/// One kind of problem and the planner's answer for each architecture.
#[derive(Serialize)]
pub struct Support {
    /// The kind of problem.
    pub what: String,
    /// Per architecture: its name, and why not where there is no kernel.
    pub answers: Vec<(String, Option<String>)>,
}

/// The planner's answers for a list of problems that differ in what they ask.
pub fn matrix() -> Vec<Support> {
    samples().into_iter().map(|(what, problem)| Support::new(what, problem)).collect()
}

impl Support {
    fn new(what: String, problem: Result<Problem, InvalidProblem>) -> Support {
        let answer = |arch: Arch| {
            let why = match &problem {
                Ok(problem) => check(problem, arch, &PlanOptions::for_arch(arch))
                    .err()
                    .map(|unsupported| unsupported.to_string()),
                Err(invalid) => Some(invalid.to_string()),
            };
            (arch.to_string(), why)
        };
        Support { what, answers: Arch::ALL.map(answer).into() }
    }
}

/// The matrix for people: a column per architecture, and each reason once, below.
pub struct Table<'a>(pub &'a [Support]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons: Vec<String> = Vec::new();
        if let Some(row) = self.0.first() {
            let archs: String = row.answers.iter().map(|(arch, _)| format!("{arch:9}")).collect();
            writeln!(f, "{:34}{}", "kernels", archs.trim_end())?;
        }
        for row in self.0 {
            let mut cell = |why: &Option<String>| match why {
                None => format!("{:9}", "yes"),
                Some(why) => format!("{:9}", format!("no ({})", note(&mut reasons, why))),
            };
            let cells: String = row.answers.iter().map(|(_, why)| cell(why)).collect();
            writeln!(f, "        {:26}{}", row.what, cells.trim_end())?;
        }
        let mut numbered = reasons.iter().enumerate();
        numbered.try_for_each(|(i, why)| writeln!(f, "        ({}) {why}", i + 1))
    }
}

/// The matrix as a page of the documentation.
pub struct Page<'a>(pub &'a [Support]);

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PAGE_HEAD)?;
        let mut reasons: Vec<String> = Vec::new();
        if let Some(row) = self.0.first() {
            let archs: Vec<&str> = row.answers.iter().map(|(arch, _)| arch.as_str()).collect();
            writeln!(f, "| | {} |\n|---{}|", archs.join(" | "), "|---".repeat(archs.len()))?;
        }
        for row in self.0 {
            let mut cell = |why: &Option<String>| match why {
                None => "yes".to_string(),
                Some(why) => format!("no ({})", note(&mut reasons, why)),
            };
            let cells: Vec<String> = row.answers.iter().map(|(_, why)| cell(why)).collect();
            writeln!(f, "| {} | {} |", row.what, cells.join(" | "))?;
        }
        if !reasons.is_empty() {
            writeln!(f)?;
        }
        let mut numbered = reasons.iter().enumerate();
        numbered.try_for_each(|(i, why)| writeln!(f, "{}. {why}", i + 1))
    }
}

const PAGE_HEAD: &str = "\
# What has a kernel

Asked of the planner, which refuses what it has no kernel for; made by
`cargo run -- doctor --support > docs/support.md`, and a test keeps it current. The CPU backend and
the oracle take every problem. Tensors of f64, and mask tensors of f64, are for them alone: no GPU
kernel takes either.

f32 takes the kernels of `sm_80` on `sm_90a`, `sm_100a` and `sm_103a` ([ampere.md](ampere.md)). Rows
at odd strides or of odd lengths are copied first.

";

/// The number of a reason, new or seen before.
fn note(reasons: &mut Vec<String>, why: &str) -> usize {
    let seen = reasons.iter().position(|reason| reason == why);
    seen.unwrap_or_else(|| {
        reasons.push(why.into());
        reasons.len() - 1
    }) + 1
}

type Sample = (String, Result<Problem, InvalidProblem>);

fn samples() -> Vec<Sample> {
    let dense =
        |dtype, dim| Problem::builder(queries(dtype, dim)).segment(segment(dtype, dim, dim));
    let bf16 = |segment| Problem::builder(queries(DType::Bf16, 128)).segment(segment);
    let plain = || segment(DType::Bf16, 128, 128);
    let window = Mask::Window { left: Some(127), right: Some(0) };
    let mut samples: Vec<Sample> = [64, 128, 192, 256, 512]
        .map(|dim| (format!("bf16, head dim {dim}"), dense(DType::Bf16, dim).build()))
        .into();
    let mut add = |what: &str, problem| samples.push((what.into(), problem));
    add("f16, head dim 128", dense(DType::F16, 128).build());
    add("f32, head dim 128", dense(DType::F32, 128).build());
    add("f32, head dim 512", dense(DType::F32, 512).build());
    add("head dim 100", dense(DType::Bf16, 100).build());
    add("odd strides", odd());
    add("causal", bf16(plain().mask(Mask::Causal)).build());
    add("sliding window", bf16(plain().mask(window)).build());
    add("compressed keys", bf16(plain().mask(Mask::Compressed { ratio: 4 })).build());
    add("soft cap", bf16(plain()).softcap(30.0).build());
    add("sinks", bf16(plain()).sinks().build());
    add("mask tensor, bool", bf16(masked(MaskElement::Bool)).build());
    add("mask tensor, f32", bf16(masked(MaskElement::Float(DType::F32))).build());
    add("log-sum-exp returned", bf16(plain()).return_lse().build());
    add("lengths in use", bf16(plain().used()).build());
    add("paged keys", bf16(plain().paged(4)).build());
    add("two segments", bf16(plain()).segment(plain().mask(window)).build());
    add("K = V, dims 192 and 128", shared());
    add("index lists", bf16(plain().indexed(64)).build());
    add("fp8 (e4m3) keys and values, head dim 128", bf16(fp8(128)).build());
    add("fp8 (e4m3) keys and values, paged", bf16(fp8(128).paged(4)).build());
    add("fp8 MODEL1 rows", packed(Storage::Model1));
    add("fp8 V3.2 rows", packed(Storage::V32));
    add("fp8 V4.1 rows", packed(Storage::V41Fp8(Scales::Footer)));
    add("fp8 V4.1 rows, scales in the row", packed(Storage::V41Fp8(Scales::Row)));
    add("fp4 V4.1 rows", packed(Storage::V41Fp4(Scales::Footer)));
    add("fp4 V4.1 rows, scales in the row", packed(Storage::V41Fp4(Scales::Row)));
    samples
}

fn queries(dtype: DType, dim: u64) -> View {
    View::bshd(dtype, [1, 8, 64, dim])
}

fn segment(dtype: DType, dim: u64, value_dim: u64) -> Segment {
    let view = |dim| View::bshd(dtype, [1, 2, 256, dim]);
    Segment::new(view(dim), view(value_dim))
}

fn odd() -> Result<Problem, InvalidProblem> {
    let keys = View::bshd(DType::Bf16, [1, 2, 256, 128]).with_strides([256 * 2 * 129, 129, 258, 1]);
    Problem::builder(queries(DType::Bf16, 128)).segment(Segment::new(keys, keys)).build()
}

fn masked(element: MaskElement) -> Segment {
    segment(DType::Bf16, 128, 128).attn_mask(AttnMask::new(element, [1, 1, 64, 256]))
}

/// Keys and values of eight bits, with a factor per KV head.
fn fp8(dim: u64) -> Segment {
    segment(DType::E4m3, dim, dim).descaled(Descale::PER_HEAD, Descale::PER_HEAD)
}

fn shared() -> Result<Problem, InvalidProblem> {
    let keys = View::bshd(DType::Bf16, [1, 1, 256, 192]);
    Problem::builder(queries(DType::Bf16, 192)).segment(Segment::shared(keys, 128)).build()
}

fn packed(storage: Storage) -> Result<Problem, InvalidProblem> {
    let dim = storage.packed().map_or(512, |format| format.dim);
    let keys = View::bshd(DType::Bf16, [1, 1, 256, dim]);
    let rows = Segment::shared(keys, 512).stored(storage);
    Problem::builder(queries(DType::Bf16, dim)).segment(rows).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_a_valid_problem() {
        for (what, problem) in samples() {
            assert!(problem.is_ok(), "{what}: {problem:?}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let problem =
            Problem::builder(queries(DType::F64, 128)).segment(segment(DType::F64, 128, 128));
        let f64 = Support::new("f64".into(), problem.build());
        let (_, why) = f64.answers.iter().find(|(arch, _)| arch == "sm_90a").unwrap();
        assert!(why.as_ref().unwrap().contains("bf16, f16 and f32"));
    }

    #[test]
    fn nothing_in_the_table_is_refused() {
        for Support { what, answers } in matrix() {
            assert!(answers.iter().all(|(_, why)| why.is_none()), "{what}: {answers:?}");
        }
    }
}
