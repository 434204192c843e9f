//! `cargo xtask tutorials`: Triton's own tutorials, unmodified, under `sixwarp check`.

use crate::sections::{root, run_command};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Beside torch, which `python/tests/install_torch.py` installs.
const PACKAGES: [&str; 4] = ["triton==3.9.0", "numpy", "pytest", "tabulate"];
const REPOSITORY: &str = "https://github.com/triton-lang/triton";
/// Of 2026-08-22.
const COMMIT: &str = "f4fca2c0bc0e19930d2be76bb06ee7b232b60e86";

/// One run of a tutorial.
struct Tutorial {
    /// The file, below `python/tutorials`.
    file: &'static str,
    device: &'static str,
    how: How,
    findings: u32,
    /// Whether it takes less than half a minute of a core.
    quick: bool,
}

enum How {
    /// As a program.
    Alone,
    /// Its tests, by `pytest -k`.
    Tests(&'static str),
    /// A function of its, with smaller numbers than its own.
    Call(&'static str),
}

const fn program(file: &'static str) -> Tutorial {
    Tutorial { file, device: "sm_90a", how: How::Alone, findings: 0, quick: true }
}

const fn tests(file: &'static str, device: &'static str, which: &'static str) -> Tutorial {
    Tutorial { file, device, how: How::Tests(which), findings: 0, quick: true }
}

const ALL: [Tutorial; 27] = [
    program("01-vector-add.py"),
    program("02-fused-softmax.py"),
    program("03-matrix-multiplication.py"),
    program("04-low-memory-dropout.py"),
    program("05-layer-norm.py"),
    tests("06-fused-attention.py", "sm_90a", "fp16-bwd-False-True-64-128-2-1"),
    program("07-extern-functions.py"),
    program("08-grouped-gemm.py"),
    Tutorial {
        how: How::Call("validate(32, 32, 32, torch.float16)"),
        ..program("09-persistent-matmul.py")
    },
    tests("gluon/01-intro.py", "sm_90a", ""),
    tests("gluon/02-layouts.py", "sm_90a", ""),
    tests("gluon/03-async-copy.py", "sm_90a", ""),
    tests("gluon/04-tma.py", "sm_90a", ""),
    Tutorial { quick: false, ..tests("gluon/05-wgmma.py", "sm_90a", "not 2000") },
    Tutorial { quick: false, ..tests("gluon/06-tcgen05.py", "sm_100a", "not 2000") },
    // A copy that a CTA does not wait for (docs/check.md).
    Tutorial { findings: 1, ..tests("gluon/07-persistence.py", "sm_90a", "64-64-64-208") },
    Tutorial { findings: 1, ..tests("gluon/07-persistence.py", "sm_100a", "64-64-64-208") },
    tests("gluon/08-warp-specialization.py", "sm_100a", "208"),
    tests("gluon/09-tma-gather-scatter.py", "sm_100a", "16-8"),
    Tutorial { quick: false, ..tests("gluon/10-tcgen05-copy.py", "sm_100a", "not 4096") },
    tests("gluon/11-tcgen05-mma-scaled.py", "sm_100a", "128-128-128"),
    tests("gluon/12-cluster-launch-control.py", "sm_100a", "1000"),
    // A copy to operands that a multiply may still read (docs/check.md).
    Tutorial { findings: 1, ..tests("gluon/13-conv-im2col.py", "sm_90a", "") },
    Tutorial { findings: 1, ..tests("gluon/13-conv-im2col.py", "sm_100a", "") },
    tests("gluon/14-multicta.py", "sm_90a", "softmax_f32 and 64-64"),
    tests("gluon/14-multicta.py", "sm_100a", "softmax_f32 and 64-64"),
    tests("gluon/14-multicta.py", "sm_100a", "two_cta_tcgen05 or multicast_copy or tma_tcgen05"),
];

/// Runs the quick ones, or `all`; tutorials lie in a clone of Triton's repository, or are fetched.
pub fn run(arguments: &[&str]) -> ExitCode {
    let (all, clone) = match arguments {
        ["all", rest @ ..] => (true, rest.first()),
        rest => (false, rest.first()),
    };
    match checked(all, clone.map(Path::new)) {
        Ok(()) => {
            println!("tutorials: right");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("tutorials: {why}");
            ExitCode::FAILURE
        }
    }
}

fn checked(all: bool, clone: Option<&Path>) -> Result<(), String> {
    let python = environment()?;
    let clone = match clone {
        Some(clone) => std::path::absolute(clone).map_err(|why| why.to_string())?,
        None => fetched()?,
    };
    let wrong: Vec<String> = ALL
        .iter()
        .filter(|tutorial| all || tutorial.quick)
        .filter_map(|tutorial| check(tutorial, &python, &clone.join("python/tutorials")).err())
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The interpreter of an environment with the packages.
fn environment() -> Result<PathBuf, String> {
    let folder = root().join("target/tutorials/python");
    let python = folder.join("bin/python");
    if !python.exists() {
        let base = std::env::var_os("SIXWARP_PYTHON").unwrap_or("python3".into());
        let mut make = Command::new(base);
        make.args(["-m", "venv"]).arg(&folder);
        run_command(make)?;
    }
    let mut install = Command::new(&python);
    install.args(["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(PACKAGES);
    run_command(install)?;
    let mut torch = Command::new(&python);
    torch.arg(root().join("python/tests/install_torch.py")).arg("--alone");
    run_command(torch)?;
    Ok(python)
}

/// Triton's repository at the commit, its tutorials alone.
fn fetched() -> Result<PathBuf, String> {
    let folder = root().join("target/tutorials/triton");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&folder).args(arguments);
        run_command(git)
    };
    if !folder.join("python/tutorials").exists() {
        std::fs::create_dir_all(&folder).map_err(|why| why.to_string())?;
        git(&["init", "--quiet"])?;
        git(&["fetch", "--quiet", "--depth", "1", REPOSITORY, COMMIT])?;
        // The second is what tutorial 07 compiles with.
        let paths = ["python/tutorials", "third_party/nvidia/backend/lib"];
        git(&[&["checkout", "--quiet", "FETCH_HEAD", "--"][..], &paths].concat())?;
    }
    Ok(folder)
}

/// Runs a tutorial, which must end as the table says.
fn check(tutorial: &Tutorial, python: &Path, folder: &Path) -> Result<(), String> {
    let Tutorial { file, device, how, findings, .. } = tutorial;
    let path = folder.join(file);
    let mut command = Command::new(env!("CARGO"));
    let manifest = root().join("Cargo.toml");
    command.args(["run", "--release", "--quiet", "-p", "sixwarp-cli", "--manifest-path"]);
    command.arg(manifest).args(["--", "check", "--device", device, "--"]).arg(python);
    match how {
        How::Alone => command.arg(&path),
        How::Tests(which) => command.args(["-m", "pytest", "-q", "-k", which]).arg(&path),
        How::Call(what) => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let import = format!("importlib.import_module('{name}')");
            command.arg("-c").arg(format!("import importlib, torch; {import}.{what}"))
        }
    };
    // Tutorials import each other, and one may leave files behind.
    command.current_dir(path.parent().unwrap_or(folder)).env("TRITON_DEFAULT_FP_FUSION", "1");
    let output = command.output().map_err(|why| why.to_string())?;
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let plural = if *findings == 1 { "" } else { "s" };
    let expected = format!(" checked, {findings} finding{plural}");
    let ended = output.status.code() == Some(i32::from(*findings > 0));
    let summary = told.rfind("sixwarp: ").map_or("nothing was checked", |at| told[at..].trim());
    println!("{file} on {device}: {summary}");
    let failed = told.contains("❌") || told.lines().any(|line| line.contains(" failed"));
    match ended && !failed && told.contains(&expected) {
        true => Ok(()),
        false => Err(format!("{file} on {device}: {}\n{told}", output.status)),
    }
}
