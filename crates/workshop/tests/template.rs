//! The files that `sixwarp new kernel` writes compile, and their test passes.
//!
//! `cargo xtask template` builds the project as a user would, outside this workspace, which takes minutes.

extern crate self as my_kernel;

/// The template's kernel is the first chapter's: a test of the command line holds them equal.
pub use sixwarp_workshop::saxpy::program;

#[path = "../../cli/src/new/simulated.rs"]
mod simulated;

#[path = "../../cli/src/new/main.rs"]
mod run;

#[test]
fn the_main_of_the_template_runs() {
    let y = run::on_simulator().expect("a run");
    assert_eq!(y[4 * 999..], (2.0f32 * 999.0 + 1.0).to_le_bytes());
    // Where there is no GPU, its absence is an error and not a panic.
    assert!(run::on_gpu().map_or_else(|why| !why.to_string().is_empty(), |on_gpu| on_gpu == y));
}
