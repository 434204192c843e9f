//! The program as a user runs it.

use std::process::{Command, Output, Stdio};

fn sixwarp(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sixwarp")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn doctor_reports_the_same_facts_as_text_and_as_json() {
    let json = sixwarp(&["doctor", "--json"]);
    assert!(json.status.success());
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let printed = text(&sixwarp(&["doctor"]).stdout);
    assert!(printed.starts_with(&format!("sixwarp {}", report["version"].as_str().unwrap())));
    for tool in report["tools"].as_array().unwrap() {
        assert!(printed.contains(tool["name"].as_str().unwrap()));
    }
    assert!(printed.contains(report["cache"]["directory"].as_str().unwrap()));
    // A machine without a driver says so; one with a driver says which.
    match report["driver"]["problem"].as_str() {
        Some(problem) => assert!(printed.contains(problem)),
        None => assert!(printed.contains("supports CUDA")),
    }
}

#[test]
fn layout_draws_and_refuses() {
    let drawn = sixwarp(&["layout", "(4,8):(8,1)"]);
    assert!(drawn.status.success());
    assert!(text(&drawn.stdout).contains("31"));
    let refused = sixwarp(&["layout", "(4,8):(8"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).starts_with("sixwarp: "));
}

#[test]
fn kernels_are_compiled_into_the_cache_without_a_gpu() {
    let directory = std::env::temp_dir().join(format!("sixwarp-warm-{}", std::process::id()));
    let warm = || {
        // The tools stay where they are; only the cache of machine code is a new one.
        let ptxas = ptx::toolchain::find(ptx::toolchain::Tool::Ptxas).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
        command.env("SIXWARP_CACHE", &directory).env("SIXWARP_PTXAS", ptxas);
        let arguments =
            ["warm", "--no-tools", "--device", "sim-sm90", "--cases", "mqa-d64-t1-s128"];
        text(&command.args(arguments).output().unwrap().stdout)
    };
    let (first, second) = (warm(), warm());
    assert!(first.starts_with("mqa-d64-t1-s128: compiled ("), "{first}");
    assert!(second.starts_with("mqa-d64-t1-s128: is in the cache ("), "{second}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn ptx_is_printed_for_a_device_by_its_name() {
    for (device, target) in [
        ("sim-sm80", "sm_80"),
        ("sim-sm90", "sm_90a"),
        ("sim-sm100", "sm_100a"),
        ("sim-sm103", "sm_103a"),
    ] {
        let printed = sixwarp(&["ptx", "--device", device, "--case", "mqa-d64-t1-s128"]);
        let line = format!(".target {target}\n");
        assert!(text(&printed.stdout).contains(&line), "{device}: {}", text(&printed.stderr));
    }
    let usual = sixwarp(&["ptx", "--case", "mqa-d64-t1-s128"]);
    assert!(text(&usual.stdout).contains(".target sm_100a\n"));
    let wrong = sixwarp(&["ptx", "--device", "cpu"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).starts_with("sixwarp: cpu runs no kernels: cuda[:n] and sim-sm80"));
    // The driver is asked; a machine without one says so.
    let gpu = sixwarp(&["ptx", "--device", "cuda:99"]);
    assert_eq!(gpu.status.code(), Some(1));
    assert!(text(&gpu.stderr).starts_with("sixwarp: "), "{}", text(&gpu.stderr));
}

#[test]
fn the_support_page_is_current() {
    let page = text(&sixwarp(&["doctor", "--support"]).stdout);
    let kept = include_str!("../../../docs/support.md");
    assert_eq!(page, kept, "run `cargo run -- doctor --support > docs/support.md`");
}

#[test]
fn a_timeline_is_drawn_for_a_problem_and_for_any_ptx() {
    let name = std::env::temp_dir().join(format!("sixwarp-trace-{}", std::process::id()));
    let name = name.to_str().unwrap();
    let copy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ptx/bulk_copy.ptx");
    let problem = ["--heads", "2", "--dim", "64", "--queries", "4", "--keys", "128"];
    for (source, engine) in [(&problem[..], "tensor unit"), (&[copy][..], "copy engine")] {
        let arguments = [&["trace", "-o", name, "--json"], source].concat();
        let drawn = sixwarp(&arguments);
        assert!(drawn.status.success(), "{}", text(&drawn.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&drawn.stdout).unwrap();
        let rows = summary["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == engine).unwrap();
        assert!(row["busy_cycles"].as_u64().unwrap() > 0);
        let svg = std::fs::read_to_string(format!("{name}.svg")).unwrap();
        assert!(svg.contains("warp 0") && svg.contains(engine));
        let perfetto = std::fs::read(format!("{name}.json")).unwrap();
        let events: serde_json::Value = serde_json::from_slice(&perfetto).unwrap();
        assert!(events["traceEvents"].as_array().unwrap().len() > rows.len());
    }
    for end in [".svg", ".json"] {
        std::fs::remove_file(format!("{name}{end}")).unwrap();
    }
    let refused = sixwarp(&["trace", "--device", "cpu"]);
    assert!(text(&refused.stderr).starts_with("sixwarp: cpu draws no timeline"));
}

#[test]
fn the_simulator_is_compared_with_recorded_outputs() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ptx/integer.ptx");
    let recorded = std::env::temp_dir().join(format!("sixwarp-recorded-{}", std::process::id()));
    std::fs::create_dir_all(&recorded).unwrap();
    let recorded = recorded.to_str().unwrap();
    let empty = sixwarp(&["sim", tests, "--against", recorded]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(text(&empty.stderr).ends_with("outputs differ\n"), "{}", text(&empty.stderr));
    let unknown = sixwarp(&["sim", tests, "--against", "no such engine"]);
    assert!(text(&unknown.stderr).contains("is neither an engine"), "{}", text(&unknown.stderr));
    let mode = sixwarp(&["sim", tests, "--against", recorded, "--mode", "lazy"]);
    assert!(text(&mode.stderr).contains("no mode `lazy`"), "{}", text(&mode.stderr));
    std::fs::remove_dir_all(recorded).unwrap();
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sixwarp(&["completions", shell]);
        assert!(script.status.success());
        assert!(text(&script.stdout).contains("doctor"), "{shell}");
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for (arguments, why) in [
        (["warm", "--device", "gpu"], "no device is called `gpu`"),
        (["ptx", "--device", "sm_90a"], "no device is called `sm_90a`: cpu, cuda[:n], sim-sm80"),
    ] {
        let wrong = sixwarp(&arguments);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(text(&wrong.stderr).contains(why), "{}", text(&wrong.stderr));
    }
    let wrong = sixwarp(&["warm", "--no-tools", "--device", "cpu", "kernel.ptx"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).starts_with("sixwarp: cpu runs no kernels: cuda[:n], sim-sm80"));
    let missing = sixwarp(&["warm", "--no-tools", "--device", "sim-sm90", "no such file.ptx"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("sixwarp: no such file.ptx: "));
}

/// Runs the program for a reader that has gone away before it writes.
fn unread(arguments: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sixwarp"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    unread(&["completions", "bash"]);
}

#[test]
fn an_allowed_hazard_is_listed_and_the_run_is_ok() {
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fail/store_not_fenced.ptx");
    let refused = sixwarp(&["sim", kernel]);
    assert_eq!(refused.status.code(), Some(4));
    let note = "= note: `--allow missing-proxy-fence` lets it pass\n";
    assert!(text(&refused.stdout).ends_with(note), "{}", text(&refused.stdout));
    let other = sixwarp(&["sim", kernel, "--allow", "race"]);
    assert_eq!(other.status.code(), Some(4));

    let allow = ["sim", kernel, "--allow", "race", "--allow", "missing-proxy-fence"];
    let allowed = sixwarp(&allow);
    assert!(allowed.status.success());
    let listed = "mode eager: ok\nallowed, 1 times: hazard[missing-proxy-fence]: ";
    assert!(text(&allowed.stdout).starts_with(listed), "{}", text(&allowed.stdout));
    let json = sixwarp(&[&allow[..], &["--json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["outcome"], "ok");
    assert_eq!(report["allowed"][0]["rule"], "missing-proxy-fence");
    assert_eq!(report["allowed"][0]["line"], 24);
    assert_eq!(report["allowed"][0]["times"], 1);
}

#[test]
fn rules_are_listed_and_near_names_told() {
    let listed = sixwarp(&["sim", "--allow", "help"]);
    assert!(listed.status.success());
    assert!(text(&listed.stdout).contains("\nmissing-proxy-fence         fence.proxy.async "));
    let wrong = sixwarp(&["sim", "--allow", "missing-proxi-fence"]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = "a similar value exists: 'missing-proxy-fence'";
    assert!(text(&wrong.stderr).contains(told), "{}", text(&wrong.stderr));
}

/// A folder of this test's own.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("sixwarp-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const HEADER: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

#[test]
fn allowed_hazards_are_listed_when_the_run_fails_too() {
    let folder = folder("allowed");
    let kernel = format!(
        "{HEADER}.visible .entry k(.param .u64 out) {{
  .reg .b64 %rd; .reg .b32 %r; .shared .b32 s;
  mov.u32 %r, %tid.x; st.shared.b32 [s], %r; bar.sync 0;
  ld.param.u64 %rd, [out]; st.global.b32 [%rd+256], %r;
}}"
    );
    let path = folder.join("k.ptx");
    std::fs::write(&path, kernel).unwrap();
    let path = path.to_str().unwrap();
    let run = ["sim", path, "--block", "64", "--arg", "out:u32[64]=poison", "--allow", "race"];
    let failed = sixwarp(&run);
    assert_eq!(failed.status.code(), Some(3), "{}", text(&failed.stdout));
    let printed = text(&failed.stdout);
    assert!(printed.starts_with("mode eager: fault\nfault[out-of-bounds]"), "{printed}");
    assert!(printed.contains("\nallowed, 1 times: hazard[race]: "), "{printed}");
    let json = sixwarp(&[&run[..], &["--json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["outcome"], "fault");
    assert_eq!(report["allowed"][0]["rule"], "race");
    assert_eq!(report["allowed"][0]["times"], 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn buffers_of_a_captured_launch_point_to_each_other() {
    let folder = folder("pointers");
    let kernel = format!(
        "{HEADER}.visible .entry k(.param .u64 table) {{
  .reg .b64 %rd<3>; .reg .b32 %r;
  ld.param.u64 %rd1, [table]; ld.global.u64 %rd2, [%rd1+8];
  ld.global.b32 %r, [%rd2]; add.u32 %r, %r, 1; st.global.b32 [%rd2], %r;
}}"
    );
    std::fs::write(folder.join("k.ptx"), kernel).unwrap();
    std::fs::write(folder.join("in.bin"), [0, 0, 0, 0, 6, 0, 0, 0]).unwrap();
    let path = folder.join("launch.json");
    let run = |reloc: &str| {
        let launch = format!(
            r#"{{"ptx": "k.ptx", "grid": [1, 1, 1], "block": [1, 1, 1], "params": ["0000000000000000"],
                "relocs": [{{"param": 0, "offset": 0, "buffer": 0}}],
                "buffers": [{{"bytes": 16, "init": "poison", "relocs": [{reloc}]}},
                            {{"bytes": 8, "file": "in.bin", "save": "out.bin"}}]}}"#
        );
        std::fs::write(&path, launch).unwrap();
        sixwarp(&["sim", "--launch", path.to_str().unwrap()])
    };
    let right = run(r#"{"offset": 8, "buffer": 1, "addend": 4}"#);
    assert!(right.status.success(), "{}", text(&right.stdout));
    assert_eq!(std::fs::read(folder.join("out.bin")).unwrap(), [0, 0, 0, 0, 7, 0, 0, 0]);
    for (reloc, why) in [
        (
            r#"{"offset": 8, "buffer": 2}"#,
            "buffer `buffer 0`: address 0 is that of buffer 2; there are 2 (rule L16)",
        ),
        (
            r#"{"offset": 9, "buffer": 1}"#,
            "buffer `buffer 0`: address 0 takes 8 bytes from byte 9 on, of 16 (rule L16)",
        ),
    ] {
        let wrong = run(reloc);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(text(&wrong.stdout).contains(why), "{}", text(&wrong.stdout));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_launch_is_for_a_gpu_too() {
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ptx/mbarrier_phases.ptx");
    let output = sixwarp(&["sim", kernel, "--device", "cuda"]);
    if !output.status.success() {
        let said = text(&output.stderr);
        assert!(said.contains("no NVIDIA driver") || said.contains("there is no GPU"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
    let both = sixwarp(&["sim", kernel, "--device", "cuda", "--mode", "latest"]);
    assert_eq!(both.status.code(), Some(2), "a GPU has no modes");
}

#[test]
fn hostile_sizes_are_answered_with_what_is_wrong() {
    let most = &u64::MAX.to_string();
    let many = &format!("{most},5");
    let compressed = &format!("compressed({most})");
    for (arguments, why) in [
        (["--page", "0"], "sixwarp: page: a page has at least one row (rule 5), but it is 0"),
        (["--queries", many], "sixwarp: q: every extent must be below 2^56 (rule 1)"),
        (["--keys", many], "sixwarp: k: every extent must be below 2^56 (rule 1)"),
        (["--page", most], "sixwarp: k: every extent must be below 2^56 (rule 1)"),
        (
            ["--softcap", "-3"],
            "sixwarp: softcap: must be finite and positive (rule 7), but it is -3",
        ),
    ] {
        let wrong = sixwarp(&[&["run"], &arguments[..]].concat());
        assert_eq!(wrong.status.code(), Some(1), "{arguments:?}: {}", text(&wrong.stderr));
        assert!(text(&wrong.stderr).starts_with(why), "{}", text(&wrong.stderr));
    }
    for arguments in [["--queries", "0"], ["--scale", "-1"], ["--mask", compressed]] {
        let right = sixwarp(&[&["run", "--keys", "64", "--check"], &arguments[..]].concat());
        assert!(right.status.success(), "{arguments:?}: {}", text(&right.stderr));
    }
}

#[test]
fn any_number_of_random_cases_may_be_asked_for() {
    unread(&["verify", "--list", "--random", &u64::MAX.to_string()]);
}

#[test]
fn tensors_of_unlike_shapes_are_refused() {
    use sixwarp::io::{Tensor, write_npy};
    let folder = folder("unlike");
    let file = |name: &str, shape: [u64; 4]| {
        let path = folder.join(name);
        let elements = shape.iter().product::<u64>() as usize;
        let data = problem::HostVec::filled(problem::DType::F32, elements, 1.0);
        write_npy(&path, &Tensor::new(shape.to_vec(), data).unwrap()).unwrap();
        path.to_str().unwrap().to_string()
    };
    let q = &file("q.npy", [1, 4, 2, 8]);
    let k = &file("k.npy", [1, 4, 6, 8]);
    let turned = &file("turned.npy", [1, 6, 4, 8]);
    let two = &file("two.npy", [2, 4, 6, 8]);
    let run = |k: &str, v: &str| sixwarp(&["run", "--q", q, "--k", k, "--v", v]);
    assert!(run(k, k).status.success());
    let wrong = text(&run(k, turned).stderr);
    let rule = "v: must have k's batch, heads and tokens";
    assert_eq!(wrong, format!("sixwarp: {rule}, [1, 4, 6], but they are [1, 6, 4]\n"));
    let whole = folder.join("whole.npy");
    let data = problem::HostVec::I32(vec![1; 4 * 6 * 8]);
    write_npy(&whole, &Tensor::new(vec![1, 4, 6, 8], data).unwrap()).unwrap();
    let wrong = text(&run(k, whole.to_str().unwrap()).stderr);
    assert_eq!(wrong, "sixwarp: v: must hold 192 f32, but it is 192 i32\n");
    let wrong = text(&run(two, two).stderr);
    assert_eq!(wrong, "sixwarp: k: must have q's batch, 1, but it is 2\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A kernel that never ends.
const ENDLESS: &str = "// run: --block 64
.version 8.0
.target sm_90
.address_size 64
.visible .entry endless() {
    .reg .b32 r;
    mov.u32 r, 0;
again:
    add.u32 r, r, 1;
    bra again;
}
";

/// Runs `sixwarp sim` on a text.
fn simulated(ptx: &str, arguments: &[&str]) -> Output {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("sixwarp-sim-{}-{number}.ptx", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, ptx).unwrap();
    let output = sixwarp(&[&["sim", path.to_str().unwrap()], arguments].concat());
    std::fs::remove_file(path).unwrap();
    output
}

#[test]
fn the_simulator_ends_what_does_not_end() {
    for (limit, reason) in [
        (["--max-instructions", "5000"], "the launch has executed 5000 warp instructions"),
        (["--timeout", "0.05"], "the launch has taken 0.05 seconds"),
    ] {
        let output = simulated(ENDLESS, &limit);
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let report = text(&output.stdout);
        assert!(report.contains(&format!("stopped: {reason}")), "{report}");
        let place = "in a loop: CTA (0,0,0) warps 0, 1\n  --> kernel `endless`, PTX line 9 to 10";
        assert!(report.contains(place), "{report}");
    }
}

#[test]
fn the_simulator_refuses_sizes_that_nothing_has() {
    let empty = ENDLESS.replace("bra again;", "ret;");
    for (arguments, status, message) in [
        (&["--grid", "4294967297"][..], 1, "4294967297 is not between 0 and 2^32 - 1"),
        (&["--grid", "65536", "--cluster", "65536,65536,1"], 2, "cluster [65536, 65536, 1]"),
        (&["--smem", "4294967295"], 2, "shared memory 4294967295 dynamic"),
        (&["--block", "1024,1024"], 2, "1024 threads in all"),
        (&["--arg", "a:u8[1099511627776]=zero"], 2, "`a` takes 1099511627776 bytes of memory"),
        (&["--arg", "a:u8[4096]=zero", "--memory", "1K"], 2, "the limit is 1024 (`--memory`)"),
    ] {
        let output = simulated(&empty, arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(message), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    }
}

#[test]
fn a_captured_buffer_is_no_larger_than_memory() {
    let folder = std::env::temp_dir().join(format!("sixwarp-captured-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("k.ptx"), ENDLESS).unwrap();
    let launch = r#"{"ptx": "k.ptx", "grid": [1, 1, 1], "block": [1, 1, 1],
                     "buffers": [{"bytes": 1099511627776}]}"#;
    std::fs::write(folder.join("launch.json"), launch).unwrap();
    let output = sixwarp(&["sim", "--launch", folder.join("launch.json").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("takes 1099511627776 bytes of memory"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_model_of_time_is_asked_about_a_chip() {
    let short = ["--suite", "mqa", "--only", "d64 T1 128"];
    let bench = |words: &[&str]| sixwarp(&[&["bench"], words, &short[..]].concat());
    let output = bench(&["--device", "sim-sm89", "--chip", "l40s"]);
    let printed = text(&output.stdout);
    assert!(printed.contains("model of time: L40S, sm_89 kernels; nothing was measured on it"));
    assert!(printed.contains("d64 T1 128"), "{printed}");
    let forced = bench(&["--device", "sim-sm90", "--arch", "sm80"]);
    assert!(
        text(&forced.stdout).contains("model of time: H200, sm_80 kernels; predictions are off by")
    );
    for (words, error) in [
        (
            ["--device", "sim-sm80", "--chip", "L40S"],
            "sixwarp: no sm_80 chip is called `L40S`: A100",
        ),
        (
            ["--device", "cpu", "--chip", "L40S"],
            "sixwarp: cpu is measured: --chip goes with sim-sm80",
        ),
    ] {
        let refused = bench(&words);
        assert!(text(&refused.stderr).starts_with(error), "{}", text(&refused.stderr));
        assert!(refused.stdout.is_empty());
    }
}
