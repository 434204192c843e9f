//! The driver's encoding of tensor maps.

use super::{Result, Slot};
use crate::error::check;
use cudarc::driver::sys;
use program::{ElementType, L2Promotion, OobFill, PixelBox, Swizzle, TensorMap};
use std::ffi::c_void;

/// What `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` makes of `map` over a buffer at `address`.
///
/// # Panics
/// Where the arrays do not have the lengths that `TensorMap::check` demands (rules T2 and T14).
pub(crate) fn encode_tensor_map(map: &TensorMap, address: u64) -> Result<[u8; 128]> {
    let rank = map.dims.len();
    assert!(rank >= 1 && map.strides.len() + 1 == rank, "rule T2");
    assert!(map.element_strides.len() == rank, "rule T2");
    let encoded = match &map.im2col {
        Some(pixels) => encode_im2col(map, pixels, address),
        None => encode_tiled(map, address),
    }?;
    let mut bytes = [0; 128];
    for (to, word) in bytes.chunks_exact_mut(8).zip(encoded.opaque) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

/// An im2col map; dimensions, strides and element strides have the lengths that rule T2 demands.
fn encode_im2col(map: &TensorMap, pixels: &PixelBox, address: u64) -> Result<sys::CUtensorMap> {
    let &[channels, count] = map.box_dims.as_slice() else { panic!("rule T2") };
    assert!((3..=5).contains(&map.dims.len()), "rule T14");
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the arrays have the lengths the driver derives from the rank (asserted by the caller), and
    // corners have three elements, which is as many as the largest rank needs; the map is aligned by its
    // type. The address is stored, not followed.
    let result = unsafe {
        sys::cuTensorMapEncodeIm2col(
            &mut encoded,
            element(map.element),
            map.dims.len() as u32,
            address.wrapping_add(map.offset) as usize as *mut c_void,
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            pixels.lower.as_ptr(),
            pixels.upper.as_ptr(),
            channels,
            count,
            map.element_strides.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            l2_promotion(map.l2_promotion),
            oob_fill(map.oob_fill),
        )
    };
    check("cuTensorMapEncodeIm2col", result)?;
    Ok(encoded)
}

/// A tiled map; dimensions, strides and element strides have the lengths that rule T2 demands.
fn encode_tiled(map: &TensorMap, address: u64) -> Result<sys::CUtensorMap> {
    let rank = map.dims.len();
    assert!(map.box_dims.len() == rank, "rule T2");
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the arrays have the lengths the driver derives from the rank (asserted here and by the
    // caller); the map is aligned by its type. The address is stored, not followed.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            element(map.element),
            rank as u32,
            address.wrapping_add(map.offset) as usize as *mut c_void,
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            map.box_dims.as_ptr(),
            map.element_strides.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            l2_promotion(map.l2_promotion),
            oob_fill(map.oob_fill),
        )
    };
    check("cuTensorMapEncodeTiled", result)?;
    Ok(encoded)
}

/// Points an encoded map at another address.
pub(crate) fn replace_map_address(map: &mut Slot, address: u64) -> Result<()> {
    let map: *mut sys::CUtensorMap = std::ptr::from_mut(map).cast();
    // SAFETY: a slot has the size of a map and at least its alignment, and no bytes are invalid in
    // either. The address is stored, not followed.
    let result = unsafe { sys::cuTensorMapReplaceAddress(map, address as usize as *mut c_void) };
    check("cuTensorMapReplaceAddress", result)
}

fn element(element: ElementType) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType_enum::*;
    match element {
        ElementType::U8 => CU_TENSOR_MAP_DATA_TYPE_UINT8,
        ElementType::U16 => CU_TENSOR_MAP_DATA_TYPE_UINT16,
        ElementType::U32 => CU_TENSOR_MAP_DATA_TYPE_UINT32,
        ElementType::S32 => CU_TENSOR_MAP_DATA_TYPE_INT32,
        ElementType::U64 => CU_TENSOR_MAP_DATA_TYPE_UINT64,
        ElementType::S64 => CU_TENSOR_MAP_DATA_TYPE_INT64,
        ElementType::F16 => CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        ElementType::F32 => CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        ElementType::F64 => CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        ElementType::Bf16 => CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        ElementType::F32Ftz => CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
        ElementType::Tf32 => CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        ElementType::Tf32Ftz => CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
        ElementType::B4x16 => CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
        ElementType::B4x16P64 => CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
        ElementType::B6x16P32 => CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B,
    }
}

fn swizzle(swizzle: Swizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle_enum::*;
    match swizzle {
        Swizzle::None => CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => CU_TENSOR_MAP_SWIZZLE_128B,
        Swizzle::B128Atom32 => CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
        Swizzle::B128Atom32Flip8 => CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
        Swizzle::B128Atom64 => CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B,
    }
}

fn l2_promotion(promotion: L2Promotion) -> sys::CUtensorMapL2promotion {
    use sys::CUtensorMapL2promotion_enum::*;
    match promotion {
        L2Promotion::None => CU_TENSOR_MAP_L2_PROMOTION_NONE,
        L2Promotion::B64 => CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        L2Promotion::B128 => CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        L2Promotion::B256 => CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}

fn oob_fill(fill: OobFill) -> sys::CUtensorMapFloatOOBfill {
    use sys::CUtensorMapFloatOOBfill_enum::*;
    match fill {
        OobFill::Zero => CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        OobFill::Nan => CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    }
}
