//! Every input that fuzzing kept (`fuzz/seeds`) is checked again, without a fuzzer.

#[path = "../../../fuzz/checks/files.rs"]
mod files;
#[path = "../../../fuzz/checks/layout.rs"]
mod layouts;
#[path = "../../../fuzz/checks/problem.rs"]
mod problems;
#[path = "../../../fuzz/checks/sim.rs"]
mod runs;
#[path = "../../../fuzz/checks/ptx.rs"]
mod texts;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let inputs = std::fs::read_dir(&folder).expect("seeds are kept");
    let paths: Vec<_> = inputs.map(|entry| entry.expect("a seed").path()).collect();
    assert!(!paths.is_empty(), "{target} has no seeds");
    for path in paths {
        println!("{}", path.display());
        check(&std::fs::read(path).expect("readable"));
    }
}

#[test]
fn ptx() {
    replay("ptx", texts::check);
}

#[test]
fn sim() {
    replay("sim", runs::check);
}

#[test]
fn layout() {
    replay("layout", layouts::check);
}

#[test]
fn problem() {
    replay("problem", problems::check);
}

#[test]
fn files() {
    replay("files", files::check);
}
