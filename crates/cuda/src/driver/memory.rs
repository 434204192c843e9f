//! Device memory.

use super::{Context, Result};
use crate::error::check;
use cudarc::driver::sys;
use std::sync::Arc;

/// An allocation on a device, freed when dropped.
pub(crate) struct Memory {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl Memory {
    /// Allocates; an allocation of nothing has address 0.
    pub(crate) fn alloc(context: &Arc<Context>, bytes: usize) -> Result<Memory> {
        context.bind()?;
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: writes one address; freed once, in `drop`.
            check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })?;
        }
        Ok(Memory { context: context.clone(), address, bytes })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `bytes` to the start of the allocation and waits.
    ///
    /// # Panics
    /// Where there are more bytes than were allocated.
    pub(crate) fn upload(&mut self, bytes: &[u8], stream: usize) -> Result<()> {
        assert!(bytes.len() <= self.bytes, "{} bytes into {}", bytes.len(), self.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        let stream = stream as sys::CUstream;
        // SAFETY: source and destination have the length given, and the source outlives the copy,
        // which is waited for.
        unsafe {
            let source = bytes.as_ptr().cast();
            let result = sys::cuMemcpyHtoDAsync_v2(self.address, source, bytes.len(), stream);
            check("cuMemcpyHtoDAsync", result)?;
            check("cuStreamSynchronize", sys::cuStreamSynchronize(stream))
        }
    }

    /// Copies from the start of the allocation and waits.
    ///
    /// # Panics
    /// Where more bytes are asked for than were allocated.
    pub(crate) fn download(&self, bytes: &mut [u8], stream: usize) -> Result<()> {
        assert!(bytes.len() <= self.bytes, "{} bytes from {}", bytes.len(), self.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        let stream = stream as sys::CUstream;
        // SAFETY: as in `upload`, with the roles exchanged.
        unsafe {
            let to = bytes.as_mut_ptr().cast();
            check(
                "cuMemcpyDtoHAsync",
                sys::cuMemcpyDtoHAsync_v2(to, self.address, bytes.len(), stream),
            )?;
            check("cuStreamSynchronize", sys::cuStreamSynchronize(stream))
        }
    }

    /// Sets every byte, in stream order.
    pub(crate) fn fill(&mut self, byte: u8, stream: usize) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: the length is the allocation's.
        let result = unsafe {
            sys::cuMemsetD8Async(self.address, byte, self.bytes, stream as sys::CUstream)
        };
        check("cuMemsetD8Async", result)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address != 0 && self.context.bind().is_ok() {
            // SAFETY: allocated once. The driver waits for work that uses the memory.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}
