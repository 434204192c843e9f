use crate::{Device, DeviceBuffer, Error};
use program::{Access, Buffer, Program};
use std::borrow::Cow;
use std::time::Duration;

/// How long [`Device::run_host`] waits.
pub const RUN_LIMIT: Duration = Duration::from_secs(60);

impl Device {
    /// Runs a program once on host memory: uploads, launches, waits, downloads what is written.
    ///
    /// `buffers` has one entry per buffer of the program, in its order. Addresses that buffers hold
    /// ([`Buffer::pointers`]) are written into the copies on the device. A workspace may be empty: it is then allocated and filled with ones in every bit (NaN in every float format), so that a
    /// kernel that reads what it did not write is found out. A program that takes longer than
    /// [`RUN_LIMIT`] is taken for one that never ends ([`Error::Timeout`]).
    pub fn run_host(&self, program: &Program, buffers: &mut [Vec<u8>]) -> Result<(), Error> {
        let loaded = self.load(program)?;
        let count = program.buffers.len();
        if buffers.len() != count {
            let reason = format!("{} given, the program has {count}", buffers.len());
            return Err(Error::Buffer { name: "all".into(), reason });
        }
        let memory = self.upload_all(program, buffers)?;
        let pointers: Vec<_> = memory.iter().map(DeviceBuffer::pointer).collect();
        let stream = self.default_stream();
        loaded.launch(&stream, &pointers)?;
        stream.synchronize_within(RUN_LIMIT)?;
        for ((wanted, memory), host) in program.buffers.iter().zip(&memory).zip(buffers) {
            if wanted.access.is_output() {
                memory.read_into(host)?;
            }
        }
        Ok(())
    }

    fn upload_all(
        &self,
        program: &Program,
        buffers: &[Vec<u8>],
    ) -> Result<Vec<DeviceBuffer>, Error> {
        let contents = || program.buffers.iter().zip(buffers);
        let alloc = |(wanted, host): (&Buffer, &Vec<u8>)| self.alloc(device_bytes(wanted, host));
        let mut memory = contents().map(alloc).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<u64> = memory.iter().map(|buffer| buffer.pointer().address()).collect();
        for ((wanted, host), memory) in contents().zip(&mut memory) {
            match is_scratch(wanted, host) {
                true => memory.fill(0xFF)?,
                false => memory.write(&with_pointers(wanted, host, &addresses))?,
            }
        }
        Ok(memory)
    }
}

/// Whether a buffer is for the device to allocate alone.
fn is_scratch(wanted: &Buffer, host: &[u8]) -> bool {
    wanted.access == Access::Workspace && host.is_empty()
}

fn device_bytes(wanted: &Buffer, host: &[u8]) -> usize {
    if is_scratch(wanted, host) { wanted.bytes as usize } else { host.len() }
}

/// What a buffer holds, with the addresses that stand in it. What is too short is refused by its launch.
fn with_pointers<'a>(wanted: &Buffer, host: &'a [u8], addresses: &[u64]) -> Cow<'a, [u8]> {
    if wanted.pointers.is_empty() || (host.len() as u64) < wanted.bytes {
        return host.into();
    }
    let mut bytes = host.to_vec();
    for pointer in &wanted.pointers {
        pointer.write(&mut bytes, addresses[pointer.buffer.0]);
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::{BufferId, Pointer};

    #[test]
    fn addresses_are_written_among_what_a_buffer_holds() {
        let mut table = Buffer::new("table", 24, 8, Access::ReadWrite);
        let host = [7; 24];
        assert_eq!(with_pointers(&table, &host, &[]), host.as_slice());
        let at = |offset, buffer, addend| Pointer { offset, buffer: BufferId(buffer), addend };
        table.pointers = vec![at(0, 1, 4), at(16, 0, -1)];
        let bytes = with_pointers(&table, &host, &[0x100, 0x200]).into_owned();
        assert_eq!(bytes[..8], 0x204u64.to_le_bytes());
        assert_eq!(bytes[8..16], [7; 8]);
        assert_eq!(bytes[16..], 0xFFu64.to_le_bytes());
        // Shorter than the program says: there is no place to write to, and the launch says so.
        assert_eq!(with_pointers(&table, &host[..8], &[0, 0]), &host[..8]);
    }
}
