//! Assembles the `mma.sync` kernels of the case table and of measured shapes, for every chip they are for:
//! `assembles [--part] [ARCH…] [GLOB…]`, the globs being of names of cases. Prints registers and spills of every
//! program, and fails if one spills. Chips with kernels of their own take these for e4m3 keys. Where kernels of sm_80 run
//! only if they are asked for, on Hopper, they may spill a few words.
//!
//! All of them take minutes. Tests assemble a part, which `--part` names too: each kernel for each chip
//! (`tests/common/mma_sync.rs`).

#[path = "../tests/common/mma_sync.rs"]
mod mma_sync;

use cases::matches_glob;
use mma_sync::{Candidate, candidates, part, targets};
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
        for (target, most) in targets(*arch, &candidate.text) {
            programs += 1;
            failures += usize::from(spills(&target, candidate) > most);
        }
    }
    println!("{failures} of {programs} programs spill or do not assemble");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The most bytes that a kernel of a program spills, and more than any if it does not assemble; says what it takes.
fn spills(target: &str, Candidate { name, text, .. }: &Candidate) -> u32 {
    let assembled = match ptx::toolchain::assemble(text, target) {
        Ok(assembled) => assembled,
        Err(error) => {
            println!("{target} {name}: {error}");
            return u32::MAX;
        }
    };
    for k in &assembled.report {
        println!(
            "{target} {name} {}: {} registers, {} bytes spilled",
            k.name, k.registers, k.spill_stores
        );
    }
    assembled.report.iter().map(|k| k.spill_stores).max().unwrap_or(u32::MAX)
}
