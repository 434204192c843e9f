use crate::BufferSpec;
use crate::engine::{Contents, Engine, EngineError};
use crate::header::{Expectation, FileTest, Run, Tolerance};
use serde::Serialize;

/// What became of one output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// File.
    pub file: String,
    /// Line of the run.
    pub line: usize,
    /// Output, empty where the run itself failed.
    pub output: String,
    /// Elements compared.
    pub elements: usize,
    /// What is wrong, if anything.
    pub failure: Option<String>,
    /// The largest distance seen, in ulps.
    pub max_ulps: u64,
}

/// Where two results differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Elements outside the tolerance.
    pub count: usize,
    /// The first of them, with both values.
    pub first: (usize, f64, f64),
}

fn outputs<'a>(
    run: &'a Run,
    contents: &'a Contents,
) -> impl Iterator<Item = (&'a BufferSpec, &'a Vec<u8>)> {
    run.buffers().iter().zip(contents).filter(|(spec, _)| spec.access().is_output())
}

/// FNV-1a over all bytes.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    })
}

impl Outcome {
    fn failed(test: &FileTest, run: &Run, failure: String) -> Outcome {
        Outcome {
            file: test.name.clone(),
            line: run.line,
            output: String::new(),
            elements: 0,
            failure: Some(failure),
            max_ulps: 0,
        }
    }

    fn of(
        test: &FileTest,
        run: &Run,
        spec: &BufferSpec,
        verdict: (Option<String>, u64),
    ) -> Outcome {
        let (failure, max_ulps) = verdict;
        Outcome {
            file: test.name.clone(),
            line: run.line,
            output: spec.name.clone(),
            elements: spec.elements,
            failure,
            max_ulps,
        }
    }
}

/// Runs every run of a file on one engine and compares with its `expect:` lines.
pub fn check(test: &FileTest, engine: &dyn Engine) -> Vec<Outcome> {
    let judge = |run: &Run| match engine.execute(test, run) {
        Err(error) => vec![Outcome::failed(test, run, error.to_string())],
        Ok(contents) => outputs(run, &contents)
            .map(|(spec, bytes)| Outcome::of(test, run, spec, (unexpected(run, spec, bytes), 0)))
            .collect(),
    };
    test.runs.iter().flat_map(judge).collect()
}

