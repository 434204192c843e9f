//! A GEMM for Hopper from public parts: `C = A · Bᵀ`, 16-bit inputs and output, f32 sums.
//!
//! `A` is m × k, `B` is n × k and `C` is m × n, all row-major without gaps.
//!
//! A CTA computes tiles of 128 × 256. Its three warpgroups have two roles:
//!
//! ```text
//! warp 0          brings 128 × 64 of A and 256 × 64 of B per step, by TMA, into a ring of stages
//! warpgroups 1, 2 multiply 64 × 256 each, add up in registers, and store through shared memory by TMA
//! ```
//!
//! Two CTAs form a cluster and share one operand: each brings half of it, and copies it to both
//! ([`Share`]). Clusters are persistent: each takes every so-manieth tile of an [`order`](Config::group)
//! that walks down `group` tiles before it goes right, so that tiles in work at one time share rows of
//! `A` and `B` in L2. Sizes are parameters, so one module serves all shapes; what of a tile is outside
//! the matrices is loaded as zeros and not stored.

mod config;
mod consumer;
mod kernel;
mod order;
mod producer;

pub use config::{Config, Share};

use kernel::Frame;
use order::Order;
use program::build::{Arguments, Grid, Memory};
use program::{BufferId, ElementType, Program, Swizzle, TensorMap};
use ptx::build::{Builder, Target};

/// Rows, columns and depth of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Rows of `B`, columns of `C`.
    pub n: u32,
    /// Columns of `A` and `B`.
    pub k: u32,
}

/// Threads of a CTA: one warpgroup loads, two multiply.
const THREADS: u32 = 3 * 128;
/// Bytes of an element.
const ELEMENT_BYTES: u64 = 2;

/// The program of a product of bf16 matrices, buffers `a`, `b` and `c`, on a device of `processors` SMs.
///
/// # Errors
/// If a size is 0, or a row is not a multiple of 16 bytes, or the stages do not fit shared memory.
pub fn program(shape: Shape, config: Config, processors: u32) -> Result<Program, String> {
    check(shape)?;
    config.check()?;
    let mut memory = Memory::new();
    let Shape { m, n, k } = shape;
    let bytes = |rows: u32, columns: u32| u64::from(rows) * u64::from(columns) * ELEMENT_BYTES;
    let a = memory.input("a", bytes(m, k));
    let b = memory.input("b", bytes(n, k));
    let c = memory.output("c", bytes(m, n));
    let order = Order::new(shape, config, processors);
    let (kernel, args) = emit(shape, config, &order, [a, b, c]);
    Ok(memory.single(kernel, args, Grid::new(order.ctas(), THREADS).clusters_of(config.cluster())))
}

fn check(Shape { m, n, k }: Shape) -> Result<(), String> {
    for (name, size) in [("m", m), ("n", n), ("k", k)] {
        if !(1..1 << 24).contains(&size) {
            return Err(format!("{name} is {size}: sizes are from 1 to 2^24 - 1"));
        }
    }
    for (name, size) in [("n", n), ("k", k)] {
        if size % 8 != 0 {
            let why = "rows of a tensor map are multiples of 16 bytes";
            return Err(format!("{name} is {size}: {why}, so {name} is a multiple of 8"));
        }
    }
    Ok(())
}

fn emit(
    shape: Shape,
    config: Config,
    order: &Order,
    [a, b, c]: [BufferId; 3],
) -> (Builder, Arguments) {
    let (mut builder, mut args) = (Builder::new("gemm", Target::Sm90a), Arguments::default());
    builder.launch_bounds(THREADS, 1);
    let [left_box, right_box] = config.boxes();
    let Shape { m, n, k } = shape;
    let map = |buffer, shape: [u32; 2], of: [u32; 2]| {
        let map =
            TensorMap::matrix(buffer, ElementType::Bf16, shape.map(u64::from), of, Swizzle::B128);
        TensorMap { l2_promotion: config.promotion, ..map }
    };
    let maps = [
        args.tensor_map(&mut builder, "a", map(a, [m, k], left_box)),
        args.tensor_map(&mut builder, "b", map(b, [n, k], right_box)),
        args.tensor_map(&mut builder, "c", map(c, [m, n], config::STORE_BOX)),
    ];
    let steps = args.u32(&mut builder, "steps", k.div_ceil(config::DEPTH));
    let work = order.declare(&mut builder, &mut args);
    Frame::reserve(&mut builder, config, maps, work, steps).emit(&mut builder);
    (builder, args)
}
