//! A launch as a folder that `sixwarp check launch.json` runs.

use serde_json::{Value, json};
use std::path::Path;

/// A piece of memory that a launch can reach, as it was before the launch.
pub struct Piece<'a> {
    /// Where it starts.
    pub base: u64,
    /// What it is called in reports.
    pub name: String,
    /// What it holds.
    pub bytes: &'a [u8],
}

/// A launch with the memory that it began with.
pub struct SavedLaunch<'a> {
    /// The module.
    pub ptx: &'a str,
    /// The kernel.
    pub kernel: &'a str,
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// Arguments.
    pub params: &'a [Vec<u8>],
    /// Memory before it, in the order of addresses.
    pub memory: &'a [Piece<'a>],
    /// Whether the description asks for the memory after a simulation, as `simulated0.bin` and so on.
    pub keeps_results: bool,
}

impl SavedLaunch<'_> {
    /// Bytes of all memory.
    pub fn bytes(&self) -> u64 {
        self.memory.iter().map(|piece| piece.bytes.len() as u64).sum()
    }

    /// Writes the launch; `launch.json` comes last, so that a folder with one is whole.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
        std::fs::create_dir_all(folder)?;
        files::write(folder.join("kernel.ptx"), self.ptx)?;
        for (number, piece) in self.memory.iter().enumerate() {
            if !is_zero(piece.bytes) {
                files::write(folder.join(file_name(number)), piece.bytes)?;
            }
        }
        files::write(folder.join("launch.json"), format!("{:#}\n", self.description()))?;
        Ok(())
    }

    fn description(&self) -> Value {
        let SavedLaunch { kernel, grid, block, cluster, shared_bytes, params, .. } = self;
        let relocs: Vec<Value> = (params.iter().enumerate())
            .flat_map(|(param, bytes)| {
                self.addresses(bytes).map(move |(offset, buffer, addend)| {
                    json!({"param": param, "offset": offset, "buffer": buffer, "addend": addend})
                })
            })
            .collect();
        let buffers: Vec<Value> =
            (0..self.memory.len()).map(|number| self.buffer(number)).collect();
        json!({
            "ptx": "kernel.ptx",
            "kernel": kernel,
            "grid": grid,
            "block": block,
            "cluster": cluster,
            "smem": shared_bytes,
            "params": params.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>(),
            "relocs": relocs,
            "buffers": buffers,
        })
    }

    fn buffer(&self, number: usize) -> Value {
        let piece = &self.memory[number];
        let address = |(offset, buffer, addend)| json!({"offset": offset, "buffer": buffer, "addend": addend});
        let relocs: Vec<Value> = self.addresses(piece.bytes).map(address).collect();
        let (file, init) = match is_zero(piece.bytes) {
            true => (Value::Null, json!("zero")),
            false => (json!(file_name(number)), Value::Null),
        };
        json!({
            "bytes": piece.bytes.len(),
            "name": piece.name,
            "file": file,
            "init": init,
            "save": self.keeps_results.then(|| format!("simulated{number}.bin")),
            "relocs": relocs,
        })
    }

    /// Words that are addresses: where they stand, the buffer, and the offset in it.
    fn addresses<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, usize, u64)> + 'a {
        bytes.as_chunks::<8>().0.iter().enumerate().filter_map(|(word, bytes)| {
            let address = u64::from_le_bytes(*bytes);
            let behind = self.memory.partition_point(|piece| piece.base <= address);
            let buffer = behind.checked_sub(1)?;
            let offset = address - self.memory[buffer].base;
            let inside = offset < self.memory[buffer].bytes.len() as u64;
            inside.then_some((8 * word, buffer, offset))
        })
    }
}

fn file_name(number: usize) -> String {
    format!("buffer{number}.bin")
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
