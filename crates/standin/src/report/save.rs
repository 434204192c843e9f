//! A launch as a folder that `sixwarp check` replays.

use crate::job::KernelLaunch;
use crate::memory::Reached;
use launches::{Piece, SavedLaunch};
use program::Program;
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
        let named = self.memory.iter().zip(&self.program.buffers);
        let pieces: Vec<Piece> = named
            .map(|(reached, buffer)| Piece {
                base: reached.base,
                name: buffer.name.clone(),
                bytes: &reached.bytes,
            })
            .collect();
        let KernelLaunch { module, kernel, grid, block, cluster, shared_bytes, params } =
            self.launch;
        let saved = SavedLaunch {
            ptx: &module.text,
            kernel,
            grid: *grid,
            block: *block,
            cluster: *cluster,
            shared_bytes: *shared_bytes,
            params,
            memory: &pieces,
            keeps_results: false,
        };
        if saved.bytes() > most {
            eprintln!(
                "sixwarp: the launch is not saved: its memory takes {} MiB",
                saved.bytes() >> 20
            );
            return Ok(false);
        }
        saved.save(folder)?;
        Ok(true)
    }
}
