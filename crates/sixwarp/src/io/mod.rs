//! Tensors in files: NumPy's `.npy` and safetensors.

mod npy;
mod safetensors;

pub use npy::{parse_npy, read_npy, to_npy, write_npy};
pub use safetensors::{parse_safetensors, read_safetensors, to_safetensors, write_safetensors};

use crate::Error;
use problem::{DType, HostVec};
use std::path::Path;

/// A tensor from a file: C-contiguous elements and their shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extent of each dimension.
    pub shape: Vec<u64>,
    /// Elements, last dimension fastest.
    pub data: HostVec,
}

impl Tensor {
    /// A tensor of `shape`.
    ///
    /// # Errors
    /// If the elements are not as many as the shape says.
    pub fn new(shape: Vec<u64>, data: HostVec) -> Result<Self, Error> {
        let elements = elements(&shape).unwrap_or(u64::MAX);
        match data.as_ref().len() as u64 == elements {
            true => Ok(Self { shape, data }),
            false => Err(Error::File(format!(
                "a tensor of shape {shape:?} has {elements} elements, not {}",
                data.as_ref().len()
            ))),
        }
    }
}

/// Number of elements, `None` on overflow.
fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent))
}

/// Reads a whole file, naming it in errors.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|e| Error::File(format!("{}: {e}", path.display())))
}

/// Writes a file whole or not at all, naming it in errors.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    files::write(path, bytes).map_err(|error| Error::File(error.to_string()))
}

/// Adds the file's name to an error in its contents.
fn in_file(path: &Path, error: Error) -> Error {
    match error {
        Error::File(message) => Error::File(format!("{}: {message}", path.display())),
        other => other,
    }
}

/// Element types that files hold and engines read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Float(DType),
    I32,
    I64,
    U8,
}

impl Stored {
    fn bytes(self) -> u64 {
        match self {
            Stored::Float(dtype) => dtype.bytes(),
            Stored::I32 => 4,
            Stored::I64 => 8,
            Stored::U8 => 1,
        }
    }

    fn of(data: &HostVec) -> Self {
        match data {
            HostVec::F64(_) => Stored::Float(DType::F64),
            HostVec::F32(_) => Stored::Float(DType::F32),
            HostVec::F16(_) => Stored::Float(DType::F16),
            HostVec::Bf16(_) => Stored::Float(DType::Bf16),
            HostVec::E4m3(_) => Stored::Float(DType::E4m3),
            HostVec::I32(_) => Stored::I32,
            HostVec::U8(_) => Stored::U8,
        }
    }

    /// Reads little-endian elements; 64-bit integers must fit in 32 bits.
    fn decode(self, bytes: &[u8]) -> Result<HostVec, Error> {
        Ok(match self {
            Stored::Float(dtype) => HostVec::from_bytes(dtype, bytes),
            Stored::U8 => HostVec::U8(bytes.to_vec()),
            Stored::I32 => {
                let words = bytes.as_chunks::<4>().0.iter();
                HostVec::I32(words.map(|b| i32::from_le_bytes(*b)).collect())
            }
            Stored::I64 => {
                let words = bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b));
                HostVec::I32(words.map(narrow).collect::<Result<_, _>>()?)
            }
        })
    }
}

fn narrow(x: i64) -> Result<i32, Error> {
    let message = || format!("the 64-bit integer {x} does not fit in 32 bits");
    i32::try_from(x).map_err(|_| Error::File(message()))
}

/// Reads elements of a tensor whose bytes must be exactly those of its shape.
fn tensor(shape: Vec<u64>, stored: Stored, bytes: &[u8]) -> Result<Tensor, Error> {
    let needed = elements(&shape).and_then(|n| n.checked_mul(stored.bytes()));
    if needed != Some(bytes.len() as u64) {
        let found = bytes.len();
        return Err(Error::File(match needed {
            Some(needed) => format!("shape {shape:?} needs {needed} bytes of data, not {found}"),
            None => format!("shape {shape:?} has too many elements"),
        }));
    }
    Ok(Tensor { shape, data: stored.decode(bytes)? })
}
