//! A launch that was captured and one that a file test describes are the same kind of program.

use filetest::{Capture, FileTest, Machine, Prepared, SimEngine};
use program::{Argument, Rule};
use std::fs;

/// Adds a number to the first element of a buffer.
const KERNEL: &str = "\
// run: --buffer other:u8[4]=zero --arg a:u32[2]=3+rw --arg value:u32=4
// expect: a = 7 3
.version 8.0
.target sm_90a
.address_size 64
.visible .entry plain(.param .u64 a, .param .u32 value)
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [value];
  ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, %r1; st.global.u32 [%rd1], %r2;
}
";

/// Adds a number to what a table points to; the address of the table is deep inside a large parameter.
const CAPTURED: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry follow(.param .align 8 .b8 arguments[264], .param .u32 value)
{
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [arguments+256]; ld.param.u32 %r1, [value];
  ld.global.u64 %rd2, [%rd1+8];
  ld.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, %r1; st.global.u32 [%rd2], %r2;
}
";

/// A folder with a captured launch; `change` works on its JSON.
fn capture(change: impl Fn(String) -> String) -> Result<Prepared, String> {
    let scratch = files::Scratch::new().unwrap();
    let large = "00".repeat(264);
    let json = format!(
        r#"{{"ptx": "k.ptx", "grid": [1, 1, 1], "block": [1, 1, 1], "params": ["{large}", "04000000"],
            "relocs": [{{"param": 0, "offset": 256, "buffer": 0, "addend": 8}}],
            "buffers": [{{"bytes": 32, "init": "poison", "relocs": [{{"offset": 16, "buffer": 1, "addend": 4}}]}},
                        {{"bytes": 8, "name": "sum", "file": "in.bin", "save": "out.bin"}}]}}"#
    );
    fs::write(scratch.path().join("k.ptx"), CAPTURED).unwrap();
    fs::write(scratch.path().join("in.bin"), [9, 0, 0, 0, 3, 0, 0, 0]).unwrap();
    let path = scratch.path().join("launch.json");
    fs::write(&path, change(json)).unwrap();
    let capture = Capture::read(&path).map_err(|error| error.to_string())?;
    capture.load(false).map_err(|error| error.to_string())
}

/// Any machine, so what holds here is what a GPU is given too.
fn run(machine: &dyn Machine, prepared: &Prepared) -> Vec<Vec<u8>> {
    machine.run_prepared(prepared).unwrap()
}

#[test]
fn a_file_test_and_a_capture_run_as_the_same_kind_of_program() {
    let simulator = SimEngine::mode("eager", 0);
    let test = FileTest::parse("k", KERNEL).unwrap();
    let plain = test.prepare(&test.runs[0]).unwrap();
    assert_eq!(run(&simulator, &plain)[1], [7, 0, 0, 0, 3, 0, 0, 0]);
    let captured = capture(|json| json).unwrap();
    assert_eq!(captured.program.check(), Ok(vec![]));
    assert!(
        matches!(&captured.program.launches[0].args[0], Argument::Bytes(b, _) if b.len() == 264)
    );
    assert_eq!(run(&simulator, &captured)[1], [9, 0, 0, 0, 7, 0, 0, 0]);
}

#[test]
fn a_capture_keeps_the_rules_of_every_program() {
    let rules = |from: &str, to: &str| -> Vec<Rule> {
        let prepared = capture(|json| json.replace(from, to)).unwrap();
        prepared.program.check().unwrap_err().iter().map(|violation| violation.rule).collect()
    };
    assert_eq!(rules(r#""grid": [1, 1, 1]"#, r#""grid": [1, 0, 1]"#), [Rule::L(3)]);
    assert_eq!(rules(r#""04000000""#, r#""0400000000""#), [Rule::L(10)]);
    assert_eq!(rules(r#", "04000000""#, ""), [Rule::L(9)]);
    assert_eq!(rules(r#""offset": 256"#, r#""offset": 257"#), [Rule::L(16)]);
    assert_eq!(rules(r#""buffer": 1"#, r#""buffer": 2"#), [Rule::L(16)]);
    assert_eq!(rules(r#""offset": 16"#, r#""offset": 25"#), [Rule::L(16)]);
}

#[test]
fn mistakes_in_a_capture_are_named() {
    let error = |from: &str, to: &str| capture(|json| json.replace(from, to)).unwrap_err();
    assert_eq!(
        error(r#""param": 0"#, r#""param": 2"#),
        "relocs[0]: names parameter 2; there are 2"
    );
    assert_eq!(error("04000000", "0400000"), "a parameter of 7 hex digits: two make a byte");
    assert_eq!(error("04000000", "0400000g"), "`g` in a parameter is no hex digit");
    assert!(error("poison", "poisson").contains("unknown variant `poisson`"));
    assert!(error("k.ptx", "other.ptx").contains("other.ptx"));
}

#[test]
fn buffers_of_one_name_are_told_apart() {
    let name = |i: usize| {
        let named = r#"{"bytes": 32, "name": "sum""#;
        let prepared = capture(|json| json.replace(r#"{"bytes": 32"#, named)).unwrap();
        assert_eq!(prepared.program.check(), Ok(vec![]));
        prepared.program.buffers[i].name.clone()
    };
    assert_eq!((name(0).as_str(), name(1).as_str()), ("sum", "sum (1)"));
}
