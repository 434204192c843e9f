//! Attention on CUDA memory of candle, on candle's stream.

use crate::op::failed;
use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, SyncOnDrop, ValidAsZeroBits,
};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::{CudaStorage, DType, Layout, Result, Storage, Tensor};
use half::{bf16, f16};
use sixwarp::{
    Device, DeviceBuffers, DeviceMut, DeviceRef, Executable, PlanOptions, Problem, Scalar, Slot,
    Stream,
};
use std::sync::{Arc, Mutex};

/// The output of `problem`, `len` elements. The work is queued on the stream of `q`.
pub(crate) fn run(
    problem: &Problem,
    inputs: &[(Slot, &CudaStorage, &Layout)],
    others: &[(Slot, Tensor)],
    len: usize,
) -> Result<CudaStorage> {
    match problem.dtype() {
        sixwarp::DType::F16 => compute::<f16>(problem, inputs, others, len),
        sixwarp::DType::Bf16 => compute::<bf16>(problem, inputs, others, len),
        sixwarp::DType::F32 => compute::<f32>(problem, inputs, others, len),
        other => candle_core::bail!("q is {other}: F16, BF16 or F32 is needed on a GPU"),
    }
}

fn compute<T: CudaDType + DeviceRepr + ValidAsZeroBits + Scalar>(
    problem: &Problem,
    inputs: &[(Slot, &CudaStorage, &Layout)],
    others: &[(Slot, Tensor)],
    len: usize,
) -> Result<CudaStorage> {
    let owner = inputs[0].1.device().clone();
    let stream = owner.cuda_stream();
    // candle's allocations begin at multiples of 256 bytes; a view of a part may begin at any element.
    let begins = |layout: &Layout| layout.start_offset() * size_of::<T>();
    let any_address = inputs.iter().any(|(_, _, layout)| !begins(layout).is_multiple_of(16));
    let executable = prepared(stream.context().ordinal() as u32, problem, any_address)?;
    let others = contiguous(others)?;
    let held: Vec<_> = others.iter().map(|(slot, x)| (*slot, x.storage_and_layout())).collect();
    let mut given = Given::new(executable.plan().device(), &stream);
    for (slot, storage, layout) in inputs {
        given.add::<T, T>(*slot, storage, layout)?;
    }
    for (slot, (storage, layout)) in &held {
        given.add_other(*slot, storage, layout)?;
    }
    // Tokens that offsets leave out are not written: they are 0 and not what lay there.
    let mut out = stream.alloc_zeros::<T>(len).w()?;
    given.launch(&executable, &mut out)?;
    Ok(CudaStorage::wrap_cuda_slice(out, owner))
}

/// What a launch reads. candle is told of the use when the guards go.
struct Given<'a> {
    device: &'a Device,
    stream: &'a Arc<CudaStream>,
    buffers: DeviceBuffers<'a>,
    guards: Vec<SyncOnDrop<'a>>,
}

impl<'a> Given<'a> {
    fn new(device: &'a Device, stream: &'a Arc<CudaStream>) -> Self {
        Given { device, stream, buffers: DeviceBuffers::new(), guards: Vec::new() }
    }

    /// The memory of a tensor from its first element on, which candle has as `T` and the library reads as `S`, of the
    /// same size.
    fn add<T: CudaDType + 'a, S: Scalar>(
        &mut self,
        slot: Slot,
        storage: &'a CudaStorage,
        layout: &Layout,
    ) -> Result<()> {
        let slice = storage.as_cuda_slice::<T>()?;
        let (from, (address, guard)) = (layout.start_offset(), slice.device_ptr(self.stream));
        let (address, len) = (address + (from * size_of::<T>()) as u64, slice.len() - from);
        // SAFETY: candle keeps the slice while the operation runs, and frees it in the order of the stream.
        let memory =
            unsafe { DeviceRef::from_raw::<S>(self.device, address, len) }.map_err(failed)?;
        self.buffers = std::mem::take(&mut self.buffers).input(slot, memory);
        self.guards.push(guard);
        Ok(())
    }

    /// Offsets, lengths, tables and biases.
    fn add_other(&mut self, slot: Slot, storage: &'a Storage, layout: &Layout) -> Result<()> {
        let Storage::Cuda(storage) = storage else {
            candle_core::bail!("{slot} is not on the GPU, where q is");
        };
        match storage.dtype() {
            DType::F32 => self.add::<f32, f32>(slot, storage, layout),
            DType::U32 => self.add::<u32, i32>(slot, storage, layout),
            DType::I32 => self.add::<i32, i32>(slot, storage, layout),
            other => candle_core::bail!("{slot} is {other:?}: U32 is needed"),
        }
    }

    fn launch<T: Scalar>(self, executable: &Executable, out: &mut CudaSlice<T>) -> Result<()> {
        let Given { device, stream, buffers, guards } = self;
        // A workspace has an address, whether one is needed or not.
        let bytes = executable.workspace_bytes().max(256) as usize;
        // SAFETY: scratch memory needs no values.
        let mut workspace = unsafe { stream.alloc::<u8>(bytes) }.w()?;
        let len = out.len();
        let (address, _written) = out.device_ptr_mut(stream);
        let (scratch, _used) = workspace.device_ptr_mut(stream);
        // SAFETY: the addresses are those of the slices, on this device. What candle and we free later is freed in
        // the order of the stream, so it stays until the work has ended; candle reads `out` on the same stream.
        unsafe {
            let out = DeviceMut::from_raw::<T>(device, address, len).map_err(failed)?;
            let scratch = DeviceMut::from_raw::<u8>(device, scratch, bytes).map_err(failed)?;
            let on = Stream::from_raw(device, stream.cu_stream() as usize).map_err(failed)?;
            executable.queue(&on, buffers.output(Slot::Out, out), scratch).map_err(failed)?;
        }
        drop(guards);
        Ok(())
    }
}

/// Executables that are kept, the oldest first.
const MOST: usize = 256;

/// The GPU's number, and whether tensors may begin at any address.
type Key = (u32, bool);

/// The executable of a problem on a GPU, made by the first call that needs it.
fn prepared(ordinal: u32, problem: &Problem, any_address: bool) -> Result<Arc<Executable>> {
    static KEPT: Mutex<Vec<(Key, Arc<Executable>)>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let key = (ordinal, any_address);
    let fits =
        |(of, made): &&(Key, Arc<Executable>)| *of == key && made.plan().problem() == problem;
    if let Some((_, made)) = kept.iter().rev().find(fits) {
        return Ok(made.clone());
    }
    let device = Device::cuda(ordinal).map_err(failed)?;
    let options = device.plan_options().map(|usual| PlanOptions { any_address, ..usual });
    let plan = sixwarp::plan_with(problem, &device, options).map_err(failed)?;
    let made = plan.prepare().map_err(failed)?;
    let made = Arc::new(made);
    if kept.len() == MOST {
        kept.remove(0);
    }
    kept.push((key, made.clone()));
    Ok(made)
}

/// Offsets, lengths, tables and biases are read one element behind the other.
fn contiguous(tensors: &[(Slot, Tensor)]) -> Result<Vec<(Slot, Tensor)>> {
    tensors.iter().map(|(slot, x)| Ok((*slot, x.contiguous()?))).collect()
}
