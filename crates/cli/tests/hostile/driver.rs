//! A driver's library that is not one.

use super::*;

/// Makes a `libcuda` of these functions, and says where.
fn libcuda(scratch: &Scratch, functions: &str) -> PathBuf {
    let (source, folder) = (scratch.file("cuda.rs"), scratch.file("lib"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(&source, functions).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--crate-type", "cdylib", "--edition", "2024", "-o"]);
    rustc.arg(folder.join("libcuda.so")).arg(source);
    assert!(rustc.status().unwrap().success());
    fs::copy(folder.join("libcuda.so"), folder.join("libcuda.so.1")).unwrap();
    folder
}

fn with_library(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = sixwarp(arguments);
    command.env("LD_LIBRARY_PATH", folder);
    command
}

#[test]
fn functions_that_are_missing_are_named() {
    let returns = |name: &str| {
        format!("#[unsafe(no_mangle)] pub extern \"C\" fn {name}(_: u64, _: u64) -> u32 {{ 0 }}\n")
    };
    let version = "#[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuDriverGetVersion(to: *mut i32)\
                   -> u32 { unsafe { *to = 13000 }; 0 }\n";
    let first = ["cuInit", "cuDeviceGetCount", "cuGetErrorName", "cuGetErrorString"];
    let first = first.map(returns).concat() + version;
    for (functions, missing) in [(String::new(), "cuDeviceGetCount"), (first, "cuCtxGetCurrent")] {
        let scratch = scratch();
        let folder = libcuda(&scratch, &functions);
        let why = format!("the NVIDIA driver is broken: its library libcuda has no {missing}");
        let said = failure(&mut with_library(&folder, &["run", "--device", "cuda"]));
        assert_eq!(said, format!("sixwarp: {why}\n"));
        let mut doctor = with_library(&folder, &["doctor"]);
        let said = success(doctor.env("SIXWARP_CACHE", scratch.file("cache")));
        // The second answers all that doctor asks: it has no devices.
        assert_eq!(said.contains(&why), functions.is_empty(), "{said}");
    }
}
