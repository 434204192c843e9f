//! Attention on the host, fast: tiles of keys under an online softmax, in f32, with no score matrix.
//!
//! The rows (query tokens × query heads) that share a KV head are cut into items, and long key lists
//! of a few rows into splits; the calling thread and its pool's others take them one by one ([`team`]).
//! Four kernels do an item's work, chosen by how many rows share the keys:
//! - [`lanes`]: many rows. Rows lie across vector lanes, so every key and value number is a
//!   broadcast, nothing needs transposing but the queries, and the softmax never reduces across
//!   lanes.
//! - [`stream`]: a few rows, decoding. Vectors run along the head dim, each key and value row is
//!   read and widened once for all rows.
//! - [`matrix`]: many rows of bf16 on a machine with AMX. As [`lanes`], but both products run in tile
//!   registers. [`matrix::decode`]: up to 64 rows. Neither reads mask tensors or e4m3; [`lanes`] does ([`bias`]).
//!
//! Keys are visited in tiles that start at multiples of their size, and key lists are cut by their
//! length alone, so a row's bits do not depend on threads, blocking or batch.

mod bias;
mod buffer;
mod exact;
mod lanes;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod matrix;
mod plan;
mod products;
mod rows;
mod softcap;
mod state;
mod stream;
mod team;
mod tile;

use crate::inputs::Inputs;
use crate::interrupt::Stop;
use crate::simd::{Element, Isa, Kernel, Simd};
use half::{bf16, f16};
use plan::{Item, Path, Plan, Unit};
use problem::{DType, HostBuffers, HostMut, InvalidProblem, Problem, Slot};
use rows::OutputRows;
use state::{Gather, Partial, Scratch};

/// Computes `problem` on this machine's best instruction set, on rayon's current thread pool.
///
/// Within [`interruptible`](crate::interruptible) it may end early.
///
/// # Errors
/// If a slot has no memory, too little, of the wrong type, or holds impossible lengths, pages or
/// indices.
pub fn attention(problem: &Problem, buffers: &mut HostBuffers) -> Result<(), InvalidProblem> {
    attention_on(Isa::best(), problem, buffers)
}

/// As [`attention`], on a given instruction set; the portable one where this machine lacks it.
///
/// # Errors
/// As [`attention`].
pub fn attention_on(
    isa: Isa,
    problem: &Problem,
    buffers: &mut HostBuffers,
) -> Result<(), InvalidProblem> {
    // Work is cut for the vectors that will do it.
    let isa = if isa.is_detected() { isa } else { Isa::Portable };
    match problem.dtype() {
        // Nobody is in a hurry who asks for this precision: from the definition.
        DType::F64 => crate::oracle::answer(problem, buffers),
        DType::F32 => run::<f32>(isa, problem, buffers),
        DType::F16 => run::<f16>(isa, problem, buffers),
        DType::Bf16 => run::<bf16>(isa, problem, buffers),
        DType::E4m3 => Err(InvalidProblem::new(Slot::Q, "must not be e4m3 (rule 2)", DType::E4m3)),
    }
}

/// Takes the slice of the element type out of typed memory.
trait Typed: Element {
    fn slice<'m>(memory: &'m mut HostMut) -> Option<&'m mut [Self]>;
}

macro_rules! typed {
    ($element:ty, $variant:ident) => {
        impl Typed for $element {
            fn slice<'m>(memory: &'m mut HostMut) -> Option<&'m mut [Self]> {
                match memory {
                    HostMut::$variant(slice) => Some(slice),
                    _ => None,
                }
            }
        }
    };
}
typed!(f32, F32);
typed!(f16, F16);
typed!(bf16, Bf16);

/// Everything a task needs to know.
pub(crate) struct Call<'a, E> {
    inputs: Inputs<'a>,
    output: OutputRows<E>,
    stop: Stop,
}

fn run<E: Typed>(
    isa: Isa,
    problem: &Problem,
    buffers: &mut HostBuffers,
) -> Result<(), InvalidProblem> {
    let inputs = Inputs::new(problem, buffers)?;
    let mut output = OutputRows::new(problem);
    for (slot, memory) in buffers.outputs_mut() {
        match slot {
            Slot::Out => output.set_out(E::slice(memory))?,
            Slot::Lse if problem.return_lse => output.set_lse(f32::slice(memory))?,
            _ => {}
        }
    }
    output.check(problem)?;
    let bf16 = problem.dtype() == DType::Bf16;
    let matrix = isa.has_tiles() && bf16 && !problem.has_attn_mask() && !problem.has_e4m3();
    let plan = Plan::new(&inputs, isa.lanes(), matrix);
    let call = Call { inputs, output, stop: Stop::default() };
    let gathers: Vec<Gather> = plan.items.iter().map(|item| Gather::new(item.splits)).collect();
    // From the last: under a causal mask it has the most to do, and the first the least.
    let work = |unit| {
        let Unit { item, split } = plan.units[plan.units.len() - 1 - unit];
        call.run_unit(isa, &plan.items[item], split, &gathers[item]);
    };
    let idle = || {
        call.stop.ask();
    };
    team::share(plan.units.len(), work, idle);
    Ok(())
}

