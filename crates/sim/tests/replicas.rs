//! Warps that store copies of one result to one place: equal, apart by rounding, or different.

mod common;

use common::Case;
use sixwarp_sim::{Options, Rule};

/// Two warps execute `store`; `%w` is the warp, `%f1` the same as f32, `%l` the lane, and `%a` the lane's 16 bytes of
/// shared memory from `%b` on.
fn two_warps(store: &str) -> Case {
    let body = format!(
        "
.visible .entry k(.param .u64 out) {{
  .reg .b64 %rd<4>, %o; .reg .f64 %d<3>; .reg .f32 %f<6>; .reg .b32 %r<6>, %w, %l, %a, %b; .reg .b16 %h<3>;
  .reg .pred %p, %q;
  .shared .align 16 .b8 buf[1024];
  mov.u32 %r0, %tid.x; shr.u32 %w, %r0, 5; and.b32 %l, %r0, 31;
  cvt.rn.f32.u32 %f1, %w;
  mov.b32 %b, buf; mad.lo.u32 %a, %l, 16, %b;
  ld.param.u64 %o, [out]; mad.wide.u32 %o, %l, 4, %o;
  {store}
  bar.sync 0;
  ret;
}}"
    );
    Case::new(&body, 64).output(32)
}

/// The rules that a run lets pass, or the one that ends it.
fn findings(case: &Case) -> Result<Vec<String>, String> {
    match case.report() {
        Ok(report) => Ok(report.allowed.iter().map(|a| a.finding.rule().to_owned()).collect()),
        Err(error) => Err(error.rule().to_owned()),
    }
}

/// `1 + warp * step` as f32 in `%f2`.
fn ones_apart(step: f32) -> String {
    format!("fma.rn.f32 %f2, %f1, 0f{:08X}, 0f3F800000;", step.to_bits())
}

/// How copies that are `step` apart are stored, as numbers of each kind; the steps are of their last place.
fn kinds() -> Vec<(&'static str, f32, &'static str)> {
    let (f32, f16, bf16) = (f32::EPSILON, 1.0 / 1024.0, 1.0 / 128.0);
    vec![
        ("f32", f32, "mov.b32 %r1, %f2; st.shared.b32 [%a], %r1;"),
        ("f32 of a vector", f32, "st.shared.v2.f32 [%a], {%f1, %f2};"),
        ("f32 in global memory", f32, "st.global.f32 [%o], %f2;"),
        ("pairs of f32", f32, "mov.b64 %rd1, {%f2, %f2}; st.shared.b64 [%a], %rd1;"),
        ("tf32", f16, "cvt.rna.tf32.f32 %r1, %f2; st.shared.b32 [%a], %r1;"),
        ("bf16", bf16, "cvt.rn.bf16.f32 %h1, %f2; st.shared.b16 [%a], %h1;"),
        ("f16", f16, "cvt.rn.f16.f32 %h1, %f2; st.shared.b16 [%a], %h1;"),
        ("bf16x2", bf16, "cvt.rn.bf16x2.f32 %r1, %f2, %f2; st.shared.b32 [%a], %r1;"),
        ("f16x2", f16, "cvt.rn.f16x2.f32 %r1, %f2, %f2; st.shared.b32 [%a], %r1;"),
        (
            "packed bf16",
            bf16,
            "cvt.rn.bf16.f32 %h1, %f2; mov.b32 %r1, {%h1, %h1};
             selp.b32 %r1, %r1, 0, %q; st.shared.b32 [%a], %r1;",
        ),
        (
            "shuffled f32",
            f32,
            "mov.b32 %r1, %f2; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; st.shared.b32 [%a], %r2;",
        ),
        (
            "matrices of bf16",
            bf16,
            "cvt.rn.bf16x2.f32 %r1, %f2, %f2;
             stmatrix.sync.aligned.m8n8.x4.shared.b16 [%a], {%r1, %r1, %r1, %r1};",
        ),
        (
            "f32 behind a loop over lanes",
            f32,
            "mov.b32 %r1, %f2; setp.eq.u32 %p, %l, 3; @%p st.shared.b32 [%b], %r1;",
        ),
    ]
}

