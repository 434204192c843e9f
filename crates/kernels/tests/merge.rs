//! The kernel that merges a caller's results assembles with the real `ptxas`, without spills, and its programs keep
//! the rules of launches. What it computes is tested where there are engines.

use problem::{DType, View};
use ptx::toolchain;
use sixwarp_kernels::Arch;
use sixwarp_kernels::merge::{MOST_PARTS, Merge, merge};

#[test]
fn merges_assemble_without_spills() {
    for arch in Arch::ALL {
        for (dtype, parts, align) in [(DType::Bf16, MOST_PARTS, 16), (DType::F32, 2, 4)] {
            let view = View::bshd(dtype, [2, 8, 3, 128]);
            let program = merge(arch, &Merge { view, parts, sinks: true, align }).expect("small");
            program.check().expect("rules are kept");
            let text = program.module.to_string();
            let assembled = toolchain::assemble(&text, &arch.to_string()).expect("assembles");
            let spills =
                assembled.report.iter().map(|kernel| kernel.spill_stores.max(kernel.stack));
            assert_eq!(spills.max(), Some(0), "{dtype} in {parts} parts on {arch}");
            assert!(assembled.warnings.is_empty(), "{:?}", assembled.warnings);
        }
    }
}

#[test]
fn nothing_is_launched_for_no_rows() {
    let view = View::bshd(DType::Bf16, [0, 8, 3, 128]);
    let empty = Merge { view, parts: 2, sinks: false, align: 16 };
    assert!(merge(Arch::Sm90, &empty).expect("small").launches.is_empty());
}
