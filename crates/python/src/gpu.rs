//! Launching on memory and streams of the caller.

use cuda::{Bound, Device, DevicePtr, Loaded, Stream};
use program::{Access, Program};
use sixwarp::Error;
use std::sync::Mutex;

/// Sets of addresses whose launches are kept ready.
const KEPT: usize = 8;

/// A loaded program and its most recent bindings.
pub(crate) struct Gpu {
    device: Device,
    loaded: Loaded,
    /// Bytes of each slot.
    slots: Vec<u64>,
    /// Offset and bytes of each workspace buffer in the caller's workspace.
    workspaces: Vec<(u64, u64)>,
    recent: Mutex<Recent>,
}

/// Bindings by their addresses: callers that reuse memory skip the tensor maps.
#[derive(Default)]
struct Recent {
    bindings: Vec<(Vec<u64>, Bound)>,
    /// The one to be replaced next.
    oldest: usize,
}

/// What workspace buffers are aligned to.
const ALIGN: u64 = 256;

impl Gpu {
    pub(crate) fn new(device: Device, program: &Program) -> Result<Self, Error> {
        let loaded = device.load(program)?;
        // Machine code stays for as long as the process: work that was queued, or captured in a
        // graph, may outlive the plan, and nobody tells us when it has ended.
        std::mem::forget(loaded.clone());
        let (mut slots, mut workspaces, mut offset) = (Vec::new(), Vec::new(), 0);
        for buffer in &program.buffers {
            match buffer.access {
                Access::Workspace => {
                    workspaces.push((offset, buffer.bytes));
                    offset += buffer.bytes.next_multiple_of(ALIGN);
                }
                _ => slots.push(buffer.bytes),
            }
        }
        Ok(Self { device, loaded, slots, workspaces, recent: Mutex::default() })
    }

    /// Bytes of workspace a launch needs, at an address that is a multiple of 256.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        let ends = self.workspaces.iter().map(|(offset, bytes)| offset + bytes);
        ends.max().unwrap_or(0)
    }

    /// Queues the program; `addresses` are those of the slots, then that of the workspace.
    ///
    /// # Safety
    /// The memory and the stream must belong to the device and outlive the work.
    pub(crate) unsafe fn launch(&self, addresses: &[u64], stream: usize) -> Result<(), Error> {
        // SAFETY: the caller vouches for the stream.
        let stream = unsafe { Stream::from_raw(&self.device, stream) };
        let mut recent = self.recent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, bound)) = recent.bindings.iter().find(|(known, _)| known == addresses) {
            return Ok(bound.launch(&stream)?);
        }
        // SAFETY: the caller vouches for the memory.
        let bound = self.loaded.bind(&unsafe { self.pointers(addresses) })?;
        bound.launch(&stream)?;
        recent.keep(addresses.to_vec(), bound);
        Ok(())
    }

    /// # Safety
    /// As [`Gpu::launch`].
    unsafe fn pointers(&self, addresses: &[u64]) -> Vec<DevicePtr> {
        let (slots, workspace) = addresses.split_at(self.slots.len());
        let base = workspace.first().copied().unwrap_or(0);
        // SAFETY: the caller vouches for every address and for the bytes the plan asked for.
        let pointer = |address, bytes| unsafe { DevicePtr::from_raw(address, bytes) };
        let slots = slots.iter().zip(&self.slots).map(|(address, bytes)| pointer(*address, *bytes));
        let scratch = self.workspaces.iter().map(|(offset, bytes)| pointer(base + offset, *bytes));
        slots.chain(scratch).collect()
    }
}

impl Recent {
    fn keep(&mut self, addresses: Vec<u64>, bound: Bound) {
        if self.bindings.len() < KEPT {
            self.bindings.push((addresses, bound));
            return;
        }
        self.bindings[self.oldest] = (addresses, bound);
        self.oldest = (self.oldest + 1) % KEPT;
    }
}
