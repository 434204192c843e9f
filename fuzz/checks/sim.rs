//! No PTX file makes the simulator panic or outgrow its limits, however it is launched.

use filetest::FileTest;
use sim::{Limits, Options, Rule};

/// Launches of a file that are run.
const RUNS: usize = 2;

/// Panics where it does not keep that promise.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(test) = FileTest::parse("fuzzed", text) else { return };
    let limits = Limits { memory: 64 << 20, instructions: 1 << 14, time: None };
    let everything = Rule::ALL.to_vec();
    let modes = [("eager", false, vec![]), ("random", true, vec![]), ("latest", true, everything)];
    for run in test.runs.iter().take(RUNS) {
        let Ok(program) = test.program(run) else { continue };
        if run.check_memory(&limits).is_err() {
            continue;
        }
        for (mode, pedantic, allow) in modes.clone() {
            let options = Options::mode(mode, 1).expect("a mode");
            let options = Options { pedantic, allow, threads: 1, limits, ..options };
            let outcome = sim::outcome(&program, &run.contents(), &options);
            let _report = outcome.error.map(|error| error.to_string());
        }
    }
}
