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

    /// Queues the kernel on a stream. Each slot holds one argument, in order; `Program::check` has
    /// compared them with the parameters.
    pub(crate) fn launch(self, geometry: &Geometry, stream: usize, args: &[Slot]) -> Result<()> {
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
        for (pointer, slot) in pointers.iter_mut().zip(args) {
            *pointer = std::ptr::from_ref(slot).cast_mut().cast();
        }
        let function = self.0 as sys::CUfunction;
        // SAFETY: there is one pointer per parameter, each to 128 bytes, and no parameter is larger;
        // the driver copies them before it returns.
        let result =
            unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), null_mut()) };
        check("cuLaunchKernelEx", result)
    }
}

/// Room for one kernel argument, aligned as a tensor map must be.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Slot(pub(crate) [u8; 128]);

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
