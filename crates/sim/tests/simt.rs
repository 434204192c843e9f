//! Plain SIMT kernels.

mod common;

use common::Case;
use sixwarp_sim::Options;

#[test]
fn vector_sum() {
    let body = "
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r1, %r2, %r3, %r1;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
  ret;
}";
    let a: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..256).map(|i| 1000.0 - 2.0 * i as f32).collect();
    let case = Case::new(body, 64).floats(&a).floats(&b).output(256).geometry(4, 1, 0);
    let out = case.run().unwrap();
    for i in 0..256 {
        assert_eq!(f32::from_bits(out[i]), a[i] + b[i]);
    }
}

#[test]
fn lanes_that_part_meet_again() {
    let body = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  mov.u32 %r1, %laneid; mov.b32 %r2, 0; mov.b32 %r3, 0;
LOOP:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra DONE;
  add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1;
  bra LOOP;
DONE:
  activemask.b32 %r4;
  ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd1, %rd1, %rd2;
  st.global.v2.u32 [%rd1], {%r2, %r4};
}";
    let out = Case::new(body, 32).output(64).run().unwrap();
    for lane in 0..32usize {
        assert_eq!(out[2 * lane] as usize, lane * lane.saturating_sub(1) / 2);
        assert_eq!(out[2 * lane + 1], u32::MAX, "all lanes are together again");
    }
}

const REDUCE: &str = "
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<6>; .reg .b32 %r<16>; .reg .pred %p<4>;
  .shared .align 4 .b32 partial[32];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3;
  ld.global.u32 %r2, [%rd3];
  shfl.sync.bfly.b32 %r3, %r2, 16, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3, %r2, 8, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3, %r2, 4, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3, %r2, 2, 31, -1; add.u32 %r2, %r2, %r3;
  shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; add.u32 %r2, %r2, %r3;
  shr.u32 %r4, %r1, 5; and.b32 %r5, %r1, 31;
  mov.u32 %r6, partial; shl.b32 %r7, %r4, 2; add.u32 %r7, %r6, %r7;
  setp.eq.u32 %p1, %r5, 0;
  @%p1 st.shared.u32 [%r7], %r2;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra END;
  ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [partial];
  add.u32 %r8, %r8, %r9; add.u32 %r10, %r10, %r11; add.u32 %r8, %r8, %r10;
  st.global.u32 [%rd2], %r8;
END:
  ret;
}";

#[test]
fn block_reduction() {
    let input: Vec<u32> = (0..128).map(|i| i * i).collect();
    let out = Case::new(REDUCE, 128).input(&input).output(1).run().unwrap();
    assert_eq!(out[0], input.iter().sum::<u32>());
}

#[test]
fn errors_name_the_line_and_the_buffer() {
    let body = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
}";
    let error = Case::new(body, 64).output(40).run().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "fault[out-of-bounds]: write of 4 bytes at offset 160 of `buffer0`, which has 160 bytes"
        ),
        "{text}"
    );
    assert!(
        text.contains("PTX line 9, CTA (0,0,0) warp 1 lane 8\n   | st.global.u32 [%rd1], %r1;"),
        "{text}"
    );
}

#[test]
fn unknown_instructions_are_told_not_skipped() {
    let body = ".visible .entry k() { .reg .b32 %r<3>; frobnicate.b32 %r1, %r2; }";
    let text = Case::new(body, 32).run().unwrap_err().to_string();
    assert!(
        text.starts_with("unsupported:") && text.contains("frobnicate.b32 %r1, %r2;"),
        "{text}"
    );
}

#[test]
fn a_barrier_nobody_else_reaches_is_explained() {
    let body = "
.visible .entry k() {
  .reg .b32 %r<3>; .reg .pred %p<2>;
  mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
  @%p1 bar.sync 1, 64;
}";
    let text = Case::new(body, 64).run().unwrap_err().to_string();
    assert!(text.contains("named barrier 1 still needs 32 of 64 threads"), "{text}");
}

/// What `cooperative_groups::this_grid().sync()` is made of.
#[test]
fn ctas_of_a_grid_meet_in_its_workspace() {
    let body = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<2>;
  mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; mov.b64 %rd1, {%r2, %r1};
  atom.global.add.u32 %r3, [%rd1+4], 1;
WAIT:
  ld.volatile.global.u32 %r4, [%rd1+4];
  setp.lt.u32 %p1, %r4, 6;
  @%p1 bra WAIT;
  ld.param.u64 %rd2, [out]; mov.u32 %r5, %ctaid.x; mad.wide.u32 %rd2, %r5, 4, %rd2;
  st.global.u32 [%rd2], %r4;
}";
    assert_eq!(Case::new(body, 1).output(6).geometry(6, 1, 0).run().unwrap(), [6; 6]);
}

