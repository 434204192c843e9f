//! Clusters and what they do to the same global memory, on any number of host threads.

mod common;

use common::Case;
use sixwarp_sim::{Options, Report};

/// The kernel of `body`, whose parameter `data` is in `%rd1`, its CTA in `%r1` and thread in `%r2`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 data) {{
           .reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .b16 %h<4>; .reg .pred %p<4>;
           ld.param.u64 %rd1, [data]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
           {body}
         }}"
    )
}

/// `clusters` CTAs of one thread on 64 words of zeros.
fn case(body: &str, clusters: u32, mode: &str) -> Case {
    let mut case = Case::new(&kernel(body), 1).zeros(64).geometry(clusters, 1, 0);
    case.options = Options::mode(mode, 7).unwrap();
    case
}

/// What a run gives on so many host threads, all of it.
fn told(case: &mut Case, threads: usize) -> Result<Report, String> {
    case.options.threads = threads;
    case.report().map_err(|error| error.to_string())
}

/// The same for one to many host threads, several times; fails if they differ.
fn always(mut case: Case) -> Result<Report, String> {
    let first = told(&mut case, 1);
    for threads in [2, 3, 8, 0, 2, 8] {
        let again = told(&mut case, threads);
        assert_eq!(format!("{again:?}"), format!("{first:?}"), "{threads} threads");
    }
    first
}

fn race(case: Case) -> String {
    let error = always(case).expect_err("the clusters race");
    assert!(error.starts_with("hazard[race]: "), "{error}");
    error
}

/// Thread 0 of CTA 0 stores 5, and CTA 1 loads it, both behind what is in place of `SIGNAL` and `WAIT`.
const HANDOVER: &str = "
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra SECOND;
  st.global.b32 [%rd1], 5;
  SIGNAL
  ret;
SECOND:
  WAIT
  ld.global.b32 %r3, [%rd1]; st.global.b32 [%rd1+4], %r3;
  ret;";

const RELEASE: &str = "st.release.gpu.global.b32 [%rd1+64], 1;";
const ACQUIRE: &str =
    "ld.acquire.gpu.global.b32 %r4, [%rd1+64]; setp.eq.u32 %p2, %r4, 0; @%p2 bra SECOND;";

fn handover(signal: &str, wait: &str) -> String {
    HANDOVER.replace("SIGNAL", signal).replace("WAIT", wait)
}

#[test]
fn a_flag_with_release_and_acquire_orders_clusters() {
    for mode in ["eager", "latest", "random", "adversarial"] {
        let report = always(case(&handover(RELEASE, ACQUIRE), 2, mode)).unwrap();
        assert_eq!(report.buffers[0][4..8], [5, 0, 0, 0], "{mode}");
    }
}

#[test]
fn counters_order_clusters() {
    let signal = "fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [%rd1+64], 1;";
    let wait = "atom.relaxed.gpu.global.add.u32 %r4, [%rd1+64], 0; setp.eq.u32 %p2, %r4, 0; @%p2 bra SECOND;";
    let report = always(case(&handover(signal, wait), 2, "random")).unwrap();
    assert_eq!(report.buffers[0][4..8], [5, 0, 0, 0]);
}

#[test]
fn a_fence_elsewhere_orders_nothing() {
    for elsewhere in [
        "fence.acq_rel.gpu;",
        "membar.gl;",
        "atom.global.add.u32 %r5, [%rd1+128], 1;",
        ACQUIRE_ANOTHER,
    ] {
        let error = race(case(&handover(elsewhere, ""), 2, "eager"));
        assert!(error.contains("which cluster 0 also wrote"), "{elsewhere}: {error}");
    }
}

const ACQUIRE_ANOTHER: &str = "ld.acquire.gpu.global.b32 %r5, [%rd1+192];";

#[test]
fn a_flag_that_comes_before_the_data_orders_nothing() {
    let early = HANDOVER
        .replace("st.global.b32 [%rd1], 5;", "")
        .replace("SIGNAL", &format!("{RELEASE} st.global.b32 [%rd1], 5;"));
    let error = race(case(&early.replace("WAIT", ACQUIRE), 2, "eager"));
    assert!(error.contains("read of `buffer0` byte 0, which cluster 0 also wrote"), "{error}");
    assert!(error.contains("the other write:") && error.contains("CTA (0,0,0) warp 0"), "{error}");
}

