//! `sixwarp check` as a stranger runs it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs it in the workspace's folder.
fn check(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
    command.current_dir(root).arg("check").args(arguments).output().unwrap()
}

fn status(arguments: &[&str]) -> i32 {
    check(arguments).status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    text(&check(arguments).stdout)
}

/// A folder that is gone afterwards.
fn scratch() -> files::Scratch {
    files::Scratch::new().unwrap()
}

fn write(folder: &files::Scratch, name: &str, contents: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, contents).unwrap();
    path.to_str().unwrap().to_owned()
}

const RACE: &str = "tests/fail/shared_race.ptx";
const CLEAN: &str = "tests/ptx/bulk_copy.ptx";

#[test]
fn the_status_says_what_came_out() {
    assert_eq!(status(&[CLEAN]), 0);
    assert_eq!(status(&[RACE]), 1);
    assert_eq!(status(&["tests/fail/map_box_too_large.ptx"]), 1);
    assert_eq!(status(&["tests/fail/unknown_instruction.ptx"]), 3);
    assert_eq!(status(&["tests/fail/spins_forever.ptx", "--max-instructions", "10000"]), 3);
    assert_eq!(status(&["no/such.ptx"]), 2);
    assert_eq!(status(&[]), 2);
    assert_eq!(status(&[CLEAN, "--modes", "slow"]), 2);
    assert_eq!(status(&["crates/cli/src"]), 2);
    assert_eq!(status(&[RACE, "--allow", "race"]), 0);
}

#[test]
fn what_the_assembler_refuses_is_found_without_a_launch() {
    let folder = scratch();
    let head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    let wrong = write(&folder, "wrong.ptx", &format!("{head}.entry k() {{\n mov.b32 x, 1;\n}}\n"));
    let told = check(&[&wrong]);
    assert_eq!(told.status.code(), Some(1));
    assert!(text(&told.stdout).contains("ptx[ptx-8]: "), "{}", text(&told.stdout));
    assert!(text(&told.stdout).contains("PTX line 5, kernel `k`"), "{}", text(&told.stdout));
    let garbage = stdout(&[&write(&folder, "garbage.ptx", "this is no PTX")]);
    assert!(garbage.contains("ptx[ptx-syntax]: "), "{garbage}");
    let fine = stdout(&[&write(&folder, "fine.ptx", &format!("{head}.entry k() {{ ret; }}\n"))]);
    assert!(
        fine.contains("fine.ptx: clean: verified, and not run\nnote: no launch is known"),
        "{fine}"
    );
}

#[test]
fn a_launch_by_options_runs() {
    let launch = ["--block", "64", "--arg", "out:u32[64]=poison"];
    let by_options = stdout(&[&[RACE][..], &launch].concat());
    assert!(by_options.contains("hazard[race]: "), "{by_options}");
}

#[test]
fn the_report_is_the_same_on_any_number_of_threads_and_can_be_replayed() {
    let all = |threads: &str| {
        stdout(&["tests/fail", "--seeds", "0..2", "--json", "-", "--threads", threads])
    };
    let one = all("1");
    assert_eq!(one, all("3"));
    let report: Value = serde_json::from_str(&one).unwrap();
    let checked = report["checked"].as_array().unwrap();
    assert!(checked.len() > 80, "{}", checked.len());
    // What needs the pedantic rules is clean without them; the rest is found or not known.
    let found = checked.iter().filter(|c| !c["findings"].as_array().unwrap().is_empty()).count();
    assert!(found > 60, "{found}");
    let told = stdout(&[RACE]);
    let replay = told.lines().find_map(|line| line.strip_prefix("   = replay: sixwarp check "));
    let words: Vec<&str> = replay.expect("a command").split(' ').collect();
    assert_eq!(stdout(&words), told);
}

/// A launch by options is not in the file: the command that replays it says them again.
#[test]
fn a_replay_has_the_options_of_the_launch() {
    let folder = scratch();
    let file = folder.path().join("bare.ptx");
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(RACE))
            .unwrap();
    let (run, bare): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("// run: "));
    std::fs::write(&file, bare.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let launch: Vec<&str> = run[0].trim_start_matches("// run: ").split(' ').collect();
    let told = stdout(&[&[file], &launch[..], &["--pedantic"]].concat());
    let replay = told.lines().find_map(|line| line.strip_prefix("   = replay: sixwarp check "));
    let words: Vec<&str> =
        replay.expect("a command").split(' ').map(|word| word.trim_matches('\'')).collect();
    assert!(words.contains(&"--pedantic"), "{told}");
    assert_eq!(stdout(&words), told);
}

