//! PTX that nobody here wrote: kernels compiled by Triton, through parser and printer.
//!
//! The printed text must give the very machine code that `ptxas` makes of the original.

mod support;

use sixwarp_ptx::resolve::resolve;
use sixwarp_ptx::toolchain::assemble;
use sixwarp_ptx::{Module, parse};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static KERNELS: LazyLock<Vec<(String, String)>> = LazyLock::new(support::triton_kernels);

fn read(name: &str, text: &str) -> Module {
    parse(text).unwrap_or_else(|e| panic!("{name}.ptx:{e}"))
}

#[test]
fn every_kernel_is_read_and_its_names_resolve() {
    assert!(KERNELS.len() >= 30, "{} kernels", KERNELS.len());
    for (name, text) in KERNELS.iter() {
        let module = read(name, text);
        let mut instructions = 0;
        for function in module.functions() {
            let body = resolve(&module, function).unwrap_or_else(|e| panic!("{name}: {e}"));
            instructions += body.instructions.len();
        }
        assert_eq!(instructions, count_instructions(text), "{name}");
    }
}

#[test]
fn print_then_parse_gives_the_same_tree() {
    for (name, text) in KERNELS.iter().chain(&support::corpus()) {
        let module = read(name, text);
        assert_eq!(read(name, &module.to_string()), module, "{name}");
    }
}

#[test]
fn hopper_machine_code_is_the_same() {
    same_machine_code("sm90", "sm_90a");
}

#[test]
fn blackwell_machine_code_is_the_same() {
    same_machine_code("sm100", "sm_100a");
}

fn same_machine_code(suffix: &str, arch: &str) {
    for (name, text) in KERNELS.iter().filter(|(name, _)| name.ends_with(suffix)) {
        let machine_code = |text: &str| {
            code_sections(&assemble(text, arch).unwrap_or_else(|e| panic!("{name}: {e}")).cubin)
        };
        let (original, printed) = (machine_code(text), machine_code(&read(name, text).to_string()));
        assert!(original.keys().any(|section| section.starts_with(".text.")), "{name}");
        assert_eq!(original.keys().collect::<Vec<_>>(), printed.keys().collect::<Vec<_>>());
        for (section, bytes) in &original {
            assert_eq!(printed[section].len(), bytes.len(), "{name}: size of {section}");
            assert!(printed[section] == *bytes, "{name}: section {section} differs");
        }
    }
}

/// Semicolons of the function body that end no declaration: a count without the parser.
fn count_instructions(text: &str) -> usize {
    let body = text.split_once("\n{").expect("a function body").1;
    let code = body.lines().filter_map(|line| line.split("//").next());
    let declares = |line: &&str| line.contains(".reg") || line.contains(".pragma");
    let ends: usize = code.filter(|l| !declares(l)).map(|line| line.matches(';').count()).sum();
    ends - body.matches(".branchtargets").count()
}

/// Everything a GPU would load of a cubin: code, constants and launch facts, by section name.
fn code_sections(elf: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let word = |at: usize, bytes: usize| {
        elf[at..at + bytes].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
    };
    let (table, entry_bytes, count, names) = (word(40, 8), word(58, 2), word(60, 2), word(62, 2));
    let header = |i: usize| table + i * entry_bytes;
    let contents =
        |i: usize| word(header(i) + 24, 8)..word(header(i) + 24, 8) + word(header(i) + 32, 8);
    let strings = &elf[contents(names)];
    let name_of = |i: usize| {
        let bytes = strings[word(header(i), 4)..].split(|byte| *byte == 0).next().unwrap();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let loaded =
        |name: &str| [".text.", ".nv.info", ".nv.constant"].iter().any(|p| name.starts_with(p));
    let sections = (0..count).map(|i| (name_of(i), i)).filter(|(name, _)| loaded(name));
    sections.map(|(name, i)| (name, elf[contents(i)].to_vec())).collect()
}
