use crate::Prepared;
use crate::header::{FileTest, Run};
use program::Program;
use std::fmt;
use std::path::PathBuf;

/// The buffers of a run after it.
pub type Contents = Vec<Vec<u8>>;

/// Why an engine gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

impl EngineError {
    fn new(error: impl fmt::Display) -> EngineError {
        EngineError(error.to_string())
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineError {}

/// Something that knows what a run gives.
pub trait Engine {
    /// Name, for tables.
    fn name(&self) -> String;

    /// Whether it runs PTX for `target`.
    fn runs(&self, target: &str) -> bool;

    /// The buffers after a run.
    fn execute(&self, test: &FileTest, run: &Run) -> Result<Contents, EngineError>;
}

/// Something that runs programs: file tests, captured launches, and any other.
pub trait Machine {
    /// The buffers after a run.
    ///
    /// # Errors
    /// If the program breaks a rule, or what it runs on has something to object to.
    fn run_prepared(&self, prepared: &Prepared) -> Result<Contents, EngineError>;
}

/// A GPU.
pub struct CudaEngine(cuda::Device);

impl CudaEngine {
    /// The first GPU.
    pub fn open() -> Result<CudaEngine, EngineError> {
        let device = cuda::Device::open(0).map_err(EngineError::new)?;
        Ok(CudaEngine(device.with_cache(cuda::CubinCache::none())))
    }
}

impl Engine for CudaEngine {
    fn name(&self) -> String {
        self.0.info().name.clone()
    }

    fn runs(&self, target: &str) -> bool {
        self.0.info().runs(target)
    }

    fn execute(&self, test: &FileTest, run: &Run) -> Result<Contents, EngineError> {
        run.check_memory(&sim::Limits::default()).map_err(EngineError::new)?;
        self.run_prepared(&test.prepare(run).map_err(EngineError::new)?)
    }
}

impl Machine for CudaEngine {
    fn run_prepared(&self, prepared: &Prepared) -> Result<Contents, EngineError> {
        let mut buffers = prepared.contents.clone();
        self.0.run_host(&prepared.program, &mut buffers).map_err(EngineError::new)?;
        Ok(buffers)
    }
}

/// The simulator in one of its modes.
pub struct SimEngine {
    /// Name of the mode.
    pub mode: String,
    options: sim::Options,
}

impl SimEngine {
    /// The modes of the command line that differ in when work completes and who runs.
    pub const MODES: [&'static str; 4] = ["eager", "latest", "adversarial", "random"];

    /// The simulator in a mode of its command line (`eager`, `latest`, `adversarial`, `random`).
    ///
    /// # Panics
    /// When there is no such mode.
    pub fn mode(name: &str, seed: u64) -> SimEngine {
        let options = sim::Options::mode(name, seed);
        let options = options.unwrap_or_else(|| panic!("the simulator has no mode {name}"));
        SimEngine { mode: name.to_owned(), options }
    }

    /// On one host thread, where which of two racing clusters comes first must not vary.
    pub fn on_one_thread(mut self) -> Self {
        self.options.threads = 1;
        self
    }

    /// With every rule of the manual that shipped kernels break without harm.
    pub fn pedantic(mut self) -> Self {
        self.mode = format!("pedantic {}", self.mode);
        self.options.pedantic = true;
        self
    }

    /// A run is given up after so many warp instructions.
    pub fn limited(mut self, instructions: u64) -> SimEngine {
        self.options.limits.instructions = instructions;
        self
    }

    /// Runs a program; the buffers after it.
    pub fn run(&self, program: &Program, buffers: &[Vec<u8>]) -> Result<Contents, Box<sim::Error>> {
        let report = sim::run(program, buffers, &self.options)?;
        Ok(report.buffers)
    }
}

impl Engine for SimEngine {
    fn name(&self) -> String {
        format!("simulator ({})", self.mode)
    }

    fn runs(&self, _: &str) -> bool {
        true
    }

    fn execute(&self, test: &FileTest, run: &Run) -> Result<Contents, EngineError> {
        run.check_memory(&self.options.limits).map_err(EngineError::new)?;
        self.run_prepared(&test.prepare(run).map_err(EngineError::new)?)
    }
}

impl Machine for SimEngine {
    fn run_prepared(&self, prepared: &Prepared) -> Result<Contents, EngineError> {
        self.run(&prepared.program, &prepared.contents).map_err(EngineError::new)
    }
}

/// Outputs that another engine left in a directory ([`Recorded::save`]).
pub struct Recorded(pub PathBuf);

impl Recorded {
    fn path(&self, test: &FileTest, run: &Run, output: &str) -> PathBuf {
        let index = test.runs.iter().position(|r| r.line == run.line).unwrap_or(0);
        self.0.join(format!("{}.{index}.{output}.bin", test.name))
    }

    /// Stores the outputs of a run.
    pub fn save(&self, test: &FileTest, run: &Run, contents: &Contents) -> Result<(), String> {
        std::fs::create_dir_all(&self.0).map_err(|e| format!("{}: {e}", self.0.display()))?;
        for (spec, bytes) in run.buffers().iter().zip(contents) {
            if spec.access().is_output() {
                files::write(self.path(test, run, &spec.name), bytes).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}

impl Engine for Recorded {
    fn name(&self) -> String {
        format!("recorded in {}", self.0.display())
    }

    fn runs(&self, target: &str) -> bool {
        // Recordings are made of what a GPU at hand can run.
        !target.starts_with("sm_10")
    }

    fn execute(&self, test: &FileTest, run: &Run) -> Result<Contents, EngineError> {
        run.check_memory(&sim::Limits::default()).map_err(EngineError::new)?;
        let mut contents = run.contents();
        for (spec, bytes) in run.buffers().iter().zip(&mut contents) {
            if spec.access().is_output() {
                let path = self.path(test, run, &spec.name);
                *bytes = std::fs::read(&path)
                    .map_err(|error| EngineError(format!("{}: {error}", path.display())))?;
            }
        }
        Ok(contents)
    }
}
