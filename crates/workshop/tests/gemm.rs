//! The GEMM on the simulator, all hazards looked for.

use half::bf16;
use program::Program;
use sixwarp_workshop::gemm::{Config, Shape, Share, program};

/// Small numbers whose sums are exact.
fn numbers(count: usize, seed: u32) -> Vec<bf16> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as i32 % 5 - 2
    };
    (0..count).map(|_| bf16::from_f32(next() as f32)).collect()
}

fn bytes(numbers: &[bf16]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn expected(a: &[bf16], b: &[bf16], Shape { m, n, k }: Shape) -> Vec<bf16> {
    let wide = |x: &[bf16]| x.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let (a, b, k) = (wide(a), wide(b), k as usize);
    let product = |row: usize, column: usize| {
        let (a, b) = (&a[row * k..][..k], &b[column * k..][..k]);
        bf16::from_f32(a.iter().zip(b).map(|(x, y)| x * y).sum())
    };
    (0..m as usize)
        .flat_map(|row| (0..n as usize).map(move |c| (row, c)))
        .map(|(r, c)| product(r, c))
        .collect()
}

fn run(program: &Program, shape: Shape, mode: &str) {
    let Shape { m, n, k } = shape;
    let (a, b) = (numbers((m * k) as usize, 1), numbers((n * k) as usize, 2));
    let memory = [bytes(&a), bytes(&b), vec![0xFF; (m * n * 2) as usize]];
    let options = sim::Options::mode(mode, 1).expect("a mode");
    let report = sim::run(program, &memory, &options).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
    assert!(report.buffers[2] == bytes(&expected(&a, &b, shape)), "{shape:?}, {mode}");
}

#[test]
fn tiles_of_every_configuration_are_right() {
    let usual = Config::default();
    let shape = Shape { m: 320, n: 264, k: 264 };
    for share in [Share::Nothing, Share::Left, Share::Right] {
        let config = Config { share, group: 2, ..usual };
        run(&program(shape, config, 4).expect("a program"), shape, "pedantic");
    }
}

#[test]
fn every_completion_and_schedule_gives_the_same() {
    let shape = Shape { m: 256, n: 256, k: 192 };
    let config = Config { stages: 2, store_stages: 1, ..Config::default() };
    for mode in ["latest", "random", "adversarial"] {
        run(&program(shape, config, 2).expect("a program"), shape, mode);
    }
}
