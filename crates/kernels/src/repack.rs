//! Rows that kernels cannot read or write where they lie: launches that copy them, before the kernels and behind.
//!
//! Kernels move rows in vectors of 16 bytes. So rows have multiples of 8 elements, and lie multiples of 16 bytes apart.
//! A tensor that is not like that is *repacked*: its rows are copied into the workspace, one behind the other, with
//! zeros behind their last element, and the kernels read the copies. Output is written to the workspace and copied to
//! where it belongs. That costs a pass over each such tensor in every call, a page pool included.
//!
//! Zeros behind queries and keys add nothing to their products. What zeros behind values, or the keys that values are
//! columns of, become is not copied to the output.

use crate::call::memory::Memory;
use crate::plan::options::Arch;
use crate::plan::schedule::Schedule;
use crate::realign::redirect;
use problem::{Problem, SegmentSlot, Slot, Storage, Unsupported, Values, View};
use program::build::{Arguments, Divisor};
use program::{Argument, BufferId, Launch};
use ptx::build::{Builder, Cmp, GlobalPtr, Kernel, Reg, Target};

/// Warps of a CTA, each of which copies a row at a time.
const WARPS: u32 = 8;
/// Lanes of a warp, each of which copies an element at a time.
const LANES: u32 = 32;
/// The most CTAs of a launch.
const MOST_CTAS: u64 = 1024;
/// Elements that rows have a multiple of.
const COLUMNS: u64 = 8;

/// A problem whose tensors kernels can move, and how they come from those of another.
pub struct Repacked {
    /// What the kernels compute.
    pub problem: Problem,
    tensors: Vec<Tensor>,
}

/// A tensor that is copied.
struct Tensor {
    slot: Slot,
    /// As the caller has it.
    outer: View,
    /// As the kernels have it.
    inner: View,
}

impl Repacked {
    /// The problem that kernels of `arch` compute instead of `problem`, if there is one to be repacked.
    pub fn of(problem: &Problem, arch: Arch) -> Option<Self> {
        let dims = [("key dim", problem.key_dim()), ("value dim", problem.value_dim())];
        let [key, value] = dims.map(|(name, dim)| padded(arch, name, dim));
        let mut tensors = Vec::new();
        let mut repack = |slot, view: &mut View, dim: u64| {
            if view.dim() != dim || !lies_in_vectors(view) {
                let outer = *view;
                *view = packed(&outer, dim);
                tensors.push(Tensor { slot, outer, inner: *view });
            }
        };
        let changed = problem.clone().with(|parts| {
            repack(Slot::Q, &mut parts.q, key);
            repack(Slot::Out, &mut parts.out, value);
            for (n, segment) in (0..).zip(&mut parts.segments) {
                if segment.storage != Storage::Elements {
                    continue;
                }
                repack(Slot::Segment(n, SegmentSlot::K), &mut segment.k, key);
                match &mut segment.values {
                    Values::Separate(v) => repack(Slot::Segment(n, SegmentSlot::V), v, value),
                    Values::SameAsKeys { dim } => *dim = value,
                }
            }
        });
        match changed {
            Ok(problem) if !tensors.is_empty() => Some(Repacked { problem, tensors }),
            _ => None,
        }
    }

    /// Whether a slot is copied.
    pub fn has(&self, slot: Slot) -> bool {
        self.tensors.iter().any(|tensor| tensor.slot == slot)
    }

    /// Rows of what is copied are numbered.
    ///
    /// # Errors
    /// A tensor that has too many.
    pub fn check(&self) -> Result<(), Unsupported> {
        match self.tensors.iter().find(|tensor| tensor.rows() >> 31 > 0) {
            None => Ok(()),
            Some(tensor) => Err(Unsupported::new(
                format!(
                    "{} rows of {} at odd strides or of an odd length",
                    tensor.rows(),
                    tensor.slot
                ),
                "rows that are copied first have numbers of 31 bits",
            )),
        }
    }

    /// Puts the copies in front of `launches`, and those of the output behind, which from now on take the copies.
    pub fn wrap(
        &self,
        target: Target,
        memory: &mut Memory,
        kernels: &mut Vec<Kernel>,
        launches: &mut Vec<Launch>,
    ) {
        for tensor in &self.tensors {
            let element = tensor.outer.dtype.bytes();
            let bytes = tensor.outer.span().unwrap_or(0) * element;
            let (slot, copy) = memory.repacked(tensor.slot, element, bytes);
            for launch in launches.iter_mut() {
                launch.overlaps_previous = false;
                launch.args.iter_mut().for_each(|argument| redirect(argument, slot, copy));
            }
            if tensor.rows() == 0 {
                continue;
            }
            let (kernel, launch) = tensor.emit(target, slot, copy);
            match tensor.slot {
                Slot::Out => launches.push(launch),
                _ => launches.insert(0, launch),
            }
            kernels.push(kernel);
        }
    }

    /// Names of what is copied.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.tensors.iter().map(|tensor| tensor.slot.to_string()).collect();
        names.join(", ")
    }
}

/// The number of columns that kernels take for `dim`.
fn padded(arch: Arch, name: &str, dim: u64) -> u64 {
    let (largest, step) = Schedule::largest_dim(arch, name);
    match dim.next_multiple_of(COLUMNS) {
        narrow @ ..=256 => narrow,
        wide if wide > largest => dim,
        _ => dim.next_multiple_of(step),
    }
}

/// Whether rows of a view lie multiples of 16 bytes apart, so few that tensor copies reach them.
fn lies_in_vectors(view: &View) -> bool {
    crate::call::tensors::check("", view).is_ok()
}