/// Cooperative groups keep the barriers of tiles of several warps there.
#[test]
fn libraries_have_shared_memory_of_their_own() {
    let body = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>;
  mov.u32 %r1, %reserved_smem_offset_1;
  red.shared.add.u32 [%r1], 1;
  bar.sync 0;
  ld.shared.u32 %r2, [%r1];
  ld.param.u64 %rd1, [out]; mov.u32 %r3, %ctaid.x; mad.wide.u32 %rd1, %r3, 4, %rd1;
  st.global.u32 [%rd1], %r2;
}";
    assert_eq!(Case::new(body, 96).output(2).geometry(2, 2, 0).run().unwrap(), [96; 2]);
}

/// Two warps exchange a number per round through one word each; nothing keeps a fast one from
/// overwriting what the slow one has yet to read.
const ONE_BUFFER: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<10>; .reg .pred %p<3>;
  .shared .align 4 .b32 word[2];
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;
  mov.b32 %r3, word; shl.b32 %r4, %r2, 2; add.u32 %r5, %r3, %r4; xor.b32 %r6, %r4, 4;
  add.u32 %r6, %r3, %r6;
  mov.b32 %r7, 0; mov.b32 %r9, 0;
ROUND:
  st.shared.b32 [%r5], %r7;
  bar.sync 0;
  ld.shared.b32 %r8, [%r6];
  sub.u32 %r8, %r8, %r7; or.b32 %r9, %r9, %r8;
  mov.b32 %r8, 0;
WORK:
  add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 1000;
  @%p1 bra WORK;
  add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 4;
  @%p1 bra ROUND;
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1;
  st.global.b32 [%rd1], %r9;
}";

#[test]
fn a_random_schedule_shows_what_a_missing_barrier_does() {
    let mut case = Case::new(ONE_BUFFER, 64).output(64);
    assert!(case.run().unwrap_err().to_string().starts_with("hazard[race]"));
    case.options.checks = false;
    assert_eq!(case.run().unwrap(), [0; 64], "a kind schedule hides it");
    let mut wrong = 0;
    for seed in 0..64 {
        let random = Options::mode("random", seed).expect("a mode");
        case.options = Options { checks: false, ..random };
        wrong += u32::from(case.run().unwrap() != [0; 64]);
    }
    assert!(wrong >= 4, "{wrong} of 64 seeds let a warp oversleep");
}

/// One warp completes phase after phase; the other looks at each in turn, by parity.
const PHASES: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<10>; .reg .pred %p<4>;
  .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x; mov.b32 %r2, bar; setp.ne.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32;
  @!%p1 mbarrier.init.shared.b64 [%r2], 1;
  bar.sync 0;
  mov.b32 %r3, 0;
  @!%p2 bra LOOK;
ARRIVE:
  @!%p1 mbarrier.arrive.shared.b64 _, [%r2];
  add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 6;
  @%p3 bra ARRIVE;
  bra DONE;
LOOK:
  and.b32 %r4, %r3, 1;
AGAIN:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r2], %r4;
  @!%p3 bra AGAIN;
  add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 6;
  @%p3 bra LOOK;
DONE:
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1;
  st.global.b32 [%rd1], %r3;
}";

/// The modes, several seeds of the random one.
fn modes() -> impl Iterator<Item = (String, Options)> {
    let fixed = ["eager", "latest", "adversarial", "pedantic"].map(|mode| (mode, 0));
    fixed
        .into_iter()
        .chain((0..32).map(|seed| ("random", seed)))
        .map(|(mode, seed)| (format!("{mode} {seed}"), Options::mode(mode, seed).expect("a mode")))
}

#[test]
fn who_misses_phases_by_parity_catches_up() {
    let mut case = Case::new(PHASES, 64).output(64);
    for (mode, options) in modes().filter(|(_, options)| !options.pedantic) {
        case.options = options;
        assert_eq!(case.run().unwrap(), [6; 64], "{mode}");
    }
}

#[test]
fn who_polls_and_misses_phases_catches_up() {
    let body = PHASES.replace("try_wait", "test_wait");
    assert_eq!(Case::new(&body, 64).output(64).run().unwrap(), [6; 64]);
}

