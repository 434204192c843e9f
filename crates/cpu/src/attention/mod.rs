//! Attention on the host, fast: tiles of keys under an online softmax, in f32, with no score matrix.
//!
//! The rows (query tokens × query heads) that share a KV head are cut into items, one task each.
//! Two kernels do an item's work, chosen by how many rows share the keys:
//! - [`lanes`]: many rows. Rows lie across vector lanes, so every key and value number is a
//!   broadcast, nothing needs transposing but the queries, and the softmax never reduces across
//!   lanes.
//! - [`stream`]: a few rows, decoding. Vectors run along the head dim, each key and value row is
//!   read and widened once for all rows.
//!
//! Keys are visited in tiles of [`TILE`] that start at multiples of it, and long key lists are cut
//! by their length alone, so a row's bits do not depend on threads, blocking or batch.

mod lanes;
mod plan;
mod rows;
mod state;
mod stream;
mod tile;

use crate::inputs::Inputs;
use crate::simd::{Element, Isa, Kernel, Simd};
use half::{bf16, f16};
use plan::{Item, Plan};
use problem::{DType, HostBuffers, HostMut, InvalidProblem, Problem, Slot};
use rayon::prelude::*;
use rows::OutputRows;
use state::{Partial, Scratch};

/// Keys per tile.
pub(crate) const TILE: usize = 96;

/// Computes `problem` on this machine's best instruction set, on rayon's current thread pool.
///
/// # Errors
/// If a slot has no memory, too little, of the wrong type, or holds impossible lengths, pages or
/// indices.
pub fn attention(problem: &Problem, buffers: &mut HostBuffers) -> Result<(), InvalidProblem> {
    attention_on(Isa::best(), problem, buffers)
}

/// As [`attention`], on a given instruction set.
///
/// # Errors
/// As [`attention`].
pub fn attention_on(
    isa: Isa,
    problem: &Problem,
    buffers: &mut HostBuffers,
) -> Result<(), InvalidProblem> {
    match problem.dtype() {
        DType::F32 => run::<f32>(isa, problem, buffers),
        DType::F16 => run::<f16>(isa, problem, buffers),
        DType::Bf16 => run::<bf16>(isa, problem, buffers),
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
    let plan = Plan::new(&inputs, isa.lanes());
    let call = Call { inputs, output };
    plan.items.par_iter().with_max_len(1).for_each_init(Scratch::default, |scratch, item| {
        call.run_item(isa, item, scratch);
    });
    Ok(())
}

impl<E: Element> Call<'_, E> {
    /// Computes an item in one go, or its key splits in parallel and then their merge.
    fn run_item(&self, isa: Isa, item: &Item, scratch: &mut Scratch) {
        if item.splits == 1 {
            isa.run(Task { call: self, item, split: 0, scratch });
            return self.finish(item, &scratch.partial);
        }
        let partials: Vec<Partial> = (0..item.splits)
            .into_par_iter()
            .map_init(Scratch::default, |scratch, split| {
                isa.run(Task { call: self, item, split, scratch });
                std::mem::take(&mut scratch.partial)
            })
            .collect();
        self.finish(item, &Partial::merge(partials));
    }

    /// Normalises, applies the sink, and writes an item's rows.
    fn finish(&self, item: &Item, partial: &Partial) {
        let mut first = 0;
        while first < item.rows {
            let count = partial.neighbours(first).min(item.rows - first);
            self.output.write(&self.inputs, item, partial, first..first + count);
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
        match item.streams {
            true => stream::attend(simd, call, item, split, scratch),
            false => lanes::attend(simd, call, item, split, scratch),
        }
    }
}
