//! Tiles that are made of small boxes: pages of one to four rows, and rows that a list names.

use super::{Outcome, buffer, kernels, launch, program, same};
use program::{
    Access, Argument, BufferId, ElementType, L2Promotion, OobFill, Program, Swizzle, TensorMap,
};
use sixwarp_cuda::{Device, Error};

/// Elements of a row of a box: the span of the 128-byte swizzle.
const WIDTH: usize = 64;
/// Columns of the tensor: the second box of a row reaches beyond it.
const COLUMNS: usize = 96;
const ROWS: usize = 40;
/// Rows of a tile: three swizzle atoms.
const TILE: usize = 24;

fn map(box_rows: u32) -> Argument {
    Argument::TensorMap(TensorMap {
        buffer: BufferId(0),
        offset: 0,
        element: ElementType::U16,
        dims: vec![COLUMNS as u64, ROWS as u64],
        strides: vec![2 * COLUMNS as u64],
        box_dims: vec![WIDTH as u32, box_rows],
        element_strides: vec![1, 1],
        im2col: None,
        swizzle: Swizzle::B128,
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::None,
    })
}

fn source() -> Vec<u16> {
    (0..COLUMNS * ROWS).map(|i| i as u16 + 1).collect()
}

fn bytes(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A tile whose rows are rows of the tensor, from `column` on, as it lies in shared memory.
fn tile(rows: &[i32], column: usize) -> Vec<u8> {
    let source = source();
    let mut raw = vec![0; WIDTH * TILE];
    for (row, &from) in rows.iter().enumerate() {
        for i in 0..WIDTH {
            let inside = (0..ROWS as i32).contains(&from) && column + i < COLUMNS;
            let vector = (i / 8) ^ (row % 8);
            raw[row * WIDTH + vector * 8 + i % 8] =
                if inside { source[from as usize * COLUMNS + column + i] } else { 0 };
        }
    }
    bytes(&raw)
}

/// The last row from which small boxes are loaded.
const LAST: usize = ROWS - 7;

/// A tile of boxes of `rows` rows each.
pub fn small_boxes_program(rows: u32) -> Program {
    let buffers = vec![
        buffer("source", 2 * COLUMNS * ROWS, Access::Read),
        buffer("raw", 2 * WIDTH * TILE, Access::Write),
    ];
    let args = vec![
        map(rows),
        Argument::Buffer(BufferId(1), 0),
        Argument::U32(LAST as u32),
        Argument::U32(rows),
        Argument::U32(TILE as u32 / rows),
    ];
    let mut launch = launch("small_boxes", 1, 128, args);
    launch.shared_bytes = (2 * WIDTH * TILE + 1024) as u32;
    program(kernels::BOXES, buffers, vec![launch])
}

/// Boxes of one to four rows under the 128-byte swizzle make up the tile that one box would be.
pub fn small(device: &Device) -> Outcome {
    for rows in 1..=4 {
        let mut buffers = [bytes(&source()), vec![0xFF; 2 * WIDTH * TILE]];
        device.run_host(&small_boxes_program(rows), &mut buffers)?;
        let from = (0..TILE as i32).map(|row| {
            let (number, within) = (row / rows as i32, row % rows as i32);
            LAST as i32 - number * rows as i32 + within
        });
        let from: Vec<i32> = from.collect();
        same(&format!("a tile of boxes of {rows} rows"), &buffers[1], &tile(&from, 0))?;
    }
    Ok(format!("tiles of {TILE} rows, from boxes of 1, 2, 3 and 4"))
}

/// Rows that a list names: any order, some twice, some that do not exist.
const LIST: [i32; TILE] =
    [7, 39, 0, 12, -1, 3, 3, 40, 31, 30, 29, 28, 1, -1, -1, -1, 2, 1000, 5, 8, 13, 21, 34, 38];

/// A tile of rows that a list names, from `column` on.
pub fn gather_program(column: u32) -> Program {
    let buffers = vec![
        buffer("source", 2 * COLUMNS * ROWS, Access::Read),
        buffer("raw", 2 * WIDTH * TILE, Access::Write),
        buffer("list", 4 * TILE, Access::Read),
    ];
    let args = vec![
        map(1),
        Argument::Buffer(BufferId(1), 0),
        Argument::Buffer(BufferId(2), 0),
        Argument::U32(column),
        Argument::U32(TILE as u32 / 4),
    ];
    let mut launch = launch("gather_rows", 1, 128, args);
    launch.shared_bytes = (2 * WIDTH * TILE + 1024) as u32;
    program(kernels::GATHER, buffers, vec![launch])
}

/// Four rows per copy, each in its place; rows that do not exist are zeros. Refused by name before sm_100a.
pub fn gathered(device: &Device) -> Outcome {
    if device.info().compute_capability.0 != 10 {
        return match device.load(&gather_program(0)) {
            Err(error @ Error::WrongTarget { .. }) => Ok(format!("refused: {error}")),
            _ => Err("code for sm_100a was not refused".into()),
        };
    }
    let list: Vec<u8> = LIST.iter().flat_map(|row| row.to_le_bytes()).collect();
    for column in [0, WIDTH] {
        let mut buffers = [bytes(&source()), vec![0xFF; 2 * WIDTH * TILE], list.clone()];
        device.run_host(&gather_program(column as u32), &mut buffers)?;
        same(&format!("rows from column {column} on"), &buffers[1], &tile(&LIST, column))?;
    }
    Ok(format!("{TILE} rows of a list, four per copy"))
}
