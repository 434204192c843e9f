//! PTX files that say how to run them and what must come out.
//!
//! A file test is a PTX file with comments of this form at its head:
//!
//! ```text
//! // run: --block 32 --arg in:f32[32]=random --arg out:f32[32]=poison
//! // expect: out hash 0123456789abcdef
//! // compare: out ulps 2
//! ```
//!
//! Each `run:` line is one launch of the file's only kernel (or `--kernel NAME`) on fresh buffers;
//! the `expect:` and `compare:` lines behind it belong to it.
//!
//! | option | meaning |
//! |---|---|
//! | `--grid x,y,z`, `--block …`, `--cluster …` | launch geometry, 1 where left out |
//! | `--smem n` | dynamic shared memory |
//! | `--arg name:type[d0,d1]=init` | the next parameter is the address of a new buffer |
//! | `--arg name:type=number` | the next parameter is a number (`u32`, `u64`, `f32`) |
//! | `--buffer name:type[…]=init` | a buffer that is no parameter itself |
//! | `--map name=buffer;dims=…;box=…` | the next parameter is a tensor map over a buffer; also `strides` (bytes), `steps`, `swizzle`, `fill`, `type`, `offset`; `lower=…` or `upper=…` makes it an im2col map, whose `box` is channels and pixels |
//!
//! `init` is `zero`, `poison` (an output), `iota`, `random`, `ints` (small integers), `bits` or a
//! number; `+rw` behind it makes the buffer read and written.
//!
//! `expect: NAME hash H` fixes every byte of an output, `expect: NAME = v0 v1 …` its first
//! elements. `compare:` says how far two engines may be apart (`exact` where left out, `ulps N`,
//! `abs X`). The same files run on the simulator and on a GPU; see [`compare`].
//!
//! A [`Capture`] is a launch of anyone's kernel as files. Both a run and a capture become a [`Prepared`]: one
//! [`program::Program`] and its memory, which every [`Machine`] takes.

mod buffer;
mod capture;
mod element;
mod engine;
mod header;
mod mutate;
mod options;
mod outcome;
mod prepared;
mod report;
mod survey;

pub use buffer::{BufferSpec, Init};
pub use capture::{CAPTURE_HELP, Capture, CaptureError};
pub use element::ElementKind;
pub use engine::{Contents, CudaEngine, Engine, EngineError, Machine, Recorded, SimEngine};
pub use header::{Expectation, FileTest, HeaderError, Run, Tolerance};
pub use mutate::{Change, Mutant, mutants};
pub use outcome::{Difference, Outcome, bless, check, compare};
pub use prepared::Prepared;
pub use report::Report;
pub use survey::{Caught, Verdict, survey};

use std::path::{Path, PathBuf};

/// The engine called `name`: `sim` (or one of its modes), `cuda`, or a directory of recorded outputs.
pub fn engine(name: &str) -> Result<Box<dyn Engine>, String> {
    match name {
        "cuda" => Ok(Box::new(CudaEngine::open().map_err(|error| error.to_string())?)),
        "sim" => Ok(Box::new(SimEngine::mode("eager", 0))),
        mode if SimEngine::MODES.contains(&mode) => Ok(Box::new(SimEngine::mode(mode, 1))),
        directory if Path::new(directory).is_dir() => Ok(Box::new(Recorded(directory.into()))),
        _ => Err(format!("{name} is neither an engine (sim, cuda) nor a directory of recordings")),
    }
}

/// Reads a file test.
pub fn load(path: &Path) -> Result<FileTest, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    FileTest::parse(&name, &source).map_err(|e| format!("{}: {e}", path.display()))
}

/// The PTX files under `path` (or `path` itself), in the order of their names.
pub fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
