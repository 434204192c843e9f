//! What instructions need of the target and the PTX version (rule 10).

use super::Report;
use super::operation::Operation;
use super::target::{Target, version_text};
use crate::resolve::Arg;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What an instruction needs of the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// This architecture or a later one.
    From(u32),
    /// The own features (`a` or `f`) of one of these.
    Own(&'static [u32]),
}
use Need::{From, Own};

/// Architectures with tensor memory.
const TENSOR_MEMORY: Need = Own(&[100, 101, 103, 110]);
/// Blackwell of every kind.
const BLACKWELL: Need = Own(&[100, 101, 103, 110, 120, 121]);
/// Register reallocation and tensor-map updates: Hopper, and Blackwell of every kind.
const HOPPER_ON: Need = Own(&[90, 100, 101, 103, 110, 120, 121]);

/// Opcode and modifiers, PTX version, architecture. Every row whose modifiers are all present
/// counts; what every supported target has is not listed.
const FEATURES: &[(&str, (u32, u32), Need)] = &[
    ("wgmma", (8, 0), Own(&[90])),
    ("setmaxnreg", (8, 0), HOPPER_ON),
    ("elect", (8, 0), From(90)),
    ("griddepcontrol", (7, 8), From(90)),
    ("mapa", (7, 8), From(90)),
    ("getctarank", (7, 8), From(90)),
    ("barrier.cluster", (7, 8), From(90)),
    ("redux", (7, 0), From(80)),
    ("redux.f32", (8, 6), Own(&[100, 101, 103])),
    ("createpolicy", (7, 4), From(80)),
    ("discard", (7, 4), From(80)),
    ("applypriority", (7, 4), From(80)),
    ("multimem", (8, 1), From(90)),
    ("bmsk", (7, 6), From(70)),
    ("szext", (7, 6), From(70)),
    // Tensor memory and its matrix unit.
    ("tcgen05", (8, 6), TENSOR_MEMORY),
    ("tcgen05.ld.red", (8, 8), Own(&[101, 103, 110])),
    ("tcgen05.mma.kind::i8", (8, 6), Own(&[100, 101, 110])),
    ("tcgen05.mma.block16", (8, 8), TENSOR_MEMORY),
    ("tcgen05.mma.block32", (8, 8), TENSOR_MEMORY),
    // Barriers.
    ("mbarrier", (7, 0), From(80)),
    ("mbarrier.shared::cta", (7, 8), From(80)),
    ("mbarrier.test_wait.parity", (7, 1), From(80)),
    ("mbarrier.try_wait", (7, 8), From(90)),
    ("mbarrier.acquire", (8, 0), From(80)),
    ("mbarrier.release", (8, 0), From(80)),
    ("mbarrier.relaxed", (8, 0), From(80)),
    ("mbarrier.try_wait.relaxed", (8, 6), From(90)),
    ("mbarrier.expect_tx", (8, 0), From(90)),
    ("mbarrier.complete_tx", (8, 0), From(90)),
    ("mbarrier.shared::cluster", (8, 0), From(90)),
    // Copies.
    ("cp.async", (7, 0), From(80)),
    ("cp.async.L2::cache_hint", (7, 4), From(80)),
    ("cp.async.bulk", (8, 0), From(90)),
    ("cp.async.bulk.cta_group::1", (8, 6), TENSOR_MEMORY),
    ("cp.async.bulk.cta_group::2", (8, 6), TENSOR_MEMORY),
    ("cp.async.bulk.tile::gather4", (8, 6), From(100)),
    ("cp.async.bulk.tile::gather4.shared::cluster", (8, 6), TENSOR_MEMORY),
    ("cp.async.bulk.tile::scatter4", (8, 6), TENSOR_MEMORY),
    ("cp.async.bulk.cp_mask", (8, 6), From(100)),
    ("tensormap.replace", (8, 3), HOPPER_ON),
    ("tensormap.cp_fenceproxy", (8, 3), From(90)),
    ("prefetch.tensormap", (8, 0), From(90)),
    ("clusterlaunchcontrol", (8, 6), From(100)),
    ("clusterlaunchcontrol.multicast::cluster::all", (8, 6), BLACKWELL),
    ("st.async", (8, 1), From(90)),
    ("red.async", (8, 1), From(90)),
    // Fences.
    ("fence.proxy", (7, 5), From(70)),
    ("fence.proxy.async", (8, 0), From(90)),
    ("fence.mbarrier_init", (8, 0), From(90)),
    ("fence.tensormap::generic", (8, 3), From(90)),
    ("fence.cluster", (7, 8), From(90)),
    // Loads, stores, atomics.
    ("ld.shared::cta", (7, 8), From(50)),
    ("st.shared::cta", (7, 8), From(50)),
    ("ld.shared::cluster", (7, 8), From(90)),
    ("st.shared::cluster", (7, 8), From(90)),
    ("ld.cluster", (7, 8), From(90)),
    ("st.cluster", (7, 8), From(90)),
    ("ld.L1::no_allocate", (7, 4), From(70)),
    ("ld.L2::128B", (7, 4), From(75)),
    ("ld.L2::256B", (7, 4), From(80)),
    ("ld.L2::cache_hint", (7, 4), From(80)),
    ("st.L2::cache_hint", (7, 4), From(80)),
    ("ld.v8", (8, 8), From(100)),
    ("st.v8", (8, 8), From(100)),
    ("ld.v4.b64", (8, 8), From(100)),
    ("ld.v4.u64", (8, 8), From(100)),
    ("st.v4.b64", (8, 8), From(100)),
    ("st.v4.u64", (8, 8), From(100)),
    ("ld.b128", (8, 3), From(70)),
    ("st.b128", (8, 3), From(70)),
    ("mov.b128", (8, 3), From(70)),
    ("atom.b128", (8, 3), From(90)),
    ("atom.bf16x2", (7, 8), From(90)),
    ("atom.v2", (8, 1), From(90)),
    ("atom.v4", (8, 1), From(90)),
    ("red.v2", (8, 1), From(90)),
    ("red.v4", (8, 1), From(90)),
    ("atom.cluster", (7, 8), From(90)),
    ("atom.shared::cluster", (7, 8), From(90)),
    ("cvta.shared::cluster", (7, 8), From(90)),
    ("cvta.param", (7, 7), From(70)),
    ("isspacep.shared::cluster", (7, 8), From(90)),
    // Matrices in registers.
    ("ldmatrix", (6, 5), From(75)),
    ("ldmatrix.m16n16", (8, 6), BLACKWELL),
    ("stmatrix", (7, 8), From(90)),
    ("stmatrix.b8", (8, 6), BLACKWELL),
    ("movmatrix", (7, 8), From(75)),
    ("mma.m16n8k8", (6, 5), From(75)),
    ("mma.bf16", (7, 0), From(80)),
    ("mma.tf32", (7, 0), From(80)),
    ("mma.m16n8k16", (7, 0), From(80)),
    ("mma.m16n8k32", (7, 0), From(80)),
    ("mma.e4m3", (8, 4), From(89)),
    ("mma.e5m2", (8, 4), From(89)),
    ("mma.kind::f8f6f4", (8, 7), Own(&[120, 121])),
    // Conversions and arithmetic.
    ("cvt.bf16x2", (7, 0), From(80)),
    ("cvt.f16x2.f32", (7, 0), From(80)),
    ("cvt.bf16", (7, 0), From(80)),
    ("cvt.tf32", (7, 0), From(80)),
    ("cvt.rn.tf32", (7, 8), From(90)),
    ("cvt.e4m3x2", (7, 8), From(89)),
    ("cvt.e5m2x2", (7, 8), From(89)),
    ("cvt.relu", (7, 0), From(80)),
    ("cvt.e2m1x2", (8, 6), BLACKWELL),
    ("cvt.e2m3x2", (8, 6), BLACKWELL),
    ("cvt.e3m2x2", (8, 6), BLACKWELL),
    ("cvt.ue8m0x2", (8, 6), BLACKWELL),
    ("cvt.rs", (8, 7), Own(&[100, 103])),
    ("add.f32x2", (8, 6), From(100)),
    ("sub.f32x2", (8, 6), From(100)),
    ("mul.f32x2", (8, 6), From(100)),
    ("fma.f32x2", (8, 6), From(100)),
    ("add.f32.f16", (8, 6), From(100)),
    ("add.f32.bf16", (8, 6), From(100)),
    ("fma.f32.f16", (8, 6), From(100)),
    ("fma.f32.bf16", (8, 6), From(100)),
    ("add.bf16", (7, 8), From(90)),
    ("add.bf16x2", (7, 8), From(90)),
    ("sub.bf16", (7, 8), From(90)),
    ("sub.bf16x2", (7, 8), From(90)),
    ("mul.bf16", (7, 8), From(90)),
    ("mul.bf16x2", (7, 8), From(90)),
    ("fma.bf16", (7, 0), From(80)),
    ("fma.bf16x2", (7, 0), From(80)),
    ("fma.relu", (7, 0), From(80)),
    ("neg.bf16", (7, 0), From(80)),
    ("neg.bf16x2", (7, 0), From(80)),
    ("abs.bf16", (7, 0), From(80)),
    ("abs.bf16x2", (7, 0), From(80)),
    ("setp.bf16", (7, 8), From(90)),
    ("add.s16x2", (8, 0), From(90)),
    ("max.s16x2", (8, 0), From(90)),
    ("max.u16x2", (8, 0), From(90)),
    ("min.relu.s32", (8, 0), From(90)),
    ("max.relu.s32", (8, 0), From(90)),
    ("max.NaN", (7, 0), From(80)),
    ("min.NaN", (7, 0), From(80)),
    ("max.f16", (7, 0), From(80)),
    ("min.f16", (7, 0), From(80)),
    ("max.bf16", (7, 0), From(80)),
    ("min.bf16", (7, 0), From(80)),
    ("max.f16x2", (7, 0), From(80)),
    ("min.f16x2", (7, 0), From(80)),
    ("max.bf16x2", (7, 0), From(80)),
    ("min.bf16x2", (7, 0), From(80)),
    ("max.xorsign", (7, 2), From(86)),
    ("tanh", (7, 0), From(75)),
    ("tanh.bf16", (7, 8), From(90)),
    ("tanh.bf16x2", (7, 8), From(90)),
    ("ex2.f16", (7, 0), From(75)),
    ("ex2.f16x2", (7, 0), From(75)),
    ("ex2.bf16", (7, 8), From(90)),
    ("ex2.bf16x2", (7, 8), From(90)),
];

