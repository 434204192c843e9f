use crate::facts::Facts;
use filetest::ElementKind;
use program::{
    Access, Argument, Buffer, BufferId, ElementType, L2Promotion, Launch, OobFill, Program,
    Swizzle, TensorMap,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A row-major matrix that a kernel works on.
pub struct Matrix {
    pub element: ElementKind,
    pub rows: usize,
    pub columns: usize,
    pub bytes: Vec<u8>,
    pub output: bool,
}

impl Matrix {
    /// Numbers of few bits, so that every type up to bf16 holds them exactly.
    pub fn random(element: ElementKind, rows: usize, columns: usize, seed: u64) -> Matrix {
        let mut state = seed;
        let size = element.bytes();
        let mut bytes = Vec::with_capacity(rows * columns * size);
        for _ in 0..rows * columns {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = ((state >> 33) % 257) as f64 / 128.0 - 1.0;
            bytes.extend_from_slice(&element.encode(value).to_le_bytes()[..size]);
        }
        Matrix { element, rows, columns, bytes, output: false }
    }

    /// A result, all NaN (or whatever ones in every bit mean) until it is written.
    pub fn output(element: ElementKind, rows: usize, columns: usize) -> Matrix {
        let bytes = vec![0xFF; rows * columns * element.bytes()];
        Matrix { element, rows, columns, bytes, output: true }
    }

    /// An element.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.element.decode(self.element.read(&self.bytes, row * self.columns + column))
    }
}

/// Builds the program of a kernel over named matrices and scalars.
pub fn program(
    facts: &Facts,
    grid: [u32; 3],
    matrices: &[(&str, &Matrix)],
    scalars: &HashMap<&str, Argument>,
) -> Program {
    let mut buffers: Vec<Buffer> = matrices
        .iter()
        .map(|(name, matrix)| {
            let access = if matrix.output { Access::Write } else { Access::Read };
            Buffer::new(*name, matrix.bytes.len() as u64, 256, access)
        })
        .collect();
    let scratch = facts.global_scratch * u64::from(grid.iter().product::<u32>());
    if scratch > 0 {
        let access = Access::Workspace;
        buffers.push(Buffer::new("scratch", scratch, 256, access));
    }
    let args = facts.params.iter().map(|param| {
        let (base, suffix) = param.name.split_once('.').unwrap_or((&param.name, ""));
        let found = matrices.iter().position(|(name, _)| *name == base);
        let matrix = found.map(|i| matrices[i].1);
        match (param.kind.as_str(), matrix) {
            ("pointer", Some(_)) => Argument::Buffer(BufferId(found.unwrap_or(0)), 0),
            ("tensor_map", Some(matrix)) => {
                Argument::TensorMap(tensor_map(facts, &param.name, found.unwrap_or(0), matrix))
            }
            ("shape", Some(matrix)) => {
                Argument::U32(if suffix == "shape0" { matrix.rows } else { matrix.columns } as u32)
            }
            ("stride", Some(matrix)) => {
                Argument::U64(if suffix == "stride0" { matrix.columns as u64 } else { 1 })
            }
            ("scratch", _) if base == "global_scratch" && scratch > 0 => {
                Argument::Buffer(BufferId(matrices.len()), 0)
            }
            ("scratch", _) => Argument::U64(0),
            _ => match scalars.get(param.name.as_str()) {
                Some(argument) => argument.clone(),
                None => panic!("{}: nothing for parameter {}", facts.name, param.name),
            },
        }
    });
    Program {
        module: Arc::clone(facts.module.as_ref().expect("a parsed module")),
        launches: vec![Launch {
            kernel: facts.kernel.clone(),
            grid,
            block: [facts.threads, 1, 1],
            cluster: facts.cluster,
            shared_bytes: facts.shared,
            args: args.collect(),
            overlaps_previous: false,
        }],
        buffers,
    }
}

/// The contents of a program's buffers at the start: the matrices, then empty scratch.
pub fn inputs(program: &Program, matrices: &[(&str, &Matrix)]) -> Vec<Vec<u8>> {
    let mut inputs: Vec<Vec<u8>> = matrices.iter().map(|(_, m)| m.bytes.clone()).collect();
    inputs.resize(program.buffers.len(), Vec::new());
    inputs
}

fn tensor_map(facts: &Facts, name: &str, buffer: usize, matrix: &Matrix) -> TensorMap {
    let map = &facts.tensor_maps[name];
    let size = matrix.element.bytes() as u64;
    TensorMap {
        buffer: BufferId(buffer),
        offset: 0,
        element: match matrix.element {
            ElementKind::F16 => ElementType::F16,
            ElementKind::Bf16 => ElementType::Bf16,
            ElementKind::F32 => ElementType::F32,
            _ => ElementType::U8,
        },
        dims: vec![matrix.columns as u64, matrix.rows as u64],
        strides: vec![matrix.columns as u64 * size],
        box_dims: map.block_size.iter().rev().copied().collect(),
        element_strides: vec![1, 1],
        im2col: None,
        swizzle: [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][map.swizzle as usize],
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::None,
    }
}

/// How far a result of `element` may be from the f64 one of size `want`, when sums had terms of
/// up to `scale`.
pub fn tolerance(element: ElementKind, want: f64, scale: f64) -> f64 {
    let relative = match element {
        ElementKind::F16 => 2f64.powi(-10),
        ElementKind::Bf16 => 2f64.powi(-7),
        _ => 2f64.powi(-20),
    };
    relative * want.abs() + 1e-5 * scale
}
