//! Mistakes that the simulator does not see: docs/simulator-blind-spots.md, a test for each.
//!
//! A test here fails when its mistake is found after all. Then the page loses an entry.

mod common;

use common::Case;
use sixwarp_sim::{Error, Limits};
use std::collections::BTreeSet;

/// The kernel of `body`, whose parameter `data` is in `%rd1`, its CTA in `%r1` and thread in `%r2`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 data) {{
           .reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .pred %p<4>;
           ld.param.u64 %rd1, [data]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
           {body}
         }}"
    )
}

/// CTAs on zeros, with nothing to say about them.
fn passes(body: &str, ctas: u32, threads: u32) -> Vec<u32> {
    let case = Case::new(&kernel(body), threads).zeros(1 << 13).geometry(ctas, 1, 0);
    case.run().unwrap_or_else(|error| panic!("found after all: {error}"))
}

/// CTA 0 stores 5 and raises a flag; CTA 1 waits for the flag and loads.
fn handover(raise: &str, wait: &str, load: &str) -> String {
    format!(
        "setp.ne.u32 %p1, %r1, 0;
         @%p1 bra SECOND;
         st.global.b32 [%rd1], 5;
         {raise}
         ret;
       SECOND:
         {wait}
         {load}
         ret;"
    )
}

const LOOK: &str = "setp.eq.u32 %p2, %r4, 0; @%p2 bra SECOND;";

#[test]
fn relaxed_flags_count_as_release_and_acquire() {
    let wait = format!("ld.relaxed.gpu.global.b32 %r4, [%rd1+64]; {LOOK}");
    let raise = "st.relaxed.gpu.global.b32 [%rd1+64], 1;";
    passes(&handover(raise, &wait, "ld.global.b32 %r3, [%rd1];"), 2, 1);
}

#[test]
fn what_one_warp_of_a_cluster_acquires_all_know() {
    // Warp 0 waits for the flag; warp 1 loads later, and nothing orders the two.
    let body = "
      setp.ne.u32 %p1, %r1, 0;
      @%p1 bra SECOND;
      setp.ne.u32 %p1, %r2, 0; @%p1 ret;
      st.global.b32 [%rd1], 5; st.release.gpu.global.b32 [%rd1+64], 1;
      ret;
    SECOND:
      setp.ge.u32 %p1, %r2, 32; @%p1 bra LATER;
      ld.acquire.gpu.global.b32 %r4, [%rd1+64]; setp.eq.u32 %p2, %r4, 0; @%p2 bra SECOND;
      ret;
    LATER:
      mov.b32 %r5, 0;
    MORE:
      add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5000; @%p2 bra MORE;
      ld.global.b32 %r3, [%rd1];
      ret;";
    passes(body, 2, 64);
}

#[test]
fn strong_and_ordinary_accesses_of_clusters_do_not_race() {
    passes(&handover("", "", "ld.relaxed.gpu.global.b32 %r3, [%rd1];"), 2, 1);
}

#[test]
fn copies_of_clusters_to_one_place_are_not_compared() {
    let body = "
      .shared .align 16 .b8 tile[16]; mov.b32 %r3, tile;
      st.shared.v4.b32 [%r3], {%r1, %r1, %r1, %r1}; fence.proxy.async.shared::cta;
      cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
      ret;";
    assert!(passes(body, 2, 1)[0] < 2);
}

#[test]
fn of_a_thousand_copies_in_flight_the_first_is_forgotten() {
    // The first copies are waited for only behind the look at what one of them brings.
    let body = "
      .shared .align 16 .b8 tiles[16400]; .shared .align 8 .b64 bars[2];
      mov.b32 %r3, tiles; mov.b32 %r4, 0; mov.b32 %r5, bars; mov.b32 %r6, %r3;
      mbarrier.init.shared.b64 [%r5], 1; mbarrier.init.shared.b64 [%r5+8], 1;
      mbarrier.arrive.expect_tx.shared.b64 _, [%r5], BYTES;
    MORE:
      cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 16, [%r5];
      add.u32 %r6, %r6, 16; add.u32 %r4, %r4, 16; setp.lt.u32 %p1, %r4, BYTES; @%p1 bra MORE;
      mbarrier.arrive.expect_tx.shared.b64 _, [%r5+8], 16;
      cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 16, [%r5+8];
    LAST:
      mbarrier.try_wait.parity.shared.b64 %p2, [%r5+8], 0; @!%p2 bra LAST;
      ld.shared.b32 %r7, [%r3];
    FIRST:
      mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra FIRST;
      ret;";
    let run = |copies: u32| {
        let body = body.replace("BYTES", &(16 * copies).to_string());
        Case::new(&kernel(&body), 1).zeros(64).run()
    };
    let found = run(900).unwrap_err().to_string();
    assert!(found.starts_with("hazard[race]: read of shared memory `tiles+0x0`"), "{found}");
    run(1000).unwrap();
}

#[test]
fn a_loop_over_ordinary_loads_is_no_wait() {
    // CTA 0 waits for CTA 1.
    let wait = format!("ld.global.b32 %r4, [%rd1+64]; {LOOK}");
    let body = handover("st.global.b32 [%rd1+64], 1;", &wait, "").replace("setp.ne", "setp.eq");
    let mut case = Case::new(&kernel(&body), 1).zeros(64).geometry(2, 1, 0);
    case.options.limits = Limits { instructions: 100_000, ..Limits::default() };
    case.options.threads = 1;
    assert!(matches!(case.report(), Err(Error::Stopped(_))));
}

#[test]
fn lanes_of_a_warp_are_in_step_unless_pedantic() {
    let body = "
      .shared .align 4 .b8 words[128]; mov.b32 %r3, words; mad.lo.u32 %r4, %r2, 4, %r3;
      st.shared.b32 [%r4], %r2; xor.b32 %r5, %r2, 1; mad.lo.u32 %r5, %r5, 4, %r3;
      ld.shared.b32 %r6, [%r5];
      ret;";
    passes(body, 1, 32);
    let mut case = Case::new(&kernel(body), 32).zeros(64);
    case.options.pedantic = true;
    let error = case.run().unwrap_err().to_string();
    assert!(error.starts_with("hazard[missing-warp-sync]"), "{error}");
}

/// The names of the tests of this file, and those that the page gives.
#[test]
fn the_page_names_every_test_of_this_file() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulator-blind-spots.md");
    let page = std::fs::read_to_string(page).unwrap();
    let in_page: BTreeSet<&str> =
        page.split('`').filter_map(|word| word.strip_prefix("blind_spots::")).collect();
    let source = include_str!("blind_spots.rs").split("#[test]\nfn ").skip(1);
    let tests = source.filter_map(|test| test.split('(').next());
    let here: BTreeSet<&str> =
        tests.filter(|test| *test != "the_page_names_every_test_of_this_file").collect();
    assert_eq!(in_page, here);
}
