//! `--launch launch.json`: a launch captured elsewhere, as [`HELP`] describes it.

use files::Folder;
use serde::Deserialize;
use sim::{CapturedBuffer, CapturedLaunch, Options, Outcome, Pointer, Relocation};
use std::error::Error;
use std::path::{Path, PathBuf};

/// What the file holds.
pub const HELP: &str = r#"Captured launch as JSON instead of the options below:

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
    buffers: Vec<Buffer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reloc {
    param: usize,
    offset: usize,
    buffer: usize,
    #[serde(default)]
    addend: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    bytes: u64,
    name: Option<String>,
    file: Option<String>,
    init: Option<String>,
    save: Option<String>,
    #[serde(default)]
    relocs: Vec<BufferReloc>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferReloc {
    offset: u64,
    buffer: usize,
    #[serde(default)]
    addend: i64,
}

/// Runs the launch a JSON file describes and saves its buffers; its paths stay in the file's folder
/// unless `any_path`.
pub fn execute(path: &Path, any_path: bool, options: &Options) -> Result<Outcome, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let description: Description =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let sizes = description.buffers.iter().map(|buffer| ("a buffer", buffer.bytes));
    if let Err(error) = options.limits.check_buffers(sizes) {
        return Ok(Outcome { error: Some(error), ..Outcome::default() });
    }
    let folder = Folder::of(path)?;
    let folder = if any_path { folder.open() } else { folder };
    // Before the run, which may take long.
    let saves = description.saves(&folder)?;
    let launch = description.launch(&folder)?;
    let outcome = sim::captured_outcome(&launch, options);
    for (save, bytes) in saves.iter().zip(&outcome.report.buffers) {
        if let Some(path) = save {
            files::write(path, bytes)?;
        }
    }
    Ok(outcome)
}

impl Description {
    /// Where each buffer is saved, if it is.
    fn saves(&self, folder: &Folder) -> Result<Vec<Option<PathBuf>>, Box<dyn Error>> {
        let mut saves: Vec<Option<PathBuf>> = Vec::new();
        for Buffer { save, .. } in &self.buffers {
            let path = save.as_ref().map(|name| folder.writable(name)).transpose()?;
            if let Some(first) = saves.iter().position(|other| path.is_some() && *other == path) {
                let (second, name) = (saves.len(), save.as_deref().unwrap_or_default());
                return Err(
                    format!("{name}: buffers {first} and {second} are both saved to it").into()
                );
            }
            saves.push(path);
        }
        Ok(saves)
    }

    fn launch(&self, folder: &Folder) -> Result<CapturedLaunch, Box<dyn Error>> {
        let source = std::fs::read_to_string(folder.existing(&self.ptx)?)
            .map_err(|e| format!("{}: {e}", self.ptx))?;
        let module = ptx::parse_kernel(&source, self.kernel.as_deref())
            .map_err(|e| format!("{}: {e}", self.ptx))?;
        let kernel = match &self.kernel {
            Some(kernel) => kernel.clone(),
            None => only_kernel(&module)?,
        };
        let params = self.params.iter().map(|hex| bytes_of(hex)).collect::<Result<_, _>>()?;
        let relocation = |r: &Reloc| Relocation {
            param: r.param,
            offset: r.offset,
            buffer: r.buffer,
            addend: r.addend,
        };
        let buffers = self.buffers.iter().enumerate().map(|(i, b)| b.load(i, folder));
        Ok(CapturedLaunch {
            kernel,
            grid: self.grid,
            block: self.block,
            cluster: self.cluster.unwrap_or([1; 3]),
            shared_bytes: self.smem,
            params,
            relocations: self.relocs.iter().map(relocation).collect(),
            buffers: buffers.collect::<Result<_, _>>()?,
            module,
        })
    }
}

fn only_kernel(module: &ptx::Module) -> Result<String, String> {
    let mut kernels = module.functions().filter(|f| f.entry && f.body.is_some());
    match (kernels.next(), kernels.next()) {
        (Some(kernel), None) => Ok(kernel.name.to_string()),
        _ => Err("the PTX does not have exactly one kernel: \"kernel\" must name one".into()),
    }
}

impl Buffer {
    fn load(&self, index: usize, folder: &Folder) -> Result<CapturedBuffer, Box<dyn Error>> {
        let name = self.name.clone().unwrap_or_else(|| format!("buffer {index}"));
        let size = self.bytes as usize;
        let contents = match (&self.file, self.init.as_deref()) {
            (Some(file), _) => Some(self.read(file, &name, folder)?),
            (None, None | Some("zero")) => Some(vec![0; size]),
            (None, Some("poison")) => None,
            (None, Some("random")) => Some(random(size, index as u64)),
            (None, Some(other)) => {
                return Err(format!("no init `{other}`: zero, poison or random").into());
            }
        };
        let pointer =
            |r: &BufferReloc| Pointer { offset: r.offset, buffer: r.buffer, addend: r.addend };
        let pointers = self.relocs.iter().map(pointer).collect();
        Ok(CapturedBuffer { name, bytes: self.bytes, contents, pointers })
    }
}

impl Buffer {
    /// The contents of `file`, whose size is looked at first.
    fn read(&self, file: &str, name: &str, folder: &Folder) -> Result<Vec<u8>, Box<dyn Error>> {
        let path = folder.existing(file)?;
        let wrong = |e: std::io::Error| format!("{file}: {e}");
        let size = std::fs::metadata(&path).map_err(wrong)?.len();
        if size != self.bytes {
            return Err(format!("{file}: has {size} bytes, but {name} has {}", self.bytes).into());
        }
        Ok(std::fs::read(&path).map_err(wrong)?)
    }
}

/// Bytes that are moderate numbers as f16 and as bf16.
fn random(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let word = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state as u16 & 0x8000) | (0x3C00 + ((state >> 20) as u16 & 0x37F))).to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..size.div_ceil(2)).flat_map(word).collect();
    bytes.truncate(size);
    bytes
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = hex
        .chars()
        .map(|c| c.to_digit(16).ok_or_else(|| format!("`{c}` in a parameter is no hex digit")))
        .collect::<Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(format!("a parameter of {} hex digits: two make a byte", digits.len()));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}
