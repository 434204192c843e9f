//! DLPack's C structures, and tensors of one library through its exchange interface.

use super::python::Object;
use problem::{DType, Element};
use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut};

/// The numbers DLPack has for the CPU and for GPUs of NVIDIA.
const CPU: i32 = 1;
pub(super) const CUDA: i32 = 2;
/// The version of the interface that is understood.
const MAJOR: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) kind: i32,
    pub(super) ordinal: i32,
}

impl Device {
    /// The device by the number that plans have for it: -1 is the CPU.
    pub(super) fn number(self) -> Option<i32> {
        match self.kind {
            CPU => Some(crate::memory::CPU),
            CUDA => Some(self.ordinal),
            _ => None,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

impl DataType {
    pub(super) const U8: Self = DataType { code: 1, bits: 8, lanes: 1 };

    /// Bytes of an element.
    pub(super) fn bytes(self) -> u64 {
        (self.bits as u64 * self.lanes as u64).div_ceil(8)
    }
}

impl From<Element> for DataType {
    fn from(element: Element) -> Self {
        let (code, bits) = match element {
            Element::I32 => (0, 32),
            Element::U8 => (1, 8),
            Element::Float(DType::F64) => (2, 64),
            Element::Float(DType::F32) => (2, 32),
            Element::Float(DType::F16) => (2, 16),
            Element::Float(DType::Bf16) => (4, 16),
            Element::Float(DType::E4m3) => (10, 8),
            Element::Bool => (6, 8),
        };
        DataType { code, bits, lanes: 1 }
    }
}

#[repr(C)]
pub(super) struct Tensor {
    data: *mut c_void,
    pub(super) device: Device,
    rank: i32,
    pub(super) dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

impl Tensor {
    /// What an allocator is asked for: `shape` on `device`.
    fn wanted(shape: &mut [i64], dtype: DataType, device: Device) -> Self {
        Tensor {
            data: null_mut(),
            device,
            rank: shape.len() as i32,
            dtype,
            shape: shape.as_mut_ptr(),
            strides: null_mut(),
            byte_offset: 0,
        }
    }

    pub(super) fn address(&self) -> u64 {
        self.data as u64 + self.byte_offset
    }

    pub(super) fn shape(&self) -> &[i64] {
        // SAFETY: a producer gives as many extents as there are dimensions, for as long as the tensor.
        unsafe { slice(self.shape, self.rank) }
    }

    /// Strides in elements; empty where the producer leaves them out, which means dense.
    pub(super) fn strides(&self) -> &[i64] {
        // SAFETY: as for the shape.
        unsafe { slice(self.strides, self.rank) }
    }
}

/// # Safety
/// `pointer` must be null or that of `count` numbers that outlive the result.
unsafe fn slice<'a>(pointer: *const i64, count: i32) -> &'a [i64] {
    match pointer.is_null() || count <= 0 {
        true => &[],
        // SAFETY: as the caller says.
        false => unsafe { std::slice::from_raw_parts(pointer, count as usize) },
    }
}

#[repr(C)]
struct ManagedTensor {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
    flags: u64,
    tensor: Tensor,
}

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`: what a library's tensor type carries as `__dlpack_c_exchange_api__`.
#[repr(C)]
struct ExchangeApi {
    version: [u32; 2],
    previous: *const ExchangeApi,
    allocate:
        unsafe extern "C" fn(*mut Tensor, *mut *mut ManagedTensor, *mut c_void, SetError) -> i32,
    _own: unsafe extern "C" fn(*mut Object, *mut *mut ManagedTensor) -> i32,
    to_object: unsafe extern "C" fn(*mut ManagedTensor, *mut *mut Object) -> i32,
    borrow: Option<unsafe extern "C" fn(*mut Object, *mut Tensor) -> i32>,
    stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> i32,
}

/// A tensor library, by its exchange interface.
pub(super) struct Library {
    api: NonNull<ExchangeApi>,
    borrow: unsafe extern "C" fn(*mut Object, *mut Tensor) -> i32,
}

// SAFETY: the interface is a table of functions that lives as long as the process.
unsafe impl Send for Library {}
// SAFETY: nothing in the table changes.
unsafe impl Sync for Library {}

impl Library {
    /// The library behind a `DLPackExchangeAPI`; none if it is of another version or lends nothing.
    ///
    /// # Safety
    /// `api` must be null or point to such a table, which must live as long as the process.
    pub(super) unsafe fn new(api: *mut c_void) -> Option<Self> {
        let mut api = NonNull::new(api.cast::<ExchangeApi>())?;
        // SAFETY: the caller gives a table; older versions hang on newer ones.
        while unsafe { api.as_ref() }.version[0] > MAJOR {
            // SAFETY: as above.
            api = NonNull::new(unsafe { api.as_ref() }.previous.cast_mut())?;
        }
        // SAFETY: as above.
        let table = unsafe { api.as_ref() };
        let borrow = table.borrow.filter(|_| table.version[0] == MAJOR)?;
        Some(Library { api, borrow })
    }

    fn api(&self) -> &ExchangeApi {
        // SAFETY: `new` was given a table that lives as long as the process.
        unsafe { self.api.as_ref() }
    }

    /// The tensor of a Python object; none, with Python's error set, if it has none to lend.
    ///
    /// # Safety
    /// `object` must be of the type the interface came from; the result is valid while it lives.
    pub(super) unsafe fn borrow(&self, object: *mut Object) -> Option<Tensor> {
        let none = Device { kind: 0, ordinal: 0 };
        let mut tensor = Tensor::wanted(&mut [], DataType::U8, none);
        // SAFETY: the caller gives an object of the library.
        (unsafe { (self.borrow)(object, &mut tensor) } == 0).then_some(tensor)
    }

    /// The handle of the stream that the library works on.
    pub(super) fn current_stream(&self, device: Device) -> Option<usize> {
        let mut stream = null_mut();
        // SAFETY: writes one pointer.
        let code = unsafe { (self.api().stream)(device.kind, device.ordinal, &mut stream) };
        (code == 0).then_some(stream as usize)
    }

    /// A new dense tensor, owned by the result.
    pub(super) fn allocate(
        &self,
        shape: &[i64],
        dtype: DataType,
        device: Device,
    ) -> Option<Allocated> {
        unsafe extern "C" fn ignore(_: *mut c_void, _: *const c_char, _: *const c_char) {}
        let mut extents = [0; super::view::MOST_DIMENSIONS];
        let shape = match extents.get_mut(..shape.len()) {
            Some(extents) => {
                extents.copy_from_slice(shape);
                extents
            }
            None => return None,
        };
        let mut wanted = Tensor::wanted(shape, dtype, device);
        let mut made = null_mut();
        // SAFETY: the prototype and its shape live through the call; an error is its code alone.
        let code = unsafe { (self.api().allocate)(&mut wanted, &mut made, null_mut(), ignore) };
        NonNull::new(made).filter(|_| code == 0).map(Allocated)
    }

    /// Hands a tensor to Python; null, with Python's error set, on failure.
    pub(super) fn give(&self, tensor: Allocated) -> *mut Object {
        let mut object = null_mut();
        // Given up, not freed.
        let made = std::mem::ManuallyDrop::new(tensor).0.as_ptr();
        // SAFETY: the tensor is the library's own and is given up to it.
        match unsafe { (self.api().to_object)(made, &mut object) } {
            0 => object,
            _ => null_mut(),
        }
    }
}

/// A tensor that nobody else has seen.
pub(super) struct Allocated(NonNull<ManagedTensor>);

impl Allocated {
    pub(super) fn address(&self) -> u64 {
        // SAFETY: owned, and alive until dropped.
        unsafe { self.0.as_ref() }.tensor.address()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: owned; freed once, by the function its maker left for it.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}
