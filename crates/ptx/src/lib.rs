//! PTX as data: one AST with a printer, a parser, a verifier and a typed kernel builder.
//!
//! - [`ast`]: modules, functions, statements, instructions, operands. Opcodes and modifiers are
//!   interned names in source order, so text of any compiler and any PTX version fits; what they
//!   mean is known to those who use them (the verifier, an engine).
//! - [`parse`]: text to tree; `Display` of [`Module`] is the way back.
//! - [`verify`](mod@verify): the numbered rules a module must obey, each with its check.
//! - [`build`]: kernels as Rust functions: typed registers, structured control flow, mbarrier
//!   pipelines, TMA, wgmma and tcgen05, with every instruction pointing back at its Rust line.
//! - [`registers_at_launch`]: what `setmaxnreg` has to share out.
//! - [`resolve`]: block-scoped names to numbered registers, variables and label targets.

pub mod ast;
pub mod build;
mod excerpt;
mod parse;
mod print;
mod registers;
pub mod resolve;
mod symbol;
pub mod toolchain;
pub mod verify;

pub use ast::Module;
pub use parse::{ParseError, parse, parse_kernel};
pub use registers::registers_at_launch;
pub use symbol::Symbol;
pub use verify::{Violation, verify, verify_declarations};
