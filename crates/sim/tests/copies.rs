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
