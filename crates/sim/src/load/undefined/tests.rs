//! Which registers a run has to follow, by what a kernel does to them.

use crate::load::load;

const HEADER: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";
const REGISTERS: &str =
    ".reg .pred p, q; .reg .b32 a, b, c, d, i; .reg .b64 at, wide; .reg .b128 widest;";

/// The names of the watched registers of a kernel, in order.
fn watched(body: &str) -> Vec<String> {
    watched_with("", body)
}

/// The same, with functions before the kernel.
fn watched_with(functions: &str, body: &str) -> Vec<String> {
    let text = format!(
        "{HEADER}{functions}\n.visible .entry k(.param .u64 out) {{ {REGISTERS}\n\
         ld.param.u64 at, [out]; {body} }}"
    );
    let module = ptx::parse(&text).expect("the kernel parses");
    let kernel = load(&module, "k").expect("the kernel loads");
    let mut names: Vec<_> = kernel.undefined.iter().map(|(_, name)| name.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn a_kernel_that_writes_before_it_reads_has_nothing_to_follow() {
    let straight = "mov.b32 a, 1; add.u32 b, a, a; st.global.u32 [at], b;";
    assert_eq!(watched(straight), [""; 0]);
    // What is never read matters as little as what is never written.
    assert_eq!(watched("mov.b32 a, 1;"), [""; 0]);
}

#[test]
fn a_register_written_behind_its_read_is_followed() {
    assert_eq!(watched("add.u32 b, a, 1; mov.b32 a, 1; add.u32 c, a, b;"), ["a"]);
    assert_eq!(watched("add.u32 a, a, 1;"), ["a"]);
}

#[test]
fn a_loop_that_runs_at_least_once_writes_what_is_read_behind_it() {
    let body = "mov.b32 i, 0;
        L: mov.b32 a, i; add.u32 i, i, 1; setp.lt.u32 p, i, 4; @p bra L;
        st.global.u32 [at], a;";
    assert_eq!(watched(body), [""; 0]);
}

#[test]
fn a_loop_that_may_not_run_writes_nothing_for_sure() {
    let body = "ld.global.u32 i, [at]; setp.eq.u32 p, i, 0; @p bra END;
        L: mov.b32 a, i; sub.u32 i, i, 1; setp.ne.u32 p, i, 0; @p bra L;
        END: st.global.u32 [at], a;";
    assert_eq!(watched(body), ["a"]);
}

#[test]
fn what_a_loop_carries_is_unwritten_in_its_first_turn() {
    let body = "mov.b32 i, 0;
        L: add.u32 b, a, i; mov.b32 a, i; add.u32 i, i, 1; setp.lt.u32 p, i, 4; @p bra L;
        st.global.u32 [at], b;";
    assert_eq!(watched(body), ["a"]);
}

#[test]
fn a_guarded_write_is_not_for_sure() {
    let guarded = "mov.b32 i, %tid.x; setp.eq.u32 p, i, 0; @p mov.b32 a, 1;";
    assert_eq!(watched(&format!("{guarded} st.global.u32 [at], a;")), ["a"]);
    // Not even for a read under the same guard: which lanes are marked is known when it runs.
    assert_eq!(watched(&format!("{guarded} @p st.global.u32 [at], a;")), ["a"]);
    // Nor with the opposite one, though one of the two writes.
    assert_eq!(watched(&format!("{guarded} @!p mov.b32 a, 2; st.global.u32 [at], a;")), ["a"]);
}

#[test]
fn a_guard_is_read() {
    assert_eq!(watched("@p mov.b32 a, 1;"), ["p"]);
    assert_eq!(watched("@!q bra END; mov.b32 a, 1; END: exit;"), ["q"]);
}

#[test]
fn a_register_must_be_written_on_both_sides_of_a_branch() {
    let branch = |then: &str, otherwise: &str| {
        format!(
            "mov.b32 i, %tid.x; setp.lt.u32 p, i, 16; @p bra THEN; {otherwise} bra END;
             THEN: {then} END: st.global.u32 [at], a;"
        )
    };
    assert_eq!(watched(&branch("mov.b32 a, 1;", "mov.b32 a, 2;")), [""; 0]);
    assert_eq!(watched(&branch("mov.b32 a, 1;", "")), ["a"]);
    assert_eq!(watched(&branch("", "mov.b32 a, 2;")), ["a"]);
    // A side that ends the thread never reads.
    assert_eq!(watched(&branch("mov.b32 a, 1;", "exit;")), [""; 0]);
    assert_eq!(watched(&branch("mov.b32 a, 1;", "trap;")), [""; 0]);
}

#[test]
fn every_target_of_a_branch_by_index_counts() {
    let body = |second: &str| {
        format!(
            "ld.global.u32 i, [at]; TARGETS: .branchtargets X, Y; brx.idx i, TARGETS;
             X: mov.b32 a, 1; bra END; Y: {second} END: st.global.u32 [at], a;"
        )
    };
    assert_eq!(watched(&body("mov.b32 a, 2;")), [""; 0]);
    assert_eq!(watched(&body("")), ["a"]);
}

#[test]
fn a_vector_load_writes_each_of_its_registers() {
    let read = "add.u32 a, a, b; add.u32 c, c, d; st.global.u32 [at], a;";
    assert_eq!(watched(&format!("ld.global.v4.u32 {{a, b, c, d}}, [at]; {read}")), [""; 0]);
    assert_eq!(watched(&format!("ld.global.v4.u32 {{a, b, _, d}}, [at]; {read}")), ["c"]);
    assert_eq!(watched("st.global.v2.u32 [at], {a, b};"), ["a", "b"]);
}

#[test]
fn a_comparison_writes_both_of_its_predicates() {
    let both = "mov.b32 i, 0; setp.eq.u32 p|q, i, 0; @p mov.b32 a, 1; @q mov.b32 b, 1;";
    assert_eq!(watched(both), [""; 0]);
    let one = "mov.b32 i, 0; setp.eq.u32 p, i, 0; @p mov.b32 a, 1; @q mov.b32 b, 1;";
    assert_eq!(watched(one), ["q"]);
    assert_eq!(watched("mov.b32 i, 0; setp.eq.and.u32 p|q, i, 0, q;"), ["q"]);
}

#[test]
fn the_carry_flag_is_a_register() {
    let add = "mov.b32 a, 1; mov.b32 b, 2;";
    assert_eq!(watched(&format!("{add} add.cc.u32 c, a, b; addc.u32 d, a, b;")), [""; 0]);
    assert_eq!(watched(&format!("{add} addc.u32 d, a, b;")), ["CC.CF"]);
    let guarded = "setp.eq.u32 p, a, b; @p add.cc.u32 c, a, b; addc.u32 d, a, b;";
    assert_eq!(watched(&format!("{add} {guarded}")), ["CC.CF"]);
}

#[test]
fn both_halves_of_a_wide_register_count() {
    assert_eq!(watched("mov.b128 widest, {at, wide};"), ["wide"]);
    assert_eq!(watched("mov.b128 widest, {at, at}; mov.b128 {_, wide}, widest;"), [""; 0]);
    assert_eq!(watched("mov.b128 {at, wide}, widest;"), ["widest"]);
}

#[test]
fn registers_of_functions_count_where_the_functions_are_called() {
    let function = |body: &str| {
        format!(
            ".func (.param .b32 result) f(.param .b32 x) {{ .reg .b32 own, given;
             ld.param.b32 given, [x]; {body} st.param.b32 [result], own; ret; }}"
        )
    };
    let call = "{ .param .b32 x; .param .b32 y; mov.b32 a, 1; st.param.b32 [x], a;
        call.uni (y), f, (x); ld.param.b32 b, [y]; } st.global.u32 [at], b;";
    let (writes, reads) = (function("add.u32 own, given, 1;"), function(""));
    assert_eq!(watched_with(&writes, call), [""; 0]);
    assert_eq!(watched_with(&reads, call), ["own"]);
    assert_eq!(watched_with(&reads, "mov.b32 a, 1;"), [""; 0]);
}

#[test]
fn instructions_that_marks_cannot_reach_do_not_follow_them() {
    let text = format!(
        "{HEADER}.visible .entry k() {{ {REGISTERS}
         add.u32 b, a, 1; mov.b32 c, b; mov.b32 i, 1; add.u32 d, i, i; }}"
    );
    let module = ptx::parse(&text).expect("the kernel parses");
    let kernel = load(&module, "k").expect("the kernel loads");
    let follows: Vec<bool> = kernel.code.iter().map(|inst| inst.follows).collect();
    assert_eq!(follows, [true, true, false, false, false]);
}
