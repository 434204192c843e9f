//! `sixwarp bench --launch`: the model of time on a launch that is no problem of ours.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// 16 warps of a CTA, each with 8 rounds of 128 exponentials.
const EXPONENTIALS: &str = include_str!("../../time/microbenchmarks/mufu.ptx");
const THREADS: u32 = 512;
/// 4 warps on each partition, 8 cycles of its special-function unit for each of their 1,024 instructions.
const CYCLES: f64 = 4.0 * 1024.0 * 8.0;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sixwarp")).arg("bench").args(arguments).output().unwrap()
}

/// A launch of `ctas` CTAs, in a folder of its own.
fn saved(ctas: u32) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sixwarp-bench-{}-{ctas}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kernel.ptx"), EXPONENTIALS).unwrap();
    let description = serde_json::json!({
        "ptx": "kernel.ptx", "kernel": "mufu", "grid": [ctas, 1, 1], "block": [THREADS, 1, 1],
        "smem": 0, "params": ["0000000000000000"],
        "relocs": [{"param": 0, "offset": 0, "buffer": 0}],
        "buffers": [{"bytes": 16 * THREADS}],
    });
    std::fs::write(folder.join("launch.json"), description.to_string()).unwrap();
    folder
}

fn predicted(folder: &Path, device: &str, more: &[&str]) -> serde_json::Value {
    let launch = folder.join("launch.json");
    let plain = ["--device", device, "--launch", launch.to_str().unwrap(), "--json", "-"];
    let output = bench(&[&plain, more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_kernel_takes_what_its_busiest_unit_takes() {
    let folder = saved(132);
    let json = predicted(&folder, "sim-sm90", &[]);
    assert_eq!((json["machine"].as_str(), json["kernel"].as_str()), (Some("H200"), Some("mufu")));
    assert_eq!(json["bound"], "special functions");
    let cycles = (json["microseconds"].as_f64().unwrap() - 0.9) * 1980.0;
    assert!((cycles / CYCLES - 1.0).abs() < 0.1, "{cycles} cycles, {CYCLES} expected");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn clusters_that_do_not_fit_come_later() {
    // Two CTAs of 512 threads fit a multiprocessor.
    let [some, more] = [264, 265].map(saved);
    let us = |folder| predicted(folder, "sim-sm90", &[])["microseconds"].as_f64().unwrap() - 0.9;
    let ratio = us(&more) / us(&some);
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    [some, more].into_iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}

#[test]
fn ctas_share_a_multiprocessor_where_registers_are_known() {
    let folder = saved(263);
    let us = |more: &[&str]| {
        predicted(&folder, "sim-sm90", more)["microseconds"].as_f64().unwrap() - 0.9
    };
    // Two CTAs of 64 registers per thread fit, and share special functions; of 128 registers only one fits.
    let ratio = us(&["--registers", "64"]) / us(&[]);
    assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
    let ratio = us(&["--registers", "128"]) / us(&[]);
    assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_launch_is_predicted_and_not_measured() {
    let folder = saved(1);
    let launch = folder.join("launch.json");
    let text = bench(&["--device", "sim-sm90", "--launch", launch.to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    for part in
        ["mufu of 1x1x1 CTAs", "H200: ", "bound by: ", "busy: tensor cores 0 %", "warps wait for: "]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let refused = bench(&["--device", "cpu", "--launch", launch.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("--device sim-sm80 to sim-sm120"), "{message}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_constant_of_the_model_takes_another_value() {
    let folder = saved(3);
    let us = |more: &[&str]| predicted(&folder, "sim-sm90", more)["microseconds"].as_f64().unwrap();
    // 198,000 cycles later than the table says.
    let later = us(&["--constant", "cta_start=198500"]) - us(&[]);
    assert!((later - 100.0).abs() < 0.01, "{later} us");
    let launch = folder.join("launch.json");
    for (wrong, why) in [
        ("cta_starts=1", "mbarrier_latency"),
        ("cta_start", "NAME=VALUE"),
        ("cta_start=soon", "no number"),
        ("cta_start=-1", "from 0 on"),
    ] {
        let arguments = ["--launch", launch.to_str().unwrap(), "--constant", wrong];
        let refused = bench(&[&["--device", "sim-sm90"], &arguments[..]].concat());
        assert_eq!(refused.status.code(), Some(1));
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(message.contains(why), "{wrong}: {message}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
