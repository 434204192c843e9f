//! NumPy's `.npy`: a magic string, a version, the length of a Python dictionary, the dictionary with
//! `descr`, `fortran_order` and `shape`, then the elements.
//!
//! bfloat16 has no NumPy type; the `ml_dtypes` package saves it as two raw bytes, `|V2`, and so do
//! we.

use super::{Stored, Tensor, in_file, read, tensor, write};
use crate::Error;
use problem::DType;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a `.npy` file.
///
/// # Errors
/// If the file cannot be read or is not a little-endian, C-ordered array of f64, f32, f16, bf16
/// (`V2`), i32, i64 (that fits in 32 bits), u8 or bool.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor, Error> {
    let path = path.as_ref();
    parse_npy(&read(path)?).map_err(|e| in_file(path, e))
}

/// Writes a `.npy` file.
///
/// # Errors
/// If the file cannot be written.
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), Error> {
    write(path.as_ref(), &to_npy(tensor))
}

fn wrong(message: impl Into<String>) -> Error {
    Error::File(message.into())
}

/// Reads the bytes of a `.npy` file.
///
/// # Errors
/// As [`read_npy`].
pub fn parse_npy(bytes: &[u8]) -> Result<Tensor, Error> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("not a .npy file"))?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(|| wrong("the file ends early"))?;
    let width = if version[0] == 1 { 2 } else { 4 };
    let (length, rest) =
        rest.split_at_checked(width).ok_or_else(|| wrong("the file ends early"))?;
    let length = length.iter().rev().fold(0usize, |n, b| n << 8 | *b as usize);
    let (header, data) =
        rest.split_at_checked(length).ok_or_else(|| wrong("the header ends early"))?;
    let header = std::str::from_utf8(header).map_err(|_| wrong("the header is not text"))?;
    let stored = stored(field(header, "descr")?)?;
    if !field(header, "fortran_order")?.starts_with("False") {
        return Err(wrong("the array is in Fortran order; save it in C order"));
    }
    tensor(shape(field(header, "shape")?)?, stored, data)
}

/// What follows `'name':` in the dictionary.
fn field<'h>(header: &'h str, name: &str) -> Result<&'h str, Error> {
    let at = header.find(&format!("'{name}'")).or(header.find(&format!("\"{name}\"")));
    let after = at.map(|at| &header[at + name.len() + 2..]);
    let value = after.and_then(|s| s.trim_start().strip_prefix(':'));
    value.map(str::trim_start).ok_or_else(|| wrong(format!("the header has no `{name}`")))
}

fn stored(value: &str) -> Result<Stored, Error> {
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let text = quote.and_then(|q| value[1..].split(q).next());
    let descr = text.ok_or_else(|| wrong("`descr` is not a plain element type"))?;
    match descr {
        "<f8" => Ok(Stored::Float(DType::F64)),
        "<f4" => Ok(Stored::Float(DType::F32)),
        "<f2" => Ok(Stored::Float(DType::F16)),
        "<V2" | "|V2" => Ok(Stored::Float(DType::Bf16)),
        "<V1" | "|V1" => Ok(Stored::Float(DType::E4m3)),
        "<i4" => Ok(Stored::I32),
        "<i8" => Ok(Stored::I64),
        "|u1" | "<u1" | "|b1" => Ok(Stored::U8),
        _ => Err(wrong(format!(
            "element type `{descr}` is not one of <f8, <f4, <f2, |V2 (bf16), |V1 (e4m3), <i4, <i8, |u1, |b1"
        ))),
    }
}

fn shape(value: &str) -> Result<Vec<u64>, Error> {
    let inside = value.strip_prefix('(').and_then(|s| s.split(')').next());
    let inside = inside.ok_or_else(|| wrong("`shape` is not a tuple"))?;
    let extents = inside.split(',').map(str::trim).filter(|s| !s.is_empty());
    extents
        .map(|s| s.parse().map_err(|_| wrong(format!("`{s}` is not an extent of a shape"))))
        .collect()
}

/// The bytes of a `.npy` file.
pub fn to_npy(tensor: &Tensor) -> Vec<u8> {
    let descr = match Stored::of(&tensor.data) {
        Stored::Float(DType::F64) => "<f8",
        Stored::Float(DType::F32) => "<f4",
        Stored::Float(DType::F16) => "<f2",
        Stored::Float(DType::Bf16) => "|V2",
        Stored::Float(DType::E4m3) => "|V1",
        Stored::I32 => "<i4",
        Stored::I64 => "<i8",
        Stored::U8 => "|u1",
    };
    let extents: String = tensor.shape.iter().map(|n| format!("{n}, ")).collect();
    let mut header = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}",
        extents.trim_end()
    );
    // Data starts at a multiple of 64 bytes: 10 come before the header, a newline ends it.
    let padding = (10 + header.len() + 1).next_multiple_of(64) - (10 + header.len() + 1);
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(tensor.data.to_bytes());
    bytes
}
