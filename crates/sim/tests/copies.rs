//! Copies that nobody waits for, among many others.

mod common;

use common::Case;
use sixwarp_sim::{Error, Options};

/// A copy to `first` that nobody waits for, 1000 others of which each is waited for, and a look at what the first one
/// brings.
const KERNEL: &str = "
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  .shared .align 16 .b8 first[16]; .shared .align 16 .b8 next[16]; .shared .align 8 .b64 bars[2];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.b32 %r1, first; mov.b32 %r2, next; mov.b32 %r3, bars; mov.b32 %r4, 0; mov.b32 %r5, 0;
  mbarrier.init.shared.b64 [%r3], 1; mbarrier.init.shared.b64 [%r3+8], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r3];
NEXT:
  mbarrier.arrive.expect_tx.shared.b64 _, [%r3+8], 16;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 16, [%r3+8];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r3+8], %r4;
  @!%p1 bra WAIT;
  xor.b32 %r4, %r4, 1; add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, 1000;
  @%p2 bra NEXT;
  // AWAITED
  ld.shared.b32 %r6, [%r1];
  st.global.b32 [%rd2], %r6;
  ret;
}";

const AWAIT: &str = "
LAST:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;
  @!%p1 bra LAST;";

fn run(kernel: &str, mode: &str) -> Result<Vec<u32>, Error> {
    let mut case = Case::new(kernel, 1).input(&[7; 4]).output(1);
    case.options = Options::mode(mode, 1).unwrap();
    case.run()
}

#[test]
fn a_copy_is_not_lost_from_sight_behind_many_others() {
    for mode in ["eager", "latest", "random", "adversarial"] {
        let error = run(KERNEL, mode).unwrap_err().to_string();
        assert!(
            error.starts_with("hazard[race]: read of shared memory `first+0x0`"),
            "{mode}: {error}"
        );
    }
}

#[test]
fn a_copy_that_is_waited_for_is_none() {
    let kernel = KERNEL.replace("// AWAITED", AWAIT);
    for mode in ["eager", "latest", "random", "adversarial"] {
        assert_eq!(run(&kernel, mode).unwrap(), [7], "{mode}");
    }
}

/// Two warps add four words each to the same place in global memory; then their CTA loads what `LOAD` says.
const SUMS: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  .shared .align 16 .b8 tiles[32];
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.b32 %r2, tiles;
  and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0; @%p1 bra DONE;
  shr.u32 %r4, %r1, 1; add.u32 %r4, %r4, %r2;
  st.shared.v4.b32 [%r4], {1, 2, 3, 4}; fence.proxy.async.shared::cta;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r4], 16;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
  LOAD
  ret;
}";

#[test]
fn reductions_of_two_warps_to_one_place_are_atomic() {
    for mode in ["eager", "latest", "random", "adversarial"] {
        let mut case = Case::new(&SUMS.replace("LOAD", ""), 64).zeros(4);
        case.options = Options::mode(mode, 1).unwrap();
        assert_eq!(case.run().unwrap(), [2, 4, 6, 8], "{mode}");
    }
}

#[test]
fn a_load_races_with_the_reduction_of_another_warp() {
    let error = Case::new(&SUMS.replace("LOAD", "ld.global.b32 %r5, [%rd1];"), 64).zeros(4).run();
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("hazard[race]: "), "{error}");
}

/// A `red.async` to the CTA's own shared memory.
const SUM_IN_SHARED: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  .shared .align 4 .b32 sum; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; mov.b32 %r1, sum; mov.b32 %r2, bar;
  st.shared.b32 [%r1], 4; mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 4;
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], 3, [%r2];
  WAIT
  ld.shared.b32 %r3, [%r1]; st.global.b32 [%rd1], %r3;
  ret;
}";

#[test]
fn what_red_async_leaves_is_waited_for() {
    let run = |wait: &str| Case::new(&SUM_IN_SHARED.replace("WAIT", wait), 1).output(1).run();
    let error = run("").unwrap_err().to_string();
    assert!(error.starts_with("hazard[race]: read of shared memory `sum+0x0`"), "{error}");
    let wait = "LAST: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra LAST;";
    assert_eq!(run(wait).unwrap(), [7]);
}
