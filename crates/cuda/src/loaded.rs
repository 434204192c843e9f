use crate::driver::{
    Arguments, Function, FunctionAttribute, Geometry, Module, replace_map_address,
};
use crate::jit::{self, Origin};
use crate::{Device, DevicePtr, Error, Stream};
use program::{Argument, Buffer, BufferId, Launch, Pointer, Program};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A program on a device: compiled, its kernels' attributes set, everything but addresses known.
#[derive(Clone)]
pub struct Loaded(Arc<Inner>);

struct Inner {
    device: Device,
    /// Keeps the kernels alive.
    _module: Arc<Module>,
    launches: Vec<Prepared>,
    buffers: Vec<Buffer>,
    origin: Origin,
    log: String,
    load_time: Duration,
}

struct Prepared {
    kernel: String,
    function: Function,
    geometry: Geometry,
    args: Vec<Argument>,
}

/// What the driver says about a loaded kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelInfo {
    /// Name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: stack and spills.
    pub local_bytes: u32,
    /// Static shared memory.
    pub static_shared_bytes: u32,
    /// CTAs of its launch that fit one SM.
    pub ctas_per_sm: u32,
    /// Clusters of its launch that fit the device, where it has clusters.
    pub clusters: Option<u32>,
}

impl Loaded {
    pub(crate) fn new(device: &Device, program: &Program) -> Result<Self, Error> {
        program.check().map_err(Error::Invalid)?;
        let start = Instant::now();
        let built = jit::build(device, &program.module)?;
        let prepare = |launch: &Launch| Prepared::new(&built.module, launch);
        let launches = program.launches.iter().map(prepare).collect::<Result<_, _>>()?;
        Ok(Loaded(Arc::new(Inner {
            device: device.clone(),
            launches,
            buffers: program.buffers.clone(),
            origin: built.origin,
            log: built.log,
            load_time: start.elapsed(),
            _module: built.module,
        })))
    }

    /// Where the machine code came from.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    /// What the driver's compiler printed; empty for cached code.
    pub fn compiler_log(&self) -> &str {
        &self.0.log
    }

    /// How long compiling and loading took.
    pub fn load_time(&self) -> Duration {
        self.0.load_time
    }

    /// Resources and occupancy of each launch's kernel.
    pub fn kernels(&self) -> Result<Vec<KernelInfo>, Error> {
        self.0.device.context().bind()?;
        self.0.launches.iter().map(Prepared::info).collect()
    }

    /// Fills in the buffers' addresses, one per buffer of the program, in its order. What buffers hold is the
    /// caller's, addresses ([`Buffer::pointers`]) included.
    pub fn bind(&self, buffers: &[DevicePtr]) -> Result<Bound, Error> {
        self.check_buffers(buffers)?;
        let launches = &self.0.launches;
        let args = launches.iter().map(|l| l.arguments(buffers)).collect::<Result<_, _>>()?;
        Ok(Bound { loaded: self.clone(), buffers: buffers.to_vec(), args })
    }

    /// Binds and queues in one call.
    pub fn launch(&self, stream: &Stream, buffers: &[DevicePtr]) -> Result<(), Error> {
        self.bind(buffers)?.launch(stream)
    }

    fn check_buffers(&self, given: &[DevicePtr]) -> Result<(), Error> {
        let wanted = &self.0.buffers;
        if given.len() != wanted.len() {
            let names: Vec<&str> = wanted.iter().map(|b| b.name.as_str()).collect();
            let reason =
                format!("{} given for {}: {}", given.len(), wanted.len(), names.join(", "));
            return Err(Error::Buffer { name: "all".into(), reason });
        }
        wanted.iter().zip(given).try_for_each(|(wanted, given)| check_buffer(wanted, *given))
    }
}

fn check_buffer(wanted: &Buffer, given: DevicePtr) -> Result<(), Error> {
    let (bytes, align) = (wanted.bytes, wanted.align);
    let reason = if given.bytes() < bytes {
        format!("{} bytes given, the program uses {bytes}", given.bytes())
    } else if !given.address().is_multiple_of(align) {
        format!("address {:#x} is not a multiple of {align}", given.address())
    } else {
        return Ok(());
    };
    Err(Error::Buffer { name: wanted.name.clone(), reason })
}

