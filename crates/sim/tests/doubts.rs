//! Loads that race with a store of another warp: a race if the value is used, else a note.

mod common;

use common::Case;
use sixwarp_sim::{Error, Options};

/// Every warp loads a counter, thread 0 stores it plus one; then all of them do something with `%r2`.
fn counter(then: &str) -> Case {
    let body = format!(
        "
.visible .entry k(.param .u64 counter, .param .u64 out) {{
  .reg .b64 %rd<5>; .reg .b32 %r<6>; .reg .pred %p<4>;
  ld.param.u64 %rd1, [counter]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mad.wide.u32 %rd3, %r1, 4, %rd2;
  ld.global.b32 %r2, [%rd1];
  add.u32 %r3, %r2, 1;
  @%p1 st.global.b32 [%rd1], %r3;
  {then}
  ret;
}}"
    );
    Case::new(&body, 128).zeros(1).output(128)
}

fn is_race(case: &Case) -> bool {
    matches!(case.report(), Err(Error::Hazard(hazard)) if hazard.rule.name() == "race")
}

#[test]
fn a_value_that_is_thrown_away_is_a_note() {
    for mode in ["eager", "latest", "adversarial", "random"] {
        let mut case = counter("add.u32 %r4, %r2, %r1; st.global.b32 [%rd3], %r1;");
        case.options = Options::mode(mode, 3).unwrap();
        let report = case.report().unwrap();
        let [note] = &report.notes[..] else { panic!("{mode}: {:?}", report.notes) };
        assert!(note.starts_with("loads race with a store by warp 0 of their CTA"), "{note}");
        assert_eq!(report.buffers[0], [1, 0, 0, 0]);
    }
}

#[test]
fn a_value_that_is_used_is_a_race() {
    let uses = [
        "st.global.b32 [%rd3], %r2;",
        "setp.ne.u32 %p2, %r2, 0; @%p2 bra DONE; st.global.b32 [%rd3], %r1; DONE:",
        "mad.wide.u32 %rd4, %r2, 4, %rd3; and.b64 %rd4, %rd4, -512; st.global.b32 [%rd4], 1;",
        "shfl.sync.idx.b32 %r4, %r2, 0, 31, -1; st.global.b32 [%rd3], %r4;",
    ];
    for text in uses {
        assert!(is_race(&counter(text)), "{text}");
    }
}

#[test]
fn pedantic_runs_report_it_anyway() {
    let mut case = counter("st.global.b32 [%rd3], %r1;");
    case.options.pedantic = true;
    assert!(is_race(&case));
}

#[test]
fn another_race_is_not_hidden_by_a_doubt() {
    // All warps also store different numbers to one place.
    assert!(is_race(&counter("st.global.b32 [%rd2], %r1;")));
}
