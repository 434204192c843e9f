//! `layout`, and the unsafe parts of `cpu`, under miri.

use crate::sections::run_command;
use std::process::{Command, ExitCode};

/// What miri runs, and its flags for it: the tests of `layout` (but for those that walk whole tiles of
/// 16384 elements through the same functions); of `cpu` those of its parts, and attention on two
/// threads over small shapes of every type and kernel, on the portable instruction set; and NEON's
/// operations, which need no machine that has them.
const RUNS: [(&[&str], &str); 3] = [
    (&["-p", "sixwarp-layout", "--lib", "--test", "algebra"], ""),
    // crossbeam-epoch, which rayon's queues are made of, keeps the rules of tree borrows, not those
    // of stacked borrows.
    (&["-p", "sixwarp-cpu", "--lib", "--test", "attention"], TREE_BORROWS),
    (
        &["-p", "sixwarp-cpu", "--lib", "--target", "aarch64-unknown-linux-gnu", "simd"],
        TREE_BORROWS,
    ),
];

const TREE_BORROWS: &str = " -Zmiri-tree-borrows";

/// Runs the tests; needs `rustup toolchain install nightly --component miri`.
pub fn run() -> ExitCode {
    for (arguments, more) in RUNS {
        let mut command = Command::new("cargo");
        // Outside the toolchain that runs this program.
        command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC");
        command.args(["+nightly", "miri", "test"]).args(arguments);
        // rayon asks for the number of cores and never stops its threads; tests want the bits that
        // hardware gives.
        let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-deterministic-floats";
        command.env("MIRIFLAGS", format!("{flags}{more}"));
        command.env("RAYON_NUM_THREADS", "2");
        if let Err(why) = run_command(command) {
            eprintln!("miri: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
