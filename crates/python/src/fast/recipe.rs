//! Calls that were made before: which tensors they had, and how to make them again.

use super::Context;
use super::dlpack::{Allocated, CUDA, DataType, Device};
use super::python::Object;
use super::view::{Lent, View};
use crate::Plan;
use crate::error::caught;
use crate::memory::Need;
use problem::{SegmentSlot, Slot};
use sixwarp::Interrupted;
use std::ptr::null_mut;

/// Positions of tensors among the arguments of a call.
// spell: positions
pub(super) const Q: usize = 0;
pub(super) const K: usize = 1;
pub(super) const V: usize = 2;
pub(super) const SINKS: usize = 3;
pub(super) const CU_SEQLENS_Q: usize = 4;
pub(super) const CU_SEQLENS_K: usize = 5;
pub(super) const SEQUSED_K: usize = 6;
pub(super) const PAGE_TABLE: usize = 7;
pub(super) const ATTN_MASK: usize = 8;
pub(super) const K_DESCALE: usize = 9;
pub(super) const V_DESCALE: usize = 10;
pub(super) const OUT: usize = 11;
pub(super) const LSE: usize = 12;
/// How many there are.
pub(super) const TENSORS: usize = 13;
// spelled

/// Where a call's argument for a slot is.
fn position(slot: Slot) -> Option<usize> {
    Some(match slot {
        Slot::Q => Q,
        Slot::Out => OUT,
        Slot::Lse => LSE,
        Slot::Sinks => SINKS,
        Slot::CuSeqlensQ => CU_SEQLENS_Q,
        Slot::Segment(0, SegmentSlot::K) => K,
        Slot::Segment(0, SegmentSlot::V) => V,
        Slot::Segment(0, SegmentSlot::CuSeqlens) => CU_SEQLENS_K,
        Slot::Segment(0, SegmentSlot::Used) => SEQUSED_K,
        Slot::Segment(0, SegmentSlot::PageTable) => PAGE_TABLE,
        Slot::Segment(0, SegmentSlot::AttnMask) => ATTN_MASK,
        Slot::Segment(0, SegmentSlot::KDescale) => K_DESCALE,
        Slot::Segment(0, SegmentSlot::VDescale) => V_DESCALE,
        _ => return None,
    })
}

/// The tensors of a call.
pub(super) struct Given([Option<Lent>; TENSORS]);

impl Given {
    /// Borrows the tensors among `arguments`, which may be shorter than [`TENSORS`]; none if one is
    /// no tensor of the library.
    ///
    /// # Safety
    /// The arguments must be alive and the interpreter's lock held.
    pub(super) unsafe fn borrow(context: &Context, arguments: &[*mut Object]) -> Option<Self> {
        let mut given = Given([const { None }; TENSORS]);
        for (place, argument) in given.0.iter_mut().zip(arguments) {
            if !context.python.is_none(*argument) {
                // SAFETY: as the caller says.
                *place = Some(unsafe { context.borrow(*argument) }?);
            }
        }
        Some(given)
    }

    pub(super) fn tensors(&self) -> Option<[&Lent; 3]> {
        Some([self.0[Q].as_ref()?, self.0[K].as_ref()?, self.0[V].as_ref()?])
    }

    pub(super) fn has_one_memory_for_keys_and_values(&self) -> bool {
        let address = |i: usize| self.0[i].as_ref().map(|lent| lent.tensor.address());
        address(K) == address(V)
    }

    /// What is given at each position; none if a tensor's memory is not all there.
    fn views(&self) -> Option<[Option<View>; TENSORS]> {
        let mut views = [None; TENSORS];
        for (view, lent) in views.iter_mut().zip(&self.0) {
            if let Some(lent) = lent {
                *view = Some(View::of(lent)?);
            }
        }
        Some(views)
    }
}

/// Whether `view` is of memory as a slot needs it, on device `device`.
fn serves(view: &View, need: &Need, device: i32) -> bool {
    use SegmentSlot::{AttnMask, K, KDescale, V, VDescale};
    let strided = matches!(
        need.slot,
        Slot::Q | Slot::Out | Slot::Segment(_, K | V | AttnMask | KDescale | VDescale)
    );
    view.dtype == DataType::from(need.element)
        && view.device.number() == Some(device)
        && view.span() >= need.bytes
        && (strided || view.is_dense())
}

