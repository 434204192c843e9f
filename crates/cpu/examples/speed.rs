//! Times the CPU engine.
//!
//! The rows of the CPU suite (those that contain the argument), as a table. With `--serve`: reads commands from
//! standard input, so that another program can interleave its own measurements:
//! `setup DTYPE BATCH HEADS KV_HEADS QUERIES KEYS DIM MASK` answers the number of floating-point
//! operations, `run` answers the seconds of one call.

use half::{bf16, f16};
use problem::{DType, HostBuffers, HostVec, Mask, Problem, Segment, Slot, View};
use std::io::{BufRead, Write};
use std::time::Instant;

/// One row: shapes, and memory for it.
struct Row {
    problem: Problem,
    q: HostVec,
    k: HostVec,
    v: HostVec,
    out: HostVec,
}

fn numbers(dtype: DType, len: usize, seed: u32) -> HostVec {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    match dtype {
        DType::F32 => HostVec::F32((0..len).map(|_| next()).collect()),
        DType::F16 => HostVec::F16((0..len).map(|_| f16::from_f32(next())).collect()),
        DType::Bf16 => HostVec::Bf16((0..len).map(|_| bf16::from_f32(next())).collect()),
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
        let dtype = problem.dtype();
        let len = |slot| (problem.slot_bytes(slot) / dtype.bytes()) as usize;
        Self {
            q: numbers(dtype, len(Slot::Q), 1),
            k: numbers(dtype, len(Slot::K), 2),
            v: numbers(dtype, len(Slot::V), 3),
            out: HostVec::filled(dtype, len(Slot::Out), 0.0),
            problem,
        }
    }

    /// Seconds of one call.
    fn run(&mut self) -> f64 {
        let Self { problem, q, k, v, out } = self;
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, q.as_ref())
            .input(Slot::K, k.as_ref())
            .input(Slot::V, v.as_ref());
        if let Some(out) = out.as_mut() {
            buffers = buffers.output(Slot::Out, out);
        }
        let start = Instant::now();
        sixwarp_cpu::attention(problem, &mut buffers).expect("the row is valid");
        start.elapsed().as_secs_f64()
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut row = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match (line.split_once(' '), &mut row) {
            (Some(("setup", rest)), _) => {
                let new = Row::parse(rest)?;
                println!("{}", new.problem.flops());
                row = Some(new);
            }
            (None, Some(row)) if line == "run" => println!("{}", row.run()),
            _ => return Err(format!("unknown command `{line}`").into()),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn table(filter: &str) -> Result<(), String> {
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
                let best = (0..7).map(|_| row.run()).fold(f64::INFINITY, f64::min);
                let rate = row.problem.flops() / best / 1e9;
                println!("{text:44} {:>10.3} {rate:>9.1}", best * 1e3);
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("--serve") => serve(),
        filter => Ok(table(filter.unwrap_or(""))?),
    }
}