/// Special registers that not every target has.
const SPECIAL_REGISTERS: &[(&str, (u32, u32), Need)] = &[
    ("%clusterid", (7, 8), From(90)),
    ("%nclusterid", (7, 8), From(90)),
    ("%cluster_", (7, 8), From(90)),
    ("%is_explicit_cluster", (7, 8), From(90)),
    ("%aggr_smem_size", (8, 1), From(90)),
];

/// A row of [`FEATURES`], its key taken apart.
struct Feature {
    key: &'static str,
    modifiers: Vec<&'static str>,
    version: (u32, u32),
    need: Need,
}

static BY_OPCODE: LazyLock<HashMap<&'static str, Vec<Feature>>> = LazyLock::new(|| {
    let mut table: HashMap<_, Vec<Feature>> = HashMap::new();
    for &(key, version, need) in FEATURES {
        let mut parts = key.split('.');
        let opcode = parts.next().unwrap_or_default();
        let feature = Feature { key, modifiers: parts.collect(), version, need };
        table.entry(opcode).or_default().push(feature);
    }
    table
});

pub(super) fn check(operation: &Operation<'_>, target: Target, report: &mut Report<'_>) {
    let mut lacking = None;
    let rows = BY_OPCODE.get(operation.opcode).map_or(&[][..], Vec::as_slice);
    for feature in rows.iter().filter(|f| f.modifiers.iter().all(|m| operation.has(m))) {
        let missing = missing(target, feature.version, feature.need);
        lacking = missing.map(|text| (feature.key, text)).or(lacking);
    }
    for (key, version, need) in computed(operation, target) {
        lacking = missing(target, version, need).map(|text| (key, text)).or(lacking);
    }
    if let Some((key, text)) = lacking {
        report(10, format!("`{key}` {text}"));
    }
}

