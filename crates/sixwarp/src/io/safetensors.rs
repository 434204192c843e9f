//! safetensors: eight bytes with the length of a JSON header, the header with each tensor's
//! `dtype`, `shape` and `data_offsets`, then the elements.

use super::{Stored, Tensor, in_file, read, tensor, write};
use crate::Error;
use problem::DType;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The format's own limit on the header.
const MOST_HEADER_BYTES: u64 = 100_000_000;

/// Reads every tensor of a safetensors file.
///
/// # Errors
/// If the file cannot be read, is malformed, or holds element types other than F64, F32, F16, BF16,
/// I32, I64 (that fits in 32 bits), U8 and BOOL.
pub fn read_safetensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>, Error> {
    let path = path.as_ref();
    parse_safetensors(&read(path)?).map_err(|e| in_file(path, e))
}

/// Writes tensors to a safetensors file.
///
/// # Errors
/// If the file cannot be written.
pub fn write_safetensors(
    path: impl AsRef<Path>,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<(), Error> {
    write(path.as_ref(), &to_safetensors(tensors))
}

fn wrong(message: impl Into<String>) -> Error {
    Error::File(message.into())
}

/// Reads the bytes of a safetensors file.
///
/// # Errors
/// As [`read_safetensors`].
pub fn parse_safetensors(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, Error> {
    let (length, rest) =
        bytes.split_first_chunk::<8>().ok_or_else(|| wrong("not a safetensors file"))?;
    let length = u64::from_le_bytes(*length);
    if length > MOST_HEADER_BYTES || length > rest.len() as u64 {
        return Err(wrong(format!("the header says it has {length} bytes")));
    }
    let (header, data) = rest.split_at(length as usize);
    let header: Map<String, Value> = serde_json::from_slice(header)
        .map_err(|e| wrong(format!("the header is not a JSON object: {e}")))?;
    let entries = header.iter().filter(|(name, _)| *name != "__metadata__");
    entries
        .map(|(name, entry)| match parse_entry(entry, data) {
            Ok(tensor) => Ok((name.clone(), tensor)),
            Err(error) => Err(wrong(format!("tensor `{name}`: {error}"))),
        })
        .collect()
}

fn parse_entry(entry: &Value, data: &[u8]) -> Result<Tensor, Error> {
    let stored = stored(entry["dtype"].as_str().unwrap_or("missing"))?;
    let shape =
        numbers(&entry["shape"]).ok_or_else(|| wrong("`shape` is not a list of extents"))?;
    let offsets = numbers(&entry["data_offsets"]);
    let Some(&[begin, end]) = offsets.as_deref() else {
        return Err(wrong("`data_offsets` is not a pair of numbers"));
    };
    let range = begin as usize..end as usize;
    let found = data.get(range).ok_or_else(|| {
        wrong(format!("bytes {begin}..{end} are not within the file's {} of data", data.len()))
    })?;
    tensor(shape, stored, found)
}

fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

fn stored(name: &str) -> Result<Stored, Error> {
    match name {
        "F64" => Ok(Stored::Float(DType::F64)),
        "F32" => Ok(Stored::Float(DType::F32)),
        "F16" => Ok(Stored::Float(DType::F16)),
        "BF16" => Ok(Stored::Float(DType::Bf16)),
        "F8_E4M3" => Ok(Stored::Float(DType::E4m3)),
        "I32" => Ok(Stored::I32),
        "I64" => Ok(Stored::I64),
        "U8" | "BOOL" => Ok(Stored::U8),
        _ => Err(wrong(format!(
            "element type `{name}` is not one of F64, F32, F16, BF16, F8_E4M3, I32, I64, U8, BOOL"
        ))),
    }
}

/// The bytes of a safetensors file.
pub fn to_safetensors(tensors: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (name, tensor) in tensors {
        let dtype = match Stored::of(&tensor.data) {
            Stored::Float(DType::F64) => "F64",
            Stored::Float(DType::F32) => "F32",
            Stored::Float(DType::F16) => "F16",
            Stored::Float(DType::Bf16) => "BF16",
            Stored::Float(DType::E4m3) => "F8_E4M3",
            Stored::I32 => "I32",
            Stored::I64 => "I64",
            Stored::U8 => "U8",
        };
        let begin = data.len();
        data.extend(tensor.data.to_bytes());
        let offsets = [begin, data.len()];
        let entry = json!({ "dtype": dtype, "shape": tensor.shape, "data_offsets": offsets });
        header.insert(name.clone(), entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    bytes
}
