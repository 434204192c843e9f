//! A program on a GPU, and its launches on memory and streams of the caller.

use crate::Error;
use cuda::{Bound, Device, DevicePtr, Loaded, Stream};
use program::{Access, Buffer, Program};
use std::sync::Mutex;

/// A loaded program, whose tensors have the roles `S`, and its most recent binding.
pub(crate) struct Gpu<S> {
    loaded: Loaded,
    places: Vec<Place<S>>,
    workspace_bytes: u64,
    /// A launch copies its arguments, so one set of them serves every call; only addresses that changed are
    /// written anew.
    recent: Mutex<Recent>,
}

/// Where a buffer of the program is.
struct Place<S> {
    home: Home<S>,
    bytes: u64,
}

enum Home<S> {
    Slot(S),
    /// So many bytes into the caller's workspace.
    Workspace(u64),
}

#[derive(Default)]
struct Recent {
    bound: Option<Bound>,
    /// Room for a call's buffers.
    pointers: Vec<DevicePtr>,
}

impl<S: Copy> Gpu<S> {
    /// Loads a program; `slot` knows the role of a buffer by its name.
    pub(crate) fn new(
        device: &Device,
        program: &Program,
        slot: impl Fn(&str) -> Option<S>,
    ) -> Result<Self, Error> {
        let home = |buffer: &Buffer| match (slot(&buffer.name), buffer.access) {
            (Some(slot), _) => Ok(Home::Slot(slot)),
            (None, Access::Workspace) => {
                let mut all = program.workspaces();
                let found = all.find(|(workspace, _)| workspace.name == buffer.name);
                Ok(Home::Workspace(found.map_or(0, |(_, offset)| offset)))
            }
            (None, _) => Err(Error::Device(format!("{}: no slot has this name", buffer.name))),
        };
        let place = |buffer| Ok(Place { home: home(buffer)?, bytes: buffer.bytes });
        let places = program.buffers.iter().map(place).collect::<Result<_, Error>>()?;
        let workspace_bytes = program.workspace_bytes();
        let recent = Mutex::default();
        Ok(Self { loaded: device.load(program)?, places, workspace_bytes, recent })
    }

    /// Bytes of workspace that a launch needs.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Queues the program on memory that `address` knows. Nothing is allocated but once, and nothing is
    /// waited for.
    ///
    /// # Safety
    /// Every address must be that of as many bytes of the device's memory as its slot has, the workspace's
    /// of [`Gpu::workspace_bytes`], and they must stay until the work has ended.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        address: impl Fn(S) -> u64,
        workspace: u64,
    ) -> Result<(), Error> {
        let mut recent = self.recent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Recent { bound, pointers } = &mut *recent;
        pointers.clear();
        for Place { home, bytes } in &self.places {
            let address = match home {
                Home::Slot(slot) => address(*slot),
                Home::Workspace(offset) => workspace.wrapping_add(*offset),
            };
            // SAFETY: the caller vouches for the memory.
            pointers.push(unsafe { DevicePtr::from_raw(address, *bytes) });
        }
        // Taken out: what an error left half written is not used again.
        let ready = match bound.take() {
            Some(mut bound) => bound.rebind(pointers).map(|()| bound)?,
            None => self.loaded.bind(pointers)?,
        };
        Ok(bound.insert(ready).launch(stream)?)
    }
}