/// Needs that do not follow from the modifiers alone.
fn computed(operation: &Operation<'_>, target: Target) -> Vec<(&'static str, (u32, u32), Need)> {
    let mut needs = Vec::new();
    if matches!(operation.opcode, "max" | "min") && operation.args().len() == 4 {
        needs.push(("a third source", (8, 8), From(100)));
    }
    // Until then, only a cluster's shared memory was a destination.
    let into_cta = operation.has("shared::cta") && !operation.has("shared::cluster");
    if operation.opcode == "cp" && operation.has("mbarrier::complete_tx::bytes") && into_cta {
        needs.push(("cp.async.bulk into shared::cta", (8, 6), From(90)));
    }
    // Ada got the conversions of fp8 later than Hopper.
    if operation.opcode == "cvt" && target.sm == 89 && operation.has_any(&["e4m3x2", "e5m2x2"]) {
        needs.push(("fp8 on sm_89", (8, 1), From(89)));
    }
    for arg in operation.args() {
        if let Arg::Special(name) = arg {
            let name = name.as_str();
            needs.extend(SPECIAL_REGISTERS.iter().filter(|(prefix, ..)| name.starts_with(prefix)));
        }
    }
    needs
}

/// What `target` lacks, in words.
fn missing(target: Target, version: (u32, u32), need: Need) -> Option<String> {
    let enough = match need {
        From(sm) => target.sm >= sm,
        Own(list) => target.accelerated && list.contains(&target.sm),
    };
    if !enough {
        return Some(format!("needs {}, the target is {target}", describe(need)));
    }
    (target.version < version).then(|| {
        format!("needs .version {}, found {}", version_text(version), version_text(target.version))
    })
}

fn describe(need: Need) -> String {
    match need {
        From(sm) => format!("sm_{sm} or later"),
        Own(list) => {
            let names: Vec<String> = list.iter().map(|sm| format!("sm_{sm}a")).collect();
            names.join(" or ")
        }
    }
}

/// Whether `target` has clusters.
pub(super) fn lacks_clusters(target: Target) -> Option<String> {
    missing(target, (7, 8), From(90))
}
