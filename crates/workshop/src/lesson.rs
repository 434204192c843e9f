//! What each chapter runs, on what numbers, and what must come out.

use crate::numbers::{bf16_bytes, f32_bytes, product, small};
use program::Program;
use ptx::ast::{Item, Statement};
use std::sync::Arc;

/// A kernel of a chapter with its memory.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The chapter's name.
    pub name: &'static str,
    /// The program.
    pub program: Program,
    /// Contents of its buffers before it runs.
    pub memory: Vec<Vec<u8>>,
    /// Contents of its last buffer afterwards.
    pub expected: Vec<u8>,
}

/// The lessons, in the order of the chapters.
pub fn all() -> Vec<Lesson> {
    vec![
        saxpy(),
        tile(),
        gemm("wgmma", crate::wgmma::program),
        gemm("tcgen05", crate::tcgen05::program),
    ]
}

/// The lesson called `name`.
pub fn named(name: &str) -> Option<Lesson> {
    all().into_iter().find(|lesson| lesson.name == name)
}

/// The program without the instructions whose text begins with `opcode`: a line that was forgotten.
pub fn without(program: &Program, opcode: &str) -> Program {
    let mut module = (*program.module).clone();
    for item in &mut module.items {
        if let Item::Function(function) = item {
            function
                .body
                .iter_mut()
                .for_each(|body| body.retain(|line| !begins_with(line, opcode)));
        }
    }
    Program { module: Arc::new(module), ..program.clone() }
}

fn begins_with(statement: &Statement, opcode: &str) -> bool {
    let Statement::Instruction(instruction) = statement else { return false };
    let modifiers = instruction.modifiers.iter().map(|modifier| format!(".{modifier}"));
    let text = std::iter::once(instruction.opcode.to_string()).chain(modifiers);
    text.collect::<String>().starts_with(opcode)
}

fn saxpy() -> Lesson {
    const N: u32 = 1000;
    let (x, y) = (small(N as usize, 1), small(N as usize, 2));
    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
    Lesson {
        name: "saxpy",
        program: crate::saxpy::program(N, 3.0),
        memory: vec![f32_bytes(&x), f32_bytes(&y)],
        expected: f32_bytes(&sums),
    }
}

fn tile() -> Lesson {
    const ROWS: u32 = 450;
    let x = small(ROWS as usize * 32, 1);
    let scaled: Vec<f32> = x.iter().map(|x| 3.0 * x).collect();
    Lesson {
        name: "tile",
        program: crate::tile::program(ROWS, 3.0),
        memory: vec![f32_bytes(&x), vec![0xFF; x.len() * 4]],
        expected: f32_bytes(&scaled),
    }
}

fn gemm(name: &'static str, program: fn([u32; 3]) -> Program) -> Lesson {
    const SHAPE: [u32; 3] = [136, 144, 200];
    let [m, n, k] = SHAPE.map(|size| size as usize);
    let (a, b) = (small(m * k, 1), small(n * k, 2));
    let places = (0..m * n).map(|at| [at / n, at % n]);
    let products: Vec<f32> = places.map(|place| product(&a, &b, k, place)).collect();
    Lesson {
        name,
        program: program(SHAPE),
        memory: vec![bf16_bytes(&a), bf16_bytes(&b), vec![0xFF; products.len() * 2]],
        expected: bf16_bytes(&products),
    }
}