#[test]
fn what_is_no_ptx_is_named() {
    let folder = scratch();
    let told = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let output = check(&[path.to_str().unwrap()]);
        (output.status.code(), text(&output.stdout))
    };
    for (name, bytes, words) in [
        ("kernel.cubin", &b"\x7fELF\x02\x01"[..], "this is machine code (ELF), not PTX"),
        ("kernel.fatbin", b"\x50\xed\x55\xba\x01\0", "this is a fat binary, not PTX"),
        ("kernel.ptx", b"\xff\xfe\x00", "this is no text"),
    ] {
        let (status, told) = told(name, bytes);
        assert_eq!(status, Some(2), "{told}");
        assert!(told.contains(words), "{told}");
    }
    let missing = stdout(&[RACE, "--kernel", "nobody"]);
    assert!(missing.contains("no such kernel; it has: "), "{missing}");
    assert!(!missing.contains("it has: \n") && !missing.contains("it has:  "), "{missing}");
}

#[test]
fn reports_go_to_files_and_pages_to_a_folder() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, sarif, html) = (path("r.json"), path("r.sarif"), path("pages"));
    let told = check(&[RACE, CLEAN, "--json", &json, "--sarif", &sarif, "--html", &html]);
    assert_eq!(told.status.code(), Some(1));
    let page = folder.path().join("pages/001-race.html");
    assert!(text(&told.stdout).ends_with(&format!("page: {}\n", page.display())));
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let report: Value = serde_json::from_str(&read(&json)).unwrap();
    assert_eq!(
        (report["version"].as_u64(), report["checked"].as_array().unwrap().len()),
        (Some(1), 2)
    );
    let log: Value = serde_json::from_str(&read(&sarif)).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], RACE);
    assert!(read(page.to_str().unwrap()).contains("id=\"timeline\""));
}

#[test]
fn a_captured_launch_is_checked_and_its_lines_are_those_of_its_ptx() {
    let folder = scratch();
    let source =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(RACE));
    write(&folder, "k.ptx", &source.unwrap().replace("// run:", "// once:"));
    let json = r#"{"ptx": "k.ptx", "grid": [1, 1, 1], "block": [64, 1, 1], "params": ["0000000000000000"],
        "relocs": [{"param": 0, "offset": 0, "buffer": 0}], "buffers": [{"bytes": 256, "init": "poison"}]}"#;
    let launch = write(&folder, "launch.json", json);
    let told = check(&["--launch", &launch, "--sarif", "-"]);
    assert_eq!(told.status.code(), Some(1), "{}", text(&told.stdout));
    let log: Value = serde_json::from_slice(&told.stdout).unwrap();
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("/k.ptx"), "{place}");
    // A folder gives both, and the PTX alone is clean.
    let both = stdout(&[folder.path().to_str().unwrap()]);
    assert!(both.ends_with("2 checked: 1 clean, 1 with findings\n"), "{both}");
    let broken = write(&folder, "launch.json", "{}");
    assert_eq!(status(&[&broken]), 2);
}

#[test]
fn the_script_of_the_action_passes_on_what_it_is_given() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = scratch();
    let sixwarp = Path::new(env!("CARGO_BIN_EXE_sixwarp")).parent().unwrap();
    let path = format!("{}:{}", sixwarp.display(), std::env::var("PATH").unwrap());
    let (sarif, output) = (folder.path().join("a b.sarif"), folder.path().join("output"));
    let run_with = |paths: &str, launches: &str| {
        let mut command = Command::new("bash");
        command.arg("integrations/github-action/check.sh").current_dir(&root);
        command.env("PATH", &path).env("CHECK_PATHS", paths).env("CHECK_SARIF", &sarif);
        command.env("CHECK_COMMAND", launches);
        command.env("CHECK_ARGUMENTS", "--seeds\n0..1\n").env("GITHUB_OUTPUT", &output);
        command.output().unwrap().status.code()
    };
    let run = |paths: &str| run_with(paths, "");
    assert_eq!(run(&format!("{CLEAN}\n{RACE}\n")), Some(1));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "status=1\n");
    let log: Value = serde_json::from_slice(&std::fs::read(&sarif).unwrap()).unwrap();
    assert_eq!(log["runs"][0]["results"][0]["ruleId"], "race");
    assert_eq!(run(&format!("{CLEAN}\n")), Some(0));
    assert_eq!(run_with(CLEAN, "true"), Some(2), "paths and a command");
    if cfg!(target_os = "linux") {
        assert_eq!(run_with("", "test -n \"$TRITON_LIBCUDA_PATH\" && exit 9"), Some(9));
    }
}
