use program::Program;
use std::fmt;

/// Why an engine gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineError {}

/// Something that runs programs on host memory.
pub trait Engine {
    /// Name, for tables.
    fn name(&self) -> String;

    /// Whether it runs PTX for `target`.
    fn runs(&self, target: &str) -> bool;

    /// Runs `program` on `buffers`, one for each of its own.
    fn run(&self, program: &Program, buffers: &mut [Vec<u8>]) -> Result<(), EngineError>;
}

/// A GPU.
pub struct CudaEngine(cuda::Device);

impl CudaEngine {
    /// The first GPU.
    pub fn open() -> Result<CudaEngine, EngineError> {
        let device = cuda::Device::open(0).map_err(|error| EngineError(error.to_string()))?;
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

    fn run(&self, program: &Program, buffers: &mut [Vec<u8>]) -> Result<(), EngineError> {
        self.0.run_host(program, buffers).map_err(|error| EngineError(error.to_string()))
    }
}
