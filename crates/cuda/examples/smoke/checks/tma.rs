use super::{Outcome, buffer, kernels, launch, program, same};
use program::{
    Access, Argument, BufferId, ElementType, L2Promotion, OobFill, Program, Swizzle, TensorMap,
};
use sixwarp_cuda::{Device, DeviceBuffer};

const COLUMNS: usize = 80;
const ROWS: usize = 40;
const BOX_ROWS: usize = 24;
/// Where boxes are loaded from: inside, over each edge, and outside.
const PLACES: [(i32, i32); 5] = [(8, 3), (-8, -5), (64, 30), (0, 39), (200, 0)];

/// Where a box goes that was loaded from `place`: stores may not start before the tensor.
fn stored_at(place: (i32, i32)) -> (i32, i32) {
    (place.0.max(0), place.1.max(0))
}

pub fn none(device: &Device) -> Outcome {
    round_trip(device, Swizzle::None, 64)
}

pub fn b32(device: &Device) -> Outcome {
    round_trip(device, Swizzle::B32, 16)
}

pub fn b64(device: &Device) -> Outcome {
    round_trip(device, Swizzle::B64, 32)
}

pub fn b128(device: &Device) -> Outcome {
    round_trip(device, Swizzle::B128, 64)
}

fn map(buffer: usize, swizzle: Swizzle, width: usize) -> Argument {
    Argument::TensorMap(TensorMap {
        buffer: BufferId(buffer),
        offset: 0,
        element: ElementType::U16,
        dims: vec![COLUMNS as u64, ROWS as u64],
        strides: vec![2 * COLUMNS as u64],
        box_dims: vec![width as u32, BOX_ROWS as u32],
        element_strides: vec![1, 1],
        im2col: None,
        swizzle,
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::None,
    })
}

/// One box of `width` columns, loaded from `source`, dumped to `raw` and stored to `copy`.
pub fn round_trip_program(swizzle: Swizzle, width: usize, place: (i32, i32)) -> Program {
    let bytes = 2 * width * BOX_ROWS;
    let buffers = vec![
        buffer("source", 2 * COLUMNS * ROWS, Access::Read),
        buffer("copy", 2 * COLUMNS * ROWS, Access::Write),
        buffer("raw", bytes, Access::Write),
    ];
    let args = vec![
        map(0, swizzle, width),
        map(1, swizzle, width),
        Argument::Buffer(BufferId(2), 0),
        Argument::U32(place.0 as u32),
        Argument::U32(place.1 as u32),
        Argument::U32(stored_at(place).0 as u32),
        Argument::U32(stored_at(place).1 as u32),
        Argument::U32(bytes as u32),
    ];
    let mut launch = launch("round_trip", 1, 128, args);
    launch.shared_bytes = (bytes + 1024) as u32;
    program(kernels::TMA, buffers, vec![launch])
}

fn round_trip(device: &Device, swizzle: Swizzle, width: usize) -> Outcome {
    let source: Vec<u16> = (0..COLUMNS * ROWS).map(|i| i as u16 + 1).collect();
    let bytes = |values: &[u16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    for place in PLACES {
        let program = round_trip_program(swizzle, width, place);
        let untouched = vec![0xFF; 2 * COLUMNS * ROWS];
        let mut buffers = [bytes(&source), untouched, vec![0xFF; 2 * width * BOX_ROWS]];
        device.run_host(&program, &mut buffers)?;
        let (raw, copy) = expected(&source, swizzle, width, place);
        same(&format!("shared memory of the box at {place:?}"), &buffers[2], &bytes(&raw))?;
        same(&format!("copy of the box at {place:?}"), &buffers[1], &bytes(&copy))?;
    }
    Ok(format!("{} boxes of {width} x {BOX_ROWS}, each byte in its place", PLACES.len()))
}

/// A binding that moves to other buffers does there what a new binding does: its tensor maps follow.
pub fn moved(device: &Device) -> Outcome {
    const WIDTH: usize = 64;
    let source: Vec<u16> = (0..COLUMNS * ROWS).map(|i| i as u16 + 1).collect();
    let bytes = |values: &[u16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let program = round_trip_program(Swizzle::B128, WIDTH, (8, 3));
    let place = |values: &[u16]| {
        let raw = vec![0xFF; 2 * WIDTH * BOX_ROWS];
        let contents = [bytes(values), vec![0xFF; 2 * COLUMNS * ROWS], raw];
        contents.iter().map(|bytes| device.upload(bytes)).collect::<Result<Vec<_>, _>>()
    };
    let (first, second) = (place(&vec![0; source.len()])?, place(&source)?);
    let pointers =
        |memory: &[DeviceBuffer]| -> Vec<_> { memory.iter().map(DeviceBuffer::pointer).collect() };
    let stream = device.default_stream();
    let mut bound = device.load(&program)?.bind(&pointers(&first))?;
    bound.launch(&stream)?;
    bound.rebind(&pointers(&second))?;
    bound.launch(&stream)?;
    let (raw, copy) = expected(&source, Swizzle::B128, WIDTH, (8, 3));
    same("shared memory of the moved binding", &second[2].read()?, &bytes(&raw))?;
    same("copy of the moved binding", &second[1].read()?, &bytes(&copy))?;
    Ok("two tensor maps and an address follow".into())
}

/// Shared memory and the stored copy, element by element from the definition.
fn expected(
    source: &[u16],
    swizzle: Swizzle,
    width: usize,
    place: (i32, i32),
) -> (Vec<u16>, Vec<u16>) {
    let mut raw = vec![0; width * BOX_ROWS];
    let mut copy = vec![0xFFFF; source.len()];
    let index = |(x, y): (i32, i32), row: usize, column: usize| {
        let (x, y) = (x + column as i32, y + row as i32);
        let inside = (0..COLUMNS as i32).contains(&x) && (0..ROWS as i32).contains(&y);
        inside.then(|| y as usize * COLUMNS + x as usize)
    };
    for row in 0..BOX_ROWS {
        for column in 0..width {
            let value = index(place, row, column).map_or(0, |at| source[at]);
            raw[swizzled(2 * (row * width + column), swizzle) / 2] = value;
            if let Some(at) = index(stored_at(place), row, column) {
                copy[at] = value;
            }
        }
    }
    (raw, copy)
}

/// Where byte `offset` of a box goes, in a tile that starts on a multiple of 1024.
fn swizzled(offset: usize, swizzle: Swizzle) -> usize {
    let mask = match swizzle {
        Swizzle::B32 => 1,
        Swizzle::B64 => 3,
        Swizzle::B128 => 7,
        _ => 0,
    };
    offset ^ ((offset >> 7 & mask) << 4)
}
