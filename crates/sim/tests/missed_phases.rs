//! Waits that look when their phase and the next one are complete.

mod common;

use common::Case;

/// Warp 0 completes phases 0, 1 and 2 of `full`; then warp 1 waits for phase 1 and executes `then`.
fn late_warp(wait: &str, then: &str) -> Case {
    let body = format!(
        "
.visible .entry k(.param .u64 out) {{
  .reg .b64 %rd<2>; .reg .b32 %r<6>; .reg .pred %p<4>;
  .shared .align 8 .b64 full; .shared .align 8 .b64 never;
  mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.ge.u32 %p2, %r1, 32;
  mov.b32 %r2, full; mov.b32 %r3, never;
  @%p1 mbarrier.init.shared.b64 [%r2], 1;
  @%p1 mbarrier.init.shared.b64 [%r3], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.shared.b64 _, [%r2];
  @%p1 mbarrier.arrive.shared.b64 _, [%r2];
  @%p1 mbarrier.arrive.shared.b64 _, [%r2];
  bar.sync 0;
  @!%p2 bra DONE;
LATE:
  mbarrier.{wait}.parity.shared.b64 %p3, [%r2], 1;
  @!%p3 bra LATE;
  {then}
DONE:
  ld.param.u64 %rd1, [out];
  @%p1 st.global.b32 [%rd1], 7;
  ret;
}}"
    );
    Case::new(&body, 64).output(1)
}

#[test]
fn a_late_warp_is_let_go_and_the_report_says_so() {
    for wait in ["try_wait", "test_wait"] {
        let report = late_warp(wait, "").report().unwrap();
        let [note] = &report.notes[..] else { panic!("{wait}: {:?}", report.notes) };
        assert!(
            note.starts_with("a waiter missed its phase: mbarrier `full` completed phase 1 and ")
        );
    }
}

#[test]
fn by_the_strictest_rules_a_missed_phase_is_a_deadlock() {
    for wait in ["try_wait", "test_wait"] {
        let mut case = late_warp(wait, "");
        case.options.pedantic = true;
        let text = case.report().unwrap_err().to_string();
        let cause =
            "deadlock: CTA (0,0,0) warp 1 missed its phase: mbarrier `full` completed phase 1";
        assert!(text.starts_with(cause), "{wait}: {text}");
    }
}

#[test]
fn a_deadlock_behind_a_missed_phase_names_it_first() {
    let wait = "STUCK: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra STUCK;";
    for how in ["try_wait", "test_wait"] {
        let error = late_warp(how, wait).report().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(
            "deadlock: CTA (0,0,0) warp 1 missed its phase: mbarrier `full` completed phase 1 and the next one \
             before the warp looked"
        ), "{text}");
        assert!(
            text.contains("\n  1 warp waits for phase 0 (parity 0) of mbarrier `never`: "),
            "{text}"
        );
        assert_eq!(error.line(), Some(19), "the wait that came too late");
    }
}

/// Lane 0 completes and sees three phases before the other lanes of its warp look at the second.
#[test]
fn lanes_miss_phases_that_another_lane_of_their_warp_saw() {
    for wait in ["try_wait", "test_wait"] {
        let body = format!(
            "
.visible .entry k(.param .u64 out) {{
  .reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %p<4>;
  .shared .align 8 .b64 full;
  mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.b32 %r2, full;
  @%p1 mbarrier.init.shared.b64 [%r2], 1;
  bar.warp.sync 0xFFFFFFFF;
  @!%p1 bra OTHERS;
  mbarrier.arrive.shared.b64 _, [%r2];
W0: mbarrier.{wait}.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W0;
  mbarrier.arrive.shared.b64 _, [%r2];
W1: mbarrier.{wait}.parity.shared.b64 %p3, [%r2], 1; @!%p3 bra W1;
  mbarrier.arrive.shared.b64 _, [%r2];
W2: mbarrier.{wait}.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W2;
  bra DONE;
OTHERS:
  mbarrier.{wait}.parity.shared.b64 %p3, [%r2], 1;
  @!%p3 bra OTHERS;
DONE:
  bar.warp.sync 0xFFFFFFFF;
  ld.param.u64 %rd1, [out];
  @%p1 st.global.b32 [%rd1], 7;
  ret;
}}"
        );
        let report = Case::new(&body, 32).output(1).report().unwrap();
        let [note] = &report.notes[..] else { panic!("{wait}: {:?}", report.notes) };
        assert!(
            note.starts_with("a waiter missed its phase: mbarrier `full` completed phase 1 and ")
        );
    }
}
