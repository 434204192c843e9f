//! Launches captured elsewhere: parameter bytes, and where buffer addresses go in them.

use crate::error::Error;
use crate::load;
use crate::memory::{Contents, Global};
use crate::options::Options;
use crate::report::Report;
use crate::run::Machine;
use program::Launch;

/// Memory of a captured launch.
#[derive(Clone, Debug)]
pub struct CapturedBuffer {
    /// Name, for messages.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Contents before the launch; `None` is poison.
    pub contents: Option<Vec<u8>>,
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

/// Runs a captured launch; the report holds the buffers afterwards.
pub fn run_captured(launch: &CapturedLaunch, options: &Options) -> Result<Report, Error> {
    let kernel = load::load(&launch.module, &launch.kernel)?;
    let mut global = Global::default();
    for buffer in &launch.buffers {
        let contents = match &buffer.contents {
            Some(bytes) => Contents::Bytes(bytes.clone()),
            None => Contents::Poison,
        };
        global.allocate(&buffer.name, buffer.bytes, &contents, false);
    }
    let params = launch.parameters(&kernel, &global)?;
    let geometry = Launch {
        kernel: launch.kernel.clone(),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        shared_bytes: launch.shared_bytes,
        args: Vec::new(),
        overlaps_previous: false,
    };
    let mut machine = Machine::new(global);
    machine.launch(&launch.module, &kernel, &geometry, params, options)?;
    let count = launch.buffers.len();
    machine.report.buffers = (0..count).map(|i| machine.global.get(i).to_vec()).collect();
    Ok(machine.report)
}

impl CapturedLaunch {
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
        for relocation in &self.relocations {
            let Relocation { param, offset, buffer, addend } = *relocation;
            let place = values.get_mut(param).and_then(|p| p.get_mut(offset..offset + 8));
            let (Some(place), true) = (place, buffer < self.buffers.len()) else {
                return Err(Error::Load(format!(
                    "{relocation:?} names no parameter bytes or buffer"
                )));
            };
            let address = global.get(buffer).base.wrapping_add_signed(addend);
            place.copy_from_slice(&address.to_le_bytes());
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
