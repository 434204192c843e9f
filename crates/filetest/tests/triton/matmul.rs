use crate::facts::Facts;
use crate::launch::{self, Matrix, program, tolerance};
use filetest::SimEngine;
use program::Argument;
use std::collections::HashMap;

/// Rows, columns and depth that leave partial tiles at every edge.
fn shape(facts: &Facts) -> (usize, usize, usize) {
    match facts.name.as_str() {
        name if name.starts_with("matmul_pointers") => (160, 96, 112),
        name if name.contains("persistent") || name.contains("specialised") => (256, 336, 208),
        _ => (208, 160, 144),
    }
}

/// Runs a product in every mode and compares each result with f64.
pub fn check(facts: &Facts, engines: &[SimEngine]) {
    let (m, n, k) = shape(facts);
    let pointers = facts.name.starts_with("matmul_pointers");
    let a = Matrix::random(facts.element("a"), m, k, 1);
    // The pointer kernel takes B as [k, n], the others as [n, k].
    let (rows, columns) = if pointers { (k, n) } else { (n, k) };
    let b = Matrix::random(facts.element("b"), rows, columns, 2);
    let c = Matrix::output(facts.element("c"), m, n);
    let tile = |size: usize, name| size.div_ceil(facts.constant(name) as usize) as u32;
    let programs = 3;
    let grid = match facts.params.iter().any(|p| p.name == "programs") {
        true => [programs, 1, 1],
        false => [tile(m, "BLOCK_M") * facts.cluster[0], tile(n, "BLOCK_N"), 1],
    };
    let number = |x: usize| Argument::U32(x as u32);
    let scalars = HashMap::from([
        ("m", number(m)),
        ("n", number(n)),
        ("k", number(k)),
        ("stride_am", number(k)),
        ("stride_bk", number(n)),
        ("stride_cm", number(n)),
        ("programs", Argument::U32(programs)),
    ]);
    let matrices = [("a", &a), ("b", &b), ("c", &c)];
    let program = program(facts, grid, &matrices, &scalars);
    let inputs = launch::inputs(&program, &matrices);
    for engine in engines {
        let result = engine.run(&program, &inputs);
        let mut buffers =
            result.unwrap_or_else(|e| panic!("{} ({}): {e}", facts.name, engine.mode));
        let c = Matrix { bytes: buffers.swap_remove(2), ..Matrix::output(c.element, m, n) };
        for row in 0..m {
            for column in 0..n {
                let b_at = |i| if pointers { b.at(i, column) } else { b.at(column, i) };
                let want: f64 = (0..k).map(|i| a.at(row, i) * b_at(i)).sum();
                let got = c.at(row, column);
                let limit = tolerance(c.element, want, k as f64);
                assert!(
                    (got - want).abs() <= limit,
                    "{} ({}): c[{row}][{column}] is {got}, should be {want}",
                    facts.name,
                    engine.mode
                );
            }
        }
    }
}
