use std::fmt;
use std::str::FromStr;

/// Element types of queries, keys, values and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE double precision; on the CPU only.
    F64,
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// Eight bits ([`E4m3`](crate::E4m3)); keys and values only.
    E4m3,
}

impl DType {
    /// Size of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            DType::F64 => 8,
            DType::F32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::E4m3 => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::E4m3 => "e4m3",
        })
    }
}

impl FromStr for DType {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "f64" | "float64" | "double" => Ok(DType::F64),
            "f32" | "float32" => Ok(DType::F32),
            "f16" | "float16" | "half" => Ok(DType::F16),
            "bf16" | "bfloat16" => Ok(DType::Bf16),
            "e4m3" | "float8_e4m3fn" => Ok(DType::E4m3),
            _ => Err(format!("unknown dtype `{s}`: one of f64, f32, f16, bf16, e4m3")),
        }
    }
}
