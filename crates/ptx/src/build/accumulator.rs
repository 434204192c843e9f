//! Accumulators of a warpgroup (sm_90a): 64 rows of f32 numbers in the registers of 128 threads.

use super::HalfType;
use super::builder::Builder;
use super::operand::VECTOR_BYTES;
use super::shared::SharedTile;
use super::value::Reg;
use super::wgmma::WgmmaA;
use layout::hw::Major;
use std::ops::Range;

/// Rows of an accumulator.
const ROWS: u64 = 64;
/// Columns whose registers are neighbours: two of each of a thread's two rows.
const BLOCK: u32 = 8;
/// Registers of a thread for these columns.
const BLOCK_REGISTERS: u32 = 4;
/// Columns of a 16-byte vector of 16-bit numbers.
const VECTOR: u32 = VECTOR_BYTES / 2;

/// The accumulator of one warpgroup: 64 rows, and the columns of one `wgmma`.
#[derive(Clone, Debug)]
pub struct Accumulator {
    registers: Vec<Reg<f32>>,
}

impl Accumulator {
    /// An accumulator of `columns` columns: a multiple of 8 up to 256.
    pub fn new(b: &mut Builder, columns: u32) -> Self {
        let legal = (8..=256).contains(&columns) && columns.is_multiple_of(BLOCK);
        assert!(legal, "{columns} columns: wgmma has multiples of 8 up to 256");
        Accumulator { registers: b.regs((columns / 2) as usize) }
    }

    /// The registers of each thread, in the order in which `wgmma` names them.
    pub fn registers(&self) -> &[Reg<f32>] {
        &self.registers
    }

    /// Columns.
    pub fn columns(&self) -> u32 {
        self.registers.len() as u32 * 2
    }

    /// Issues the product of two tiles, over all of their K, as one group. It is added where
    /// `accumulate` holds, and takes the place of what was there where it does not.
    /// [`Builder::wgmma_wait`] waits for it.
    #[track_caller]
    pub fn multiply(
        &self,
        b: &mut Builder,
        half: HalfType,
        left: SharedTile,
        right: SharedTile,
        accumulate: Reg<bool>,
    ) {
        self.check(left, right);
        let (left_at, right_at) = (left.descriptor(b), right.descriptor(b));
        let [left_mn, right_mn] = [left, right].map(|tile| tile.layout().major() == Major::Mn);
        let always = b.predicate(true);
        b.wgmma_fence();
        for step in 0..left.layout().k_steps() as u32 {
            let a = WgmmaA::Shared(left.step(b, left_at, step), left_mn);
            let right = right.step(b, right_at, step);
            let accumulate = if step == 0 { accumulate } else { always };
            b.wgmma(half, &self.registers, &a, right, right_mn, accumulate);
        }
        b.wgmma_commit();
    }

    fn check(&self, left: SharedTile, right: SharedTile) {
        let (left, right) = (left.layout(), right.layout());
        assert_eq!(left.mn(), ROWS, "the left operand has the rows of a warpgroup: {left}");
        assert_eq!(right.mn(), u64::from(self.columns()), "the right one its columns: {right}");
        assert_eq!(left.k(), right.k(), "{left} and {right} are multiplied along one K");
    }

    /// A thread's numbers of `columns` (multiples of 8), rounded to 16 bits, two per register.
    #[track_caller]
    pub fn rounded(&self, b: &mut Builder, half: HalfType, columns: Range<u32>) -> Vec<Reg<u32>> {
        let register = |column: u32| (column / BLOCK * BLOCK_REGISTERS) as usize;
        let numbers = &self.registers[register(columns.start)..register(columns.end)];
        let (pairs, _) = numbers.as_chunks();
        pairs.iter().map(|[low, high]| b.pack(half, *low, *high)).collect()
    }
}

impl Builder {
    /// Stores a warpgroup's 16-bit pairs ([`Accumulator::rounded`]) to a K-major tile of 64 rows,
    /// 16 rows × 16 columns per `stmatrix`. `thread` is the thread's number in its warpgroup; a warp
    /// writes its own 16 rows only.
    #[track_caller]
    pub fn store_fragment(&mut self, thread: Reg<u32>, pairs: &[Reg<u32>], tile: SharedTile) {
        let warp = self.shr(thread, 5);
        let lane = self.and(thread, 31);
        // The lower lanes name rows of the left 8 columns, the upper ones of the right 8.
        let low = self.and(lane, 15);
        let row = self.mad(warp, 16, low);
        let right = self.shr(lane, 4);
        let vectors = tile.row(self, row).from_vector(self, right);
        for (step, pairs) in pairs.chunks(4).enumerate() {
            let to = vectors.vector(self, step as u32 * 2 * VECTOR);
            match *pairs {
                [x, y, z, w] => self.stmatrix4(to, [x, y, z, w]),
                [x, y] => self.stmatrix2(to, [x, y]),
                _ => unreachable!("columns are multiples of 8"),
            }
        }
    }
}
