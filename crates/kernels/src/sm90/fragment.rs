//! Accumulator fragments of a warpgroup: which row and column a register is.
//!
//! Warp `w` of the warpgroup holds rows `16w … 16w+15`. A lane holds two rows, `lane / 4` and 8 below;
//! register `i` is row `(i / 2) % 2` of these and column `8·(i / 4) + 2·(lane % 4) + i % 2`.

use super::tile::ROW_BYTES;
use ptx::build::{Builder, Cmp, Reg, SmemPtr};

/// Registers of row `half` (0, or 1 for the row 8 further down).
pub fn of_row(registers: &[Reg<f32>], half: usize) -> Vec<Reg<f32>> {
    registers.iter().enumerate().filter(|(i, _)| (i / 2) % 2 == half).map(|(_, r)| *r).collect()
}

/// Columns of one row's registers, relative to the thread's first column.
pub fn columns(registers: usize) -> Vec<u32> {
    (0..registers).filter(|i| (i / 2) % 2 == 0).map(|i| (8 * (i / 4) + i % 2) as u32).collect()
}

/// The upper one of a thread's two rows.
#[track_caller]
pub fn first_row(b: &mut Builder, thread: Reg<u32>) -> Reg<u32> {
    let warp = b.shr(thread, 5);
    let lane = b.and(thread, 31);
    let row = b.shr(lane, 2);
    b.mad(warp, 16, row)
}

/// Key of a thread's first column in tile `n` of `tile` keys.
#[track_caller]
pub fn first_key(b: &mut Builder, thread: Reg<u32>, n: Reg<i32>, tile: u32) -> Reg<i32> {
    let quad = b.and(thread, 3);
    let pair = b.shl(quad, 1).reinterpret::<i32>();
    b.mad(n, tile as i32, pair)
}

/// Multiplies each register by the factor of its row.
#[track_caller]
pub fn scale_rows(b: &mut Builder, registers: &[Reg<f32>], factors: [Reg<f32>; 2]) {
    for (i, &register) in registers.iter().enumerate() {
        b.scale(register, factors[(i / 2) % 2]);
    }
}

/// The four lanes that share a row.
pub struct Quad {
    /// Lane among the four.
    pub lane: Reg<u32>,
    /// Whether the lane is odd, and whether it is one of the upper two.
    bits: [Reg<bool>; 2],
}

impl Quad {
    /// The quad of a thread.
    #[track_caller]
    pub fn new(b: &mut Builder, thread: Reg<u32>) -> Self {
        let lane = b.and(thread, 3);
        let bits = [1, 2].map(|bit| {
            let masked = b.and(thread, bit);
            b.setp(Cmp::Ne, masked, 0)
        });
        Quad { lane, bits }
    }

    /// Transposes 4 × 4 values: lane `i` gets value `i` of every lane, in the lanes' order.
    #[track_caller]
    pub fn transpose(&self, b: &mut Builder, mut values: [Reg<u32>; 4]) -> [Reg<u32>; 4] {
        for (distance, pairs) in [(1, [[0, 1], [2, 3]]), (2, [[0, 2], [1, 3]])] {
            let upper = self.bits[distance / 2];
            for [low, high] in pairs {
                let sent = b.select::<u32>(upper, values[low], values[high]);
                let received = b.shuffle_xor(sent, distance as u32);
                values[low] = b.select(upper, received, values[low]);
                values[high] = b.select(upper, values[high], received);
            }
        }
        values
    }
}

/// Stores a fragment of 16-bit pairs to panels of 64 columns with the 128-byte swizzle, 16 rows × 16
/// columns per `stmatrix`. A warp writes its own 16 rows only.
#[track_caller]
pub fn store(b: &mut Builder, thread: Reg<u32>, pairs: &[Reg<u32>], at: SmemPtr, panel_bytes: u32) {
    let warp = b.shr(thread, 5);
    let lane = b.and(thread, 31);
    let low = b.and(lane, 15);
    let row = b.mad(warp, 16, low);
    let right = b.shr(lane, 4);
    let swizzle = b.and(row, 7);
    let unit = b.xor(right, swizzle);
    let unit = b.shl(unit, 4);
    let line = b.mul(row, ROW_BYTES);
    let line = b.smem_add(at, line);
    for (step, pairs) in pairs.chunks(4).enumerate() {
        let step = step as u32;
        let unit = b.xor(unit, (step % 4) * 32);
        let to = b.smem_add(line, unit).plus((step / 4) * panel_bytes);
        match *pairs {
            [x, y, z, w] => b.stmatrix4(to, [x, y, z, w]),
            [x, y] => b.stmatrix2(to, [x, y]),
            _ => unreachable!("columns are multiples of 8"),
        }
    }
}