/// Rows of `dim` elements for those of `view`, one behind the other: batch by batch, token by token, head by head.
/// What is repeated stays repeated.
fn packed(view: &View, dim: u64) -> View {
    let [batch, heads, tokens, _] = view.shape;
    let mut strides = [0, 0, 0, 1];
    let mut next = dim.next_multiple_of(COLUMNS);
    for (d, extent) in [(1, heads), (2, tokens), (0, batch)] {
        if view.strides[d] > 0 {
            strides[d] = next;
            next = next.saturating_mul(extent.max(1));
        }
    }
    View { shape: [batch, heads, tokens, dim], strides, dtype: view.dtype }
}

impl Tensor {
    /// Rows that are copied: repeated ones once.
    fn extents(&self) -> [u64; 3] {
        [0, 1, 2].map(|d| match self.outer.strides[d] {
            0 => self.outer.shape[d].min(1),
            _ => self.outer.shape[d],
        })
    }

    fn rows(&self) -> u64 {
        let rows = self.extents().into_iter().fold(1, u64::saturating_mul);
        if self.outer.dim() == 0 { 0 } else { rows }
    }

    /// The launch that copies between the slot's buffer and the copy: to the slot's, if it is output.
    fn emit(&self, target: Target, slot: BufferId, copy: BufferId) -> (Kernel, Launch) {
        let name = format!("repack_{}", self.slot.to_string().replace(' ', "_"));
        let mut b = Builder::new(&name, target);
        b.directive("maxntid", &[u64::from(WARPS * LANES), 1, 1]);
        let mut args = Arguments::default();
        let ends = [(slot, &self.outer), (copy, &self.inner)];
        let [from, to] = if self.slot == Slot::Out { [ends[1], ends[0]] } else { ends };
        let ctas = self.rows().div_ceil(WARPS.into()).min(MOST_CTAS) as u32;
        let rows = args.u32(&mut b, "rows", self.rows() as u32);
        let [_, heads, tokens] = self.extents().map(|extent| extent as u32);
        let numbers = RowNumbers {
            heads: Divisor::declare(&mut b, &mut args, "heads", heads),
            tokens: Divisor::declare(&mut b, &mut args, "tokens", tokens),
        };
        let from = Rows::declare(&mut b, &mut args, "from", from);
        let to = Rows::declare(&mut b, &mut args, "to", to);
        let (cta, warp) = (b.cta(), b.warp().index());
        let row = b.eval(cta * WARPS + warp);
        b.while_(
            |b| b.setp(Cmp::Lt, row, rows),
            |b| {
                let place = numbers.place(b, row);
                to.copy(b, &from, place);
                b.assign(row, row + ctas * WARPS);
            },
        );
        (b.finish(), launch(name, ctas, args.into_values()))
    }
}

fn launch(kernel: String, ctas: u32, args: Vec<Argument>) -> Launch {
    Launch {
        kernel,
        grid: [ctas, 1, 1],
        block: [WARPS * LANES, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: 0,
        args,
        overlaps_previous: false,
    }
}

/// How rows are numbered: `[batch, token, head]`.
struct RowNumbers {
    heads: Divisor,
    tokens: Divisor,
}

impl RowNumbers {
    /// Batch, head and token of a row.
    #[track_caller]
    fn place(&self, b: &mut Builder, row: Reg<u32>) -> [Reg<u32>; 3] {
        let (row, head) = self.heads.divide(b, row);
        let (batch, token) = self.tokens.divide(b, row);
        [batch, head, token]
    }
}

/// Rows of a tensor, in a kernel.
struct Rows {
    base: GlobalPtr,
    /// Bytes between batches, heads and tokens.
    strides: [Reg<u64>; 3],
    columns: u32,
    /// Bytes of an element.
    element: u32,
}

impl Rows {
    #[track_caller]
    fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        name: &str,
        (buffer, view): (BufferId, &View),
    ) -> Self {
        let element = view.dtype.bytes();
        let base = args.pointer(b, name, buffer);
        let strides =
            [0, 1, 2].map(|d| args.u64(b, &format!("{name}_stride{d}"), view.step_bytes(d)));
        Rows { base, strides, columns: view.dim() as u32, element: element as u32 }
    }

    #[track_caller]
    fn row(&self, b: &mut Builder, place: [Reg<u32>; 3]) -> GlobalPtr {
        let mut at = b.value::<u64>(0);
        for (index, stride) in place.into_iter().zip(self.strides) {
            let index = b.widen(index);
            at = b.eval(index * stride + at);
        }
        b.global_add(self.base, at)
    }

    /// Copies a row from another tensor, zeros where that has no columns. All lanes of the warp come here.
    #[track_caller]
    fn copy(&self, b: &mut Builder, from: &Rows, place: [Reg<u32>; 3]) {
        let (source, target) = (from.row(b, place), self.row(b, place));
        let lane = b.special("%laneid");
        let column = b.value(lane);
        b.while_(
            |b| b.setp(Cmp::Lt, column, self.columns),
            |b| {
                let exists = b.setp(Cmp::Lt, column, from.columns);
                let byte = b.eval(column.widening_mul(self.element));
                let (source, target) = (b.global_add(source, byte), b.global_add(target, byte));
                let value = b.value::<u32>(0);
                b.ld_global_bytes(Some(exists), source, self.element, value);
                let all = b.predicate(true);
                b.st_global_bytes(all, target, self.element, value);
                b.assign(column, column + LANES);
            },
        );
    }
}
