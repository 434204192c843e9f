//! Reports of kernels with known mistakes, in every form.

mod html;
mod json;
mod sarif;
mod text;

use filetest::FileTest;
use sixwarp_report::{
    Checked, Launch, Mode, Report, Schedule, Sources, Timeline, Unchecked, outcome_of, schedules,
    search,
};
use std::path::{Path, PathBuf};

/// The schedules that every kernel here runs under.
fn few() -> Vec<Schedule> {
    schedules(&Mode::ALL, 0..1)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fail")
}

/// The text of a kernel with a known mistake.
fn ptx(name: &str) -> String {
    std::fs::read_to_string(folder().join(name).with_extension("ptx")).unwrap()
}

/// What a check of it gives, with a timeline.
fn checked(name: &str) -> Checked {
    let test = FileTest::parse(name, &ptx(name)).unwrap();
    let prepared = test.prepare(&test.runs[0]).unwrap();
    let launch = Launch { program: &prepared.program, contents: &prepared.contents };
    let mut options = sim::Options::default();
    options.limits.instructions = 1 << 20;
    let searched = search(launch, &few(), &options, 2, &|_| {});
    let kernel = prepared.program.launches[0].kernel.clone();
    let path = format!("tests/fail/{name}.ptx");
    let mut checked = Checked { kernel: Some(kernel), ..Checked::of(path) };
    checked.schedules = searched.outcomes.iter().map(|(schedule, _)| *schedule).collect();
    let (schedule, error) = searched.failure().expect("a mistake");
    match outcome_of(error, schedule) {
        Ok(findings) => checked.findings = findings,
        Err(unchecked) => checked.unchecked = Some(unchecked),
    }
    let traced = sim::Options { trace: true, ..schedule.options(&options) };
    let trace = sim::outcome(launch.program, launch.contents, &traced).report.trace;
    let mut sources = Sources::new(vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")]);
    for finding in &mut checked.findings {
        finding.timeline = trace.as_ref().map(|trace| Timeline::of(trace, finding));
        sources.fill(finding);
    }
    checked
}

/// A race, a hang with lines of Python, a launch that the driver refuses, and an instruction that is not known.
fn report() -> Report {
    let names =
        ["shared_race", "ragged_causal_tile_count", "map_box_too_large", "unknown_instruction"];
    Report { checked: names.map(checked).into(), ..Report::default() }
}

#[test]
fn the_exit_code_tells_findings_from_what_could_not_be_checked() {
    let code = |checked: Vec<Checked>| Report { checked, ..Report::default() }.exit_code();
    let clean = || Checked::of("a.ptx");
    let unsupported = checked("unknown_instruction");
    let message = "no such file".to_owned();
    let unreadable = Checked { unchecked: Some(Unchecked::Unreadable { message }), ..clean() };
    assert_eq!(code(vec![clean()]), 0);
    assert_eq!(code(vec![clean(), unsupported.clone()]), 3);
    assert_eq!(code(vec![unreadable.clone(), unsupported]), 2);
    assert_eq!(code(vec![unreadable, checked("shared_race")]), 1);
}
