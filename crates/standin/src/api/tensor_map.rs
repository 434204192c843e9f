//! Tensor maps, encoded as the simulator and the hardware read them.

use crate::guard::{driver, give};
use crate::result::{CudaResult, Outcome};
use crate::settings::settings;
use program::{
    BufferId, ElementType, L2Promotion, MAX_RANK, OobFill, PixelBox, Swizzle, TensorMap,
};
use std::ffi::{c_int, c_uint, c_void};

/// The 128 bytes of a map.
pub type Encoded = [u8; 128];

/// Copies an array of the program.
///
/// # Safety
/// `from` is null or has `count` elements.
unsafe fn list<T: Copy>(from: *const T, count: usize) -> Outcome<Vec<T>> {
    match (from.is_null(), count) {
        (_, 0) => Ok(Vec::new()),
        (true, _) => Err(CudaResult::INVALID_VALUE),
        // SAFETY: not null; the caller vouches for the number.
        (false, count) => Ok((0..count).map(|i| unsafe { from.add(i).read_unaligned() }).collect()),
    }
}

fn of<T: Copy>(all: &[T], number: c_uint) -> Outcome<T> {
    all.get(number as usize).copied().ok_or(CudaResult::INVALID_VALUE)
}

/// Element types by their numbers in the header.
const ELEMENTS: [ElementType; 16] = {
    use ElementType::*;
    [
        U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16, F32Ftz, Tf32, Tf32Ftz, B4x16, B4x16P64,
        B6x16P32,
    ]
};
/// Swizzles by their numbers in the header.
const SWIZZLES: [Swizzle; 7] = Swizzle::ALL;
const PROMOTIONS: [L2Promotion; 4] = {
    use L2Promotion::*;
    [None, B64, B128, B256]
};
const FILLS: [OobFill; 2] = [OobFill::Zero, OobFill::Nan];

/// The map, if the driver would take it; what is wrong with it is told, which the driver does not.
fn encode(function: &str, map: &TensorMap, address: u64) -> Outcome<Encoded> {
    let mut wrong: Vec<String> = match map.check() {
        Ok(_) => Vec::new(),
        Err(violations) => violations.iter().map(ToString::to_string).collect(),
    };
    if !address.is_multiple_of(16) {
        wrong.push(format!("the address {address:#x} is no multiple of 16"));
    }
    if map.swizzle.needs_sm100() && settings().sm < 100 {
        wrong.push(format!("swizzle {:?} needs sm_100", map.swizzle));
    }
    if wrong.is_empty() {
        return Ok(map.encode(address));
    }
    eprintln!("sixwarp: {function}: {}", wrong.join("; "));
    Err(CudaResult::INVALID_VALUE)
}

fn refuse_interleaved(function: &str, interleave: c_uint) -> Outcome<()> {
    if interleave == 0 {
        return Ok(());
    }
    eprintln!("sixwarp: {function}: interleaved layouts are not simulated");
    Err(CudaResult::NOT_SUPPORTED)
}

/// Corners of a map of `rank` dimensions, of which two have none.
///
/// # Safety
/// `from` is null or has `rank` − 2 elements.
unsafe fn corners(from: *const c_int, rank: usize) -> Outcome<[i32; MAX_RANK - 2]> {
    // SAFETY: the caller's promise.
    let given = unsafe { list(from, rank - 2) }?;
    Ok(std::array::from_fn(|i| given.get(i).copied().unwrap_or(0)))
}

driver! {
    /// Encodes a tiled map.
    fn [cuTensorMapEncodeTiled](
        encoded: *mut Encoded, element: c_uint, rank: c_uint, address: *const c_void, dims: *const u64,
        strides: *const u64, box_dims: *const c_uint, element_strides: *const c_uint, interleave: c_uint,
        swizzle: c_uint, promotion: c_uint, fill: c_uint,
    ) {
        let count = rank as usize;
        if !(1..=MAX_RANK).contains(&count) || address.is_null() {
            return Err(CudaResult::INVALID_VALUE);
        }
        refuse_interleaved("cuTensorMapEncodeTiled", interleave)?;
        // SAFETY: the program's arrays have as many elements as there are dimensions, strides one fewer.
        let map = unsafe {
            TensorMap {
                buffer: BufferId(0),
                offset: 0,
                element: of(&ELEMENTS, element)?,
                dims: list(dims, count)?,
                strides: list(strides, count - 1)?,
                box_dims: list(box_dims, count)?,
                element_strides: list(element_strides, count)?,
                im2col: None,
                swizzle: of(&SWIZZLES, swizzle)?,
                oob_fill: of(&FILLS, fill)?,
                l2_promotion: of(&PROMOTIONS, promotion)?,
            }
        };
        // SAFETY: the program's pointer.
        unsafe { give(encoded, encode("cuTensorMapEncodeTiled", &map, address.addr() as u64)?) }
    }

    /// Encodes an im2col map. Corners come in the order of dimensions, as CUTLASS and Triton give them.
    fn [cuTensorMapEncodeIm2col](
        encoded: *mut Encoded, element: c_uint, rank: c_uint, address: *const c_void, dims: *const u64,
        strides: *const u64, lower: *const c_int, upper: *const c_int, channels: c_uint, pixels: c_uint,
        element_strides: *const c_uint, interleave: c_uint, swizzle: c_uint, promotion: c_uint, fill: c_uint,
    ) {
        let count = rank as usize;
        if !(3..=MAX_RANK).contains(&count) || address.is_null() {
            return Err(CudaResult::INVALID_VALUE);
        }
        refuse_interleaved("cuTensorMapEncodeIm2col", interleave)?;
        // SAFETY: the program's arrays have as many elements as there are dimensions, strides one fewer,
        // corners two fewer.
        let map = unsafe {
            TensorMap {
                buffer: BufferId(0),
                offset: 0,
                element: of(&ELEMENTS, element)?,
                dims: list(dims, count)?,
                strides: list(strides, count - 1)?,
                box_dims: vec![channels, pixels],
                element_strides: list(element_strides, count)?,
                im2col: Some(PixelBox { lower: corners(lower, count)?, upper: corners(upper, count)? }),
                swizzle: of(&SWIZZLES, swizzle)?,
                oob_fill: of(&FILLS, fill)?,
                l2_promotion: of(&PROMOTIONS, promotion)?,
            }
        };
        // SAFETY: the program's pointer.
        unsafe { give(encoded, encode("cuTensorMapEncodeIm2col", &map, address.addr() as u64)?) }
    }

    /// Points a map at another address.
    fn [cuTensorMapReplaceAddress](encoded: *mut Encoded, address: *const c_void) {
        let address = address.addr() as u64;
        if encoded.is_null() || !address.is_multiple_of(16) {
            return Err(CudaResult::INVALID_VALUE);
        }
        // SAFETY: the program's map, whose first eight bytes are its address.
        unsafe { encoded.cast::<[u8; 8]>().write_unaligned(address.to_le_bytes()) };
        Ok(())
    }
}