fn unexpected(run: &Run, spec: &BufferSpec, bytes: &[u8]) -> Option<String> {
    for expectation in &run.expectations {
        match expectation {
            Expectation::Hash(name, expected) if *name == spec.name => {
                let got = hash(bytes);
                if got != *expected {
                    return Some(format!("hash {got:016x}, expected {expected:016x}"));
                }
            }
            Expectation::Values(name, expected) if *name == spec.name => {
                for (i, &expected) in expected.iter().enumerate() {
                    let got = spec.element.decode(spec.element.read(bytes, i));
                    if got != expected && !(got.is_nan() && expected.is_nan()) {
                        return Some(format!("[{i}] is {got}, expected {expected}"));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

/// Runs every run of a file on two engines and compares the outputs.
pub fn compare(test: &FileTest, a: &dyn Engine, b: &dyn Engine) -> Vec<Outcome> {
    let execute = |engine: &dyn Engine, run: &Run| {
        engine.execute(test, run).map_err(|error| format!("{}: {error}", engine.name()))
    };
    let judge = |run: &Run| {
        let results = execute(a, run).and_then(|first| Ok((first, execute(b, run)?)));
        match results {
            Err(error) => vec![Outcome::failed(test, run, error)],
            Ok((first, second)) => outputs(run, &first)
                .zip(outputs(run, &second))
                .map(|((spec, x), (_, y))| Outcome::of(test, run, spec, apart(run, spec, x, y)))
                .collect(),
        }
    };
    test.runs.iter().flat_map(judge).collect()
}

/// What is wrong with two versions of an output, and how far they are apart.
fn apart(run: &Run, spec: &BufferSpec, x: &[u8], y: &[u8]) -> (Option<String>, u64) {
    let (difference, max_ulps) = difference(spec, run.tolerance(&spec.name), x, y);
    let failure = difference.map(|d| {
        let (i, x, y) = d.first;
        format!("{} differ, the first at [{i}]: {x} and {y}", d.count)
    });
    (failure, max_ulps)
}

fn difference(
    spec: &BufferSpec,
    tolerance: Tolerance,
    x: &[u8],
    y: &[u8],
) -> (Option<Difference>, u64) {
    let mut found: Option<Difference> = None;
    let mut max_ulps = 0;
    for i in 0..spec.elements {
        let (a, b) = (spec.element.read(x, i), spec.element.read(y, i));
        if a == b {
            continue;
        }
        let ulps = spec.element.ulps(a, b);
        let (p, q) = (spec.element.decode(a), spec.element.decode(b));
        max_ulps = max_ulps.max(ulps.unwrap_or(u64::MAX));
        let accepted = match tolerance {
            Tolerance::Exact => false,
            Tolerance::Ulps(limit) => ulps.is_some_and(|ulps| ulps <= limit),
            Tolerance::Absolute(limit) => (p - q).abs() <= limit || ulps == Some(0),
        };
        if !accepted {
            let difference = found.get_or_insert(Difference { count: 0, first: (i, p, q) });
            difference.count += 1;
        }
    }
    (found, max_ulps)
}

/// The file's text with the `hash` expectations of every run replaced by what `engine` gives.
pub fn bless(test: &FileTest, engine: &dyn Engine) -> Result<String, EngineError> {
    let mut lines: Vec<String> = Vec::new();
    let mut runs = test.runs.iter();
    for text in test.source.lines() {
        let stale = text.strip_prefix("// expect:").is_some_and(|rest| rest.contains(" hash "));
        if !stale {
            lines.push(text.to_owned());
        }
        if text.starts_with("// run:") {
            let run = runs.next().expect("a run for every run: line");
            let contents = engine.execute(test, run)?;
            lines.extend(outputs(run, &contents).map(|(spec, bytes)| {
                format!("// expect: {} hash {:016x}", spec.name, hash(bytes))
            }));
        }
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "// run: --block 32 --arg in:f32[4]=iota --arg out:f32[4]=poison
// expect: out = 0 2 4
// expect: out hash 0
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) { ret; }
";

    /// Doubles, with a given error in the last element.
    struct Doubler(u32);

    impl Engine for Doubler {
        fn name(&self) -> String {
            "doubler".into()
        }
        fn runs(&self, _: &str) -> bool {
            true
        }
        fn execute(&self, _: &FileTest, run: &Run) -> Result<Contents, EngineError> {
            let mut buffers = run.contents();
            for i in 0..4 {
                let x = f32::from_le_bytes(buffers[0][4 * i..4 * i + 4].try_into().unwrap());
                let bits = (2.0 * x).to_bits() + if i == 3 { self.0 } else { 0 };
                buffers[1][4 * i..4 * i + 4].copy_from_slice(&bits.to_le_bytes());
            }
            Ok(buffers)
        }
    }

    #[test]
    fn a_blessed_file_passes_and_a_changed_result_fails() {
        let test = FileTest::parse("k", SOURCE).unwrap();
        assert!(check(&test, &Doubler(0))[0].failure.as_ref().unwrap().starts_with("hash"));
        let blessed = bless(&test, &Doubler(0)).unwrap();
        assert_eq!(blessed.lines().count(), SOURCE.lines().count());
        let test = FileTest::parse("k", &blessed).unwrap();
        assert_eq!(check(&test, &Doubler(0))[0].failure, None);
        assert!(check(&test, &Doubler(1))[0].failure.is_some());
    }

    #[test]
    fn two_engines_are_compared_within_tolerance() {
        let test = FileTest::parse("k", SOURCE).unwrap();
        assert_eq!(compare(&test, &Doubler(0), &Doubler(0))[0].failure, None);
        let apart = &compare(&test, &Doubler(0), &Doubler(2))[0];
        assert_eq!(apart.max_ulps, 2);
        assert!(apart.failure.as_ref().unwrap().contains("1 differ, the first at [3]: 6"));
        let loose = SOURCE.replace("// expect: out hash 0", "// compare: out ulps 2");
        let test = FileTest::parse("k", &loose).unwrap();
        assert_eq!(compare(&test, &Doubler(0), &Doubler(2))[0].failure, None);
        assert!(compare(&test, &Doubler(0), &Doubler(3))[0].failure.is_some());
    }
}
