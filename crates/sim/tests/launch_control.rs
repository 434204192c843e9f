//! Who gets the clusters that `clusterlaunchcontrol.try_cancel` takes off the grid.

mod common;

use common::Case;
use sixwarp_sim::Options;

/// `out[tile]` is the CTA that did the tile; a CTA begins with its own.
const KERNEL: &str = "
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>; .reg .b128 %response;
  .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %r1; mov.b32 %r3, answer; mov.b32 %r4, bar; mov.b32 %r5, 0;
  mbarrier.init.shared.b64 [%r4], 1;
TILE:
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r4];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r4], %r5;
  @!%p1 bra WAIT;
  xor.b32 %r5, %r5, 1;
  ld.shared.b128 %response, [%r3];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %response;
  @%p2 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r2, %response;
  fence.proxy.async.shared::cta;
  @%p2 bra TILE;
  ret;
}";

const TILES: usize = 200;

fn owners(mode: &str, seed: u64) -> Vec<u32> {
    let mut case = Case::new(KERNEL, 1).output(TILES).geometry(TILES as u32, 1, 0);
    case.options = Options::mode(mode, seed).unwrap();
    case.run().unwrap()
}

#[test]
fn resident_clusters_share_what_is_left() {
    let owners = owners("eager", 0);
    let of = |cta: u32| owners.iter().filter(|owner| **owner == cta).count();
    assert!(of(0) > 5 && of(1) > 5 && of(0) + of(1) == TILES, "{owners:?}");
}

#[test]
fn a_machine_that_refuses_launches_every_cluster() {
    assert_eq!(owners("adversarial", 0), (0..TILES as u32).collect::<Vec<_>>());
}

#[test]
fn a_seed_means_one_run_in_which_some_are_granted() {
    let first = owners("random", 5);
    assert_eq!(first, owners("random", 5));
    let own = first.iter().zip(0..).filter(|(owner, tile)| **owner == *tile).count();
    assert!((2..TILES - 1).contains(&own), "{first:?}");
}
