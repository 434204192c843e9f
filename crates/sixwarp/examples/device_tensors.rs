//! A decode loop on tensors that stay on their device:
//! `cargo run --release --example device_tensors -- [cpu | cuda | sim-sm90 …]`. Without a name it is the
//! first GPU, or the CPU if no GPU can be used.
//!
//! Keys and values are uploaded once; each step uploads a query, launches, and reads the output back.
//! The last result is compared with the oracle's.

use half::bf16;
use sixwarp::{
    DType, Device, DeviceBuffers, Error, HostBuffers, Problem, Segment, Slot, View, attention, plan,
};

const HEADS: u64 = 8;
const KV_HEADS: u64 = 2;
const KEYS: u64 = 300;
const DIM: u64 = 128;
const STEPS: usize = 5;

/// Numbers between -1 and 1 that look random enough.
fn values(count: u64, seed: u64) -> Vec<bf16> {
    let number = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32;
    (0..count).map(|i| bf16::from_f32(number(i) / (1 << 23) as f32 - 1.0)).collect()
}

/// The device of this name, or the best there is.
pub fn open(name: Option<&str>) -> Result<Device, Error> {
    let Some(name) = name else {
        return Ok(Device::cuda(0).unwrap_or_else(|why| {
            println!("on the CPU: {why}");
            Device::cpu()
        }));
    };
    name.parse()
}

fn main() -> Result<(), Error> {
    decode(&open(std::env::args().nth(1).as_deref())?)
}

/// The loop.
pub fn decode(device: &Device) -> Result<(), Error> {
    let queries = View::bshd(DType::Bf16, [1, HEADS, 1, DIM]);
    let keys = View::bshd(DType::Bf16, [1, KV_HEADS, KEYS, DIM]);
    let problem = Problem::builder(queries).segment(Segment::new(keys, keys)).build()?;
    let plan = plan(&problem, device)?;
    println!("{device}: {}", plan.summary());
    let executable = plan.prepare()?;
    let mut workspace = executable.alloc_workspace()?;
    let stream = device.default_stream();

    let (k, v) = (values(KV_HEADS * KEYS * DIM, 1), values(KV_HEADS * KEYS * DIM, 2));
    let (device_k, device_v) = (device.upload(&k)?, device.upload(&v)?);
    let mut device_q = device.alloc::<bf16>((HEADS * DIM) as usize)?;
    let mut out = device.alloc::<bf16>((HEADS * DIM) as usize)?;
    let (mut q, mut result) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        q = values(HEADS * DIM, 3 + step as u64);
        device_q.write(&q)?;
        let buffers = DeviceBuffers::new()
            .input(Slot::Q, &device_q)
            .input(Slot::K, &device_k)
            .input(Slot::V, &device_v)
            .output(Slot::Out, &mut out);
        executable.launch(&stream, buffers, &mut workspace)?.wait()?;
        result = out.download()?;
    }

    let mut want = vec![bf16::ZERO; result.len()];
    let mut buffers = HostBuffers::new()
        .input(Slot::Q, &q)
        .input(Slot::K, &k)
        .input(Slot::V, &v)
        .output(Slot::Out, &mut want);
    attention(&problem, &mut buffers, &Device::oracle())?;
    let errors = result.iter().zip(&want).map(|(x, y)| (x.to_f32() - y.to_f32()).abs());
    let error = errors.fold(0.0, f32::max);
    println!("{STEPS} steps, largest difference from the oracle {error:.1e}");
    assert!(error < 1e-2, "the oracle says otherwise");
    Ok(())
}
