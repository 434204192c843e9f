//! Assembles the `mma.sync` kernels of the case table and of measured shapes, for every chip they are for:
//! `assembles [--part] [ARCH…] [GLOB…]`, the globs being of names of cases. Prints registers and spills of every
//! program, and fails if one spills. Chips with kernels of their own take these for e4m3 keys.
//!
//! All of them take minutes. Tests assemble a part, which `--part` names too: each kernel for each chip
//! (`tests/common/mma_sync.rs`).

#[path = "../tests/common/mma_sync.rs"]
mod mma_sync;

use cases::matches_glob;
use mma_sync::{candidates, part, targets};
use sixwarp_kernels::Arch;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--part");
    let (archs, globs): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|name| name.parse::<Arch>().is_ok());
    let asked = |arch: &Arch| archs.is_empty() || archs.iter().any(|n| n.parse() == Ok(*arch));
    let named = |name: &str| globs.is_empty() || globs.iter().any(|g| matches_glob(g, name));
    let archs: Vec<Arch> = Arch::ALL.into_iter().filter(asked).collect();
    let all = |&arch: &Arch| candidates(arch).into_iter().map(move |c| (arch, c));
    let chosen: Vec<_> = match flags.is_empty() {
        true => archs.iter().flat_map(all).collect(),
        false => part(&archs),
    };
    let (mut programs, mut failures) = (0, 0);
    for (arch, candidate) in chosen.iter().filter(|(_, candidate)| named(&candidate.name)) {
        for target in targets(*arch, &candidate.text) {
            programs += 1;
            failures += usize::from(!assembles(&target, &candidate.name, &candidate.text));
        }
    }
    println!("{failures} of {programs} programs spill or do not assemble");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a program has machine code without spills; says what it takes.
fn assembles(target: &str, name: &str, text: &str) -> bool {
    let assembled = match ptx::toolchain::assemble(text, target) {
        Ok(assembled) => assembled,
        Err(error) => {
            println!("{target} {name}: {error}");
            return false;
        }
    };
    for k in &assembled.report {
        println!(
            "{target} {name} {}: {} registers, {} bytes spilled",
            k.name, k.registers, k.spill_stores
        );
    }
    assembled.report.iter().all(|k| k.spill_stores == 0)
}
