//! Launches captured elsewhere: parameter bytes, and where buffer addresses go in them.

use crate::error::Error;
use crate::limits::Limits;
use crate::load;
use crate::memory::{Contents, Global, Request};
use crate::options::Options;
use crate::report::{Outcome, Report};
use crate::run::{Machine, repeatable};
use program::Launch;
use program::check::check_shape;

/// Memory of a captured launch.
#[derive(Clone, Debug)]
pub struct CapturedBuffer {
    /// Name, for messages.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Contents before the launch; `None` is poison.
    pub contents: Option<Vec<u8>>,
    /// Addresses in it.
    pub pointers: Vec<Pointer>,
}

/// A place in a buffer that takes a buffer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Byte in the buffer.
    pub offset: u64,
    /// The buffer pointed to.
    pub buffer: usize,
    /// Added to its address.
    pub addend: i64,
}

/// A place in a parameter that takes a buffer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Parameter.
    pub param: usize,
    /// Byte in the parameter.
    pub offset: usize,
    /// Buffer.
    pub buffer: usize,
    /// Added to its address.
    pub addend: i64,
}

/// One captured kernel launch.
#[derive(Clone, Debug)]
pub struct CapturedLaunch {
    /// The PTX.
    pub module: ptx::Module,
    /// Kernel.
    pub kernel: String,
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// Bytes of each `.param`.
    pub params: Vec<Vec<u8>>,
    /// Where addresses go.
    pub relocations: Vec<Relocation>,
    /// Memory.
    pub buffers: Vec<CapturedBuffer>,
}

/// Bytes of an address.
const ADDRESS: usize = 8;

/// Runs a captured launch; the report holds the buffers afterwards.
pub fn run_captured(launch: &CapturedLaunch, options: &Options) -> Result<Report, Error> {
    captured_outcome(launch, options).into_result()
}

/// As [`run_captured`], but keeps what was found before an error ended the run.
pub fn captured_outcome(launch: &CapturedLaunch, options: &Options) -> Outcome {
    let geometry = launch.geometry();
    repeatable(options, |options| {
        check_shape(&launch.module, &geometry).map_err(Error::Invalid)?;
        let mut machine = Machine::new(launch.place_buffers(&options.limits)?);
        let ended = launch.run(&geometry, &mut machine, options);
        Ok((machine, ended))
    })
}

impl CapturedLaunch {
    /// The launch without its parameters, which are bytes.
    fn geometry(&self) -> Launch {
        Launch {
            kernel: self.kernel.clone(),
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            shared_bytes: self.shared_bytes,
            args: Vec::new(),
            overlaps_previous: false,
        }
    }

    fn run(
        &self,
        geometry: &Launch,
        machine: &mut Machine,
        options: &Options,
    ) -> Result<(), Error> {
        let kernel = load::load(&self.module, &self.kernel)?;
        self.write_pointers(&machine.global)?;
        let params = self.parameters(&kernel, &machine.global)?;
        machine.launch(&self.module, &kernel, geometry, params, options)?;
        let buffers = 0..self.buffers.len();
        machine.report.buffers = buffers.map(|i| machine.global.get(i).to_vec()).collect();
        Ok(())
    }

    fn place_buffers(&self, limits: &Limits) -> Result<Global, Error> {
        let mut global = Global::new(limits);
        for buffer in &self.buffers {
            let contents = match &buffer.contents {
                Some(bytes) => Contents::Bytes(bytes),
                None => Contents::Poison,
            };
            let CapturedBuffer { name, bytes, .. } = buffer;
            let request = Request { name, bytes: *bytes, align: 1, contents, read_only: false };
            global.allocate(&request)?;
        }
        Ok(global)
    }

    /// The address `addend` bytes behind the start of a buffer, for the relocation `who`.
    fn address(
        &self,
        global: &Global,
        (buffer, addend): (usize, i64),
        who: &str,
    ) -> Result<u64, Error> {
        let count = self.buffers.len();
        if buffer >= count {
            return Err(Error::Load(format!("{who} names buffer {buffer}; there are {count}")));
        }
        Ok(global.get(buffer).base.wrapping_add_signed(addend))
    }

    /// Puts addresses into buffers.
    fn write_pointers(&self, global: &Global) -> Result<(), Error> {
        for (i, holder) in self.buffers.iter().enumerate() {
            for (n, Pointer { offset, buffer, addend }) in holder.pointers.iter().enumerate() {
                let who = format!("relocs[{n}] of buffer {i}");
                let address = self.address(global, (*buffer, *addend), &who)?;
                if holder.bytes.checked_sub(ADDRESS as u64).is_none_or(|last| *offset > last) {
                    return Err(Error::Load(format!(
                        "{who} puts {ADDRESS} bytes at offset {offset}; the buffer has {}",
                        holder.bytes
                    )));
                }
                global.get(i).write_from(*offset, &address.to_le_bytes());
            }
        }
        Ok(())
    }

    fn parameters(&self, kernel: &load::Kernel, global: &Global) -> Result<Vec<u8>, Error> {
        if self.params.len() != kernel.params.len() {
            return Err(Error::Load(format!(
                "kernel `{}` has {} parameters; the launch gives {}",
                kernel.name,
                kernel.params.len(),
                self.params.len()
            )));
        }
        let mut values = self.params.clone();
        for (n, relocation) in self.relocations.iter().enumerate() {
            let Relocation { param, offset, buffer, addend } = *relocation;
            let who = format!("relocs[{n}]");
            let address = self.address(global, (buffer, addend), &who)?;
            let count = values.len();
            let Some(value) = values.get_mut(param) else {
                return Err(Error::Load(format!(
                    "{who} names parameter {param}; there are {count}"
                )));
            };
            let size = value.len();
            let place = value.get_mut(offset..).and_then(|rest| rest.first_chunk_mut::<ADDRESS>());
            let Some(place) = place else {
                return Err(Error::Load(format!(
                    "{who} puts {ADDRESS} bytes at offset {offset}; parameter {param} has {size}"
                )));
            };
            *place = address.to_le_bytes();
        }
        let mut bytes = vec![0; kernel.param_bytes as usize];
        for (param, value) in kernel.params.iter().zip(&values) {
            if value.len() != param.bytes as usize {
                return Err(Error::Load(format!(
                    "parameter `{}` has {} bytes; the launch gives {}",
                    param.name,
                    param.bytes,
                    value.len()
                )));
            }
            bytes[param.offset as usize..][..value.len()].copy_from_slice(value);
        }
        Ok(bytes)
    }
}
