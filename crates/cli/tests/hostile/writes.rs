//! Files that cannot be written to the end.

use super::*;

/// The program where files may have a kilobyte at most: writing more fails, as on a full disk.
fn limited(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_sixwarp")).args(arguments).current_dir(folder);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| text(entry.unwrap().file_name().as_encoded_bytes())).collect();
    names.sort();
    names
}

#[test]
fn what_was_there_stays_and_nothing_half_written_comes() {
    let problem = ["--dim", "64", "--queries", "32", "--keys", "32"];
    let kernel = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }";
    let launch = r#"{"ptx": "k.ptx", "grid": [1, 1, 1], "block": [1, 1, 1],
                     "buffers": [{"bytes": 8192, "save": "out"}]}"#;
    let commands: &[(&str, &[&str])] = &[
        ("out", &["ptx", "--output", "out"]),
        ("out.svg", &["layout", "(8,8):(8,1)", "--svg", "out.svg"]),
        ("out.png", &["layout", "(64,64):(64,1)", "--png", "out.png"]),
        ("out.npy", &["run", "--repeat", "1", "--out", "out.npy"]),
        ("out.safetensors", &["run", "--repeat", "1", "--out", "out.safetensors"]),
        ("out.json", &["trace", "--output", "out"]),
        ("out", &["sim", "--launch", "launch.json"]),
    ];
    for (file, arguments) in commands {
        for before in [None, Some("before")] {
            let scratch = scratch();
            let folder = scratch.file("folder");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("k.ptx"), kernel).unwrap();
            fs::write(folder.join("launch.json"), launch).unwrap();
            before.into_iter().for_each(|bytes| fs::write(folder.join(file), bytes).unwrap());
            let kept = names(&folder);
            let has_problem = ["ptx", "run", "trace"].contains(&arguments[0]);
            let arguments = [*arguments, if has_problem { &problem[..] } else { &[] }].concat();
            let said = failure(&mut limited(&folder, &arguments));
            assert!(said.contains(file) && said.contains("too large"), "{arguments:?}: {said}");
            assert_eq!(names(&folder), kept, "{arguments:?}");
            if let Some(bytes) = before {
                assert_eq!(fs::read_to_string(folder.join(file)).unwrap(), bytes);
            }
        }
    }
}

#[test]
fn devices_and_pipes_are_written_as_before() {
    let layout = |file| sixwarp(&["layout", "(8,8):(8,1)", "--svg", file]);
    success(&mut layout("/dev/null"));
    assert!(success(&mut layout("/dev/stdout")).contains("<svg"));
    assert!(failure(&mut layout("/dev/full")).starts_with("sixwarp: /dev/full: "));
}
