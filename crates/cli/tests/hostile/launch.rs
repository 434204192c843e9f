//! Captured launches, which people send each other.

use super::*;
use std::os::unix::fs::symlink;

/// Adds one to every number of a buffer.
const KERNEL: &str = ".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 table) {
  .reg .b64 %rd<2>; .reg .b32 %r;
  ld.param.u64 %rd1, [table]; ld.global.b32 %r, [%rd1];
  add.u32 %r, %r, 1; st.global.b32 [%rd1], %r;
}
";

/// A folder `captured` with a kernel and an input, and a file beside it.
fn captured() -> Scratch {
    let scratch = scratch();
    fs::create_dir(scratch.file("captured")).unwrap();
    fs::write(scratch.file("captured/k.ptx"), KERNEL).unwrap();
    fs::write(scratch.file("captured/in.bin"), [6, 0, 0, 0]).unwrap();
    fs::write(scratch.file("k.ptx"), KERNEL).unwrap();
    fs::write(scratch.file("secret"), [1, 0, 0, 0]).unwrap();
    scratch
}

/// Writes a launch of `ptx` with one buffer, and runs it.
fn launch(scratch: &Scratch, ptx: &str, buffer: &str, more: &[&str]) -> Command {
    let path = scratch.file("captured/launch.json");
    let json = format!(
        r#"{{"ptx": "{ptx}", "grid": [1, 1, 1], "block": [1, 1, 1], "params": ["0000000000000000"],
            "relocs": [{{"param": 0, "offset": 0, "buffer": 0}}], "buffers": [{buffer}]}}"#
    );
    fs::write(&path, json).unwrap();
    sixwarp(&[&["sim", "--launch", path.to_str().unwrap()], more].concat())
}

fn reads(file: &str) -> String {
    format!(r#"{{"bytes": 4, "file": "{file}", "save": "out.bin"}}"#)
}

fn saves(file: &str) -> String {
    format!(r#"{{"bytes": 4, "file": "in.bin", "save": "{file}"}}"#)
}

#[test]
fn files_of_the_folder_are_read_and_written() {
    let scratch = captured();
    fs::create_dir(scratch.file("captured/below")).unwrap();
    for out in ["out.bin", "out.bin", "below/out.bin", "./in.bin"] {
        success(&mut launch(&scratch, "k.ptx", &saves(out), &[]));
        assert_eq!(fs::read(scratch.file("captured").join(out)).unwrap(), [7, 0, 0, 0]);
    }
}

#[test]
fn paths_that_lead_out_are_refused_before_anything_runs() {
    let scratch = captured();
    let absolute = scratch.file("secret");
    let absolute = absolute.to_str().unwrap();
    symlink("../secret", scratch.file("captured/link")).unwrap();
    symlink("..", scratch.file("captured/up")).unwrap();
    for outside in ["../secret", absolute, "link", "up/secret", "./../secret"] {
        let said = failure(&mut launch(&scratch, "k.ptx", &reads(outside), &[]));
        assert!(said.contains(&format!("{outside}: leads out of ")), "{said}");
        assert!(!scratch.file("captured/out.bin").exists());
        failure(&mut launch(&scratch, "k.ptx", &saves(outside), &[]));
        assert_eq!(fs::read(absolute).unwrap(), [1, 0, 0, 0]);
    }
    for ptx in ["../k.ptx", "up/k.ptx", scratch.file("k.ptx").to_str().unwrap()] {
        let said = failure(&mut launch(&scratch, ptx, &saves("out.bin"), &[]));
        assert!(said.contains(": leads out of "), "{said}");
    }
    let said = failure(&mut launch(&scratch, "k.ptx", &saves(".bashrc"), &[]));
    assert!(said.contains(".bashrc: hidden files are not written"), "{said}");
}

#[test]
fn a_flag_lets_paths_lead_anywhere() {
    let scratch = captured();
    let buffer = r#"{"bytes": 4, "file": "../secret", "save": "../out.bin"}"#;
    success(&mut launch(&scratch, "../k.ptx", buffer, &["--any-path"]));
    assert_eq!(fs::read(scratch.file("out.bin")).unwrap(), [2, 0, 0, 0]);
    success(&mut launch(&scratch, "k.ptx", &saves("/dev/null"), &["--any-path"]));
    let told = sixwarp(&["sim", "k.ptx", "--any-path"]).output().unwrap();
    assert_eq!(told.status.code(), Some(2), "it is about --launch");
}

#[test]
fn what_never_ends_is_not_read() {
    let scratch = captured();
    let made = Command::new("mkfifo").arg(scratch.file("captured/pipe")).status().unwrap();
    assert!(made.success());
    let pipe = "pipe: is not a regular file";
    for (ptx, buffer) in [("k.ptx", reads("pipe")), ("pipe", saves("out.bin"))] {
        for more in [&[][..], &["--any-path"]] {
            let said = failure(&mut launch(&scratch, ptx, &buffer, more));
            assert!(said.contains(pipe), "{said}");
        }
    }
    let said = failure(&mut launch(&scratch, "k.ptx", &saves("pipe"), &[]));
    assert!(said.contains("pipe: is there and is not a regular file"), "{said}");
    let said = failure(&mut launch(&scratch, "k.ptx", &reads("/dev/zero"), &["--any-path"]));
    assert!(said.contains("/dev/zero: is not a regular file"), "{said}");
}

#[test]
fn files_of_another_size_are_refused() {
    let scratch = captured();
    for bytes in [0, 3, 5, 1 << 20] {
        let file = fs::File::create(scratch.file("captured/in.bin")).unwrap();
        file.set_len(bytes).unwrap();
        let said = failure(&mut launch(&scratch, "k.ptx", &saves("out.bin"), &[]));
        assert!(said.contains(&format!("in.bin: has {bytes} bytes, but buffer 0 has 4")), "{said}");
    }
}

#[test]
fn fields_that_mean_nothing_are_refused() {
    let scratch = captured();
    for (buffer, field) in [
        (r#"{"bytes": 4, "sav": "out.bin"}"#, "sav"),
        (r#"{"bytes": 4, "relocs": [{"offset": 0, "buffer": 0, "add": 1}]}"#, "add"),
    ] {
        let said = failure(&mut launch(&scratch, "k.ptx", buffer, &[]));
        assert!(said.contains(&format!("unknown field `{field}`")), "{said}");
    }
    let said = failure(&mut launch(&scratch, r#"k.ptx", "gird": "x"#, &saves("out.bin"), &[]));
    assert!(said.contains("unknown field `gird`"), "{said}");
    let twice = format!("{}, {}", saves("out.bin"), saves("./out.bin"));
    let said = failure(&mut launch(&scratch, "k.ptx", &twice, &[]));
    assert!(said.contains("./out.bin: buffers 0 and 1 are both saved to it"), "{said}");
}
