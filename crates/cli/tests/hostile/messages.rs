//! Messages about texts with lines that have no end.

use super::*;

const HEADER: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

#[test]
fn long_lines_are_not_repeated_to_the_user() {
    let long = "x".repeat(3_000_000);
    let scratch = scratch();
    let path = scratch.file("k.ptx");
    for (what, ptx) in [
        ("a line", format!("{HEADER}{}?\n", ".visible ".repeat(300_000))),
        ("a word", format!("{HEADER}{long}\n")),
        ("a string", format!("{HEADER}.entry k() {{ \"{long}\" }}\n")),
        ("a name", format!("{HEADER}.entry k() {{ mov.b32 {long}, 1; }}\n")),
        ("an opcode", format!("{HEADER}.entry k() {{ {long}; }}\n")),
        ("a target", format!(".version 8.7\n.target {long}\n.address_size 64\n.entry k() {{}}\n")),
        ("an option", format!("// run: --{long} 1\n{HEADER}.entry k() {{ ret; }}\n")),
        ("a kernel", format!("{HEADER}.entry {long}(.param .u64 p) {{ ret; }}\n")),
    ] {
        fs::write(&path, ptx).unwrap();
        for command in ["sim", "warm"] {
            let arguments = [command, path.to_str().unwrap()];
            let device = ["--no-tools", "--device", "sim-sm90"];
            let device = if command == "warm" { &device[..] } else { &[] };
            let cache = scratch.file("cache");
            let mut command = sixwarp(&[&arguments, device].concat());
            let output = command.env("SIXWARP_CACHE", cache).env("SIXWARP_PTXAS", "/bin/false");
            let output = output.output().unwrap();
            let said = output.stdout.len() + output.stderr.len();
            assert!(said < 20_000, "{what}, {arguments:?}: {said} bytes");
        }
    }
}