#[test]
fn copies_apart_by_rounding_are_listed_and_no_race() {
    for (what, step, store) in kinds() {
        // A store of a vector holds the warp's number itself, which is no rounding.
        let store = store.replace("{%f1, %f2}", "{%f2, %f2}");
        let store = format!("setp.eq.u32 %q, 0, 0; {}{store}", ones_apart(step));
        let mut case = two_warps(&store);
        assert_eq!(findings(&case), Ok(vec!["unequal-replicas".to_owned()]), "{what}");
        case.options.allow = vec![Rule::Race];
        assert_eq!(findings(&case), Ok(vec!["unequal-replicas".to_owned()]), "{what}");
        case.options = Options { pedantic: true, ..Options::default() };
        assert_eq!(findings(&case), Err("unequal-replicas".to_owned()), "{what}");
    }
}

#[test]
fn copies_further_apart_race() {
    for (what, step, store) in kinds() {
        let far = if what.contains("f32") && !what.contains("tf32") { 17.0 } else { 2.0 };
        let store = format!("setp.eq.u32 %q, 0, 0; {}{store}", ones_apart(far * step));
        assert_eq!(findings(&two_warps(&store)), Err("race".to_owned()), "{what}");
    }
}

#[test]
fn what_is_no_number_is_not_rounded() {
    for (what, store) in [
        ("integers", "add.u32 %r1, %w, 1000; st.shared.b32 [%a], %r1;"),
        ("large integers", "add.u32 %r1, %w, 0x3F800000; st.shared.b32 [%a], %r1;"),
        ("integers of 16 bits", "cvt.u16.u32 %h1, %w; st.shared.b16 [%a], %h1;"),
        ("the warp itself", "st.shared.b32 [%a], %w;"),
        ("NaN and infinity", "mul.f32 %f2, %f1, 0f7F800000; st.shared.f32 [%a], %f2;"),
        (
            "fp8",
            "fma.rn.f32 %f2, %f1, 0f3E000000, 0f3F800000; cvt.rn.satfinite.e4m3x2.f32 %h1, %f2, %f2;
             st.shared.b16 [%a], %h1;",
        ),
        (
            "an integer in one way, a number in another",
            "fma.rn.f32 %f2, %f1, 0f34000000, 0f3F800000; mov.b32 %r1, %f2; setp.eq.u32 %p, %w, 7;
             @%p add.u32 %r1, %r1, 1; st.shared.b32 [%a], %r1;",
        ),
        (
            "different instructions",
            "fma.rn.f32 %f2, %f1, 0f34000000, 0f3F800000; setp.eq.u32 %p, %w, 0;
             @%p st.shared.f32 [%a], %f2; @!%p st.shared.f32 [%a], %f2;",
        ),
    ] {
        assert_eq!(findings(&two_warps(store)), Err("race".to_owned()), "{what}");
    }
}

/// What counts is what the warp's instruction leaves: the last lane's value.
#[test]
fn lanes_that_store_to_one_place_are_one_store() {
    for (what, store, listed) in [
        ("the same lanes", "st.shared.b32 [%b], %l;", vec![]),
        ("the same values", "mov.b32 %r1, 7; st.shared.v4.b32 [%a], {%r1, %l, %r1, %l};", vec![]),
        ("matrix rows", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%b], {%l};", vec![]),
        (
            "other lanes last",
            "xor.b32 %r1, %l, %w; and.b32 %r1, %r1, 1; cvt.rn.f32.u32 %f2, %r1;
             fma.rn.f32 %f2, %f2, 0f34000000, 0f3F800000; st.shared.f32 [%b], %f2;",
            vec!["unequal-replicas".to_owned()],
        ),
    ] {
        assert_eq!(findings(&two_warps(store)), Ok(listed), "{what}");
    }
}
