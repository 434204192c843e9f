//! The kernels of the tutorial compute what they should, in every order of events, and assemble well.

use sixwarp_workshop::gemm::{self, Config, Shape};
use sixwarp_workshop::lesson::{self, Lesson};

fn check(lesson: &Lesson, mode: &str) {
    let options = sim::Options::mode(mode, 7).expect("a mode");
    let report = sim::run(&lesson.program, &lesson.memory, &options);
    let report = report.unwrap_or_else(|error| panic!("{}, {mode}: {error}", lesson.name));
    assert!(report.buffers.last() == Some(&lesson.expected), "{}, {mode}", lesson.name);
}

#[test]
fn every_lesson_computes_what_it_should_in_every_mode() {
    for lesson in lesson::all() {
        for mode in ["pedantic", "latest", "random", "adversarial"] {
            check(&lesson, mode);
        }
    }
}

#[test]
fn kernels_assemble_without_spills_or_warnings() {
    let mut programs: Vec<_> = lesson::all().into_iter().map(|l| (l.name, l.program)).collect();
    let shape = Shape { m: 8192, n: 8192, k: 8192 };
    let fast = gemm::program(shape, Config::default(), 132).expect("a legal program");
    programs.push(("the fast GEMM", fast));
    for (name, program) in programs {
        let arch = program.module.target[0].to_string();
        let code = ptx::toolchain::assemble(&program.module.to_string(), &arch);
        let code = code.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(code.warnings.is_empty(), "{name}: {:?}", code.warnings);
        for kernel in &code.report {
            assert_eq!((kernel.spill_stores, kernel.stack), (0, 0), "{name}: {kernel:?}");
        }
    }
}

#[test]
fn what_the_gemm_cannot_do_is_an_error() {
    let config = Config::default();
    let of = |m, n, k| gemm::program(Shape { m, n, k }, config, 132).map(|_| ());
    assert_eq!(of(0, 8, 8), Err("m is 0: sizes are from 1 to 2^24 - 1".into()));
    assert!(of(64, 64, 100).unwrap_err().starts_with("k is 100: rows of a tensor map"));
    let five = Config { stages: 5, ..config };
    let error = gemm::program(Shape { m: 8, n: 8, k: 8 }, five, 132).unwrap_err();
    assert!(error.ends_with("of 232448 of shared memory"), "{error}");
}
