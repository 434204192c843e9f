use crate::Prepared;
use crate::buffer::BufferSpec;
use crate::options::Options;
use program::{Buffer, Launch, Program};
use std::fmt;
use std::sync::Arc;

/// A PTX file with its runs.
#[derive(Clone, Debug)]
pub struct FileTest {
    /// Name, for messages.
    pub name: String,
    /// The text.
    pub source: String,
    /// The parsed text.
    pub module: Arc<ptx::Module>,
    /// The runs, in order.
    pub runs: Vec<Run>,
}

/// One `run:` line and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Line of the file, from 1.
    pub line: usize,
    pub(crate) options: Options,
    /// What must come out.
    pub expectations: Vec<Expectation>,
    /// How far two engines may be apart, per output; exact where nothing is said.
    pub tolerances: Vec<(String, Tolerance)>,
}

/// An `expect:` line.
#[derive(Clone, Debug, PartialEq)]
pub enum Expectation {
    /// The first elements of a buffer.
    Values(String, Vec<f64>),
    /// The hash of all its bytes.
    Hash(String, u64),
}

/// A `compare:` line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Bit for bit.
    Exact,
    /// Representable numbers in between.
    Ulps(u64),
    /// Absolute difference.
    Absolute(f64),
}

/// A comment or PTX that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// Line of the file, from 1; 0 where the message says itself, or where it is no file's.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for HeaderError {}

impl FileTest {
    /// Parses a file.
    pub fn parse(name: &str, source: &str) -> Result<FileTest, HeaderError> {
        let runs = parse_runs(source)?;
        FileTest::new(name, source, runs, ptx::parse(source))
    }

    /// Parses a file of which one launch is wanted: the one that `run` says, as a `run:` line does, or else the
    /// file's first. Kernels that it does not launch are left unread.
    pub fn parse_launch(
        name: &str,
        source: &str,
        run: Option<&str>,
    ) -> Result<FileTest, HeaderError> {
        let mut runs = match run {
            Some(options) => parse_runs(&format!("// run: {options}"))
                .map_err(|error| HeaderError { line: 0, ..error })?,
            None => parse_runs(source)?,
        };
        runs.truncate(1);
        let kernel = runs.first().and_then(|run| run.options.kernel.as_deref());
        let module = ptx::parse_kernel(source, kernel);
        FileTest::new(name, source, runs, module)
    }

    fn new(
        name: &str,
        source: &str,
        runs: Vec<Run>,
        module: Result<ptx::Module, ptx::ParseError>,
    ) -> Result<FileTest, HeaderError> {
        let module = module.map_err(|error| HeaderError { line: 0, message: error.to_string() })?;
        let (name, source) = (name.to_owned(), source.to_owned());
        Ok(FileTest { name, source, module: Arc::new(module), runs })
    }

    /// The architecture the file is for, such as `sm_90a`.
    pub fn target(&self) -> &'static str {
        self.module.target.first().map_or("", |target| target.as_str())
    }

    /// The program of a run.
    pub fn program(&self, run: &Run) -> Result<Program, HeaderError> {
        let options = &run.options;
        let kernel = match &options.kernel {
            Some(name) => name.clone(),
            None => self.only_kernel(run)?,
        };
        let buffer = |b: &BufferSpec| Buffer::new(&b.name, b.bytes() as u64, 256, b.access());
        let buffers = options.buffers.iter().map(buffer);
        Ok(Program {
            module: Arc::clone(&self.module),
            buffers: buffers.collect(),
            launches: vec![Launch {
                kernel,
                grid: options.grid,
                block: options.block,
                cluster: options.cluster,
                shared_bytes: options.shared_bytes,
                args: options.args.clone(),
                overlaps_previous: false,
            }],
        })
    }

    /// The program of a run, with the contents of its buffers.
    ///
    /// # Errors
    /// If no kernel is named and the file has not exactly one.
    pub fn prepare(&self, run: &Run) -> Result<Prepared, HeaderError> {
        Ok(Prepared { program: self.program(run)?, contents: run.contents(), saves: Vec::new() })
    }

    fn only_kernel(&self, run: &Run) -> Result<String, HeaderError> {
        let mut kernels = self.module.functions().filter(|f| f.entry && f.body.is_some());
        match (kernels.next(), kernels.next()) {
            (Some(kernel), None) => Ok(kernel.name.as_str().to_owned()),
            _ => Err(HeaderError {
                line: run.line,
                message: "the file has not exactly one kernel: name it with --kernel".into(),
            }),
        }
    }
}

