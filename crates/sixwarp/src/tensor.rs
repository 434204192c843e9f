//! Tensors in a device's own memory, and launches that borrow them.

use crate::device::Kind;
use crate::memory::ensure_memory;
use crate::{Device, Error, Stream};
use half::{bf16, f16};
use problem::{DType, E4m3, Element, HostMut, HostRef, InvalidProblem, Slot};
use std::fmt;
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// Types that tensors have elements of: `f64`, `f32`, `f16`, `bf16`, [`E4m3`], `i32`, `u8`.
pub trait Scalar: sealed::Sealed + Copy + Default + 'static {
    /// The type.
    const ELEMENT: Element;
    #[doc(hidden)]
    fn host(values: &[Self]) -> HostRef<'_>;
    #[doc(hidden)]
    fn host_mut(values: &mut [Self]) -> Option<HostMut<'_>>;
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! scalars {
    ($($scalar:ty, $variant:ident, $element:expr, $output:expr;)*) => {$(
        impl sealed::Sealed for $scalar {}
        impl Scalar for $scalar {
            const ELEMENT: Element = $element;
            fn host(values: &[Self]) -> HostRef<'_> {
                HostRef::$variant(values)
            }
            fn host_mut(values: &mut [Self]) -> Option<HostMut<'_>> {
                $output(values)
            }
            fn read(bytes: &[u8]) -> Vec<Self> {
                let (chunks, _) = bytes.as_chunks::<{ size_of::<$scalar>() }>();
                chunks.iter().map(|bytes| <$scalar>::from_le_bytes(*bytes)).collect()
            }
        }
    )*};
}
scalars! {
    f64, F64, Element::Float(DType::F64), |values| Some(HostMut::F64(values));
    f32, F32, Element::Float(DType::F32), |values| Some(HostMut::F32(values));
    f16, F16, Element::Float(DType::F16), |values| Some(HostMut::F16(values));
    bf16, Bf16, Element::Float(DType::Bf16), |values| Some(HostMut::Bf16(values));
    E4m3, E4m3, Element::Float(DType::E4m3), |_| None;
    i32, I32, Element::I32, |_| None;
    u8, U8, Element::U8, |_| None;
}

/// A tensor's elements in the memory of a [`Device`]: a GPU's own, or the host's for all others.
///
/// Made by [`Device::upload`] and [`Device::alloc`], freed when dropped. How the elements are arranged
/// is the business of the problem's views.
pub struct DeviceTensor<T> {
    device: Device,
    memory: Memory<T>,
}

enum Memory<T> {
    Host(Vec<T>),
    Cuda { buffer: cuda::DeviceBuffer, len: usize },
}

impl Device {
    /// A tensor of these elements.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the device has no room for them.
    pub fn upload<T: Scalar>(&self, values: &[T]) -> Result<DeviceTensor<T>, Error> {
        let mut tensor = self.room(values.len())?;
        tensor.write(values)?;
        Ok(tensor)
    }

    /// A tensor of `len` zeros.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the device has no room for them.
    pub fn alloc<T: Scalar>(&self, len: usize) -> Result<DeviceTensor<T>, Error> {
        let mut tensor = self.room(len)?;
        if let Memory::Cuda { buffer, .. } = &mut tensor.memory {
            buffer.fill(0)?;
        }
        Ok(tensor)
    }

    fn room<T: Scalar>(&self, len: usize) -> Result<DeviceTensor<T>, Error> {
        let needed = (len as u64).saturating_mul(T::ELEMENT.bytes());
        let what = format!("a tensor of {len} {}", T::ELEMENT);
        let memory = match &self.0 {
            Kind::Cuda { device, .. } => {
                let available = device.info().memory_bytes;
                if needed > available {
                    return Err(Error::TooLarge { what, needed, available });
                }
                Memory::Cuda { buffer: device.alloc(needed as usize)?, len }
            }
            _ => {
                ensure_memory(&what, needed)?;
                Memory::Host(vec![T::default(); len])
            }
        };
        Ok(DeviceTensor { device: self.clone(), memory })
    }

