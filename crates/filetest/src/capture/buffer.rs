//! The memory of a captured launch.

use super::{CaptureError, Result, pointer};
use crate::buffer::POISON;
use files::Folder;
use program::{Access, Buffer, Pointer};
use serde::Deserialize;
use std::path::PathBuf;

/// An entry of `buffers`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferEntry {
    pub(super) bytes: u64,
    name: Option<String>,
    file: Option<String>,
    init: Option<Init>,
    save: Option<String>,
    #[serde(default)]
    relocs: Vec<BufferReloc>,
}

/// What a buffer without a file holds at the start.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Init {
    Zero,
    Poison,
    Random,
}

/// Where an address goes in a buffer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferReloc {
    offset: u64,
    buffer: usize,
    #[serde(default)]
    addend: i64,
}

/// Where each buffer is saved, if it is.
pub(super) fn saves(buffers: &[BufferEntry], folder: &Folder) -> Result<Vec<Option<PathBuf>>> {
    let mut saves: Vec<Option<PathBuf>> = Vec::new();
    for BufferEntry { save, .. } in buffers {
        let path = save.as_ref().map(|name| folder.writable(name)).transpose()?;
        if let Some(first) = saves.iter().position(|other| path.is_some() && *other == path) {
            let (second, name) = (saves.len(), save.as_deref().unwrap_or_default());
            let text = format!("buffers {first} and {second} are both saved to it");
            return Err(CaptureError::new(name, text));
        }
        saves.push(path);
    }
    Ok(saves)
}

/// The buffers of the program. A name that came before, which a program cannot have, is told apart by a number.
pub(super) fn program_buffers(entries: &[BufferEntry]) -> Vec<Buffer> {
    let mut buffers: Vec<Buffer> = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let mut name = entry.name.clone().unwrap_or_else(|| format!("buffer {i}"));
        while buffers.iter().any(|other| other.name == name) {
            name += &format!(" ({i})");
        }
        let pointers = entry.relocs.iter().map(|r| pointer(r.offset, r.buffer, r.addend));
        let pointers: Vec<Pointer> = pointers.collect();
        buffers.push(Buffer { pointers, ..Buffer::new(name, entry.bytes, 1, entry.access()) });
    }
    buffers
}

impl BufferEntry {
    /// What was not captured is unknown to the kernel until it is written.
    fn access(&self) -> Access {
        match (&self.file, self.init) {
            (None, Some(Init::Poison)) => Access::Write,
            _ => Access::ReadWrite,
        }
    }

    /// What the buffer `index`, called `name`, holds at the start.
    pub(super) fn contents(&self, index: u64, name: &str, folder: &Folder) -> Result<Vec<u8>> {
        let size = self.bytes as usize;
        match (&self.file, self.init) {
            (Some(file), _) => self.read(file, name, folder),
            (None, None | Some(Init::Zero)) => Ok(vec![0; size]),
            (None, Some(Init::Poison)) => Ok(vec![POISON; size]),
            (None, Some(Init::Random)) => Ok(random(size, index)),
        }
    }

    /// The contents of `file`, whose size is looked at first.
    fn read(&self, file: &str, name: &str, folder: &Folder) -> Result<Vec<u8>> {
        let path = folder.existing(file)?;
        let wrong = |error: std::io::Error| CaptureError::new(file, error);
        let size = std::fs::metadata(&path).map_err(wrong)?.len();
        if size != self.bytes {
            let text = format!("has {size} bytes, but {name} has {}", self.bytes);
            return Err(CaptureError::new(file, text));
        }
        std::fs::read(&path).map_err(wrong)
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