#[test]
fn a_write_behind_a_read_is_a_race_too() {
    let body = "
      setp.ne.u32 %p1, %r1, 0;
      @%p1 st.global.b32 [%rd1+8], 9;
      @!%p1 ld.global.b32 %r3, [%rd1+8];
      ret;";
    let error = race(case(body, 2, "eager"));
    assert!(error.contains("write of `buffer0` byte 8, which cluster 0 also read"), "{error}");
}

#[test]
fn bytes_of_one_word_belong_to_different_clusters() {
    let body = "
      cvt.u64.u32 %rd2, %r1; add.s64 %rd3, %rd1, %rd2; cvt.u16.u32 %h1, %r1;
      st.global.b8 [%rd3], %h1; ld.global.b8 %h2, [%rd3];
      ret;";
    let report = always(case(body, 8, "eager")).unwrap();
    assert_eq!(report.buffers[0][..8], [0, 1, 2, 3, 4, 5, 6, 7]);
    let overlap = body.replace("ld.global.b8 %h2, [%rd3];", "ld.global.b8 %h2, [%rd1];");
    assert!(race(case(&overlap, 8, "eager")).contains("byte 0, which cluster 0 also wrote"));
}

#[test]
fn clusters_may_store_the_same_but_not_different_values() {
    let same = always(case("st.global.b32 [%rd1], 3; ret;", 8, "eager")).unwrap();
    assert_eq!(same.buffers[0][..4], [3, 0, 0, 0]);
    let error = race(case("st.global.b32 [%rd1], %r1; ret;", 8, "eager"));
    assert!(error.contains("write of `buffer0` byte 0, which cluster 0 also wrote"), "{error}");
}

#[test]
fn copies_of_clusters_race_as_well() {
    let body = "
      .shared .align 16 .b8 tile[16]; mov.b32 %r3, tile; setp.ne.u32 %p1, %r1, 0;
      @%p1 bra READ;
      st.shared.v4.b32 [%r3], {1, 2, 3, 4}; fence.proxy.async.shared::cta;
      cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
      ret;
    READ:
      ld.global.b32 %r4, [%rd1+12];
      ret;";
    let error = race(case(body, 2, "eager"));
    assert!(error.contains("byte 12, which cluster 0 also wrote"), "{error}");
}

#[test]
fn tickets_are_drawn_in_one_order() {
    let body = "
      atom.global.add.u32 %r3, [%rd1], 1;
      mad.wide.u32 %rd2, %r3, 4, %rd1; st.global.b32 [%rd2+4], %r1;
      ret;";
    for mode in ["eager", "random"] {
        always(case(body, 40, mode)).unwrap();
    }
}

#[test]
fn the_first_cluster_that_fails_is_reported() {
    // Cluster n runs 40 - n times around a loop, and those from 5 on fail: the later, the sooner.
    let body = "
      sub.u32 %r3, 40, %r1; mul.lo.u32 %r3, %r3, 100;
    MORE:
      sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra MORE;
      setp.ge.u32 %p2, %r1, 5;
      @%p2 trap;
      ret;";
    let error = always(case(body, 40, "random")).unwrap_err();
    assert!(error.starts_with("fault[trap]") && error.contains("CTA (5,0,0)"), "{error}");
}

#[test]
fn what_is_allowed_is_counted_alike() {
    let body = "
      mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.b32 %r3, [%rd2+4096];
      @%p1 st.global.b32 [%rd2], %r3;
      ret;";
    let mut case = case(body, 40, "random");
    case.options.allow =
        vec!["out-of-bounds".parse().unwrap(), "uninitialised-register".parse().unwrap()];
    let report = always(case).unwrap();
    assert_eq!(report.allowed.iter().map(|allowed| allowed.times).collect::<Vec<_>>(), [40, 40]);
}

#[test]
fn a_deadlock_is_found_on_any_number_of_threads() {
    let body = "
      .shared .align 8 .b64 bar; mov.b32 %r3, bar;
      mbarrier.init.shared.b64 [%r3], 2;
      mbarrier.arrive.shared.b64 %rd2, [%r3];
    WAIT:
      mbarrier.test_wait.parity.shared.b64 %p1, [%r3], 0;
      @!%p1 bra WAIT;
      ret;";
    for mode in ["eager", "random"] {
        let error = always(case(body, 8, mode)).unwrap_err();
        assert!(error.starts_with("deadlock"), "{error}");
    }
}
