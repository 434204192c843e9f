use crate::{Device, DeviceBuffer, Error};
use program::{Access, Program};
use std::time::Duration;

/// How long [`Device::run_host`] waits.
pub const RUN_LIMIT: Duration = Duration::from_secs(60);

impl Device {
    /// Runs a program once on host memory: uploads, launches, waits, downloads what is written.
    ///
    /// `buffers` has one entry per buffer of the program, in its order. A workspace may be empty: it
    /// is then allocated and filled with ones in every bit (NaN in every float format), so that a
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
        let upload = |(wanted, host): (&program::Buffer, &Vec<u8>)| {
            if wanted.access == Access::Workspace && host.is_empty() {
                let mut workspace = self.alloc(wanted.bytes as usize)?;
                workspace.fill(0xFF)?;
                return Ok(workspace);
            }
            self.upload(host)
        };
        program.buffers.iter().zip(buffers).map(upload).collect()
    }
}
