//! `sixwarp check -- PROGRAM` for programs that are linked with CUDA's runtime library.

#![cfg(target_os = "linux")]

use files::Scratch;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Source of a program that does what `nvcc` makes programs do.
const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cuda/host.c");

/// Functions of the runtime that the program calls.
const FUNCTIONS: [&str; 16] = [
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaUnregisterFatBinary",
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
    "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration",
    "cudaLaunchKernel",
    "cudaMalloc",
    "cudaFree",
    "cudaMemcpy",
    "cudaMemcpyToSymbol",
    "cudaDeviceSynchronize",
    "cudaGetLastError",
    "cudaRuntimeGetVersion",
    "cudaGetErrorString",
];

fn cc(arguments: &[&str]) {
    let output =
        Command::new("cc").args(arguments).output().expect("a C compiler, as cargo needs one");
    assert!(output.status.success(), "{}", told(&output));
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A library that only the linker sees: names and versions as NVIDIA's has them, and nothing behind.
fn link_library(folder: &Scratch, release: u32) -> PathBuf {
    let (source, script) = (folder.file("link.c"), folder.file("link.map"));
    let functions: String =
        FUNCTIONS.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
    std::fs::write(&source, functions).unwrap();
    std::fs::write(&script, format!("libcudart.so.{release} {{ *; }};\n")).unwrap();
    let library = folder.file("linked.so");
    let soname = format!("-Wl,-soname,libcudart.so.{release}");
    let script = format!("-Wl,--version-script={}", script.display());
    let [from, to] = [&source, &library].map(|path| path.to_str().unwrap());
    cc(&["-shared", "-fPIC", "-nostdlib", &soname, &script, "-o", to, from]);
    library
}

/// The program, linked with a release of the runtime.
fn program(folder: &Scratch, release: u32, options: &[&str]) -> PathBuf {
    let (library, program) = (link_library(folder, release), folder.file("program"));
    let paths = [Path::new(HOST), &library, &program].map(|path| path.to_str().unwrap());
    cc(&[options, &["-Wall", "-Werror", paths[0], paths[1], "-o", paths[2]]].concat());
    program
}

fn check(options: &[&str], program: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
    check.arg("check").args(options).arg("--").arg(program).args(arguments);
    let output = check.output().unwrap();
    (output.status.code(), told(&output))
}

#[test]
fn a_program_of_either_release_runs_and_is_checked() {
    for (release, options) in [(12, &[][..]), (13, &["-DCOMPRESSED"])] {
        let folder = Scratch::new().unwrap();
        let program = program(&folder, release, options);
        let (code, text) = check(&[], &program, &[]);
        // 0 + 5 + 100, and 39 + 5 + 100; the loader has nothing to say about versions.
        let expected = format!("runtime {release}: words 105 and 144, no error\nend: no error\n");
        assert!(text.starts_with(&expected), "{text}");
        assert!(text.contains("2 launches checked, 0 findings"), "{text}");
        assert!(!text.contains("version"), "{text}");
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn a_race_is_found_at_its_line_and_the_libraries_work_alone() {
    let folder = Scratch::new().unwrap();
    let (program, libraries) = (program(&folder, 13, &[]), folder.file("libraries"));
    let keep = ["--libraries", libraries.to_str().unwrap()];
    let (code, text) = check(&keep, &program, &["racy"]);
    assert!(text.contains("hazard[race]") && text.contains("host.cu:8"), "{text}");
    assert!(text.contains("3 launches checked"), "{text}");
    assert_eq!(code, Some(1), "{text}");
    let alone = Command::new(&program).env("LD_LIBRARY_PATH", &libraries).output().unwrap();
    assert!(told(&alone).contains("words 105 and 144, no error"), "{}", told(&alone));
    // Another run does not write over it.
    let (code, text) = check(&keep, &program, &[]);
    assert!(text.contains("there are files in it"), "{text}");
    assert_eq!(code, Some(2), "{text}");
}
