//! Builder methods that no attention kernel uses yet assemble, too.

use sixwarp_ptx::build::{Builder, CtaGroup, Reg, Target, TmemPtr, module};
use sixwarp_ptx::toolchain::assemble;

fn assembles(target: Target, emit: impl FnOnce(&mut Builder)) {
    let mut b = Builder::new("kernel", target);
    emit(&mut b);
    let text = module(target, vec![b.finish()]).to_string();
    let assembled = assemble(&text, target.name()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(assembled.report.len(), 1);
}

#[test]
fn copies_by_threads() {
    assembles(Target::Sm80, |b| {
        let from = b.param_ptr("from");
        let offset = b.reserve_shared(64, 16);
        let to = b.shared_base().plus(offset);
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
        let offset = b.reserve_shared(1024, 1024);
        let at = b.shared_base().plus(offset);
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
