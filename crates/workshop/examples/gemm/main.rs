//! The workshop's GEMM on the simulator or on a GPU, in all its variants.
//!
//! ```text
//! cargo run --release -p sixwarp-workshop --example gemm -- --device sim --size 256 512 192
//! cargo run --release -p sixwarp-workshop --example gemm -- --device cuda --size 8192 8192 8192
//! cargo run --release -p sixwarp-workshop --example gemm -- --write DIRECTORY --size 8192 8192 8192
//! ```
//!
//! The first two check the result; `cuda` also prints times. `--write` assembles every variant for
//! `benches/gemm.py`, which measures them beside cuBLAS in one process.

mod check;
mod variants;
mod write;

use sixwarp_workshop::gemm::Shape;
use std::process::ExitCode;

const USAGE: &str =
    "gemm (--device sim|cuda | --write DIRECTORY) [--size M N K] [--processors SMS]";

/// What is asked for.
struct Request {
    action: Action,
    shape: Shape,
    processors: u32,
}

enum Action {
    Simulate,
    Run,
    Write(std::path::PathBuf),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = parse(&arguments).and_then(|request| match &request.action {
        Action::Simulate => check::simulate(&request),
        Action::Run => check::run(&request),
        Action::Write(to) => write::write(&request, to),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("gemm: {why}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Request, String> {
    let (mut action, mut shape, mut processors) = (None, Shape { m: 256, n: 512, k: 192 }, 132);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| format!("{word} needs more: {USAGE}"));
        match word {
            "--device" => action = Some(device(next()?)?),
            "--write" => action = Some(Action::Write(next()?.into())),
            "--size" => {
                shape = Shape { m: number(next()?)?, n: number(next()?)?, k: number(next()?)? }
            }
            "--processors" => processors = number(next()?)?,
            _ => return Err(format!("{word} is not known: {USAGE}")),
        }
    }
    let action = action.ok_or_else(|| format!("nothing to do: {USAGE}"))?;
    Ok(Request { action, shape, processors })
}

fn device(name: &str) -> Result<Action, String> {
    match name {
        "sim" => Ok(Action::Simulate),
        "cuda" => Ok(Action::Run),
        _ => Err(format!("device {name} is not known: {USAGE}")),
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is not a number: {USAGE}"))
}
