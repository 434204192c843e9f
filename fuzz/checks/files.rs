//! No bytes make the readers of tensor files panic, and what they read is written and read back the
//! same.

use sixwarp::io::{parse_npy, parse_safetensors, to_npy, to_safetensors};

/// Panics where they do not keep that promise.
pub fn check(bytes: &[u8]) {
    if let Ok(tensor) = parse_npy(bytes) {
        let again = parse_npy(&to_npy(&tensor)).expect("own file");
        assert_eq!(again.shape, tensor.shape);
        assert_eq!(again.data.to_bytes(), tensor.data.to_bytes());
    }
    if let Ok(tensors) = parse_safetensors(bytes) {
        let again = parse_safetensors(&to_safetensors(&tensors)).expect("own file");
        assert!(again.keys().eq(tensors.keys()));
        for (name, tensor) in &tensors {
            assert_eq!(again[name].data.to_bytes(), tensor.data.to_bytes(), "{name}");
        }
    }
}
