//! The CPU engine on every case of the table and on random cases, on every instruction set.

use cpu::Isa;
use problem::Problem;
use sixwarp_cases::{
    Case, CaseData, EngineError, Expected, Outcome, Outputs, judge, random_case, table,
};

fn run_on(isa: Isa, problem: &Problem, data: &CaseData) -> Result<Outputs, EngineError> {
    let (result, out, lse) =
        data.with_outputs(|mut buffers| cpu::attention_on(isa, problem, &mut buffers));
    result.map_err(|error| EngineError::Failed(error.to_string()))?;
    Ok(Outputs { out, lse })
}

/// Runs a case on every instruction set of this machine; `None` if all pass.
fn failure(case: &Case) -> Option<String> {
    let data = CaseData::new(case).expect("the case is valid");
    let expected = Expected::new(&data).expect("the inputs are valid");
    let outcome = |isa| match run_on(isa, &data.problem, &data) {
        Ok(outputs) => judge(&data.problem, &outputs, &expected),
        Err(error) => Outcome::Failed(error.to_string()),
    };
    let outcomes = Isa::detected().into_iter().map(|isa| (isa, outcome(isa)));
    outcomes
        .filter(|(_, outcome)| !outcome.passed())
        .map(|(isa, outcome)| format!("{isa:?}: {outcome}\n{case}"))
        .next()
}

fn assert_none_fail(cases: impl Iterator<Item = Case>) {
    let failures: Vec<String> = cases.filter_map(|case| failure(&case)).collect();
    let shown: Vec<&String> = failures.iter().take(5).collect();
    assert!(failures.is_empty(), "{} fail, among them {shown:#?}", failures.len());
}

#[test]
fn every_case_of_the_table() {
    assert_none_fail(table().into_iter());
}

/// Random cases with large scores, whose rounding errors an absolute bound took for wrong.
#[test]
fn random_cases_of_large_scores() {
    let seeds = [92635, 92985, 92991, 425326, 426209, 426710, 400532];
    assert_none_fail(seeds.into_iter().map(random_case));
}

#[test]
fn random_cases() {
    assert_none_fail((1000..1060).map(random_case));
}
