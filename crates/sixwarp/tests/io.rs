//! Files: round trips, what NumPy writes, and every way a file can be cut short.

use half::{bf16, f16};
use sixwarp::HostVec;
use sixwarp::io::{Tensor, parse_npy, parse_safetensors, to_npy, to_safetensors};
use std::collections::BTreeMap;

fn tensors() -> BTreeMap<String, Tensor> {
    let tensor = |shape: &[u64], data| Tensor::new(shape.to_vec(), data).unwrap();
    BTreeMap::from([
        ("a".to_string(), tensor(&[2, 3], HostVec::F32(vec![1.0, -2.0, 0.5, f32::NAN, 4.0, 5.0]))),
        ("b".to_string(), tensor(&[2], HostVec::Bf16(vec![bf16::ONE, bf16::NEG_INFINITY]))),
        ("c".to_string(), tensor(&[], HostVec::F16(vec![f16::EPSILON]))),
        ("d".to_string(), tensor(&[0, 7], HostVec::I32(vec![]))),
        ("e".to_string(), tensor(&[1, 2, 1], HostVec::I32(vec![-1, 7]))),
        ("f".to_string(), tensor(&[3], HostVec::U8(vec![1, 2, 255]))),
        ("g".to_string(), tensor(&[2], HostVec::F64(vec![1e300, -0.1]))),
    ])
}

fn same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape, b.shape);
    assert_eq!(a.data.to_bytes(), b.data.to_bytes());
    assert_eq!(std::mem::discriminant(&a.data), std::mem::discriminant(&b.data));
}

#[test]
fn npy_survives_a_round_trip_and_every_cut_is_an_error() {
    for tensor in tensors().values() {
        let bytes = to_npy(tensor);
        assert_eq!(bytes.len() as u64 % 64, tensor.data.to_bytes().len() as u64 % 64);
        same(&parse_npy(&bytes).unwrap(), tensor);
        for cut in 0..bytes.len() {
            assert!(parse_npy(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn safetensors_survive_a_round_trip_and_every_cut_is_an_error() {
    let tensors = tensors();
    let bytes = to_safetensors(&tensors);
    let read = parse_safetensors(&bytes).unwrap();
    assert_eq!(read.len(), tensors.len());
    for (name, tensor) in &tensors {
        same(&read[name], tensor);
    }
    for cut in 0..bytes.len() {
        assert!(parse_safetensors(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn no_change_of_a_few_bytes_makes_a_reader_panic() {
    let mut rng = cases::Rng::new(3);
    let files =
        tensors().values().map(to_npy).chain([to_safetensors(&tensors())]).collect::<Vec<_>>();
    for file in files {
        for _ in 0..500 {
            let mut bytes = file.clone();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(bytes.len().min(300) as u64) as usize;
                bytes[at] = rng.bits() as u8;
            }
            let _ = (parse_npy(&bytes), parse_safetensors(&bytes));
        }
    }
}

#[test]
fn what_numpy_writes_is_read() {
    // numpy.save of numpy.array([3, -1]), an int64 array.
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }";
    bytes.extend(format!("{header:117}\n").bytes());
    bytes.extend(3i64.to_le_bytes());
    bytes.extend((-1i64).to_le_bytes());
    assert_eq!(parse_npy(&bytes).unwrap().data, HostVec::I32(vec![3, -1]));
    let at = bytes.len() - 16;
    bytes[at..at + 8].copy_from_slice(&(1i64 << 40).to_le_bytes());
    let error = parse_npy(&bytes).unwrap_err().to_string();
    assert_eq!(error, "the 64-bit integer 1099511627776 does not fit in 32 bits");
}

#[test]
fn mistakes_are_named() {
    let header = |json: &str| {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.bytes());
        bytes.extend([0; 8]);
        parse_safetensors(&bytes).unwrap_err().to_string()
    };
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        header(&format!(
            r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#
        ))
    };
    assert!(header("[]").starts_with("the header is not a JSON object"));
    assert_eq!(
        entry("C64", "[1]", "[0,8]"),
        "tensor `x`: element type `C64` is not one of F64, F32, F16, BF16, F8_E4M3, I32, I64, U8, BOOL"
    );
    assert_eq!(entry("F32", "[3]", "[0,8]"), "tensor `x`: shape [3] needs 12 bytes of data, not 8");
    assert_eq!(
        entry("F32", "[2]", "[4,12]"),
        "tensor `x`: bytes 4..12 are not within the file's 8 of data"
    );
    assert_eq!(
        entry("F32", "[4294967296,4294967296]", "[0,8]"),
        "tensor `x`: shape [4294967296, 4294967296] has too many elements"
    );
    assert_eq!(
        entry("F32", "[2]", "[8,0]"),
        "tensor `x`: bytes 8..0 are not within the file's 8 of data"
    );
}
