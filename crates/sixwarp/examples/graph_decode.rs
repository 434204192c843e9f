//! A decode loop on a stream and memory of the caller, in a CUDA graph:
//! `cargo run --release --example graph_decode`. It needs a GPU.
//!
//! Memory and stream are `cudarc`'s; those of any other library do too, by their raw handles. The step is
//! recorded once. Then each step writes a query and how many keys there are by now, launches the graph, and
//! reads the output; nothing is planned, allocated or encoded any more. Results are compared with the oracle's.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError};
use half::bf16;
use sixwarp::{
    DType, Device, DeviceBuffers, DeviceMut, DeviceRef, Error, Executable, Graph, HostBuffers,
    Problem, Segment, SegmentSlot, Slot, Stream, View, attention, plan,
};
use std::sync::Arc;

const HEADS: u64 = 8;
const KV_HEADS: u64 = 2;
const MOST_KEYS: u64 = 4096;
const DIM: u64 = 128;
const STEPS: i32 = 5;
const USED: Slot = Slot::Segment(0, SegmentSlot::Used);

/// Numbers between -1 and 1 that look random enough.
fn values(count: u64, seed: u64) -> Vec<bf16> {
    let number = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32;
    (0..count).map(|i| bf16::from_f32(number(i) / (1 << 23) as f32 - 1.0)).collect()
}

fn cuda(error: DriverError) -> Error {
    Error::Device(error.to_string())
}

/// The loop.
pub fn main() -> Result<(), Error> {
    let device =
        Device::cuda(0).map_err(|why| Error::NoDevice(format!("CUDA graphs need a GPU: {why}")))?;
    let problem = problem()?;
    let executable = plan(&problem, &device)?.prepare()?;
    println!(
        "{}: {} bytes of workspace",
        executable.plan().summary(),
        executable.workspace_bytes()
    );

    let context = CudaContext::new(0).map_err(cuda)?;
    let owner = context.new_stream().map_err(cuda)?;
    // SAFETY: the stream is of this device's primary context, and `owner` keeps it to the end.
    let stream = unsafe { Stream::from_raw(&device, owner.cu_stream() as usize) }?;
    let mut tensors = Tensors::new(&owner, executable.workspace_bytes()).map_err(cuda)?;
    let graph = tensors.record(&device, &executable, &stream)?;
    for step in 1..=STEPS {
        let (query, keys) = (values(HEADS * DIM, step as u64), [step * 800]);
        owner.memcpy_htod(&bits(&query), &mut tensors.q).map_err(cuda)?;
        owner.memcpy_htod(&keys, &mut tensors.used).map_err(cuda)?;
        graph.launch(&stream)?;
        let got = owner.clone_dtoh(&tensors.out).map_err(cuda)?;
        let error = largest_difference(&problem, &query, &keys, &tensors.host, &got)?;
        println!("{} keys: largest difference from the oracle {error:.1e}", keys[0]);
        assert!(error < 1e-2, "the oracle says otherwise");
    }
    Ok(())
}

/// One query on as many keys as there are at the time.
fn problem() -> Result<Problem, Error> {
    let queries = View::bshd(DType::Bf16, [1, HEADS, 1, DIM]);
    let keys = View::bshd(DType::Bf16, [1, KV_HEADS, MOST_KEYS, DIM]);
    Ok(Problem::builder(queries).segment(Segment::new(keys, keys).used()).build()?)
}

/// The bits of numbers: `cudarc` knows bf16 only where it is asked to.
fn bits(values: &[bf16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Memory of the GPU, which is not moved: the graph holds its addresses.
struct Tensors {
    q: CudaSlice<u16>,
    k: CudaSlice<u16>,
    v: CudaSlice<u16>,
    used: CudaSlice<i32>,
    out: CudaSlice<u16>,
    workspace: CudaSlice<u8>,
    /// Keys and values.
    host: [Vec<bf16>; 2],
}

impl Tensors {
    fn new(stream: &Arc<CudaStream>, workspace_bytes: u64) -> Result<Self, DriverError> {
        let host = [1, 2].map(|seed| values(KV_HEADS * MOST_KEYS * DIM, seed));
        Ok(Tensors {
            q: stream.alloc_zeros((HEADS * DIM) as usize)?,
            k: stream.clone_htod(&bits(&host[0]))?,
            v: stream.clone_htod(&bits(&host[1]))?,
            used: stream.alloc_zeros(1)?,
            out: stream.alloc_zeros((HEADS * DIM) as usize)?,
            // A workspace has an address, whether the plan needs one or not.
            workspace: stream.alloc_zeros(workspace_bytes.max(256) as usize)?,
            host,
        })
    }

    /// The step, recorded.
    fn record(
        &mut self,
        device: &Device,
        executable: &Executable,
        stream: &Stream,
    ) -> Result<Graph, Error> {
        let owner = self.q.stream().clone();
        let (q, k, v) = (&self.q, &self.k, &self.v);
        let [q, k, v] = [q, k, v].map(|tensor| (tensor.device_ptr(&owner).0, tensor.len()));
        let (used, out) = (self.used.device_ptr(&owner).0, self.out.device_ptr_mut(&owner).0);
        let workspace = self.workspace.device_ptr_mut(&owner).0;
        // SAFETY: the addresses are those of the tensors, which stay as long as the graph; work on them
        // is on one stream.
        stream.capture(|| unsafe {
            let buffers = DeviceBuffers::new()
                .input(Slot::Q, DeviceRef::from_raw::<bf16>(device, q.0, q.1)?)
                .input(Slot::K, DeviceRef::from_raw::<bf16>(device, k.0, k.1)?)
                .input(Slot::V, DeviceRef::from_raw::<bf16>(device, v.0, v.1)?)
                .input(USED, DeviceRef::from_raw::<i32>(device, used, 1)?)
                .output(Slot::Out, DeviceMut::from_raw::<bf16>(device, out, q.1)?);
            let scratch = DeviceMut::from_raw::<u8>(device, workspace, self.workspace.len())?;
            executable.queue(stream, buffers, scratch)
        })
    }
}

fn largest_difference(
    problem: &Problem,
    q: &Vec<bf16>,
    used: &[i32],
    [k, v]: &[Vec<bf16>; 2],
    got: &[u16],
) -> Result<f32, Error> {
    let mut want = vec![bf16::ZERO; got.len()];
    let mut buffers = HostBuffers::new()
        .input(Slot::Q, q)
        .input(Slot::K, k)
        .input(Slot::V, v)
        .input(USED, used)
        .output(Slot::Out, &mut want);
    attention(problem, &mut buffers, &Device::oracle())?;
    let errors =
        got.iter().zip(&want).map(|(x, y)| (bf16::from_bits(*x).to_f32() - y.to_f32()).abs());
    Ok(errors.fold(0.0, f32::max))
}
