//! Names of mutants that last: what was done to which instruction of which Rust function.
//!
//! PTX lines and registers move with every change of a kernel, and Rust lines with every change of a
//! file. The function an instruction was emitted by (found in the source that `.loc` names) and its
//! number among the like ones of that function do not.

use filetest::{Change, Mutant};
use std::collections::HashMap;
use std::path::Path;

/// Where emitters are.
const EMITTERS: &str = "crates/kernels/src/";

/// The names of `mutants`, all those of a module in their order.
pub fn names(mutants: &[Mutant]) -> Vec<String> {
    let mut sources = HashMap::new();
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let name = |mutant: &Mutant| {
        let change = match mutant.change {
            Change::Deleted => "without",
            Change::ParityFlipped => "flipped",
        };
        let place = place(mutant, &mut sources);
        let name = format!("{change} {} in {place}", mutant.opcode());
        let number = numbers.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1);
        format!("{name} #{number}")
    };
    mutants.iter().map(name).collect()
}

/// File and function of the source that emitted an instruction.
fn place(mutant: &Mutant, sources: &mut HashMap<String, String>) -> String {
    let (file, line) = mutant.source.as_ref().expect("kernels say where they come from");
    let text = sources.entry(file.clone()).or_insert_with(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    });
    let above: Vec<&str> = text.lines().take(*line as usize).collect();
    let function = above.iter().rev().find_map(|line| function_name(line));
    let file = file.strip_prefix(EMITTERS).unwrap_or(file);
    format!("{file} {}", function.unwrap_or("nowhere"))
}

/// The name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let words = words.strip_prefix("pub ").unwrap_or(words);
    let (name, _) = words.strip_prefix("fn ")?.split_once(['(', '<'])?;
    Some(name)
}