#[test]
fn who_misses_phases_catches_up_though_another_polls() {
    let declared = PHASES.replace(".b64 bar;", ".b64 bar; .shared .b32 flag;");
    let cleared = declared.replace("bar.sync 0;", "st.volatile.shared.b32 [flag], 0; bar.sync 0;");
    let watched = cleared.replace(
        "  bra DONE;",
        "WATCH: ld.volatile.shared.b32 %r5, [flag]; setp.eq.u32 %p3, %r5, 0; @%p3 bra WATCH; bra DONE;",
    );
    let body = watched.replace("DONE:\n", "  st.volatile.shared.b32 [flag], 1;\nDONE:\n");
    let mut case = Case::new(&body, 64).output(64);
    case.options = Options::mode("latest", 0).expect("a mode");
    assert_eq!(case.run().unwrap(), [6; 64]);
}

#[test]
fn who_waits_for_one_phase_too_many_is_stuck() {
    let body = PHASES.replacen("%r3, 6;", "%r3, 5;", 1);
    let mut case = Case::new(&body, 64).output(64);
    for (mode, options) in modes() {
        case.options = options;
        let error = case.run().expect_err(&mode);
        assert_eq!(error.kind(), "deadlock", "{mode}: {error}");
    }
}

#[test]
fn a_kernel_asks_whether_it_has_a_cluster() {
    let body = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p;
  mov.pred %p, %is_explicit_cluster; selp.u32 %r1, 1, 0, %p;
  ld.param.u64 %rd1, [out]; mov.u32 %r2, %ctaid.x; mad.wide.u32 %rd1, %r2, 4, %rd1;
  st.global.b32 [%rd1], %r1;
}";
    for (cluster, answer) in [(1, 0), (2, 1)] {
        let case = Case::new(body, 1).output(2).geometry(2, cluster, 0);
        assert_eq!(case.run().unwrap(), [answer; 2]);
    }
}

/// Lanes store vectors of `words` words, `stride` bytes apart, load what their neighbour stored, and leave that in
/// four words each; with `guard`, only the lower half of the lanes do.
fn shared_vectors(words: usize, stride: u32, guard: &str) -> Vec<u32> {
    let (suffix, kept, read) = match words {
        1 => ("u32", "%r4", "%r8"),
        2 => ("v2.u32", "{%r4, %r5}", "{%r8, %r9}"),
        _ => ("v4.u32", "{%r4, %r5, %r6, %r7}", "{%r8, %r9, %r10, %r11}"),
    };
    let body = format!(
        "
.visible .entry k(.param .u64 out) {{
  .reg .b64 %rd<3>; .reg .b32 %r<16>; .reg .pred %p<2>;
  .shared .align 16 .b8 buf[1024];
  mov.u32 %r1, %laneid; mov.u32 %r2, buf; mad.lo.u32 %r2, %r1, {stride}, %r2;
  xor.b32 %r12, %r1, 1; mov.u32 %r3, buf; mad.lo.u32 %r3, %r12, {stride}, %r3;
  setp.lt.u32 %p1, %r1, 16;
  mul.lo.u32 %r4, %r1, 16; add.u32 %r5, %r4, 1; add.u32 %r6, %r4, 2; add.u32 %r7, %r4, 3;
  mov.b32 %r8, 7; mov.b32 %r9, 7; mov.b32 %r10, 7; mov.b32 %r11, 7;
  {guard} st.shared.{suffix} [%r2], {kept};
  bar.warp.sync 0xFFFFFFFF;
  {guard} ld.shared.{suffix} {read}, [%r3];
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 16, %rd1;
  st.global.v4.u32 [%rd1], {{%r8, %r9, %r10, %r11}};
}}"
    );
    Case::new(&body, 32).output(128).run().unwrap()
}

#[test]
fn vectors_of_shared_memory_by_length_stride_and_guard() {
    for (words, stride) in [(1, 4), (1, 20), (2, 8), (2, 24), (4, 16), (4, 32)] {
        for (guard, lanes) in [("", 32), ("@%p1", 16)] {
            let out = shared_vectors(words, stride, guard);
            for (at, value) in out.into_iter().enumerate() {
                let (lane, word) = (at / 4, at % 4);
                let loaded = lane < lanes && word < words;
                let expected = if loaded { (lane ^ 1) * 16 + word } else { 7 };
                assert_eq!(value as usize, expected, "{words} {stride} {guard} lane {lane}");
            }
        }
    }
}
