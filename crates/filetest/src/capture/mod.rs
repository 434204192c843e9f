//! A launch captured elsewhere: a JSON file beside its PTX and its memory, as [`CAPTURE_HELP`] describes it.

mod buffer;

use crate::Prepared;
use buffer::BufferEntry;
use files::Folder;
use program::{Argument, Buffer, BufferId, Launch, Pointer, Program};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the file holds.
pub const CAPTURE_HELP: &str = r#"Captured launch as JSON instead of the options below:

{"ptx": "kernel.ptx", "kernel": "name", "grid": [1, 1, 1], "block": [128, 1, 1],
 "cluster": [1, 1, 1], "smem": 0, "params": ["0000000000000000"],
 "relocs": [{"param": 0, "offset": 0, "buffer": 0, "addend": 0}],
 "buffers": [{"bytes": 1024, "name": "out", "file": null, "init": "zero", "save": "out.bin"},
             {"bytes": 64, "relocs": [{"offset": 8, "buffer": 0, "addend": 256}]}]}

`params` are the bytes of each parameter in hex, `smem` is dynamic shared memory. `relocs` say where the address
of a buffer goes, plus `addend` bytes: into a parameter, or, in the entry of a buffer, into that buffer (arrays
of pointers, tensor maps in memory). `init` is `zero`, `poison` or `random` and only counts where there is no
`file`, which holds exactly `bytes` bytes. `save` takes the contents after the run, `name` is for messages.
`kernel` may be left out where there is one, `cluster`, `smem`, `addend` and lists where they are 1, 0 and empty.

Paths are relative to the JSON file and must stay in its folder, links included, unless --any-path is given;
hidden files are not written. Files that are read must be regular files."#;

/// A captured launch that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError(String);

impl CaptureError {
    fn new(name: impl fmt::Display, error: impl fmt::Display) -> Self {
        CaptureError(format!("{name}: {error}"))
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CaptureError {}

impl From<files::Error> for CaptureError {
    fn from(error: files::Error) -> Self {
        CaptureError(error.to_string())
    }
}

type Result<T> = std::result::Result<T, CaptureError>;

/// A captured launch whose JSON was read, but no other file.
pub struct Capture {
    path: PathBuf,
    description: Description,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    ptx: String,
    kernel: Option<String>,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: Option<[u32; 3]>,
    #[serde(default)]
    smem: u32,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default)]
    relocs: Vec<Reloc>,
    #[serde(default)]
    buffers: Vec<BufferEntry>,
}

/// Where an address goes in a parameter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reloc {
    param: usize,
    offset: u64,
    buffer: usize,
    #[serde(default)]
    addend: i64,
}

impl Capture {
    /// Reads a description.
    ///
    /// # Errors
    /// If the file cannot be read or is not JSON of this form.
    pub fn read(path: &Path) -> Result<Capture> {
        let wrong = |error: &dyn fmt::Display| CaptureError::new(path.display(), error);
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let description = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        Ok(Capture { path: path.to_owned(), description })
    }

    /// Where the PTX is; it must be in the folder of the description unless `any_path`.
    ///
    /// # Errors
    /// If there is no such file, or it is elsewhere.
    pub fn ptx_path(&self, any_path: bool) -> Result<PathBuf> {
        let folder = Folder::of(&self.path)?;
        let folder = if any_path { folder.open() } else { folder };
        Ok(folder.existing(&self.description.ptx)?)
    }

    /// Whether there is memory for the buffers.
    ///
    /// # Errors
    /// The buffer that takes too much.
    pub fn check_memory(&self, limits: &sim::Limits) -> std::result::Result<(), sim::Error> {
        let buffers = self.description.buffers.iter();
        limits.check_buffers(buffers.map(|buffer| ("a buffer", buffer.bytes)))
    }

    /// Reads the files it names, which must be in its folder unless `any_path`.
    ///
    /// # Errors
    /// If a file cannot be read, or is not what the description says it is.
    pub fn load(&self, any_path: bool) -> Result<Prepared> {
        let folder = Folder::of(&self.path)?;
        let folder = if any_path { folder.open() } else { folder };
        let description = &self.description;
        // Before anything that may take long.
        let saves = buffer::saves(&description.buffers, &folder)?;
        let launch = |module| description.launch(module);
        let module = description.module(&folder)?;
        let program = Program {
            launches: vec![launch(&module)?],
            buffers: buffer::program_buffers(&description.buffers),
            module: Arc::new(module),
        };
        let numbered = description.buffers.iter().zip(&program.buffers).enumerate();
        let contents = numbered
            .map(|(i, (entry, Buffer { name, .. }))| entry.contents(i as u64, name, &folder));
        Ok(Prepared { contents: contents.collect::<Result<_>>()?, program, saves })
    }
}

impl Description {
    fn module(&self, folder: &Folder) -> Result<ptx::Module> {
        let wrong = |error: &dyn fmt::Display| CaptureError::new(&self.ptx, error);
        let path = folder.existing(&self.ptx)?;
        let source = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        ptx::parse_kernel(&source, self.kernel.as_deref()).map_err(|error| wrong(&error))
    }

    fn launch(&self, module: &ptx::Module) -> Result<Launch> {
        let kernel = match &self.kernel {
            Some(kernel) => kernel.clone(),
            None => only_kernel(module)?,
        };
        Ok(Launch {
            kernel,
            grid: self.grid,
            block: self.block,
            cluster: self.cluster.unwrap_or([1; 3]),
            shared_bytes: self.smem,
            args: self.arguments()?,
            overlaps_previous: false,
        })
    }

    fn arguments(&self) -> Result<Vec<Argument>> {
        let count = self.params.len();
        if let Some(n) = self.relocs.iter().position(|reloc| reloc.param >= count) {
            let param = self.relocs[n].param;
            let text = format!("names parameter {param}; there are {count}");
            return Err(CaptureError::new(format!("relocs[{n}]"), text));
        }
        let argument = |(i, hex): (usize, &String)| {
            let of_this = self.relocs.iter().filter(|reloc| reloc.param == i);
            let pointers = of_this.map(|r| pointer(r.offset, r.buffer, r.addend)).collect();
            Ok(Argument::Bytes(bytes_of(hex)?, pointers))
        };
        self.params.iter().enumerate().map(argument).collect()
    }
}

fn pointer(offset: u64, buffer: usize, addend: i64) -> Pointer {
    Pointer { offset, buffer: BufferId(buffer), addend }
}

fn only_kernel(module: &ptx::Module) -> Result<String> {
    let mut kernels = module.functions().filter(|f| f.entry && f.body.is_some());
    match (kernels.next(), kernels.next()) {
        (Some(kernel), None) => Ok(kernel.name.to_string()),
        _ => Err(CaptureError::new("kernel", "the PTX does not have exactly one: name it")),
    }
}

fn bytes_of(hex: &str) -> Result<Vec<u8>> {
    let digit = |c: char| {
        let wrong = || CaptureError(format!("`{c}` in a parameter is no hex digit"));
        c.to_digit(16).ok_or_else(wrong)
    };
    let digits: Vec<u32> = hex.chars().map(digit).collect::<Result<_>>()?;
    if !digits.len().is_multiple_of(2) {
        let text = format!("a parameter of {} hex digits: two make a byte", digits.len());
        return Err(CaptureError(text));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}
