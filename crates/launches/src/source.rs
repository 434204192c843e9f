//! Source lines in PTX of LLVM's compilers.

const BEGIN: &str = "// begin inline asm";
const END: &str = "// end inline asm";

/// The text without `.loc` inside inline assembly; lines keep their numbers.
///
/// LLVM counts lines of the assembly's own text there: the second instruction of a Triton load is said to be one line
/// further down in the program than the first. What stands before the assembly is the program's line.
pub fn without_inline_locations(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        inside = (inside || bare == BEGIN) && bare != END;
        match inside && bare.starts_with(".loc") {
            true => kept.push('\n'),
            false => kept.push_str(line),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locations_of_inline_assembly_go() {
        let text = "\t.loc 1 89 19\n// begin inline asm\n\t.loc 1 90 19\nld;\n// end inline asm\n\t.loc 1 91 5\nst;";
        let kept =
            "\t.loc 1 89 19\n// begin inline asm\n\nld;\n// end inline asm\n\t.loc 1 91 5\nst;";
        assert_eq!(without_inline_locations(text), kept);
    }
}
