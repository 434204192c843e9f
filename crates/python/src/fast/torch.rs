//! What torch knows of a tensor and DLPack does not tell: how much memory there is behind its address,
//! whether numbers are to be read with their signs changed, whether it is differentiated. And torch is told
//! what was written.
//!
//! These are functions of torch's own libraries, found by the package. They take an `at::Tensor` by its
//! address; an `at::Tensor` is one pointer, and a Python tensor holds one at an offset that the package
//! finds out. Where any of this is missing, the package does not attach the quick way.

use super::dlpack::Tensor;
use super::python::{Interpreter, Object};
use std::ffi::c_void;

/// An `at::Tensor`: one pointer, to what implements the tensor.
#[repr(transparent)]
struct Handle(*const c_void);

/// Functions and objects of torch, in the order of `_torch_tensor.py`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Torch {
    /// `aoti_torch_get_storage_size`: bytes of the storage.
    storage_bytes: unsafe extern "C" fn(*const Handle, *mut i64) -> i32,
    /// `aoti_torch_get_storage_offset`: elements before the tensor's first.
    storage_offset: unsafe extern "C" fn(*const Handle, *mut i64) -> i32,
    /// `at::native::is_neg`.
    is_negated: unsafe extern "C" fn(*const Handle) -> bool,
    /// `at::native::is_inference`.
    is_inference: unsafe extern "C" fn(*const Handle) -> bool,
    /// `torch::autograd::impl::bump_version`, which throws for inference tensors.
    bump_version: unsafe extern "C" fn(*const Handle),
    /// `c10::TensorImpl::requires_grad`.
    requires_grad: unsafe extern "C" fn(*const c_void) -> bool,
    /// Where a Python tensor holds its `at::Tensor`.
    handle_offset: usize,
    /// The module `torch.autograd.forward_ad`, its attribute `_current_level`, and the -1 it has outside
    /// of forward-mode differentiation.
    forward_ad: *mut Object,
    current_level: *mut Object,
    no_level: *mut Object,
}

/// # Safety
/// Every function here needs tensors of the types that were attached, alive, and a thread that holds the
/// interpreter's lock.
impl Torch {
    fn handle(&self, tensor: *mut Object) -> *const Handle {
        tensor.cast::<u8>().wrapping_add(self.handle_offset).cast()
    }

    /// Bytes from a tensor's first element to the end of its storage; none where its numbers are not what
    /// its memory holds.
    ///
    /// # Safety
    /// As for all; `lent` must be what `tensor` lends.
    pub(super) unsafe fn bytes(&self, tensor: *mut Object, lent: &Tensor) -> Option<u64> {
        let handle = self.handle(tensor);
        let (mut bytes, mut offset) = (0, 0);
        // SAFETY: a tensor that lends memory has a storage.
        let told = unsafe {
            !(self.is_negated)(handle)
                && (self.storage_bytes)(handle, &mut bytes) == 0
                && (self.storage_offset)(handle, &mut offset) == 0
        };
        let before = offset.checked_mul(lent.dtype.bytes() as i64)?;
        u64::try_from(bytes.checked_sub(before)?).ok().filter(|_| told)
    }

    /// # Safety
    /// As for all.
    pub(super) unsafe fn requires_grad(&self, tensor: *mut Object) -> bool {
        // SAFETY: the handle of a tensor that is alive points to its implementation.
        unsafe { (self.requires_grad)((*self.handle(tensor)).0) }
    }

    /// Whether the thread's calls may be differentiated in forward mode.
    ///
    /// # Safety
    /// As for all.
    pub(super) unsafe fn in_forward_mode(&self, python: &Interpreter) -> bool {
        // SAFETY: the package keeps the module and the name.
        unsafe { !python.attribute_is(self.forward_ad, self.current_level, self.no_level) }
    }

    /// Tells torch that a tensor was written.
    ///
    /// # Safety
    /// As for all.
    pub(super) unsafe fn wrote(&self, tensor: *mut Object) {
        let handle = self.handle(tensor);
        // SAFETY: only inference tensors have no version.
        unsafe {
            if !(self.is_inference)(handle) {
                (self.bump_version)(handle);
            }
        }
    }
}
