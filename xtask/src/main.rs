//! Project chores: `cargo xtask test`.

mod python;
mod sections;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test [SECTION…]   everything a change must pass; with names, only those sections
cargo xtask list              the sections of `test`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", names @ ..] => sections::run(names),
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
