//! The table itself: every case is valid, the judge accepts right answers and refuses wrong ones.

use problem::{HostVec, Problem, Slot, Unsupported};
use sixwarp_cases::{CaseData, EngineError, Outcome, Outputs, check, random_case, table};

/// An engine that is right by definition: the oracle, rounded to the dtype.
fn oracle(problem: &Problem, data: &CaseData) -> Result<Outputs, EngineError> {
    let result = cpu::oracle::oracle(problem, &data.inputs())
        .map_err(|error| EngineError::Failed(error.to_string()))?;
    let mut out = data.tensors[&Slot::Out].clone();
    let [batch, heads, tokens, dim] = problem.out.shape;
    for (b, h, t) in rows(batch, heads, tokens) {
        if !result.covered[(b * tokens + t) as usize] {
            continue;
        }
        let row = ((b * heads + h) * tokens + t) * dim;
        for d in 0..dim {
            let at = problem.out.row_offset(b, h, t) + d;
            out.set(at as usize, result.out[(row + d) as usize] as f32);
        }
    }
    let lse = problem.return_lse.then(|| result.lse.iter().map(|x| *x as f32).collect());
    Ok(Outputs { out, lse })
}

fn rows(batch: u64, heads: u64, tokens: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..batch).flat_map(move |b| (0..heads).flat_map(move |h| (0..tokens).map(move |t| (b, h, t))))
}

#[test]
fn every_case_is_valid_and_the_definition_passes_it() {
    for case in table() {
        let outcome = check(&case, &mut oracle);
        assert!(outcome.passed(), "{}: {outcome}", case.name);
    }
}

#[test]
fn the_definition_passes_random_cases() {
    for seed in 0..60 {
        let case = random_case(seed);
        let outcome = check(&case, &mut oracle);
        assert!(outcome.passed(), "{outcome}\n{case}");
    }
}

#[test]
fn the_mqa_group_is_the_product_of_four_dims_four_lengths_and_four_key_counts() {
    let cases = table().iter().filter(|case| case.name.starts_with("mqa-")).count();
    assert_eq!(cases, 64);
}

#[test]
fn wrong_missing_and_stray_outputs_fail() {
    let case = table().into_iter().find(|c| c.name == "strides-bshd-gap8").unwrap();
    let edited = |edit: &dyn Fn(&mut Outputs)| {
        check(&case, &mut |problem: &Problem, data: &CaseData| {
            let mut outputs = oracle(problem, data)?;
            edit(&mut outputs);
            Ok(outputs)
        })
    };
    assert!(edited(&|_| {}).passed());
    assert!(matches!(edited(&|o| o.out.set(5, 0.5)), Outcome::Wrong(_)));
    assert!(matches!(edited(&|o| o.out.set(5, f32::NAN)), Outcome::Wrong(_)));
    assert!(matches!(edited(&|o| o.out.set(66, 0.0)), Outcome::Stray(66, _)));
    assert!(matches!(edited(&|o| o.lse = None), Outcome::Failed(_)));
    assert!(matches!(edited(&|o| o.out = HostVec::Bf16(vec![])), Outcome::Failed(_)));
    let declined = check(&case, &mut |_: &Problem, _: &CaseData| {
        Err(Unsupported::new("gap 8", "for the test").into())
    });
    assert!(matches!(declined, Outcome::Unsupported(_)) && !declined.failed());
}

#[test]
fn a_panic_is_a_failure_of_its_case() {
    let case = random_case(1);
    let outcome = check(&case, &mut |_: &Problem, _: &CaseData| panic!("{} rows", 3));
    assert_eq!(outcome.to_string(), "FAIL: panicked: 3 rows");
    assert!(check(&case, &mut oracle).passed());
}

/// The poison is where it should be: an engine that looks one key too far sees NaN.
#[test]
fn keys_out_of_use_are_poisoned() {
    let case = table().into_iter().find(|c| c.name == "paged-3").unwrap();
    let data = CaseData::new(&case).unwrap();
    let HostVec::Bf16(k) = &data.tensors[&Slot::K] else { panic!("bf16") };
    let poisoned = k.iter().filter(|x| x.is_nan()).count();
    let in_use = (130 + 1 + 67) * 2 * 64;
    assert_eq!(k.len() - poisoned, in_use);
    let HostVec::Bf16(out) = &data.tensors[&Slot::Out] else { panic!("bf16") };
    assert!(out.iter().all(|x| x.is_nan()));
}
