//! Every kernel of the case table obeys the rules of PTX and survives its own text.

use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::HashSet;

fn check(arch: Arch) {
    let mut seen = HashSet::new();
    for case in cases::table() {
        let Ok(problem) = case.problem() else { continue };
        let Ok(planned) = plan(&problem, arch, &PlanOptions::for_arch(arch)) else { continue };
        let module = &planned.program.module;
        let text = module.to_string();
        if !seen.insert(text.clone()) {
            continue;
        }
        let found = ptx::verify(module);
        assert!(found.is_empty(), "{} on {arch}: {}", case.name, found[0]);
        let again = ptx::parse(&text).unwrap_or_else(|e| panic!("{} on {arch}: {e}", case.name));
        assert!(again == **module, "{} on {arch}: parse(print) differs", case.name);
    }
    assert!(seen.len() >= 10, "{arch}: {} programs", seen.len());
}

#[test]
fn hopper_kernels_obey_the_rules() {
    check(Arch::Sm90);
}

#[test]
fn blackwell_kernels_obey_the_rules() {
    check(Arch::Sm100);
}
