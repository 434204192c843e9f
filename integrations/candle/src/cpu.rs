//! Attention on host memory of candle.

use crate::op::failed;
use candle_core::{CpuStorage, DType, Layout, Result, Tensor};
use half::{bf16, f16};
use sixwarp::{Device, HostBuffers, HostMut, HostRef, Problem, Slot};

/// The output of `problem`, `len` elements.
pub(crate) fn run(
    problem: &Problem,
    inputs: &[(Slot, &CpuStorage, &Layout)],
    others: &[(Slot, Tensor)],
    len: usize,
) -> Result<CpuStorage> {
    let others: Vec<(Slot, Other)> = others
        .iter()
        .map(|(slot, x)| Ok((*slot, Other::read(*slot, x)?)))
        .collect::<Result<_>>()?;
    let mut buffers = HostBuffers::new();
    for (slot, storage, layout) in inputs {
        buffers = buffers.input(*slot, memory(*slot, storage, layout)?);
    }
    for (slot, other) in &others {
        buffers = buffers.input(*slot, other.memory());
    }
    Ok(match problem.dtype() {
        sixwarp::DType::F64 => CpuStorage::F64(compute(problem, buffers, vec![0.; len])?),
        sixwarp::DType::F32 => CpuStorage::F32(compute(problem, buffers, vec![0.; len])?),
        sixwarp::DType::F16 => CpuStorage::F16(compute(problem, buffers, vec![f16::ZERO; len])?),
        sixwarp::DType::Bf16 => CpuStorage::BF16(compute(problem, buffers, vec![bf16::ZERO; len])?),
        dtype @ sixwarp::DType::E4m3 => candle_core::bail!("an output is not {dtype}"),
    })
}

fn compute<T>(problem: &Problem, buffers: HostBuffers, mut out: Vec<T>) -> Result<Vec<T>>
where
    for<'a> HostMut<'a>: From<&'a mut Vec<T>>,
{
    let mut buffers = buffers.output(Slot::Out, &mut out);
    sixwarp::attention(problem, &mut buffers, &Device::cpu()).map_err(failed)?;
    drop(buffers);
    Ok(out)
}

/// The memory of a tensor from its first element on.
fn memory<'a>(slot: Slot, storage: &'a CpuStorage, layout: &Layout) -> Result<HostRef<'a>> {
    let from = layout.start_offset();
    Ok(match storage {
        CpuStorage::F64(x) => HostRef::F64(&x[from..]),
        CpuStorage::F32(x) => HostRef::F32(&x[from..]),
        CpuStorage::F16(x) => HostRef::F16(&x[from..]),
        CpuStorage::BF16(x) => HostRef::Bf16(&x[from..]),
        _ => candle_core::bail!("{slot} holds no floats: F16, BF16, F32 or F64 is needed"),
    })
}

/// A tensor beside `q`, `k` and `v`, copied: candle's integers are unsigned.
enum Other {
    Numbers(Vec<i32>),
    Floats(Vec<f32>),
}

impl Other {
    fn read(slot: Slot, x: &Tensor) -> Result<Self> {
        let flat = x.flatten_all()?;
        match x.dtype() {
            DType::F32 => Ok(Other::Floats(flat.to_vec1()?)),
            DType::U32 | DType::I32 | DType::I64 => {
                let numbers: Vec<i64> = flat.to_dtype(DType::I64)?.to_vec1()?;
                let number = |x: i64| {
                    x.try_into().map_err(|_| {
                        candle_core::Error::msg(format!("{slot} has {x}: at most 2^31 - 1"))
                    })
                };
                Ok(Other::Numbers(numbers.into_iter().map(number).collect::<Result<_>>()?))
            }
            other => candle_core::bail!("{slot} is {other:?}: U32 is needed"),
        }
    }

    fn memory(&self) -> HostRef<'_> {
        match self {
            Other::Numbers(numbers) => numbers.into(),
            Other::Floats(floats) => floats.into(),
        }
    }
}
