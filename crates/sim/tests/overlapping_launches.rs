//! Launches that overlap: what an earlier one writes may be touched only behind `griddepcontrol.wait`.

use program::{Access, Argument, Buffer, BufferId, Launch, Program};
use sixwarp_sim as sim;
use std::sync::Arc;

const SOURCE: &str = ".version 8.6
.target sm_90
.address_size 64
.visible .entry first(.param .u64 middle, .param .u64 out) {
    .reg .b32 i;
    .reg .b64 at;
    mov.u32 i, %tid.x;
    ld.param.u64 at, [middle];
    mad.wide.u32 at, i, 4, at;
    st.global.b32 [at], i;
    ret;
}
.visible .entry between(.param .u64 middle, .param .u64 out) {
    BETWEEN
    ret;
}
.visible .entry second(.param .u64 middle, .param .u64 out) {
    .reg .b32 i, v;
    .reg .b64 at, to;
    mov.u32 i, %tid.x;
    ld.param.u64 at, [middle];
    ld.param.u64 to, [out];
    mad.wide.u32 at, i, 4, at;
    mad.wide.u32 to, i, 4, to;
    WAIT
    ld.global.b32 v, [at];
    st.global.b32 [to], v;
    ret;
}
";

/// Two launches of 64 threads, the second one beginning before the first has ended.
fn run(wait: &str, overlaps_previous: bool) -> Result<Vec<u8>, sim::Error> {
    launch(wait, "", &[("first", false), ("second", overlaps_previous)])
}

/// Launches of 64 threads, some of which overlap the one before.
fn launch(wait: &str, between: &str, launches: &[(&str, bool)]) -> Result<Vec<u8>, sim::Error> {
    let module =
        ptx::parse(&SOURCE.replace("WAIT", wait).replace("BETWEEN", between)).expect("valid PTX");
    let buffer = |name: &str, access| Buffer::new(name, 256, 16, access);
    let launch = |kernel: &str, overlaps_previous| Launch {
        kernel: kernel.into(),
        grid: [1; 3],
        block: [64, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        args: vec![Argument::Buffer(BufferId(0), 0), Argument::Buffer(BufferId(1), 0)],
        overlaps_previous,
    };
    let program = Program {
        module: Arc::new(module),
        buffers: vec![buffer("middle", Access::Workspace), buffer("out", Access::Write)],
        launches: launches.iter().map(|(kernel, overlaps)| launch(kernel, *overlaps)).collect(),
    };
    let report = sim::run(&program, &[vec![0; 256], vec![0; 256]], &sim::Options::default())?;
    Ok(report.buffers[1].clone())
}

#[test]
fn a_grid_waits_before_it_reads_what_an_earlier_one_writes() {
    let error = run("", true).expect_err("nothing orders the two grids");
    assert_eq!(error.rule(), "missing-grid-wait");
    let text = error.to_string();
    assert!(text.contains("`middle`") && text.contains("griddepcontrol.wait"), "{text}");
}

#[test]
fn one_thread_may_wait_for_all() {
    let right: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(run("griddepcontrol.wait;", true).expect("ordered"), right);
    let by_one =
        ".reg .pred p; setp.ne.u32 p, i, 63; @p bra ON; griddepcontrol.wait; ON: bar.sync 0;";
    assert_eq!(run(by_one, true).expect("ordered by the barrier"), right);
    assert_eq!(run("", false).expect("launched without overlap"), right);
}

#[test]
fn a_wait_covers_older_launches_only_through_the_one_between() {
    let launches = [("first", false), ("between", true), ("second", true)];
    let wait = "griddepcontrol.wait;";
    let error = launch(wait, "", &launches).expect_err("the one between waited for nothing");
    assert_eq!(error.rule(), "missing-grid-wait");
    assert!(error.to_string().contains("two launches ago"), "{error}");
    launch(wait, wait, &launches).expect("each waits for the one before");
    let apart = [("first", false), ("between", false), ("second", true)];
    launch(wait, "", &apart).expect("the one between did not overlap");
}