/// A call that can be made again with tensors of the same views.
pub(super) struct Recipe {
    context: &'static Context,
    plan: *const Plan,
    /// Keeps the plan alive; owned.
    owner: *mut Object,
    /// What is expected at each position.
    views: [Option<View>; TENSORS],
    /// Position of the tensor of each slot.
    order: Vec<usize>,
    workspace_bytes: u64,
    pub(super) shared: bool,
    /// Other arguments of the call; owned.
    options: Vec<*mut Object>,
}

// SAFETY: plans may be used by any thread; objects are only touched with the interpreter's lock held.
unsafe impl Send for Recipe {}
// SAFETY: as above.
unsafe impl Sync for Recipe {}

/// Memory and order of work that a caller may leave open.
pub(super) struct Place {
    pub(super) workspace: Option<Lent>,
    pub(super) stream: Option<usize>,
}

impl Recipe {
    /// The recipe of a call of `plan` with `given` tensors, outputs among them.
    ///
    /// # Safety
    /// `owner` must keep `plan` alive, and the interpreter's lock be held.
    pub(super) unsafe fn new(
        context: &'static Context,
        plan: *const Plan,
        owner: *mut Object,
        given: &Given,
        options: &[*mut Object],
    ) -> Option<Self> {
        // SAFETY: the caller gives a plan.
        let needs = unsafe { &*plan }.needs();
        let views = given.views()?;
        let mut order = Vec::with_capacity(needs.slots.len());
        for need in &needs.slots {
            let at = position(need.slot)?;
            views[at].filter(|view| serves(view, need, needs.device))?;
            order.push(at);
        }
        // Values that are the keys are given and have no slot; nothing else may be left over.
        let shared = !order.contains(&V);
        if (0..TENSORS).any(|i| views[i].is_some() && !order.contains(&i) && i != V) {
            return None;
        }
        // SAFETY: as the caller says.
        let share = |object: &*mut Object| unsafe { context.python.share(*object) };
        Some(Recipe {
            context,
            plan,
            owner: share(&owner),
            views,
            workspace_bytes: needs.workspace_bytes,
            shared,
            order,
            options: options.iter().map(share).collect(),
        })
    }

    /// Whether the tensors are like those of the recipe; outputs may be missing.
    pub(super) fn fits(&self, given: &Given) -> bool {
        let same = |i: usize| match (&self.views[i], &given.0[i]) {
            (Some(view), Some(lent)) => view.fits(lent),
            (Some(view), None) => i >= OUT && view.is_dense(),
            (None, None) => true,
            (None, Some(_)) => false,
        };
        (0..TENSORS).all(same) && (!self.shared || given.has_one_memory_for_keys_and_values())
    }

    /// Whether the other arguments are the recipe's.
    ///
    /// # Safety
    /// The options must be alive and the interpreter's lock held; their comparison may run code.
    pub(super) unsafe fn has_options(&self, options: &[*mut Object]) -> bool {
        options.len() == self.options.len()
            // SAFETY: as the caller says.
            && options.iter().zip(&self.options).all(|(a, b)| unsafe { self.context.python.equal(*a, *b) })
    }

