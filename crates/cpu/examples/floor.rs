//! Prints what this machine can do at most, on rayon's threads: multiply-adds of f32 vectors, of bf16
//! tiles where it has them, and reading 1 GiB (from memory) or 64 MiB (from the last cache, if that is
//! large). One `NAME RATE` line each, in GFLOP/s or GB/s.

use sixwarp_cpu::ceilings;

fn main() {
    for (name, rate) in ceilings::multiply_rates() {
        println!("{name} {:.0}", rate / 1e9);
    }
    println!("read {:.1}", ceilings::read_rate(1 << 30) / 1e9);
    println!("read-cached {:.1}", ceilings::read_rate(1 << 26) / 1e9);
}
