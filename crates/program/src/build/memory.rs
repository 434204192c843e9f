//! The buffers of a program.

use super::{Arguments, Grid};
use crate::{Access, Buffer, BufferId, Launch, Program, WORKSPACE_ALIGN};
use ptx::build::{Builder, Kernel, Target, module};
use std::sync::Arc;

/// What buffers are aligned to: the widest vector, and the address of a tensor map.
const ALIGN: u64 = 16;

/// The buffers of a program, in the order in which an engine takes them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    buffers: Vec<Buffer>,
}

impl Memory {
    /// No buffers yet.
    pub fn new() -> Self {
        Memory::default()
    }

    /// Adds a buffer of any kind.
    pub fn add(&mut self, buffer: Buffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId(self.buffers.len() - 1)
    }

    /// A buffer that was added.
    pub fn buffer_mut(&mut self, id: BufferId) -> &mut Buffer {
        &mut self.buffers[id.0]
    }

    /// Adds memory that the program reads.
    pub fn input(&mut self, name: &str, bytes: u64) -> BufferId {
        self.add(Buffer::new(name, bytes, ALIGN, Access::Read))
    }

    /// Adds memory that the program writes for its caller.
    pub fn output(&mut self, name: &str, bytes: u64) -> BufferId {
        self.add(Buffer::new(name, bytes, ALIGN, Access::Write))
    }

    /// Adds memory that the program reads, and writes for its caller.
    pub fn in_place(&mut self, name: &str, bytes: u64) -> BufferId {
        self.add(Buffer::new(name, bytes, ALIGN, Access::ReadWrite))
    }

    /// Adds scratch memory.
    pub fn workspace(&mut self, name: &str, bytes: u64) -> BufferId {
        self.add(Buffer::new(name, bytes, WORKSPACE_ALIGN, Access::Workspace))
    }

    /// The buffers, for a program.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.buffers
    }

    /// The program that launches `kernels` on this memory.
    pub fn program(self, target: Target, kernels: Vec<Kernel>, launches: Vec<Launch>) -> Program {
        Program { module: Arc::new(module(target, kernels)), buffers: self.buffers, launches }
    }

    /// The program of one kernel, launched once.
    pub fn single(self, b: Builder, args: Arguments, grid: Grid) -> Program {
        let target = b.target();
        let kernel = b.finish();
        let launch = args.launch(&kernel, grid);
        self.program(target, vec![kernel], vec![launch])
    }
}
