//! A hash of every program of the table of cases, on every architecture: `cargo xtask ptx-hash`.
//!
//! A line names an architecture, a case and a choice of options, and has two hashes: of the PTX without `.loc`
//! lines, and of everything else (buffers, launches, arguments). With a file of such lines, only those that
//! differ are printed, and the exit code says whether any does.

use sixwarp_kernels::{Arch, FewHeads, PlanOptions, RowBlocks, Split, plan};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;

fn main() -> ExitCode {
    let now = hashes();
    let Some(path) = std::env::args().nth(1) else {
        now.iter().for_each(|(name, hashes)| println!("{name} {hashes}"));
        return ExitCode::SUCCESS;
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => compare(&parse(&text), &now),
        Err(why) => {
            eprintln!("{path}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Hashes by architecture, case and choice.
type Hashes = BTreeMap<String, String>;

fn hashes() -> Hashes {
    let mut hashes = Hashes::new();
    for case in cases::table() {
        let Ok(problem) = case.problem() else { continue };
        for arch in Arch::ALL {
            for (choice, options) in choices(arch) {
                let value = match plan(&problem, arch, &options) {
                    Ok(plan) => hash(&plan.program),
                    Err(_) => "declined".to_owned(),
                };
                hashes.insert(format!("{arch} {} {choice}", case.name), value);
            }
        }
    }
    hashes
}

/// What a planner is asked for: the whole chip, few processors, parts, one block of rows, and on Hopper the kernel
/// for few heads.
fn choices(arch: Arch) -> Vec<(&'static str, PlanOptions)> {
    let usual = PlanOptions::for_arch(arch);
    let mut choices = vec![
        ("usual", usual),
        ("few", PlanOptions { processors: 6, ..usual }),
        ("parts", PlanOptions { split: Split::Every { keys: 128 }, ..usual }),
        ("one-block", PlanOptions { row_blocks: RowBlocks::One, split: Split::Never, ..usual }),
    ];
    if arch == Arch::Sm90 {
        choices.push(("few-heads", PlanOptions { few_heads: FewHeads::Always, ..usual }));
    }
    choices
}

fn hash(program: &program::Program) -> String {
    let text = program.module.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !is_place(line));
    let ptx = of(|hasher| lines.for_each(|line| line.hash(hasher)));
    let rest = of(|hasher| {
        format!("{:?} {:?}", program.buffers, program.launches).hash(hasher);
    });
    format!("{ptx:016x} {rest:016x}")
}

/// Whether a line says where in the source something was emitted, or separates such lines.
fn is_place(line: &str) -> bool {
    line.is_empty() || line.starts_with(".loc") || line.starts_with(".file")
}

fn of(feed: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    feed(&mut hasher);
    hasher.finish()
}

fn parse(text: &str) -> Hashes {
    let split = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let name: Vec<_> = words.by_ref().take(3).collect();
        (name.join(" "), words.next().unwrap_or_default().to_owned())
    };
    text.lines().filter(|line| !line.is_empty()).map(split).collect()
}

fn compare(before: &Hashes, now: &Hashes) -> ExitCode {
    let names: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let shown = |hashes: &Hashes, name: &str| hashes.get(name).cloned().unwrap_or("none".into());
    let mut different = 0;
    for name in names.iter().filter(|name| before.get(**name) != now.get(**name)) {
        println!("{name}: {} -> {}", shown(before, name), shown(now, name));
        different += 1;
    }
    println!("{different} of {} programs differ", names.len());
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
