//! What each chapter runs, on what numbers, and what must come out.

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

/// Whole numbers from −2 to 2: their products and sums are exact.
fn small(count: u32, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) % 5
    };
    (0..count).map(|_| next() as f32 - 2.0).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The upper halves of f32 numbers: bf16 numbers, where nothing is lost.
fn halves(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

fn saxpy() -> Lesson {
    const N: u32 = 1000;
    let (x, y) = (small(N, 1), small(N, 2));
    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
    Lesson {
        name: "saxpy",
        program: crate::saxpy::program(N, 3.0),
        memory: vec![bytes(&x), bytes(&y)],
        expected: bytes(&sums),
    }
}

fn tile() -> Lesson {
    const ROWS: u32 = 450;
    let x = small(ROWS * 32, 1);
    let scaled: Vec<f32> = x.iter().map(|x| 3.0 * x).collect();
    Lesson {
        name: "tile",
        program: crate::tile::program(ROWS, 3.0),
        memory: vec![bytes(&x), vec![0xFF; x.len() * 4]],
        expected: bytes(&scaled),
    }
}

fn gemm(name: &'static str, program: fn([u32; 3]) -> Program) -> Lesson {
    // Sums of 200 products of small numbers: exact in bf16, which has all integers up to 256.
    let [m, n, k] = [136, 144, 200];
    let (a, b) = (small(m * k, 1), small(n * k, 2).iter().map(|x| x.signum()).collect::<Vec<_>>());
    let row = |x: &[f32], i: u32| x[(i * k) as usize..][..k as usize].to_vec();
    let mut products = Vec::new();
    for left in (0..m).map(|i| row(&a, i)) {
        let dot = |right: Vec<f32>| left.iter().zip(right).map(|(x, y)| x * y).sum::<f32>();
        products.extend((0..n).map(|j| dot(row(&b, j))));
    }
    Lesson {
        name,
        program: program([m, n, k]),
        memory: vec![halves(&a), halves(&b), vec![0xFF; products.len() * 2]],
        expected: halves(&products),
    }
}
