//! The integration with candle: a workspace of its own, whose 150 dependencies nothing else needs.

use crate::sections::{root, run_command};
use std::process::{Command, ExitCode};

/// Formats, lints and tests `integrations/candle`; what it builds goes to `target/candle`.
pub fn run() -> ExitCode {
    let steps: [&[&str]; 3] = [
        &["fmt", "--check"],
        &["clippy", "--all-targets", "--locked", "--", "-D", "warnings"],
        &["test", "--locked"],
    ];
    for step in steps {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg(step[0]).arg("--manifest-path").arg("integrations/candle/Cargo.toml");
        cargo.args(&step[1..]).env("CARGO_TARGET_DIR", root().join("target/candle"));
        if let Err(why) = run_command(cargo) {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