impl Prepared {
    fn new(module: &Module, launch: &Launch) -> Result<Self, Error> {
        let function = module.function(&launch.kernel)?;
        let geometry = Geometry {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            overlaps_previous: launch.overlaps_previous,
        };
        use FunctionAttribute::*;
        if launch.shared_bytes > 0 {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, launch.shared_bytes)?;
        }
        if launch.cluster.iter().product::<u32>() > 8 {
            function.set_attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
        }
        Ok(Prepared {
            kernel: launch.kernel.clone(),
            function,
            geometry,
            args: launch.args.clone(),
        })
    }

    fn arguments(&self, buffers: &[DevicePtr]) -> Result<Arguments, Error> {
        let mut arguments = Arguments::default();
        self.args.iter().try_for_each(|argument| push(&mut arguments, argument, buffers))?;
        Ok(arguments)
    }

    fn info(&self) -> Result<KernelInfo, Error> {
        use FunctionAttribute::*;
        let attribute = |name| self.function.attribute(name);
        let clustered = self.geometry.cluster != [1; 3];
        let clusters = clustered.then(|| self.function.clusters(&self.geometry)).transpose()?;
        Ok(KernelInfo {
            name: self.kernel.clone(),
            registers: attribute(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared_bytes: attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            ctas_per_sm: self.function.ctas_per_sm(&self.geometry)?,
            clusters,
        })
    }
}

/// Adds one argument. The program was checked: identifiers are in range and maps are encodable.
fn push(to: &mut Arguments, argument: &Argument, buffers: &[DevicePtr]) -> Result<(), Error> {
    match argument {
        Argument::Buffer(id, offset) => to.push(&address(buffers, *id, *offset)),
        Argument::U32(value) => to.push(&value.to_le_bytes()),
        Argument::U64(value) => to.push(&value.to_le_bytes()),
        Argument::F32(value) => to.push(&value.to_le_bytes()),
        Argument::TensorMap(map) => {
            to.push(&crate::encode_with_driver(map, buffers[map.buffer.0].address())?);
        }
        Argument::Bytes(bytes, pointers) => {
            to.push(bytes);
            pointers.iter().for_each(|pointer| put_pointer(to, to.len() - 1, pointer, buffers));
        }
    }
    Ok(())
}

/// Writes the addresses of buffers that are not where they were into argument `index`.
fn move_argument(
    to: &mut Arguments,
    (index, argument): (usize, &Argument),
    before: &[DevicePtr],
    after: &[DevicePtr],
) -> Result<(), Error> {
    let moved = |id: BufferId| before[id.0].address() != after[id.0].address();
    match argument {
        Argument::Buffer(id, offset) if moved(*id) => {
            to.put(index, 0, &address(after, *id, *offset));
        }
        Argument::TensorMap(map) if moved(map.buffer) => {
            let address = after[map.buffer.0].address().wrapping_add(map.offset);
            replace_map_address(to.first_slot(index), address)?;
        }
        Argument::Bytes(_, pointers) => {
            pointers.iter().for_each(|pointer| put_pointer(to, index, pointer, after));
        }
        _ => {}
    }
    Ok(())
}

fn address(buffers: &[DevicePtr], id: BufferId, offset: u64) -> [u8; 8] {
    buffers[id.0].address().wrapping_add(offset).to_le_bytes()
}

fn put_pointer(to: &mut Arguments, index: usize, pointer: &Pointer, buffers: &[DevicePtr]) {
    let value = pointer.value(buffers[pointer.buffer.0].address());
    to.put(index, pointer.offset as usize, &value);
}

/// A loaded program with its buffers: launching only queues kernels.
#[derive(Clone)]
pub struct Bound {
    loaded: Loaded,
    buffers: Vec<DevicePtr>,
    /// Per launch, its arguments.
    args: Vec<Arguments>,
}

impl Bound {
    /// Queues every launch of the program on `stream`, and leaves the thread on the device it was on.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        let inner = &self.loaded.0;
        let _entered = inner.device.context().enter()?;
        for (launch, args) in inner.launches.iter().zip(&self.args) {
            launch.function.launch(&launch.geometry, stream.handle(), args)?;
        }
        Ok(())
    }

    /// Changes the buffers: only addresses that differ are written, into arguments and tensor maps.
    ///
    /// # Errors
    /// If a buffer does not do, or the driver refuses an address; the binding is then of no use.
    pub fn rebind(&mut self, buffers: &[DevicePtr]) -> Result<(), Error> {
        if buffers == self.buffers {
            return Ok(());
        }
        self.loaded.check_buffers(buffers)?;
        for (launch, args) in self.loaded.0.launches.iter().zip(&mut self.args) {
            for argument in launch.args.iter().enumerate() {
                move_argument(args, argument, &self.buffers, buffers)?;
            }
        }
        self.buffers.clear();
        self.buffers.extend_from_slice(buffers);
        Ok(())
    }

    /// The program without its buffers.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}
