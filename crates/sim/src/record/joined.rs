//! Two PTX instructions that are one machine instruction.
//!
//! From sm_100 on `max` and `min` of floats take three operands. Where PTX has two of them in a row, and the second takes
//! the result of the first, `ptxas` makes one of both (`FMNMX3`). A shift to the left by a constant and a 32-bit addition
//! that takes its result are one on every architecture (`LEA`, or `IMAD`). Moves between two such instructions are no
//! machine code.

use ptx::Module;
use ptx::ast::{Instruction, Operand};

/// The first architecture whose comparisons of floats take three operands.
const THREE_OPERANDS: u32 = 100;

/// Whether the next instruction may become one with this comparison or shift.
pub(crate) fn joinable(module: &Module, instruction: &Instruction) -> bool {
    let is_comparison = matches!(instruction.opcode.as_str(), "max" | "min");
    let compares = is_comparison && instruction.has("f32") && is_plain(instruction);
    compares && is_new(module) || is_shift(instruction)
}

/// Whether this instruction becomes one with the last one, which is [`joinable`].
pub(crate) fn joins(last: &Instruction, this: &Instruction) -> bool {
    let result = last.operands.first();
    let takes_it = this.operands.iter().skip(1).any(|operand| Some(operand) == result);
    let same = last.opcode == this.opcode && last.modifiers == this.modifiers && is_plain(this);
    takes_it && if is_shift(last) { is_addition(this) } else { same }
}

/// Whether an instruction between two others does not keep them apart.
pub(crate) fn is_move(instruction: &Instruction) -> bool {
    instruction.opcode.as_str() == "mov"
}

/// A shift of 32 bits to the left by a constant.
fn is_shift(instruction: &Instruction) -> bool {
    let by_constant = matches!(instruction.operands.last(), Some(Operand::Integer { .. }));
    instruction.opcode.as_str() == "shl"
        && instruction.has("b32")
        && instruction.guard.is_none()
        && by_constant
}

/// An addition of 32-bit integers without carries.
fn is_addition(instruction: &Instruction) -> bool {
    let has = |name| instruction.has(name);
    let plain = !has("cc") && !has("sat") && instruction.guard.is_none();
    instruction.opcode.as_str() == "add" && (has("s32") || has("u32")) && plain
}

/// A result, two operands, and no guard.
fn is_plain(instruction: &Instruction) -> bool {
    let is_name = |operand: &Operand| matches!(operand, Operand::Name(_) | Operand::F32(_));
    let operands = &instruction.operands;
    instruction.guard.is_none() && operands.len() == 3 && operands.iter().all(is_name)
}

fn is_new(module: &Module) -> bool {
    let target = module.target.first().map_or("", |target| target.as_str());
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    digits.parse().is_ok_and(|number: u32| number >= THREE_OPERANDS)
}

#[cfg(test)]
mod tests {
    use crate::record::{Event, Unit};

    /// Instructions of the integer unit and issue slots that a lane's comparisons take.
    fn comparisons(target: &str, body: &str) -> (u32, u32) {
        let text = format!(
            ".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k()\n\
             {{\n.reg .f32 %f<8>;\n.reg .b32 %r<8>;\n{body}\nret;\n}}\n"
        );
        let module = ptx::parse(&text).expect("valid PTX");
        let program = program::Program {
            launches: vec![program::Launch {
                kernel: "k".into(),
                grid: [1; 3],
                block: [32, 1, 1],
                cluster: [1; 3],
                shared_bytes: 0,
                args: Vec::new(),
                overlaps_previous: false,
            }],
            buffers: Vec::new(),
            module: std::sync::Arc::new(module),
        };
        let options = crate::Options { checks: false, record: true, ..Default::default() };
        let report = crate::run(&program, &Vec::new(), &options).expect("runs");
        let Some(Event::Run(mix)) = report.recordings[0].warps[0].events.first() else {
            panic!("no instructions were recorded");
        };
        (mix.of(Unit::Alu), mix.slots)
    }

    const CHAIN: &str = "mov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f40000000;\n\
        max.f32 %f3, %f1, %f2;\nmax.f32 %f4, %f3, %f1;\nmax.f32 %f5, %f4, %f2;\n";

    #[test]
    fn two_comparisons_in_a_row_are_one_from_sm_100_on() {
        // The last one of three has nothing to join.
        let (new, slots) = comparisons("sm_100a", CHAIN);
        let (old, more) = comparisons("sm_90a", CHAIN);
        assert_eq!((new, old, more - slots), (2, 3, 1));
    }

    #[test]
    fn a_shift_and_an_addition_are_one() {
        let shift =
            "mov.b32 %r1, 5;\nshl.b32 %r2, %r1, 23;\nmov.b32 %r4, %r1;\nadd.s32 %r3, %r2, %r4;\n";
        let other = shift.replace("%r2, %r4", "%r1, %r4");
        let wide = "mov.b32 %r1, 5;\nshl.b32 %r2, %r1, %r1;\nadd.s32 %r3, %r2, %r1;\n";
        let found = [shift, &other, wide].map(|body| comparisons("sm_90a", body).0);
        assert_eq!(found, [1, 2, 2]);
    }

    #[test]
    fn comparisons_that_differ_or_do_not_meet_stay_apart() {
        let apart = "mov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f40000000;\n\
            max.f32 %f3, %f1, %f2;\nmin.f32 %f4, %f3, %f1;\n\
            max.f32 %f5, %f1, %f2;\nmax.f32 %f6, %f1, %f2;\n";
        assert_eq!(comparisons("sm_100a", apart).0, 4);
    }
}
