//! Every program of the case table keeps the rules of launches, and its kernels those of PTX; they survive their own
//! text.

use program::Program;
use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::HashSet;

/// Every program of the table, with the name of its case.
fn programs(arch: Arch) -> impl Iterator<Item = (String, Program)> {
    cases::table().into_iter().filter_map(move |case| {
        let planned = plan(&case.problem().ok()?, arch, &PlanOptions::for_arch(arch)).ok()?;
        Some((case.name, planned.program))
    })
}

fn check_launches(name: &str, arch: Arch, program: &Program) {
    let broken = program.check().err().unwrap_or_default();
    assert!(broken.is_empty(), "{name} on {arch}: {}", broken[0]);
}

fn check(arch: Arch) {
    let mut seen = HashSet::new();
    for (name, program) in programs(arch) {
        check_launches(&name, arch, &program);
        let text = program.module.to_string();
        if !seen.insert(text.clone()) {
            continue;
        }
        let found = ptx::verify(&program.module);
        assert!(found.is_empty(), "{name} on {arch}: {}", found[0]);
        let again = ptx::parse(&text).unwrap_or_else(|e| panic!("{name} on {arch}: {e}"));
        assert!(again == *program.module, "{name} on {arch}: parse(print) differs");
    }
    assert!(seen.len() >= 10, "{arch}: {} programs", seen.len());
}

#[test]
fn hopper_kernels_obey_the_rules() {
    check(Arch::Sm90);
}

/// Those of every chip that takes the `mma.sync` family: what PTX has for one it need not have for an older one.
#[test]
fn mma_sync_kernels_obey_the_rules() {
    for arch in [Arch::Sm80, Arch::Sm86, Arch::Sm89, Arch::Sm120] {
        check(arch);
    }
}

#[test]
fn blackwell_kernels_obey_the_rules() {
    check(Arch::Sm100);
}

/// The kernels are those of `sm_100a`; launches are held to the limits of another chip.
#[test]
fn blackwell_ultra_launches_obey_the_rules() {
    let checked = programs(Arch::Sm103)
        .map(|(name, program)| check_launches(&name, Arch::Sm103, &program))
        .count();
    assert!(checked >= 100, "{checked} programs");
}
