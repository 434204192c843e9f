use super::{Outcome, buffer, kernels, launch, program, same};
use program::{Access, Argument, BufferId, Program};
use sixwarp_cuda::Device;

const COUNT: usize = 100_000;
const SCALE: f32 = 1.5;

/// The program: `out = scale * a + b`.
pub fn scale_add_program() -> Program {
    let bytes = 4 * COUNT;
    let buffers = vec![
        buffer("a", bytes, Access::Read),
        buffer("b", bytes, Access::Read),
        buffer("out", bytes, Access::Write),
    ];
    let mut args: Vec<Argument> = (0..3).map(|i| Argument::Buffer(BufferId(i), 0)).collect();
    args.extend([Argument::F32(SCALE), Argument::U32(COUNT as u32)]);
    let launch = launch("scale_add", COUNT.div_ceil(256) as u32, 256, args);
    program(kernels::VECTOR, buffers, vec![launch])
}

/// Host memory in, host memory out.
pub fn scale_add(device: &Device) -> Outcome {
    let a: Vec<f32> = (0..COUNT).map(|i| i as f32 * 0.25).collect();
    let b: Vec<f32> = (0..COUNT).map(|i| 7.0 - i as f32).collect();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let mut buffers = [bytes(&a), bytes(&b), vec![0xFF; 4 * COUNT]];
    device.run_host(&scale_add_program(), &mut buffers)?;
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| SCALE.mul_add(*a, *b)).collect();
    same("out", &buffers[2], &bytes(&expected))?;
    Ok(format!("{COUNT} elements, every bit"))
}
