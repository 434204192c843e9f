//! Times the CPU engine.
//!
//! `speed [ISA] [TEXT]`: the rows of the CPU suite that contain the text, as a table.
//! `speed [ISA] --serve`: reads commands from standard input, so that another program can interleave
//! its own measurements: `setup DTYPE BATCH HEADS KV_HEADS QUERIES KEYS DIM MASK` answers the number
//! of floating-point operations, `run N` answers the seconds of the best of N calls in a row.
//!
//! The instruction set (`avx2`, `avx512`, ...) is this machine's best unless named.

use problem::{DType, HostBuffers, HostMut, HostRef, HostVec, Mask, Problem, Segment, Slot, View};
use sixwarp_cpu::Isa;
use std::io::{BufRead, Write};
use std::ops::Range;
use std::time::Instant;

/// One row: shapes, and memory for it.
struct Row {
    problem: Problem,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
}

/// Memory that begins on a cache line, as the tensors of every framework do.
struct Tensor {
    memory: HostVec,
    used: Range<usize>,
}

impl Tensor {
    /// Irregular numbers in -1..1.
    fn new(problem: &Problem, slot: Slot, seed: u32) -> Self {
        const LINE: usize = 64;
        let dtype = problem.dtype();
        let len = (problem.slot_bytes(slot) / dtype.bytes()) as usize;
        let mut memory = HostVec::filled(dtype, len + LINE, 0.0);
        let mut state = seed;
        for at in 0..len + LINE {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            memory.set(at, (state >> 8) as f32 / (1 << 23) as f32 - 1.0);
        }
        let skip = match memory.as_ref() {
            HostRef::F64(all) => all.as_ptr().align_offset(LINE),
            HostRef::F32(all) => all.as_ptr().align_offset(LINE),
            HostRef::F16(all) => all.as_ptr().align_offset(LINE),
            HostRef::Bf16(all) => all.as_ptr().align_offset(LINE),
            _ => 0,
        };
        Self { memory, used: skip..skip + len }
    }

    fn as_ref(&self) -> HostRef<'_> {
        match self.memory.as_ref() {
            HostRef::F64(all) => HostRef::F64(&all[self.used.clone()]),
            HostRef::F32(all) => HostRef::F32(&all[self.used.clone()]),
            HostRef::F16(all) => HostRef::F16(&all[self.used.clone()]),
            HostRef::Bf16(all) => HostRef::Bf16(&all[self.used.clone()]),
            HostRef::E4m3(all) => HostRef::E4m3(&all[self.used.clone()]),
            other => other,
        }
    }

    fn as_mut(&mut self) -> Option<HostMut<'_>> {
        self.memory.as_mut().map(|memory| match memory {
            HostMut::F64(all) => HostMut::F64(&mut all[self.used.clone()]),
            HostMut::F32(all) => HostMut::F32(&mut all[self.used.clone()]),
            HostMut::F16(all) => HostMut::F16(&mut all[self.used.clone()]),
            HostMut::Bf16(all) => HostMut::Bf16(&mut all[self.used.clone()]),
            HostMut::E4m3(all) => HostMut::E4m3(&mut all[self.used.clone()]),
        })
    }
}

impl Row {
    /// Reads `DTYPE BATCH HEADS KV_HEADS QUERIES KEYS DIM MASK`.
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [dtype, numbers @ .., mask] = fields.as_slice() else {
            return Err("a row has eight fields".to_string());
        };
        let numbers: Vec<u64> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
        let [batch, heads, kv_heads, queries, keys, dim] = numbers[..] else {
            return Err("a row has six numbers".to_string());
        };
        let dtype: DType = dtype.parse()?;
        let q = View::bhsd(dtype, [batch, heads, queries, dim]);
        let k = View::bhsd(dtype, [batch, kv_heads, keys, dim]);
        let segment = Segment::new(k, k).mask(mask.parse::<Mask>()?);
        let problem = Problem::builder(q).segment(segment).build().map_err(|e| e.to_string())?;
        Ok(Self::new(problem))
    }

    fn new(problem: Problem) -> Self {
        Self {
            q: Tensor::new(&problem, Slot::Q, 1),
            k: Tensor::new(&problem, Slot::K, 2),
            v: Tensor::new(&problem, Slot::V, 3),
            out: Tensor::new(&problem, Slot::Out, 4),
            problem,
        }
    }

    /// Seconds of the best of `calls` calls.
    fn best(&mut self, isa: Isa, calls: usize) -> f64 {
        (0..calls).map(|_| self.run(isa)).fold(f64::INFINITY, f64::min)
    }

    /// Seconds of one call.
    fn run(&mut self, isa: Isa) -> f64 {
        let Self { problem, q, k, v, out } = self;
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, q.as_ref())
            .input(Slot::K, k.as_ref())
            .input(Slot::V, v.as_ref());
        if let Some(out) = out.as_mut() {
            buffers = buffers.output(Slot::Out, out);
        }
        let start = Instant::now();
        sixwarp_cpu::attention_on(isa, problem, &mut buffers).expect("the row is valid");
        start.elapsed().as_secs_f64()
    }
}

fn serve(isa: Isa) -> Result<(), Box<dyn std::error::Error>> {
    let mut row = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match (line.split_once(' '), &mut row) {
            (Some(("setup", rest)), _) => {
                let new = Row::parse(rest)?;
                println!("{}", new.problem.flops());
                row = Some(new);
            }
            (Some(("run", calls)), Some(row)) => println!("{}", row.best(isa, calls.parse()?)),
            _ => return Err(format!("unknown command `{line}`").into()),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn table(isa: Isa, filter: &str) -> Result<(), String> {
    println!("{:44} {:>10} {:>9}", "row", "ms", "GFLOP/s");
    for dtype in ["f32", "bf16"] {
        for dim in [64, 128, 256, 512] {
            let mut rows = vec![
                format!("{dtype} 8 32 8 1 4096 {dim} full"),
                format!("{dtype} 1 64 1 1 640 {dim} full"),
            ];
            for mask in ["full", "causal"] {
                rows.push(format!("{dtype} 1 4 4 1024 1024 {dim} {mask}"));
            }
            for text in rows.into_iter().filter(|text| text.contains(filter)) {
                let mut row = Row::parse(&text)?;
                let best = row.best(isa, 7);
                let rate = row.problem.flops() / best / 1e9;
                println!("{text:44} {:>10.3} {rate:>9.1}", best * 1e3);
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let named = |name: &String| {
        Isa::detected().into_iter().find(|isa| format!("{isa:?}").eq_ignore_ascii_case(name))
    };
    let found = arguments.peek().and_then(named);
    let isa = found.inspect(|_| drop(arguments.next())).unwrap_or(Isa::best());
    match arguments.next().as_deref() {
        Some("--serve") => serve(isa),
        filter => Ok(table(isa, filter.unwrap_or(""))?),
    }
}
