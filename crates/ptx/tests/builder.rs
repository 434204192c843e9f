//! Builder methods that no attention kernel uses yet assemble, too; roles and shared memory keep their
//! promises.

use layout::Layout;
use layout::hw::{Major, SmemSwizzle, SmemTile};
use sixwarp_ptx::build::{
    Budget, Builder, CtaGroup, Pipeline, Reg, Roles, SharedArray, SharedTile, SharedTiles, Target,
    TmemPtr, module,
};
use sixwarp_ptx::toolchain::assemble;

fn assembles(target: Target, emit: impl FnOnce(&mut Builder)) {
    let mut b = Builder::new("kernel", target);
    emit(&mut b);
    let text = module(target, vec![b.finish()]).to_string();
    let assembled = assemble(&text, target.name()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(assembled.report.len(), 1);
}

fn tile(rows: u64) -> SmemTile {
    SmemTile::new(rows, 64, 16, Major::K, SmemSwizzle::B128).expect("a legal tile")
}

#[test]
fn copies_by_threads() {
    assembles(Target::Sm80, |b| {
        let from = b.param_ptr("from");
        let shared = b.shared_base();
        let sixteen = Layout::column_major(16).expect("a small layout");
        let to = SharedArray::<f32>::reserve(b, shared, &sixteen).at();
        b.cp_async16(to, from, None);
        let valid = b.value::<u32>(8);
        b.cp_async16(to.plus(16), from.plus(16), Some(valid));
        b.cp_async_commit();
        b.cp_async_wait(0);
        let tile = b.ldmatrix4(to, true);
        b.st_global(from, tile[0]);
    });
}

#[test]
fn tensor_stores_and_multicast() {
    assembles(Target::Sm90a, |b| {
        let map = b.param_tensor_map("map");
        let shared = b.shared_base();
        let at = SharedTile::reserve(b, shared, tile(8)).at();
        b.tma_store(map, &[0.into(), 0.into()], at);
        b.bulk_commit();
        b.bulk_wait_read(0);
        b.bulk_wait(0);
    });
}

#[test]
fn shared_to_tensor_memory() {
    assembles(Target::Sm100a, |b| {
        let (descriptor, base): (Reg<u64>, Reg<u32>) = (b.value(0), b.value(0));
        let to = TmemPtr { base, column: 0 };
        for shape in ["128x256b", "32x128b.warpx4", "64x128b.warpx2::02_13"] {
            b.tmem_copy(CtaGroup::One, shape, to, descriptor);
        }
    });
}

#[test]
fn shared_memory_is_sized_and_aligned_by_its_layouts() {
    let mut b = Builder::new("kernel", Target::Sm90a);
    let shared = b.shared_base();
    let word = SharedArray::<u32>::one(&mut b, shared);
    let ring = SharedTiles::reserve(&mut b, shared, tile(16), 3);
    let last = SharedArray::<u16>::one(&mut b, shared);
    assert_eq!(word.at().offset, 0);
    assert_eq!((ring.at().offset, ring.tile(2).at().offset), (1024, 1024 + 2 * 2048));
    assert_eq!(last.at().offset, 1024 + 3 * 2048);
    assert_eq!(b.finish().shared_bytes, 1024 + 3 * 2048 + 2);
}

#[test]
fn a_tile_knows_its_blocks() {
    let mut b = Builder::new("kernel", Target::Sm90a);
    let shared = b.shared_base();
    let wide = SmemTile::new(16, 192, 16, Major::K, SmemSwizzle::B128).expect("a legal tile");
    let tile = SharedTile::reserve(&mut b, shared, wide);
    let right = tile.blocks(1..3);
    assert_eq!((right.at().offset, right.layout().k()), (2048, 128));
    assert_eq!(tile.block(2), right.block(1));
    assert_eq!(tile.transposed().layout().k(), 16);
}

#[test]
fn the_stages_of_a_ring_share_its_tiles_evenly() {
    let mut b = Builder::new("kernel", Target::Sm90a);
    let shared = b.shared_base();
    let ring = SharedTiles::reserve(&mut b, shared, tile(16), 6);
    let pipeline = Pipeline::reserve(&mut b, shared, 3);
    let cursor = pipeline.consumer(&mut b);
    let slot = cursor.take(&mut b);
    assert_eq!(slot.tiles(&mut b, ring).count(), 2);
}

/// The text of a kernel of `warps` warps with these roles.
fn with_roles(warps: u32, declare: impl FnOnce(&mut Roles<'_>)) -> String {
    let mut b = Builder::new("kernel", Target::Sm90a);
    b.launch_bounds(32 * warps, 1);
    let warp = b.warp();
    b.roles(warp, declare);
    module(Target::Sm90a, vec![b.finish()]).to_string()
}

#[test]
fn the_last_role_needs_no_test_and_a_gap_needs_one() {
    let all = with_roles(6, |roles| {
        roles.warps(0..4, |b, _| b.nanosleep(1));
        roles.warp(4, |b| b.nanosleep(2));
        roles.warp(5, |b| b.nanosleep(3));
    });
    assert_eq!(all.matches("setp").count(), 2, "{all}");
    let gap = with_roles(6, |roles| {
        roles.warp(1, |b| b.nanosleep(1));
        roles.warps(3..5, |b, _| b.nanosleep(2));
    });
    assert_eq!(gap.matches("setp").count(), 2, "{gap}");
    assert!(gap.contains("setp.lt.u32"), "{gap}");
}

#[test]
fn every_role_moves_to_its_budget_once() {
    let text = with_roles(12, |roles| {
        roles.split_warpgroup(0, Budget::Shrunk(24), |roles| {
            roles.warp(0, |b| b.nanosleep(1));
            roles.warp(1, |b| b.nanosleep(2));
        });
        roles.warpgroups(1..3, Budget::Grown(240), |b, _| b.nanosleep(3));
    });
    assert_eq!(text.matches("setmaxnreg.dec.sync.aligned.u32 24;").count(), 1, "{text}");
    assert_eq!(text.matches("setmaxnreg.inc.sync.aligned.u32 240;").count(), 1, "{text}");
    let assembled = assemble(&text, "sm_90a").expect("assembles");
    assert!(assembled.warnings.is_empty(), "{:?}", assembled.warnings);
}

#[test]
#[should_panic(expected = "a warp has one role")]
fn a_warp_cannot_have_two_roles() {
    with_roles(6, |roles| {
        roles.warps(0..4, |b, _| b.nanosleep(1));
        roles.warp(3, |b| b.nanosleep(2));
    });
}

#[test]
#[should_panic(expected = "the roles take 864 registers of each lane more than the CTA got")]
fn budgets_that_do_not_exist_are_refused() {
    with_roles(12, |roles| {
        roles.warpgroups(0..3, Budget::Grown(240), |b, _| b.nanosleep(1));
    });
}

/// 48 + 2 · 232 are the 512 of a processor, but 384 threads get 168 each: 3 · 168 are 504.
#[test]
#[should_panic(expected = "the roles take 32 registers of each lane more than the CTA got")]
fn budgets_are_shared_out_of_what_was_given_at_launch() {
    with_roles(12, |roles| {
        roles.warpgroup(0, Budget::Shrunk(48), |b| b.nanosleep(1));
        roles.warpgroups(1..3, Budget::Grown(232), |b, _| b.nanosleep(2));
    });
}
