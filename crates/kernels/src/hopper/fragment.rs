//! Accumulator fragments of a warpgroup: which row and column a register is.
//!
//! Everything known when a kernel is emitted comes from the layout of the accumulator (`wgmma_d`): a
//! thread holds two rows, 8 apart, and the columns of one row are the same distances from its first
//! one in every thread. What a thread computes about itself (its first row and column) is held against
//! that layout, element by element, in the tests below.

use crate::call::index::KvTile;
use layout::hw::Fragment;
use layout::hw::fragment::wgmma_d;
use ptx::build::{Builder, Cmp, Reg};

/// The accumulator of `registers` registers per thread: two columns each.
fn accumulator(registers: usize) -> Fragment {
    wgmma_d(registers as u64 * 2, 32).expect("a width that wgmma has")
}

/// Row and column of register `i` in the first thread.
fn place(fragment: &Fragment, i: usize) -> (u32, u32) {
    let (row, column) = fragment.row_col(0, i as u64).expect("a register of the fragment");
    (row as u32, column as u32)
}

/// Which of a thread's two rows each register is in.
fn halves(registers: usize) -> impl Iterator<Item = usize> {
    let fragment = accumulator(registers);
    (0..registers).map(move |i| usize::from(place(&fragment, i).0 > 0))
}

/// Registers of row `half` (0, or 1 for the row 8 further down).
pub fn of_row(registers: &[Reg<f32>], half: usize) -> Vec<Reg<f32>> {
    let rows = halves(registers.len());
    registers.iter().zip(rows).filter(|(_, row)| *row == half).map(|(r, _)| *r).collect()
}

/// Columns of one row's registers, relative to the thread's first column.
pub fn columns(registers: usize) -> Vec<u32> {
    let fragment = accumulator(registers);
    (0..registers).map(|i| place(&fragment, i)).filter(|at| at.0 == 0).map(|at| at.1).collect()
}

/// The upper one of a thread's two rows.
#[track_caller]
pub fn first_row(b: &mut Builder, thread: Reg<u32>) -> Reg<u32> {
    b.eval(thread / 32 * 16 + thread % 32 / 4)
}

/// Key of a thread's first column in tile `n` of `tile` keys.
#[track_caller]
pub fn first_key(b: &mut Builder, thread: Reg<u32>, n: KvTile, tile: u32) -> Reg<i32> {
    let pair = b.eval((thread % 4) << 1).reinterpret::<i32>();
    b.eval(n.reg() * tile as i32 + pair)
}

/// Multiplies each register by the factor of its row.
#[track_caller]
pub fn scale_rows(b: &mut Builder, registers: &[Reg<f32>], factors: [Reg<f32>; 2]) {
    for (&register, half) in registers.iter().zip(halves(registers.len())) {
        b.scale(register, factors[half]);
    }
}

/// Adds to accumulators of two rows those of another thread in the same place, times `factors`.
#[track_caller]
pub fn add_rows(
    b: &mut Builder,
    registers: &[Reg<f32>],
    others: &[Reg<f32>],
    factors: [Reg<f32>; 2],
) {
    let halves = halves(registers.len());
    for ((&register, &other), half) in registers.iter().zip(others).zip(halves) {
        let sum = b.fma(other, factors[half], register);
        b.assign(register, sum);
    }
}

