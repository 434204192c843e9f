//! Launching on memory and streams of the caller.

use cuda::{Bound, Device, DevicePtr, Loaded, Stream};
use program::{Access, Program};
use sixwarp::Error;
use std::sync::Mutex;

/// A loaded program and its most recent binding.
pub(crate) struct Gpu {
    device: Device,
    loaded: Loaded,
    /// Bytes of each slot.
    slots: Vec<u64>,
    /// Offset and bytes of each workspace buffer in the caller's workspace.
    workspaces: Vec<(u64, u64)>,
    /// A launch copies its arguments, so one set of them serves every call; only addresses that
    /// changed are written anew.
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    bound: Option<Bound>,
    /// Room for a call's buffers.
    pointers: Vec<DevicePtr>,
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
        let Recent { bound, pointers } = &mut *recent;
        pointers.clear();
        // SAFETY: the caller vouches for the memory.
        pointers.extend(unsafe { self.pointers(addresses) });
        // Taken out: what an error left half written is not used again.
        let ready = match bound.take() {
            Some(mut bound) => bound.rebind(pointers).map(|()| bound)?,
            None => self.loaded.bind(pointers)?,
        };
        Ok(bound.insert(ready).launch(&stream)?)
    }

    /// The program's buffers in the caller's memory.
    ///
    /// # Safety
    /// As [`Gpu::launch`].
    unsafe fn pointers(&self, addresses: &[u64]) -> impl Iterator<Item = DevicePtr> {
        let (slots, workspace) = addresses.split_at(self.slots.len());
        let base = workspace.first().copied().unwrap_or(0);
        // SAFETY: the caller vouches for every address and for the bytes the plan asked for.
        let pointer = |address, bytes| unsafe { DevicePtr::from_raw(address, bytes) };
        let slots =
            slots.iter().zip(&self.slots).map(move |(address, bytes)| pointer(*address, *bytes));
        let scratch = self.workspaces.iter();
        slots.chain(scratch.map(move |(offset, bytes)| pointer(base + offset, *bytes)))
    }
}
