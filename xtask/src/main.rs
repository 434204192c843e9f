//! Project chores: `cargo xtask test`, `cargo xtask ptx-hash`, `cargo xtask miri`, `cargo xtask asan`,
//! `cargo xtask candle`, `cargo xtask cuda`, `cargo xtask template`, `cargo xtask vllm`, `cargo xtask public-api`,
//! `cargo xtask aarch64`, `cargo xtask book`, `cargo xtask numba`, `cargo xtask tutorials`.

mod aarch64;
mod asan;
mod book;
mod candle;
mod cuda;
mod miri;
mod numba;
mod public_api;
mod python;
mod sections;
mod template;
mod tutorials;
mod vllm;

use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test [SECTION…]   everything a change must pass; with names, only those sections
cargo xtask list              the sections of `test`
cargo xtask ptx-hash [FILE]   a hash of every program of the table of cases, on every architecture, without
                              `.loc`; with a FILE of such hashes, those that differ (before and after a move)
cargo xtask miri              layout, and the unsafe parts of cpu, under miri (a nightly toolchain with miri)
cargo xtask candle            the integration with candle (integrations/candle), which `test` leaves out; its CUDA
                              path on the simulator (130 MB of NVIDIA's compiler)
cargo xtask cuda              a CUDA C++ program that nvcc has built, on the simulator (130 MB; a C++ compiler)
cargo xtask numba             kernels of numba-cuda and NVRTC on the simulator (700 MB)
cargo xtask tutorials [all] [CLONE]
                              Triton's own tutorials on the simulator, the quick ones or all; CLONE is Triton's
                              repository, which is fetched otherwise (1 GB)
cargo xtask vllm [CHECK…]     the plug-ins for vLLM and SGLang beside the engines themselves, on the CPU (4 GB, 15 min)
cargo xtask template          what `sixwarp new kernel` writes, built and tested outside this workspace (minutes)
cargo xtask public-api        whether the public items of a library changed (xtask/api); --update accepts it
cargo xtask aarch64           the CPU engine's tests as an aarch64 program, under qemu
cargo xtask book [FOLDER]     the pages under docs/ as a site with a search, in target/book
cargo xtask asan              the C interface under AddressSanitizer (a nightly toolchain, on Linux)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", names @ ..] => sections::run(names),
        ["ptx-hash", file @ ..] => ptx_hash(file),
        ["miri"] => miri::run(),
        ["asan"] => asan::run(),
        ["book"] => book::run(None),
        ["book", folder] => book::run(Some(folder)),
        ["aarch64"] => aarch64::run(),
        ["candle"] => candle::run(),
        ["cuda"] => cuda::run(),
        ["numba"] => numba::run(),
        ["tutorials", rest @ ..] => tutorials::run(rest),
        ["vllm", files @ ..] => vllm::run(files),
        ["template"] => template::run(),
        ["public-api"] => public_api::run(false),
        ["public-api", "--update"] => public_api::run(true),
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

/// Hashes every program; `file`, where there is one, has the hashes from before.
fn ptx_hash(file: &[&str]) -> ExitCode {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "-p", "sixwarp-kernels", "--example", "ptx_hash", "--"]);
    match command.args(file).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cargo: {why}");
            ExitCode::FAILURE
        }
    }
}
