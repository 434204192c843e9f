//! Running PTX text in tests.

use program::{Access, Argument, Buffer, BufferId, Launch, Program};
use sixwarp_sim as sim;
use std::sync::Arc;

/// Header of test kernels.
#[allow(dead_code)]
pub const HEADER: &str = ".version 8.7\n.target sm_100a\n.address_size 64\n";

/// A launch under construction.
pub struct Case {
    program: Program,
    memory: Vec<Vec<u8>>,
    pub options: sim::Options,
}

impl Case {
    /// One CTA of `threads` threads of the kernel `k` in `body` (header excluded).
    #[allow(dead_code)]
    pub fn new(body: &str, threads: u32) -> Case {
        Case::with_header(HEADER, body, threads)
    }

    /// The same behind another header.
    pub fn with_header(header: &str, body: &str, threads: u32) -> Case {
        let module = ptx::parse(&format!("{header}{body}")).expect("the test's PTX parses");
        let launch = Launch {
            kernel: "k".into(),
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            args: Vec::new(),
            overlaps_previous: false,
        };
        let program =
            Program { module: Arc::new(module), buffers: Vec::new(), launches: vec![launch] };
        Case { program, memory: Vec::new(), options: sim::Options::default() }
    }

    fn buffer(mut self, bytes: Vec<u8>, access: Access) -> Case {
        let id = BufferId(self.memory.len());
        let name = format!("buffer{}", id.0);
        self.program.buffers.push(Buffer::new(name, bytes.len() as u64, 256, access));
        self.program.launches[0].args.push(Argument::Buffer(id, 0));
        self.memory.push(bytes);
        self
    }

    /// An input of 32-bit words.
    #[allow(dead_code)]
    pub fn input(self, words: &[u32]) -> Case {
        self.buffer(words.iter().flat_map(|w| w.to_le_bytes()).collect(), Access::Read)
    }

    /// An input of f32.
    #[allow(dead_code)]
    pub fn floats(self, values: &[f32]) -> Case {
        let words: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        self.input(&words)
    }

    /// An output of `words` 32-bit words.
    #[allow(dead_code)]
    pub fn output(self, words: usize) -> Case {
        self.buffer(vec![0; 4 * words], Access::Write)
    }

    /// Zeros that are read and written, 32-bit words.
    #[allow(dead_code)]
    pub fn zeros(self, words: usize) -> Case {
        self.buffer(vec![0; 4 * words], Access::ReadWrite)
    }

    /// A 32-bit argument.
    #[allow(dead_code)]
    pub fn word(mut self, value: u32) -> Case {
        self.program.launches[0].args.push(Argument::U32(value));
        self
    }

    /// A tensor map argument over a buffer given before.
    #[allow(dead_code)]
    pub fn map(mut self, map: program::TensorMap) -> Case {
        self.program.launches[0].args.push(Argument::TensorMap(map));
        self
    }

    /// Grid and cluster along x, y and z.
    #[allow(dead_code)]
    pub fn extents(mut self, grid: [u32; 3], cluster: [u32; 3]) -> Case {
        (self.program.launches[0].grid, self.program.launches[0].cluster) = (grid, cluster);
        self
    }

    /// Grid, cluster, dynamic shared memory.
    #[allow(dead_code)]
    pub fn geometry(mut self, grid: u32, cluster: u32, shared_bytes: u32) -> Case {
        let launch = &mut self.program.launches[0];
        launch.grid = [grid, 1, 1];
        launch.cluster = [cluster, 1, 1];
        launch.shared_bytes = shared_bytes;
        self
    }

    /// Runs.
    #[allow(dead_code)]
    pub fn report(&self) -> Result<sim::Report, sim::Error> {
        sim::run(&self.program, &self.memory, &self.options)
    }

    /// Runs; the last buffer as words.
    #[allow(dead_code)]
    pub fn run(&self) -> Result<Vec<u32>, sim::Error> {
        let report = sim::run(&self.program, &self.memory, &self.options)?;
        let last = report.buffers.last().expect("an output");
        Ok(last
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes")))
            .collect())
    }
}
