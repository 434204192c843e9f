//! Queries, keys and values at any address: launches that copy them into the workspace, in front of the kernels.
//!
//! Kernels move rows in vectors of 16 bytes, and a tensor map begins at a multiple of 16. Where a plan is made for
//! tensors that begin elsewhere ([`PlanOptions::any_address`](crate::PlanOptions::any_address)), each of them is
//! copied element by element in every call, and the kernels read the copies. That costs a pass over the whole span
//! of the tensors, a page pool included, and as many bytes of workspace.

use crate::call::memory::Memory;
use problem::{Problem, SegmentSlot, Slot};
use program::build::Arguments;
use program::{Argument, BufferId, Launch};
use ptx::build::{Builder, Cmp, Kernel, Target};

/// Threads of a CTA.
const THREADS: u32 = 256;
/// The most CTAs of a launch; each thread takes one element after the other.
const MOST_CTAS: u64 = 1024;

/// A tensor that is copied.
struct Copy {
    name: String,
    from: BufferId,
    to: BufferId,
    bytes: u64,
    /// Bytes of one element.
    element: u32,
}

/// Puts a copy of every tensor of rows that is read, but for those that are copied `already`, in front of `launches`,
/// which read the copies from now on.
pub fn prepend(
    problem: &Problem,
    already: impl Fn(Slot) -> bool,
    target: Target,
    memory: &mut Memory,
    kernels: &mut Vec<Kernel>,
    launches: &mut Vec<Launch>,
) {
    let rows =
        problem.slots().into_iter().filter(|slot| is_read_in_vectors(*slot) && !already(*slot));
    let copies: Vec<Copy> = rows.map(|slot| Copy::reserve(problem, memory, slot)).collect();
    for launch in launches.iter_mut() {
        // Of two segments side by side the second does not wait for what comes before the first.
        launch.overlaps_previous = false;
        for copy in &copies {
            launch.args.iter_mut().for_each(|argument| redirect(argument, copy.from, copy.to));
        }
    }
    let copies = copies.iter().filter(|copy| copy.bytes > 0).map(|copy| copy.emit(target));
    let (mut copying, first): (Vec<Kernel>, Vec<Launch>) = copies.unzip();
    launches.splice(..0, first);
    kernels.append(&mut copying);
}

fn is_read_in_vectors(slot: Slot) -> bool {
    matches!(slot, Slot::Q | Slot::Segment(_, SegmentSlot::K | SegmentSlot::V))
}

/// Makes an argument that is in buffer `from` the same in buffer `to`.
pub fn redirect(argument: &mut Argument, from: BufferId, to: BufferId) {
    let id = match argument {
        Argument::Buffer(id, _) => id,
        Argument::TensorMap(map) => &mut map.buffer,
        Argument::U32(_) | Argument::U64(_) | Argument::F32(_) | Argument::Bytes(..) => return,
    };
    if *id == from {
        *id = to;
    }
}

impl Copy {
    fn reserve(problem: &Problem, memory: &mut Memory, slot: Slot) -> Self {
        let (bytes, element) = (problem.slot_bytes(slot), problem.slot_element(slot).bytes());
        let (from, to) = memory.copied(slot, element);
        let name = format!("copy_{}", slot.to_string().replace(' ', "_"));
        Copy { name, from, to, bytes, element: element as u32 }
    }

    fn emit(&self, target: Target) -> (Kernel, Launch) {
        let mut b = Builder::new(&self.name, target);
        b.directive("maxntid", &[u64::from(THREADS), 1, 1]);
        let mut args = Arguments::default();
        let from = args.pointer(&mut b, "from", self.from);
        let to = args.pointer(&mut b, "to", self.to);
        let end = args.u64(&mut b, "bytes", self.bytes);
        let ctas = self.bytes.div_ceil(u64::from(THREADS * self.element)).min(MOST_CTAS);
        let step = ctas * u64::from(THREADS * self.element);
        let (cta, thread) = (b.special("%ctaid.x"), b.thread());
        let at = b.eval((cta * THREADS + thread).widening_mul(self.element));
        b.while_(
            |b| b.setp(Cmp::Lt, at, end),
            |b| {
                let (source, place) = (b.global_add(from, at), b.global_add(to, at));
                let (value, inside) = (b.value::<u32>(0), b.setp(Cmp::Lt, at, end));
                b.ld_global_bytes(None, source, self.element, value);
                b.st_global_bytes(inside, place, self.element, value);
                b.assign(at, at + step);
            },
        );
        (b.finish(), self.launch(ctas as u32, args.into_values()))
    }

    fn launch(&self, ctas: u32, args: Vec<Argument>) -> Launch {
        Launch {
            kernel: self.name.clone(),
            grid: [ctas, 1, 1],
            block: [THREADS, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            args,
            overlaps_previous: false,
        }
    }
}