    /// Makes the call on tensors that fit; there is no result if it failed, perhaps with Python's error
    /// set. It is null if a signal's handler raised, whose error is set.
    ///
    /// # Safety
    /// `arguments` and `given` must be of one call, and the interpreter's lock held.
    pub(super) unsafe fn run(
        &self,
        arguments: &[*mut Object],
        given: &Given,
        place: Place,
    ) -> Option<*mut Object> {
        let device = self.views[Q]?.device;
        let stream = match place.stream {
            Some(stream) => stream,
            None if device.kind == CUDA => self.context.library.current_stream(device)?,
            None => 0,
        };
        let out = self.output(OUT, given)?;
        let lse = self.output(LSE, given)?;
        let made = [&out, &lse].map(|made| made.as_ref().map_or(0, Allocated::address));
        let mut addresses = [0; TENSORS + 1];
        for (address, position) in addresses.iter_mut().zip(&self.order) {
            let lent = given.0[*position].as_ref();
            *address = lent.map_or_else(|| made[position - OUT], |lent| lent.tensor.address());
        }
        let slots = self.order.len();
        let scratch = self.workspace(device, place)?;
        addresses[slots] = scratch.address();
        // SAFETY: the tensors fit the plan, and Python's arguments keep them alive.
        let ended = unsafe { self.launch(&addresses[..=slots], stream) }?;
        for (position, made) in [(OUT, &out), (LSE, &lse)] {
            if made.is_none() && given.0[position].is_some() {
                // SAFETY: as the caller says.
                unsafe { self.context.torch.wrote(arguments[position]) };
            }
        }
        if ended == Err(Interrupted) {
            return Some(null_mut());
        }
        // SAFETY: as the caller says.
        unsafe { self.results(arguments, out, lse) }
    }

    /// A new tensor for an output that is wanted and not given.
    fn output(&self, position: usize, given: &Given) -> Option<Option<Allocated>> {
        match (&self.views[position], &given.0[position]) {
            (Some(view), None) => {
                self.context.library.allocate(view.shape(), view.dtype, view.device).map(Some)
            }
            _ => Some(None),
        }
    }

    fn workspace(&self, device: Device, place: Place) -> Option<Scratch> {
        if let Some(lent) = place.workspace {
            let view = View::of(&lent)?;
            let usable = view.is_dense() && view.dtype == DataType::U8 && view.device == device;
            return (usable && view.span() >= self.workspace_bytes).then_some(Scratch::Given(lent));
        }
        if self.workspace_bytes == 0 {
            return Some(Scratch::None);
        }
        // An allocator that orders by its own stream must be told of another.
        if place.stream.is_some() {
            return None;
        }
        let bytes = self.workspace_bytes as i64;
        let made = self.context.library.allocate(&[bytes], DataType::U8, device)?;
        Some(Scratch::Made(made))
    }

    /// # Safety
    /// The addresses must be those of tensors that fit, in the plan's order, then the workspace's.
    unsafe fn launch(&self, addresses: &[u64], stream: usize) -> Option<Result<(), Interrupted>> {
        // SAFETY: the owner keeps the plan alive.
        let plan = unsafe { &*self.plan };
        // SAFETY: as the caller says; nothing of Python's is touched.
        let run = || caught(|| unsafe { plan.run_at(addresses, stream) }).ok();
        match plan.needs().device {
            // SAFETY: the lock is held, as every caller of `run` says.
            crate::memory::CPU => unsafe { self.context.python.unlocked(run) }
                .map_or(Some(Err(Interrupted)), |run| run.map(Ok)),
            _ => run().map(Ok),
        }
    }

    /// # Safety
    /// As [`Recipe::run`].
    unsafe fn results(
        &self,
        arguments: &[*mut Object],
        out: Option<Allocated>,
        lse: Option<Allocated>,
    ) -> Option<*mut Object> {
        let (python, library) = (&self.context.python, &self.context.library);
        let object = |position: usize, made: Option<Allocated>| match made {
            Some(made) => library.give(made),
            // SAFETY: as the caller says.
            None => unsafe { python.share(arguments[position]) },
        };
        let out = object(OUT, out);
        if self.views[LSE].is_none() || out.is_null() {
            return (!out.is_null()).then_some(out);
        }
        let lse = object(LSE, lse);
        // SAFETY: the references are new ones.
        let pair = unsafe { python.pair(out, lse) };
        (!lse.is_null() && !pair.is_null()).then_some(pair)
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        for object in self.options.iter().chain([&self.owner]) {
            // SAFETY: recipes are dropped by functions that Python calls, which hold its lock.
            unsafe { self.context.python.release(*object) };
        }
    }
}

/// The workspace of one call.
enum Scratch {
    None,
    Given(Lent),
    /// Freed after the launch: the allocator orders by stream.
    Made(Allocated),
}

impl Scratch {
    fn address(&self) -> u64 {
        match self {
            Scratch::None => 0,
            Scratch::Given(lent) => lent.tensor.address(),
            Scratch::Made(made) => made.address(),
        }
    }
}
