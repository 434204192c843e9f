//! GPUs that take the `mma.sync` family of kernels. None of them was measured: every table is from public figures.
//!
//! Letters are those of [`Machine`]'s own file. Throughput tables are those of the CUDA C++ programming guide for the
//! chip's compute capability. What a data sheet does not say is taken from the [H200](H200).

use crate::machine::{H200, Machine};

/// What tables below have in common: latencies, launches and shares that no data sheet has.
const AMPERE: Machine = Machine {
    // A: these chips have no copy engine; threads copy, and wait as for loads.
    copy_latency: H200.load_latency,
    // A: only an H200's clock under load was measured.
    power_free: 0.25,
    power_full: 0.5,
    // A: no tensor maps are read, and there are no clusters.
    cta_start: 100.0,
    cluster_start: 0.0,
    // D: as the table of the programming guide has it for all of them: 128 bytes per cycle, 16 special functions,
    // 64 conversions and 64 integers.
    shared_bytes: 128.0,
    mufu: 8.0,
    convert: 2.0,
    alu: 2.0,
    ..H200
};

/// An A100 with 80 GB, SXM (sm_80).
pub const A100: Machine = Machine {
    name: "A100",
    // D
    processors: 108,
    // D: 1,410 MHz.
    clock_ghz: 1.41,
    // A: 8 % below the highest clock, for 400 W.
    tensor_clock_ghz: 1.30,
    // D: 312 TFLOP/s dense in bf16.
    tensor_flops: 2048.0,
    mma_flops: 2048.0,
    // D: 64 results per cycle.
    fma: 2.0,
    // A: 70 % of the 5,120 bytes per cycle that the white paper has.
    l2_bytes: 5.0e12,
    // D: 2,039 GB/s, of which Hopper's share is reached.
    memory_bytes: 1.91e12,
    // A: Hopper's share of what is read.
    memory_written: 1.57e12,
    // D
    l2_size: 40e6,
    // D: 164 KiB.
    shared_size: 167_936,
    ..AMPERE
};

/// An A40 (sm_86).
pub const A40: Machine = Machine {
    name: "A40",
    // D
    processors: 84,
    // D: 1,740 MHz.
    clock_ghz: 1.74,
    // A: Hopper's share of the highest clock, for 300 W.
    tensor_clock_ghz: 1.45,
    // D: 149.7 TFLOP/s dense in bf16.
    tensor_flops: 1024.0,
    mma_flops: 1024.0,
    // A
    l2_bytes: 2.0e12,
    // D: 696 GB/s, of which Hopper's share is reached.
    memory_bytes: 0.65e12,
    // A: Hopper's share of what is read.
    memory_written: 0.53e12,
    // D
    l2_size: 6e6,
    // D: 100 KiB.
    shared_size: 102_400,
    ..AMPERE
};

/// A GeForce RTX 4090 (sm_89).
pub const RTX_4090: Machine = Machine {
    name: "RTX 4090",
    // D
    processors: 128,
    // D: 2,520 MHz is the boost clock; cards often run faster.
    clock_ghz: 2.52,
    // A: 450 W are enough for it.
    tensor_clock_ghz: 2.52,
    // D: 165.2 TFLOP/s dense in bf16 with f32 sums.
    tensor_flops: 512.0,
    mma_flops: 512.0,
    // A
    l2_bytes: 5.0e12,
    // D: 1,008 GB/s, of which Hopper's share is reached.
    memory_bytes: 0.94e12,
    // A: Hopper's share of what is read.
    memory_written: 0.77e12,
    // D
    l2_size: 72e6,
    ..A40
};

/// An L40S (sm_89).
pub const L40S: Machine = Machine {
    name: "L40S",
    // D
    processors: 142,
    // A: Hopper's share of the highest clock, for 350 W.
    tensor_clock_ghz: 2.10,
    // D: 362 TFLOP/s dense in bf16: twice that of a GeForce.
    tensor_flops: 1024.0,
    mma_flops: 1024.0,
    // D: 864 GB/s, of which Hopper's share is reached.
    memory_bytes: 0.81e12,
    // A: Hopper's share of what is read.
    memory_written: 0.67e12,
    // D
    l2_size: 96e6,
    ..RTX_4090
};

/// A GeForce RTX 5090 (sm_120).
pub const RTX_5090: Machine = Machine {
    name: "RTX 5090",
    // D
    processors: 170,
    // D: 2,407 MHz is the boost clock.
    clock_ghz: 2.407,
    // A: 575 W are enough for it.
    tensor_clock_ghz: 2.407,
    // D: all lanes of a partition take integers or floats.
    alu: 1.0,
    // A
    l2_bytes: 6.0e12,
    // D: 1,792 GB/s, of which Hopper's share is reached.
    memory_bytes: 1.68e12,
    // A: Hopper's share of what is read.
    memory_written: 1.38e12,
    // D
    l2_size: 96e6,
    ..RTX_4090
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_cores_are_as_fast_as_data_sheets_say() {
        for (machine, tflops) in
            [(A100, 312.0), (A40, 149.7), (RTX_4090, 165.2), (L40S, 362.05), (RTX_5090, 209.5)]
        {
            let Machine { name, processors, clock_ghz, mma_flops, .. } = machine;
            let found = f64::from(processors) * clock_ghz * mma_flops / 1e3;
            assert!((found / tflops - 1.0).abs() < 0.02, "{name}: {found}, and not {tflops}");
        }
    }
}
