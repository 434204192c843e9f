//! Kernels and their launches.

use super::{FunctionAttribute, Result};
use crate::error::check;
use cudarc::driver::sys;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Arguments whose pointers are kept on the stack.
const FEW: usize = 48;

/// A kernel; valid while its [`Module`] lives.
#[derive(Clone, Copy)]
pub(crate) struct Function(pub(super) usize);

impl Function {
    pub(crate) fn attribute(self, attribute: FunctionAttribute) -> Result<u32> {
        let mut value = 0;
        let function = self.0 as sys::CUfunction;
        // SAFETY: writes one integer; the function's module is alive.
        let result = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
        check("cuFuncGetAttribute", result)?;
        Ok(value as u32)
    }

    pub(crate) fn set_attribute(self, attribute: FunctionAttribute, value: u32) -> Result<()> {
        let function = self.0 as sys::CUfunction;
        // SAFETY: the function's module is alive; a value out of range is an error.
        let result = unsafe { sys::cuFuncSetAttribute(function, attribute, value as c_int) };
        check("cuFuncSetAttribute", result)
    }

    /// CTAs of this shape that fit one SM.
    pub(crate) fn ctas_per_sm(self, geometry: &Geometry) -> Result<u32> {
        let mut ctas = 0;
        let threads = geometry.block.iter().product::<u32>() as c_int;
        let shared = geometry.shared_bytes as usize;
        let function = self.0 as sys::CUfunction;
        // SAFETY: writes one integer; the function's module is alive.
        let result = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut ctas, function, threads, shared)
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
        Ok(ctas as u32)
    }

    /// Clusters of this shape that fit the device.
    pub(crate) fn clusters(self, geometry: &Geometry) -> Result<u32> {
        let mut clusters = 0;
        let (mut attributes, count) = geometry.attributes();
        let config = geometry.config(0, &mut attributes[..count]);
        let function = self.0 as sys::CUfunction;
        // SAFETY: the configuration and its attributes live through the call.
        let result = unsafe { sys::cuOccupancyMaxActiveClusters(&mut clusters, function, &config) };
        check("cuOccupancyMaxActiveClusters", result)?;
        Ok(clusters as u32)
    }

    /// Queues the kernel on a stream. `Program::check` has compared the arguments with the parameters.
    pub(crate) fn launch(self, geometry: &Geometry, stream: usize, args: &Arguments) -> Result<()> {
        let (mut attributes, count) = geometry.attributes();
        let config = geometry.config(stream, &mut attributes[..count]);
        let (mut few, mut many) = ([null_mut(); FEW], Vec::new());
        let pointers: &mut [*mut c_void] = match few.get_mut(..args.len()) {
            Some(few) => few,
            None => {
                many.resize(args.len(), null_mut());
                &mut many
            }
        };
        for (pointer, slots) in pointers.iter_mut().zip(args.iter()) {
            *pointer = slots.as_ptr().cast_mut().cast();
        }
        let function = self.0 as sys::CUfunction;
        // SAFETY: there is one pointer per parameter (rule L9), each to the bytes of its argument, which are as
        // many as the parameter's (rule L10); the driver copies them before it returns.
        let result =
            unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), null_mut()) };
        check("cuLaunchKernelEx", result)
    }
}

/// Room for a kernel argument, aligned as a tensor map must be; a larger argument takes several in a row.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Slot(pub(crate) [u8; 128]);

/// The arguments of a launch.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    slots: Vec<Slot>,
    /// Where each argument begins.
    starts: Vec<usize>,
}

impl Arguments {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Adds an argument.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.starts.push(self.slots.len());
        self.slots.resize(self.slots.len() + bytes.len().div_ceil(128).max(1), Slot([0; 128]));
        self.put(self.len() - 1, 0, bytes);
    }

    /// Writes bytes of an argument from byte `offset` on.
    ///
    /// # Panics
    /// Where the last argument ends before them.
    pub(crate) fn put(&mut self, argument: usize, offset: usize, bytes: &[u8]) {
        let (mut at, mut rest) = (self.starts[argument] * 128 + offset, bytes);
        while !rest.is_empty() {
            let place = &mut self.slots[at / 128].0[at % 128..];
            let (now, later) = rest.split_at(rest.len().min(place.len()));
            place[..now.len()].copy_from_slice(now);
            (at, rest) = (at + now.len(), later);
        }
    }

    /// The first slot of an argument: all of it, unless it was added as more than 128 bytes.
    pub(crate) fn first_slot(&mut self, argument: usize) -> &mut Slot {
        &mut self.slots[self.starts[argument]]
    }

    /// The slots of each argument, and those behind it.
    fn iter(&self) -> impl Iterator<Item = &[Slot]> {
        self.starts.iter().map(|start| &self.slots[*start..])
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) overlaps_previous: bool,
}

impl Geometry {
    /// The attributes that are needed, and how many there are.
    fn attributes(&self) -> ([sys::CUlaunchAttribute; 2], usize) {
        use sys::CUlaunchAttributeID_enum::*;
        use sys::CUlaunchAttributeValue as Value;
        let attribute = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let none = attribute(CU_LAUNCH_ATTRIBUTE_IGNORE, Value { cooperative: 0 });
        let (mut attributes, mut count) = ([none; 2], 0);
        if self.cluster != [1; 3] {
            let [x, y, z] = self.cluster;
            let dims = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            let value = Value { clusterDim: dims };
            attributes[count] = attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value);
            count += 1;
        }
        if self.overlaps_previous {
            let id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            let value = Value { programmaticStreamSerializationAllowed: 1 };
            attributes[count] = attribute(id, value);
            count += 1;
        }
        (attributes, count)
    }

    fn config(
        &self,
        stream: usize,
        attributes: &mut [sys::CUlaunchAttribute],
    ) -> sys::CUlaunchConfig {
        let (grid, block) = (self.grid, self.block);
        sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: self.shared_bytes,
            hStream: stream as sys::CUstream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that the driver would read for an argument of `len` bytes.
    fn read(arguments: &Arguments, index: usize, len: usize) -> Vec<u8> {
        let slots = arguments.iter().nth(index).unwrap();
        slots.iter().flat_map(|slot| slot.0).take(len).collect()
    }

    #[test]
    fn arguments_of_any_size_lie_in_a_row() {
        let large: Vec<u8> = (0..300u32).map(|n| n as u8).collect();
        let mut arguments = Arguments::default();
        [&[1, 2, 3, 4][..], &large, &[], &[9; 128]].iter().for_each(|bytes| arguments.push(bytes));
        assert_eq!((arguments.len(), arguments.slots.len()), (4, 1 + 3 + 1 + 1));
        assert_eq!(read(&arguments, 0, 4), [1, 2, 3, 4]);
        assert_eq!(read(&arguments, 1, 300), large);
        arguments.put(1, 252, &[0xAA; 8]);
        assert_eq!(
            read(&arguments, 1, 300)[250..262],
            [&[250, 251][..], &[0xAA; 8], &[4, 5]].concat()
        );
        assert_eq!(read(&arguments, 3, 128), [9; 128]);
        let addresses = arguments.iter().map(|slots| slots.as_ptr() as usize);
        assert!(addresses.into_iter().all(|address| address.is_multiple_of(128)));
    }
}