    /// Whose memory tensors of the device are in.
    pub(crate) fn memory_name(&self) -> String {
        match &self.0 {
            Kind::Cuda { .. } => self.to_string(),
            _ => "the host".to_string(),
        }
    }
}

impl<T: Scalar> DeviceTensor<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Host(values) => values.len(),
            Memory::Cuda { len, .. } => *len,
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device it was made for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Overwrites the leading elements.
    ///
    /// # Errors
    /// If there are more values than elements, or the device fails.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        if values.len() > self.len() {
            let rule = format!("holds {} elements", self.len());
            return Err(InvalidProblem::new("device tensor", rule, values.len()).into());
        }
        match &mut self.memory {
            Memory::Host(to) => to[..values.len()].copy_from_slice(values),
            Memory::Cuda { buffer, .. } => buffer.write(&T::host(values).to_bytes())?,
        }
        Ok(())
    }

    /// The elements, after all work that was launched on the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn download(&self) -> Result<Vec<T>, Error> {
        match &self.memory {
            Memory::Host(values) => Ok(values.clone()),
            Memory::Cuda { buffer, .. } => Ok(T::read(&buffer.read()?)),
        }
    }
}

impl<T: Scalar> fmt::Debug for DeviceTensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}", self.len(), T::ELEMENT, self.device)
    }
}

/// A tensor that a launch reads.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRef<'a> {
    pub(crate) device: &'a Device,
    pub(crate) place: Place<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Host(HostRef<'a>),
    Cuda(cuda::DevicePtr, Element),
}

impl<'a, T: Scalar> From<&'a DeviceTensor<T>> for DeviceRef<'a> {
    fn from(tensor: &'a DeviceTensor<T>) -> Self {
        let place = match &tensor.memory {
            Memory::Host(values) => Place::Host(T::host(values)),
            Memory::Cuda { buffer, .. } => Place::Cuda(buffer.pointer(), T::ELEMENT),
        };
        DeviceRef { device: &tensor.device, place }
    }
}

impl<'a> DeviceRef<'a> {
    /// Memory of a GPU that someone else manages, for `'a`.
    ///
    /// # Safety
    /// `len` elements of `T` must lie at `address` in the memory of `device`, and neither be freed nor
    /// written for `'a`.
    ///
    /// # Errors
    /// If the device is not a GPU.
    pub unsafe fn from_raw<T: Scalar>(
        device: &'a Device,
        address: u64,
        len: usize,
    ) -> Result<Self, Error> {
        let Kind::Cuda { .. } = &device.0 else {
            let rule = "is a GPU where addresses are given";
            return Err(InvalidProblem::new("device", rule, device).into());
        };
        let bytes = (len as u64).saturating_mul(T::ELEMENT.bytes());
        // SAFETY: as the caller vouches.
        let pointer = unsafe { cuda::DevicePtr::from_raw(address, bytes) };
        Ok(DeviceRef { device, place: Place::Cuda(pointer, T::ELEMENT) })
    }
}

/// A tensor that a launch writes.
#[derive(Debug)]
pub struct DeviceMut<'a> {
    pub(crate) device: &'a Device,
    pub(crate) place: PlaceMut<'a>,
}

#[derive(Debug)]
pub(crate) enum PlaceMut<'a> {
    Host(HostMut<'a>),
    Cuda(cuda::DevicePtr, Element, PhantomData<&'a mut ()>),
    /// Integers and bytes, which nothing writes.
    Refused(Element),
}

impl<'a, T: Scalar> From<&'a mut DeviceTensor<T>> for DeviceMut<'a> {
    fn from(tensor: &'a mut DeviceTensor<T>) -> Self {
        let place = match &mut tensor.memory {
            Memory::Host(values) => match T::host_mut(values) {
                Some(memory) => PlaceMut::Host(memory),
                None => PlaceMut::Refused(T::ELEMENT),
            },
            Memory::Cuda { buffer, .. } => {
                PlaceMut::Cuda(buffer.pointer(), T::ELEMENT, PhantomData)
            }
        };
        DeviceMut { device: &tensor.device, place }
    }
}

