//! The GEMM on the simulator, all hazards looked for.

use program::Program;
use sixwarp_workshop::gemm::{Config, Shape, Share, program};
use sixwarp_workshop::lesson::without;
use sixwarp_workshop::numbers::{bf16_bytes, product, small};

fn run(program: &Program, shape: Shape, mode: &str) {
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
    let (a, b) = (small(m * k, 1), small(n * k, 2));
    let places = (0..m * n).map(|at| [at / n, at % n]);
    let products: Vec<f32> = places.map(|place| product(&a, &b, k, place)).collect();
    let memory = [bf16_bytes(&a), bf16_bytes(&b), vec![0xFF; m * n * 2]];
    let options = sim::Options::mode(mode, 1).expect("a mode");
    let report = sim::run(program, &memory, &options).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
    assert!(report.buffers[2] == bf16_bytes(&products), "{shape:?}, {mode}");
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

#[test]
fn a_forgotten_line_is_reported() {
    let shape = Shape { m: 256, n: 256, k: 384 };
    let program = program(shape, Config::default(), 2).expect("a program");
    let memory =
        program.buffers.iter().map(|buffer| vec![0; buffer.bytes as usize]).collect::<Vec<_>>();
    for (opcode, wanted) in [
        ("wgmma.wait_group", "hazard[race]"),
        ("mbarrier.arrive.shared::cluster", "deadlock"),
        ("fence.proxy.async", "hazard[missing-proxy-fence]"),
    ] {
        let error = sim::run(&without(&program, opcode), &memory, &sim::Options::default());
        let error = error.expect_err(opcode).to_string();
        assert!(error.starts_with(wanted), "{opcode}: {error}");
    }
}
