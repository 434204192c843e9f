//! A launch as a folder that `sixwarp sim --launch` replays.

use crate::job::KernelLaunch;
use crate::memory::Reached;
use program::Program;
use serde_json::{Value, json};
use std::path::Path;

/// A launch with the memory that it began with.
pub struct Launch<'a> {
    /// The launch.
    pub launch: &'a KernelLaunch,
    /// The same as a program.
    pub program: &'a Program,
    /// Memory before it.
    pub memory: &'a [Reached],
}

impl KernelLaunch {
    /// Grid, block and what else is not usual.
    pub fn shape(&self) -> String {
        let KernelLaunch { grid, block, cluster, shared_bytes, .. } = self;
        let cluster =
            if *cluster == [1; 3] { String::new() } else { format!(", cluster {cluster:?}") };
        format!("grid {grid:?}, block {block:?}{cluster}, {shared_bytes} bytes of shared memory")
    }
}

impl Launch<'_> {
    /// Writes the launch, unless its memory takes more than `most` bytes; whether it was written.
    pub fn save(&self, folder: &Path, most: u64) -> Result<bool, Box<dyn std::error::Error>> {
        let bytes: u64 = self.memory.iter().map(|reached| reached.bytes.len() as u64).sum();
        if bytes > most {
            eprintln!("sixwarp: the launch is not saved: its memory takes {} MiB", bytes >> 20);
            return Ok(false);
        }
        std::fs::create_dir_all(folder)?;
        files::write(folder.join("kernel.ptx"), &self.launch.module.text)?;
        for (number, reached) in self.memory.iter().enumerate() {
            if !is_zero(&reached.bytes) {
                files::write(folder.join(file_name(number)), &reached.bytes)?;
            }
        }
        files::write(folder.join("launch.json"), format!("{:#}\n", self.description()))?;
        Ok(true)
    }

    fn description(&self) -> Value {
        let KernelLaunch { kernel, grid, block, cluster, shared_bytes, params, .. } = self.launch;
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
        let reached = &self.memory[number];
        let address = |(offset, buffer, addend)| json!({"offset": offset, "buffer": buffer, "addend": addend});
        let relocs: Vec<Value> = self.addresses(&reached.bytes).map(address).collect();
        let (file, init) = match is_zero(&reached.bytes) {
            true => (Value::Null, json!("zero")),
            false => (json!(file_name(number)), Value::Null),
        };
        json!({
            "bytes": reached.bytes.len(),
            "name": self.program.buffers[number].name,
            "file": file,
            "init": init,
            "relocs": relocs,
        })
    }

    /// Words that are addresses: where they stand, the buffer, and the offset in it.
    fn addresses<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, usize, u64)> + 'a {
        bytes.as_chunks::<8>().0.iter().enumerate().filter_map(|(word, bytes)| {
            let address = u64::from_le_bytes(*bytes);
            let behind = self.memory.partition_point(|reached| reached.base <= address);
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