impl<'a> DeviceMut<'a> {
    /// Memory of a GPU that someone else manages, for `'a`.
    ///
    /// # Safety
    /// As [`DeviceRef::from_raw`]; besides, nobody else may read it for `'a`.
    ///
    /// # Errors
    /// If the device is not a GPU.
    pub unsafe fn from_raw<T: Scalar>(
        device: &'a Device,
        address: u64,
        len: usize,
    ) -> Result<Self, Error> {
        // SAFETY: as the caller vouches.
        let shared = unsafe { DeviceRef::from_raw::<T>(device, address, len) }?;
        let place = match shared.place {
            Place::Cuda(pointer, element) => PlaceMut::Cuda(pointer, element, PhantomData),
            Place::Host(memory) => PlaceMut::Refused(memory.element()),
        };
        Ok(DeviceMut { device, place })
    }
}

/// Device memory for the slots of a problem.
///
/// ```
/// use sixwarp::{DType, Device, DeviceBuffers, Problem, Segment, Slot, View, plan};
/// let view = View::bshd(DType::F32, [1, 2, 3, 8]);
/// let problem = Problem::builder(view).segment(Segment::new(view, view)).build()?;
/// let device = Device::cpu(); // or Device::cuda(0)?, Device::simulated(..)
/// let plan = plan(&problem, &device)?;
///
/// let (q, k) = (device.upload(&[0.5f32; 48])?, device.upload(&[2.0f32; 48])?);
/// let mut out = device.alloc::<f32>(48)?;
/// let buffers = DeviceBuffers::new()
///     .input(Slot::Q, &q)
///     .input(Slot::K, &k)
///     .input(Slot::V, &k)
///     .output(Slot::Out, &mut out);
/// let executable = plan.prepare()?;
/// let mut workspace = executable.alloc_workspace()?;
/// executable.launch(&device.default_stream(), buffers, &mut workspace)?.wait()?;
/// assert_eq!(out.download()?, [2.0; 48]);
/// # Ok::<(), sixwarp::Error>(())
/// ```
///
/// What a launch writes cannot be looked at before it has ended:
///
/// ```compile_fail,E0502
/// # use sixwarp::{Device, DeviceBuffers, Error, Executable, Slot};
/// fn early(executable: &Executable, device: &Device) -> Result<Vec<f32>, Error> {
///     let mut out = device.alloc::<f32>(48)?;
///     let mut workspace = executable.alloc_workspace()?;
///     let buffers = DeviceBuffers::new().output(Slot::Out, &mut out);
///     let pending = executable.launch(&device.default_stream(), buffers, &mut workspace)?;
///     let values = out.download(); // `pending` still borrows `out`
///     pending.wait()?;
///     values
/// }
/// ```
#[derive(Debug, Default)]
pub struct DeviceBuffers<'a> {
    pub(crate) inputs: Vec<(Slot, DeviceRef<'a>)>,
    pub(crate) outputs: Vec<(Slot, DeviceMut<'a>)>,
}

impl<'a> DeviceBuffers<'a> {
    /// No memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `slot` from a tensor.
    pub fn input(mut self, slot: Slot, tensor: impl Into<DeviceRef<'a>>) -> Self {
        self.inputs.push((slot, tensor.into()));
        self
    }

    /// Writes `slot` to a tensor.
    pub fn output(mut self, slot: Slot, tensor: impl Into<DeviceMut<'a>>) -> Self {
        self.outputs.push((slot, tensor.into()));
        self
    }
}

/// Work that was launched. It borrows its tensors until it has ended; dropping it waits.
#[must_use = "dropped at once, it waits for the device"]
pub struct Pending<'a> {
    stream: Option<Stream>,
    tensors: PhantomData<&'a mut ()>,
}

impl Pending<'_> {
    pub(crate) fn on(stream: &Stream) -> Self {
        Pending { stream: Some(stream.clone()), tensors: PhantomData }
    }
}

impl Pending<'_> {
    /// Waits until the results are there.
    ///
    /// # Errors
    /// If the device failed.
    pub fn wait(mut self) -> Result<(), Error> {
        match self.stream.take() {
            Some(stream) => stream.synchronize(),
            None => Ok(()),
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            // An error is the device's, and every later call reports it.
            let _ = stream.synchronize();
        }
    }
}

impl fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.stream.is_some() { "running" } else { "done" })
    }
}
