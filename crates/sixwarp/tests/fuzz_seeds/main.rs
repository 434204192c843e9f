//! Every input that fuzzing kept (`fuzz/seeds`) is checked again, without a fuzzer.

#[path = "../../../../fuzz/checks/files.rs"]
mod files;
#[path = "../../../../fuzz/checks/layout.rs"]
mod layouts;
#[path = "../../../../fuzz/checks/problem.rs"]
mod problems;
#[path = "../../../../fuzz/checks/sim.rs"]
mod runs;
#[path = "../../../../fuzz/checks/ptx.rs"]
mod texts;

mod archive;

use std::path::Path;

fn replay(target: &str, least: usize, check: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = archive::entries(&seeds.join(target).with_extension("tar"));
    assert!(entries.len() >= least, "{target} has {} seeds, and had {least}", entries.len());
    for (name, bytes) in entries {
        println!("{target}/{name}");
        check(&bytes);
    }
}

#[test]
fn ptx() {
    replay("ptx", 243, texts::check);
}

#[test]
fn sim() {
    replay("sim", 23, runs::check);
}

#[test]
fn layout() {
    replay("layout", 357, layouts::check);
}

#[test]
fn problem() {
    replay("problem", 215, problems::check);
}

#[test]
fn files() {
    replay("files", 7, files::check);
}
