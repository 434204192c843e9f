//! Project chores: `cargo xtask test`, `cargo xtask miri`, `cargo xtask asan`.

mod asan;
mod miri;
mod python;
mod sections;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test [SECTION…]   everything a change must pass; with names, only those sections
cargo xtask list              the sections of `test`
cargo xtask miri              layout, and the unsafe parts of cpu, under miri (a nightly toolchain with miri)
cargo xtask asan              the C interface under AddressSanitizer (a nightly toolchain, on Linux)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", names @ ..] => sections::run(names),
        ["miri"] => miri::run(),
        ["asan"] => asan::run(),
        ["list"] => {
            sections::ALL
                .iter()
                .for_each(|section| println!("{:8} {}", section.name, section.what));
            ExitCode::SUCCESS
        }
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [other, ..] => {
            eprint!("there is no `{other}`:\n{HELP}");
            ExitCode::FAILURE
        }
    }
}
