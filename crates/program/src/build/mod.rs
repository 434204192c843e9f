//! Programs written in Rust: a kernel by [`ptx::build`], its parameters and their values, memory and launches.
//!
//! One call of [`Arguments`] declares a parameter of the kernel and gives its value, so that the two cannot
//! disagree. [`Memory`] names the buffers. [`Arguments::launch`] and [`Memory::program`] put the rest together.
//!
//! ```
//! use ptx::build::{Builder, Target};
//! use sixwarp_program::build::{Arguments, Grid, Memory};
//!
//! let (mut memory, mut args) = (Memory::new(), Arguments::default());
//! let (x, y) = (memory.input("x", 4 * 64), memory.output("y", 4 * 64));
//! let mut b = Builder::new("twice", Target::Sm80);
//! let x = args.pointer(&mut b, "x", x);
//! let y = args.pointer(&mut b, "y", y);
//! let thread = b.thread();
//! let (from, to) = (b.element::<f32>(x, thread), b.element::<f32>(y, thread));
//! let value = b.ld_global::<f32>(from);
//! let twice = b.add(value, value);
//! b.st_global(to, twice);
//! let program = memory.single(b, args, Grid::new(1, 64));
//! assert!(program.check().is_ok());
//! ```

mod arguments;
mod divisor;
mod grid;
mod memory;

pub use arguments::Arguments;
pub use divisor::Divisor;
pub use grid::Grid;
pub use memory::Memory;