/// The same for factors that are mostly 1: a warp that has no other skips it.
#[track_caller]
pub fn rescale_rows(b: &mut Builder, registers: &[Reg<f32>], factors: [Reg<f32>; 2]) {
    let [upper, lower] = factors.map(|factor| b.setp(Cmp::Ne, factor, 1.0));
    let either = b.or(upper, lower);
    let any = b.vote_any(either);
    b.if_(any, |b| scale_rows(b, registers, factors));
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
        let lane = b.eval(thread % 4);
        let bits = [1, 2].map(|bit| {
            let masked = b.eval(thread & bit);
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

#[cfg(test)]
mod tests {
    use super::*;
    use layout::hw::{Major, SmemSwizzle, SmemTile};
    use program::{Access, Argument, Buffer, BufferId, Launch, Program};
    use ptx::build::{SharedTile, Target, module};
    use std::sync::Arc;

    /// What [`first_row`] and [`first_key`] compute, in numbers.
    fn first_place(thread: u32) -> (u32, u32) {
        ((thread >> 5) * 16 + ((thread & 31) >> 2), (thread & 3) << 1)
    }

    #[test]
    fn every_register_of_every_thread_is_where_the_accumulator_has_it() {
        for registers in [32, 48, 64, 128] {
            let (fragment, columns) = (accumulator(registers), columns(registers));
            for thread in 0..128u32 {
                let (row, column) = first_place(thread);
                let mut seen = [0, 0];
                for (i, half) in halves(registers).enumerate() {
                    let place = fragment.row_col(thread.into(), i as u64).expect("a register");
                    let ours = (row + 8 * half as u32, column + columns[seen[half]]);
                    assert_eq!((place.0 as u32, place.1 as u32), ours, "{thread}, register {i}");
                    seen[half] += 1;
                }
            }
        }
    }

    /// A kernel of one warpgroup: loads each thread's pairs, stores the fragment to `tile`, and copies
    /// the tile's bytes out as they lie.
    fn storing_kernel(tile: SmemTile, pairs: u32) -> Program {
        let mut b = Builder::new("store_fragment", Target::Sm90a);
        b.launch_bounds(128, 1);
        let (from, to) = (b.param_ptr("from"), b.param_ptr("to"));
        let shared = b.shared_base();
        let tile = SharedTile::reserve(&mut b, shared, tile);
        let thread = b.thread();
        let from = b.global_add(from, thread.widening_mul(pairs * 4));
        let values: Vec<Reg<u32>> =
            (0..pairs).map(|i| b.ld_global(from.plus(i64::from(i) * 4))).collect();
        b.store_fragment(thread, &values, tile);
        b.barrier_all();
        for first in (0..tile.bytes()).step_by(128 * 4) {
            let word = b.smem_add(tile.at().plus(first), thread << 2);
            let word = b.ld_shared::<u32>(word);
            let to = b.global_add(to, thread.widening_mul(4));
            b.st_global(to.plus(first.into()), word);
        }
        let kernel = b.finish();
        let sizes = [u64::from(128 * pairs * 4), tile.bytes().into()];
        let buffer = |i: usize, access| {
            let name = ["from", "to"][i];
            Buffer::new(name, sizes[i], 16, access)
        };
        let launch = Launch {
            kernel: kernel.function.name.to_string(),
            grid: [1; 3],
            block: [128, 1, 1],
            cluster: [1; 3],
            shared_bytes: kernel.shared_bytes,
            args: [0, 1].map(|i| Argument::Buffer(BufferId(i), 0)).into(),
            overlaps_previous: false,
        };
        Program {
            module: Arc::new(module(Target::Sm90a, vec![kernel])),
            buffers: vec![buffer(0, Access::Read), buffer(1, Access::Write)],
            launches: vec![launch],
        }
    }

    #[test]
    fn a_stored_fragment_lies_where_its_layouts_say() {
        for columns in [64u64, 72, 128] {
            let tile =
                SmemTile::new(64, columns.next_multiple_of(64), 16, Major::K, SmemSwizzle::B128);
            let (tile, fragment) = (tile.expect("a tile"), wgmma_d(columns, 32).expect("a width"));
            let mut from = Vec::new();
            let mut wanted = vec![None; tile.bytes() as usize / 2];
            for (thread, value) in (0..128).flat_map(|t| (0..columns / 2).map(move |v| (t, v))) {
                let (row, column) = fragment.row_col(thread, value).expect("a register");
                let id = (row * columns + column) as u16;
                from.extend(id.to_le_bytes());
                let at = tile.offset(row, column).expect("in the tile").bytes();
                wanted[at as usize / 2] = Some(id);
            }
            let program = storing_kernel(tile, columns as u32 / 4);
            let memory = [from, vec![0; tile.bytes() as usize]];
            let options = sim::Options { checks: false, ..Default::default() };
            let report = sim::run(&program, &memory, &options).unwrap_or_else(|e| panic!("{e}"));
            let (cells, _) = report.buffers[1].as_chunks::<2>();
            for (i, (cell, wanted)) in cells.iter().zip(wanted).enumerate() {
                let found = u16::from_le_bytes(*cell);
                assert!(wanted.is_none_or(|w| w == found), "byte {}: {found}", 2 * i);
            }
        }
    }
}
