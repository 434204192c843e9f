//! The checks: each a function of a device that says what it saw.

pub mod boxes;
mod code;
pub mod launches;
mod maps;
pub mod tma;
pub mod vector;

use program::{Access, Argument, Buffer, Launch, Program};
use sixwarp_cuda::Device;
use std::sync::Arc;

/// What a check saw, or what was wrong.
pub type Outcome = Result<String, Box<dyn std::error::Error>>;

/// A check.
pub type Check = fn(&Device) -> Outcome;

/// All checks, in the order in which a failure explains later ones.
pub const ALL: [(&str, Check); 20] = [
    ("vector kernel", vector::scale_add),
    ("compiler errors name lines", code::errors_name_lines),
    ("machine code cache", code::cache),
    ("sm_90a machine code", code::accelerated),
    ("dynamic shared memory", launches::shared_memory),
    ("clusters", launches::clusters),
    ("arguments as bytes", launches::captured),
    ("dependent launches", launches::dependent),
    ("graph replay and timing", launches::graph),
    ("host time of a launch", launches::overhead),
    ("tensor map bytes", maps::same_bytes),
    ("tensor map rules", maps::same_rules),
    ("TMA without swizzle", tma::none),
    ("TMA 32-byte swizzle", tma::b32),
    ("TMA 64-byte swizzle", tma::b64),
    ("TMA 128-byte swizzle", tma::b128),
    ("TMA boxes of one to four rows", boxes::small),
    ("TMA rows of a list", boxes::gathered),
    ("a binding that moves", tma::moved),
    // The last one: the device is lost to the process afterwards.
    ("a kernel that does not end", launches::endless),
];

/// The kernels' PTX.
pub mod kernels {
    /// Elementwise.
    pub const VECTOR: &str = include_str!("../kernels/vector.ptx");
    /// TMA load and store.
    pub const TMA: &str = include_str!("../kernels/tma.ptx");
    /// Many small boxes.
    pub const BOXES: &str = include_str!("../kernels/boxes.ptx");
    /// Rows that a list names.
    pub const GATHER: &str = include_str!("../kernels/gather.ptx");
    /// Launch features.
    pub const LAUNCH: &str = include_str!("../kernels/launch.ptx");
    /// Architecture-specific.
    pub const ACCELERATED: &str = include_str!("../kernels/accelerated.ptx");
}

fn program(ptx: &str, buffers: Vec<Buffer>, launches: Vec<Launch>) -> Program {
    let module = ptx::parse(ptx).expect("the kernels here are PTX");
    Program { module: Arc::new(module), buffers, launches }
}

fn buffer(name: &str, bytes: usize, access: Access) -> Buffer {
    Buffer::new(name, bytes as u64, 16, access)
}

fn launch(kernel: &str, grid: u32, block: u32, args: Vec<Argument>) -> Launch {
    Launch {
        kernel: kernel.into(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        args,
        overlaps_previous: false,
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Says where two slices differ first.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: &[T], should: &[T]) -> Result<(), String> {
    if is.len() != should.len() {
        return Err(format!("{what}: {} elements, not {}", is.len(), should.len()));
    }
    let wrong = || is.iter().zip(should).enumerate().filter(|(_, (a, b))| a != b);
    match wrong().next() {
        None => Ok(()),
        Some((at, (is, should))) => {
            let count = wrong().count();
            Err(format!("{what}: {count} wrong, first at {at}: {is:?}, not {should:?}"))
        }
    }
}
