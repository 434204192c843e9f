//! `sixwarp layout` as a user runs it.

use std::process::{Command, Output};

fn layout(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
    command.arg("layout").args(arguments).env_remove("COLUMNS").output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = layout(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = layout(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

#[test]
fn every_example_of_the_help_works() {
    let help = printed(&["--help"]);
    let examples = help.lines().filter_map(|line| line.strip_prefix("  sixwarp layout "));
    let mut count = 0;
    for example in examples {
        // Behind two spaces comes the explanation; `|` separates alternatives.
        let command = example.split("  ").next().unwrap();
        for alternative in command.split(" | ") {
            let words = words_of(alternative);
            let words = words.iter().map(String::as_str).filter(|word| !word.contains("svg"));
            let words: Vec<&str> = words.collect();
            assert!(!printed(&words).is_empty(), "{alternative}");
            count += 1;
        }
    }
    assert!(count >= 14, "only {count} examples in the help");
}

/// The words of a command in which single quotes keep spaces together.
fn words_of(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in command.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn tables_name_threads_and_values() {
    let table = printed(&["mma-c"]);
    assert!(table.starts_with("mma-c\n  ((4,8),(2,2)):((32,1),(16,8))\n"), "{table}");
    assert!(table.contains(" T5:3 ") && !table.contains('\x1b'), "no colours in a pipe");
    assert!(printed(&["mma-c", "--color", "always"]).contains("\x1b[48;2;"));
    assert_eq!(printed(&["(4,8):(8,1)", "--at", "(2,5)"]), "21\n");
    assert_eq!(printed(&["wgmma-d:n64", "--at", "(37,6)"]), "(25,10)\n");
    assert_eq!(printed(&["tmem-d:m64,n32", "--at", "(17,3)"]), "tmem[33,3] of CTA 0\n");
    assert_eq!(printed(&["(8,64):(64,1)", "--swizzle", "S<3,3,3>", "--at", "(1,0)"]), "72\n");
    assert!(printed(&["(4,8):(8,1)", "--slice", "(2,_)"]).starts_with("S<0,4,3> o 16 o 8:1\n"));
}

#[test]
fn facts_are_there_for_other_programs() {
    let tile = json(&["smem:8x64,bf16", "--json"]);
    assert_eq!((&tile["size"], &tile["element_bits"]), (&512.into(), &16.into()));
    assert_eq!(tile["indices"][1], 72, "row 1 is swizzled by one unit of 8 elements");
    let store = json(&["transform", "tmem-ld:32x32b.x64,warpgroup", "smem:128x64,bf16", "--json"]);
    assert_eq!((&store["vector_bits"], &store["conflict_degree"]), (&128.into(), &1.into()));
    let plain = json(&["transform", "tmem-ld:32x32b.x64,warpgroup", "(128,64):(64,1)", "--json"]);
    assert_eq!(plain["conflict_degree"], 8);
}

#[test]
fn the_algebra_is_a_calculator() {
    let compute = |words: &[&str]| printed(&[&["compute"], words].concat());
    assert_eq!(compute(&["compose", "(6,2):(8,2)", "(4,3):(3,1)"]), "((2,2),3):((24,2),8)\n");
    assert_eq!(compute(&["complement", "(2,2):(1,6)", "24"]), "(3,2):(2,12)\n");
    assert_eq!(compute(&["recast", "(8,64):(64,1)", "16", "128"]), "(8,8):(8,1)\n");
    assert_eq!(compute(&["common-vector", "(8,16):(16,1)", "(8,(4,4)):(4,(1,32))"]), "4\n");
    assert!(
        refused(&["compute", "compose", "(4,6):(1,5)", "4:3"]).contains("do not divide evenly")
    );
    assert!(refused(&["compute", "compose", "4:1"]).contains("1 operands are not"));
}

#[test]
fn pictures_go_to_files() {
    let directory = std::env::temp_dir().join(format!("sixwarp-layout-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (svg, png) = (directory.join("a.svg"), directory.join("a.png"));
    printed(&["mma-a:bf16", "--svg", svg.to_str().unwrap(), "--png", png.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg "));
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn mistakes_are_named() {
    assert!(refused(&["(4,8:(8,1)"]).ends_with("\n  (4,8:(8,1)\n      ^\n"));
    assert!(refused(&["wgmma-d:n12"]).contains("N = 12: wgmma N is a multiple of 8 up to 256"));
    assert!(refused(&["wgmma-q"]).contains("'wgmma-q': no hardware layout has this name"));
    assert!(refused(&["mma-c", "--banks"]).contains("--banks needs"));
    assert!(refused(&["transform", "(4,4)", "mma-c"]).contains("a transform ends in memory"));
    assert!(refused(&["(1024,1024)"]).contains("at most 65536 cells"));
    assert!(refused(&["--tv", "(4,8)"]).contains("--tile"));
}