impl Run {
    /// How far engines may be apart in the buffer called `name`.
    pub fn tolerance(&self, name: &str) -> Tolerance {
        let found = self.tolerances.iter().find(|(buffer, _)| buffer == name);
        found.map_or(Tolerance::Exact, |(_, tolerance)| *tolerance)
    }

    /// Whether there is memory for the buffers.
    pub fn check_memory(&self, limits: &sim::Limits) -> Result<(), sim::Error> {
        let sizes = self.options.buffers.iter().map(|b| (b.name.as_str(), b.bytes() as u64));
        limits.check_buffers(sizes)
    }

    /// The contents of the buffers at the start.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        self.options.buffers.iter().map(|b| b.contents()).collect()
    }

    /// The buffers.
    pub fn buffers(&self) -> &[BufferSpec] {
        &self.options.buffers
    }
}

/// The `run:` lines of a file, each with what belongs to it.
fn parse_runs(source: &str) -> Result<Vec<Run>, HeaderError> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, text) in source.lines().enumerate() {
        let line = index + 1;
        let fail = |message| HeaderError { line, message };
        if let Some(options) = text.strip_prefix("// run:") {
            let options = Options::parse(options).map_err(fail)?;
            runs.push(Run { line, options, expectations: Vec::new(), tolerances: Vec::new() });
            continue;
        }
        let run = runs.last_mut().ok_or_else(|| fail("a run: line must come first".into()));
        if let Some(text) = text.strip_prefix("// expect:") {
            run?.expectations.push(parse_expectation(text).map_err(fail)?);
        } else if let Some(text) = text.strip_prefix("// compare:") {
            run?.tolerances.push(parse_tolerance(text).map_err(fail)?);
        }
    }
    Ok(runs)
}

fn parse_expectation(text: &str) -> Result<Expectation, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [name, "hash", hash] => {
            let hash = u64::from_str_radix(hash, 16).map_err(|_| format!("{hash} is no hash"))?;
            Ok(Expectation::Hash((*name).to_owned(), hash))
        }
        [name, "=", values @ ..] => {
            let parse = |v: &&str| v.parse().map_err(|_| format!("{v} is no number"));
            let values = values.iter().map(parse).collect::<Result<_, _>>()?;
            Ok(Expectation::Values((*name).to_owned(), values))
        }
        _ => Err("expected `NAME hash H` or `NAME = v0 v1 …`".into()),
    }
}

fn parse_tolerance(text: &str) -> Result<(String, Tolerance), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = || "expected `NAME exact`, `NAME ulps N` or `NAME abs X`".to_owned();
    let (name, tolerance) = match words.as_slice() {
        [name, "exact"] => (name, Tolerance::Exact),
        [name, "ulps", n] => (name, Tolerance::Ulps(n.parse().map_err(|_| wrong())?)),
        [name, "abs", x] => (name, Tolerance::Absolute(x.parse().map_err(|_| wrong())?)),
        _ => return Err(wrong()),
    };
    Ok(((*name).to_owned(), tolerance))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "// run: --block 32 --arg out:f32[4]=poison
// expect: out = 1 2.5
// expect: out hash ff
// compare: out ulps 2
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) { ret; }
";

    #[test]
    fn runs_expectations_and_tolerances() {
        let test = FileTest::parse("k", SOURCE).unwrap();
        assert_eq!(test.target(), "sm_90a");
        let run = &test.runs[0];
        assert_eq!(run.expectations[0], Expectation::Values("out".into(), vec![1.0, 2.5]));
        assert_eq!(run.expectations[1], Expectation::Hash("out".into(), 0xFF));
        assert_eq!(run.tolerance("out"), Tolerance::Ulps(2));
        assert_eq!(test.program(run).unwrap().launches[0].kernel, "k");
    }

    #[test]
    fn a_launch_reads_its_own_kernel_alone() {
        let source = SOURCE.to_owned() + ".visible .entry other() { this is no PTX; }\n";
        FileTest::parse("k", &source).unwrap_err();
        let launch = |run| FileTest::parse_launch("k", &source, Some(run));
        let test = launch("--kernel k --block 64").unwrap();
        assert_eq!(test.program(&test.runs[0]).unwrap().launches[0].block, [64, 1, 1]);
        assert!(test.module.entry("other").is_none());
        let error = launch("--kernel k --block 64,0x").unwrap_err().to_string();
        assert_eq!(error, "0x is no integer");
        // Without a name every kernel may be the one that is meant.
        launch("--block 64").unwrap_err();
    }

    #[test]
    fn an_expectation_without_a_run_is_refused() {
        let error = FileTest::parse("k", "// expect: out = 1\n").unwrap_err();
        assert_eq!(error.to_string(), "line 1: a run: line must come first");
    }
}