impl<E: Element> Call<'_, E> {
    /// Computes a split of an item; the last one to be finished merges and writes them all.
    fn run_unit(&self, isa: Isa, item: &Item, split: usize, gather: &Gather) {
        if self.stop.ask() {
            return;
        }
        let mut scratch = Scratch::lend();
        self.run_split(isa, item, split, &mut scratch);
        // It may have been left in the middle.
        if self.stop.is_set() {
            return;
        }
        if item.splits == 1 {
            isa.run(Finish { call: self, item, parts: std::slice::from_mut(&mut scratch.partial) });
            return;
        }
        let part = std::mem::replace(&mut scratch.partial, Partial::spare());
        if let Some(mut parts) = gather.add(split, part) {
            isa.run(Finish { call: self, item, parts: &mut parts });
            Partial::keep(parts);
        }
    }

    fn run_split(&self, isa: Isa, item: &Item, split: usize, scratch: &mut Scratch) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if let (Path::Matrix | Path::Decode, Some(amx)) =
            (item.path, crate::simd::amx::Amx::detect())
        {
            return matrix::attend(amx, self, item, split, scratch);
        }
        isa.run(Task { call: self, item, split, scratch });
    }
}

/// Merges an item's splits, normalises, applies the sink, and writes the rows.
struct Finish<'t, 'a, E> {
    call: &'t Call<'a, E>,
    item: &'t Item,
    parts: &'t mut [Partial],
}

impl<E: Element> Kernel for Finish<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Finish { call, item, parts } = self;
        let partial = Partial::merge(simd, parts);
        let mut first = 0;
        while first < item.rows {
            let count = partial.neighbours(first).min(item.rows - first);
            call.output.write(simd, &call.inputs, item, partial, first..first + count);
            first += count;
        }
    }
}

/// One split of one item.
struct Task<'t, 'a, E> {
    call: &'t Call<'a, E>,
    item: &'t Item,
    split: usize,
    scratch: &'t mut Scratch,
}

impl<E: Element> Kernel for Task<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Task { call, item, split, scratch } = self;
        match item.path {
            Path::Stream => stream::attend(simd, call, item, split, scratch),
            Path::Lanes | Path::Matrix | Path::Decode => {
                lanes::attend(simd, call, item, split, scratch)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interrupted, interruptible};
    use problem::{HostVec, Segment, View};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Runs `queries` rows on 5000 keys on one thread that is told to stop when it asks for the `n`-th
    /// time; returns the output, NaN where nothing was written, and how often it asked.
    fn run_until(dtype: DType, queries: u64, n: u32) -> (Result<(), Interrupted>, HostVec, u32) {
        let view = |tokens| View::bhsd(dtype, [1, 1, tokens, 64]);
        let segment = Segment::new(view(5000), view(5000));
        let problem = Problem::builder(view(queries)).segment(segment).build().expect("valid");
        let ones = |tokens: u64| HostVec::filled(dtype, tokens as usize * 64, 1.0);
        let (q, k, mut out) = (ones(queries), ones(5000), ones(queries));
        (0..out.as_ref().len()).for_each(|at| out.set(at, f32::NAN));
        let mut buffers = HostBuffers::new()
            .input(Slot::Q, q.as_ref())
            .input(Slot::K, k.as_ref())
            .input(Slot::V, k.as_ref())
            .output(Slot::Out, out.as_mut().expect("floats"));
        let asked = AtomicU32::new(0);
        let ask = || asked.fetch_add(1, Ordering::Relaxed) + 1 == n;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let run = || attention(&problem, &mut buffers).expect("valid");
        let result = pool.expect("a pool").install(|| interruptible(&ask, run));
        (result, out, asked.into_inner())
    }

    #[test]
    fn a_call_can_be_stopped_whenever_it_asks() {
        // Streamed, across lanes, on a machine with AMX down and across tile registers, and from the
        // definition.
        for (dtype, queries) in [
            (DType::F32, 1),
            (DType::F32, 300),
            (DType::Bf16, 9),
            (DType::Bf16, 300),
            (DType::F64, 600),
        ] {
            let (whole, expected, asks) =
                std::thread::spawn(move || run_until(dtype, queries, 0)).join().expect("no panic");
            assert_eq!(whole, Ok(()));
            // Within an item of many rows too, and not only between items: five times, or four in tile registers.
            assert!(asks > if queries == 300 { 5 } else { 0 }, "{dtype:?} {queries}: {asks}");
            // An average of ones, to rounding.
            let is_one = |x: f64| (x - 1.0).abs() < 1e-5;
            let wrong = (0..expected.as_ref().len()).find(|at| !is_one(expected.as_ref().get(*at)));
            assert_eq!(wrong.map(|at| expected.as_ref().get(at)), None, "{dtype:?} {queries}");
            for n in 1..=asks {
                let (result, out, asked) = run_until(dtype, queries, n);
                assert_eq!((result, asked), (Err(Interrupted), n), "{dtype:?} {queries}");
                let rows = (0..queries as usize).map(|row| out.as_ref().get(row * 64));
                let (done, left): (Vec<f64>, Vec<f64>) = rows.partition(|x| !x.is_nan());
                // From the definition, rows are written together at the end, those not computed as 0.
                let is_right = |x: &f64| is_one(*x) || (dtype == DType::F64 && *x == 0.0);
                let complete = left.is_empty() && done.iter().all(|x| is_one(*x));
                assert!(!complete && done.iter().all(is_right), "{dtype:?} {n}");
            }
        }
    }
}
