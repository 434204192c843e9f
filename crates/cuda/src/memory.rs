use crate::driver::Memory;
use crate::{Device, Error};

/// Device memory, freed when dropped.
pub struct DeviceBuffer(Memory);

impl DeviceBuffer {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self, Error> {
        Ok(DeviceBuffer(Memory::alloc(device.context(), bytes)?))
    }

    /// Its address and size, to hand to a program.
    pub fn pointer(&self) -> DevicePtr {
        DevicePtr::new(self.0.address(), self.0.bytes() as u64)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Copies `bytes` to its start and waits.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.fits(bytes.len())?;
        Ok(self.0.upload(bytes, 0)?)
    }

    /// Copies from its start, after all work on the default stream, and waits.
    pub fn read_into(&self, bytes: &mut [u8]) -> Result<(), Error> {
        self.fits(bytes.len())?;
        Ok(self.0.download(bytes, 0)?)
    }

    /// All of its bytes, after all work on the default stream.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.bytes()];
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Sets every byte.
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        Ok(self.0.fill(byte, 0)?)
    }

    fn fits(&self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.bytes() {
            return Ok(());
        }
        let reason = format!("{bytes} bytes asked of {}", self.bytes());
        Err(Error::Buffer { name: "device memory".into(), reason })
    }
}

/// An address in device memory and how many bytes follow it.
///
/// Made by [`DeviceBuffer::pointer`], or from memory that others manage by `DevicePtr::from_raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePtr {
    address: u64,
    bytes: u64,
}

impl DevicePtr {
    pub(crate) const fn new(address: u64, bytes: u64) -> Self {
        DevicePtr { address, bytes }
    }

    /// The address.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Bytes that may be touched from there.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// The memory from byte `offset` on; empty where that is beyond its end.
    pub fn offset(self, offset: u64) -> Self {
        let offset = offset.min(self.bytes);
        DevicePtr { address: self.address + offset, bytes: self.bytes - offset }
    }
}
