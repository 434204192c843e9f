//! What an engine runs: PTX, launch geometry, and arguments over named buffers.
//!
//! A [`Program`] knows no device. The CUDA backend and the simulator both take a `Program` and
//! memory for its buffers; what works on one works on the other.

pub mod build;
pub mod check;
mod display;
mod limits;
mod report;
pub mod tensor_map;

pub use limits::Limits;
pub use report::{Rule, Violation, Warning};
pub use tensor_map::{
    DecodeError, ElementType, L2Promotion, MAX_RANK, OobFill, PixelBox, Swizzle, TensorDescriptor,
    TensorMap,
};

use std::sync::Arc;

/// What a workspace, and every buffer in it, is aligned to.
pub const WORKSPACE_ALIGN: u64 = 256;

/// A buffer of a program, by position in [`Program::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub usize);

/// How a program uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Written; every byte the caller will look at is written before it is read.
    Write,
    /// Read and written: what the caller put there counts.
    ReadWrite,
    /// Scratch the caller must provide; contents before and after are meaningless.
    Workspace,
}

impl Access {
    /// Whether the program writes the buffer for its caller.
    pub const fn is_output(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
}

/// A named piece of memory a program works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name, as in error messages (`q`, `page_table`, `partial_out`).
    pub name: String,
    /// Bytes the program may touch from its start.
    pub bytes: u64,
    /// Alignment its address must have.
    pub align: u64,
    /// Use.
    pub access: Access,
    /// Addresses that stand in it when the first launch begins.
    pub pointers: Vec<Pointer>,
}

impl Buffer {
    /// A buffer that holds no addresses.
    pub fn new(name: impl Into<String>, bytes: u64, align: u64, access: Access) -> Self {
        Buffer { name: name.into(), bytes, align, access, pointers: Vec::new() }
    }
}

/// A place among bytes that takes a buffer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The first of the eight bytes.
    pub offset: u64,
    /// The buffer pointed to.
    pub buffer: BufferId,
    /// Added to its address. The sum may lie outside the buffer, as a pointer in C may.
    pub addend: i64,
}

impl Pointer {
    /// Bytes of an address.
    pub const BYTES: u64 = 8;

    /// What stands there if the buffer is at `base`.
    pub fn value(&self, base: u64) -> [u8; Self::BYTES as usize] {
        base.wrapping_add_signed(self.addend).to_le_bytes()
    }

    /// Writes the address among `bytes`.
    ///
    /// # Panics
    /// If it does not lie inside, which [`Program::check`] refuses (rule L16).
    pub fn write(&self, bytes: &mut [u8], base: u64) {
        bytes[self.offset as usize..][..Self::BYTES as usize].copy_from_slice(&self.value(base));
    }
}

/// A kernel argument; arguments correspond to `.param`s one to one, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// The address of a buffer plus a byte offset (`.u64`).
    Buffer(BufferId, u64),
    /// A 32-bit number (`.u32`, `.s32`, `.b32`).
    U32(u32),
    /// A 64-bit number.
    U64(u64),
    /// A single-precision number.
    F32(f32),
    /// A 128-byte tensor map, passed by value.
    TensorMap(TensorMap),
    /// The bytes of a parameter of any type, as a launch captured elsewhere has them.
    Bytes(Vec<u8>, Vec<Pointer>),
}

/// One kernel launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Kernel name in the module.
    pub kernel: String,
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// Arguments.
    pub args: Vec<Argument>,
    /// Programmatic dependent launch: may start before the previous launch has ended; the kernel
    /// itself waits with `griddepcontrol.wait`.
    pub overlaps_previous: bool,
}

/// PTX plus everything needed to run it, except memory and a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The PTX.
    pub module: Arc<ptx::Module>,
    /// Memory it works on.
    pub buffers: Vec<Buffer>,
    /// Launches, in stream order.
    pub launches: Vec<Launch>,
}

impl Program {
    /// The buffer called `name`.
    pub fn buffer(&self, name: &str) -> Option<BufferId> {
        self.buffers.iter().position(|b| b.name == name).map(BufferId)
    }

    /// The buffer an identifier stands for; `None` for one of another program.
    pub fn get(&self, id: BufferId) -> Option<&Buffer> {
        self.buffers.get(id.0)
    }

    /// Bytes of scratch the caller must provide, at an address that is a multiple of [`WORKSPACE_ALIGN`].
    pub fn workspace_bytes(&self) -> u64 {
        let ends = self.workspaces().map(|(buffer, offset)| offset + buffer.bytes);
        ends.max().unwrap_or(0)
    }

    /// Scratch buffers and where each begins in the caller's one workspace.
    pub fn workspaces(&self) -> impl Iterator<Item = (&Buffer, u64)> {
        let scratch = self.buffers.iter().filter(|b| b.access == Access::Workspace);
        scratch.scan(0, |end: &mut u64, buffer| {
            let offset = *end;
            *end = (offset + buffer.bytes).next_multiple_of(WORKSPACE_ALIGN);
            Some((buffer, offset))
        })
    }
}
