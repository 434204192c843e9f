//! The first kernel: `y = a · x + y`, one thread per element.

use program::Program;
use program::build::{Arguments, Grid, Memory};
use ptx::build::{Builder, Cmp, Target};

/// Threads of a CTA.
const THREADS: u32 = 128;

/// The program for `n` elements, buffers `x` and `y`.
pub fn program(n: u32, a: f32) -> Program {
    let (mut memory, mut args) = (Memory::new(), Arguments::default());
    let x = memory.input("x", 4 * u64::from(n));
    let y = memory.in_place("y", 4 * u64::from(n));

    let mut b = Builder::new("saxpy", Target::Sm80);
    let x = args.pointer(&mut b, "x", x);
    let y = args.pointer(&mut b, "y", y);
    let a = args.f32(&mut b, "a", a);
    let count = args.u32(&mut b, "n", n);

    let i = b.thread_in_grid();
    let exists = b.setp(Cmp::Lt, i, count);
    b.if_(exists, |b| {
        let (x, y) = (b.element::<f32>(x, i), b.element::<f32>(y, i));
        let (from_x, from_y) = (b.ld_global::<f32>(x), b.ld_global::<f32>(y));
        let sum = b.fma(from_x, a, from_y);
        b.st_global(y, sum);
    });
    memory.single(b, args, Grid::new(n.div_ceil(THREADS), THREADS))
}
