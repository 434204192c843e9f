//! The queries of a row block: brought by two warps, kept in the registers of every warp that computes.
//!
//! An e4m3 number is a f16 number, so that products with keys are those of f16. A row of queries is multiplied by the
//! power of two that makes its largest number about 2^14. Then its numbers are f16 exactly, down to 2^-31 of the
//! largest. Columns whose keys are bf16 stay bf16.

use super::config::{BLOCK, DIM, ROWS, SCALED};
use super::kernel::{Frame, Shared};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Consumer, Cursor, HalfType, Producer, Reg, SmemPtr, VECTOR_BYTES};

/// Warps that bring queries.
pub const LOADERS: u32 = 2;
/// Bytes from one row in shared memory to the next: those of neighbouring rows that lanes read together are in different
/// banks.
pub const QUERY_PITCH: u32 = DIM * 2 + VECTOR_BYTES;
/// Bytes of a row that a lane brings.
const LANE_BYTES: u32 = DIM * 2 / 32;
/// Words that a lane has of a block of columns of a row: 16 columns.
const WORDS: u32 = 8;
/// Blocks that stay in registers, which have no room for all.
const KEPT: u32 = 6;
/// Which of a row's two numbers: what products are to be multiplied with, and its sink.
const SCALE: u32 = 0;
const SINK: u32 = 1;
/// The exponent of f32, and of the largest number of a row.
const EXPONENT: u32 = 23;
const LARGEST: u32 = 14;
/// 2^0 as an exponent of f32, and the largest one whose inverse is a normal number.
const ONE: u32 = 127;
const MOST: u32 = 2 * ONE - 1;

/// One of the warps that bring queries, every other row each.
pub struct QueryLoader<'f> {
    frame: &'f Frame,
    warp: Reg<u32>,
    lane: Reg<u32>,
    ring: Cursor<Producer>,
}

impl<'f> QueryLoader<'f> {
    /// Warp `warp` of them.
    #[track_caller]
    pub fn new(b: &mut Builder, frame: &'f Frame, warp: Reg<u32>) -> Self {
        let lane = b.special("%laneid");
        QueryLoader { frame, warp, lane, ring: frame.shared.query_ring.producer(b) }
    }

    /// Brings the queries of a work tile. A lane makes f16 of the bytes that it copied itself.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        let Frame { params, config, .. } = self.frame;
        let block = Block::at(b, config.packing, config.group, open.first_block);
        let output = BlockOutput { params, open, block: &block };
        let slot = self.ring.take(b);
        slot.wait(b);
        let bytes = b.eval(self.lane.widening_mul(LANE_BYTES));
        self.for_each_row(b, |b, row| {
            let place = output.place(b, row);
            let at = [open.sequence.q_batch.reg(), place.head.reg(), place.token.reg()];
            let at = at.map(|number| b.select::<u32>(place.live, number, 0));
            let from = params.exact_queries.row(b, at);
            let from = b.global_add(from, bytes);
            let valid = b.select::<u32>(place.live, VECTOR_BYTES, 0);
            let to = self.place(b, row, slot.stage());
            for at in (0..LANE_BYTES).step_by(VECTOR_BYTES as usize) {
                b.cp_async16(to.plus(at), from.plus(at.into()), Some(valid));
            }
        });
        b.cp_async_commit();
        self.bring_sinks(b, &output, slot.stage());
        b.cp_async_wait(0);
        let lead = b.setp(Cmp::Eq, self.lane, 0);
        self.for_each_row(b, |b, row| {
            let at = self.place(b, row, slot.stage());
            let scale = self.convert(b, at);
            let to = self.number(b, row, SCALE, slot.stage());
            b.st_shared_if(lead, to, scale);
        });
        b.warp_sync();
        let full = slot.full(b);
        full.arrive_if(b, lead);
    }

    /// Brings the sinks of this warp's rows, a lane each.
    #[track_caller]
    fn bring_sinks(&self, b: &mut Builder, output: &BlockOutput<'_>, stage: Reg<u32>) {
        let row = b.eval(self.lane * LOADERS + self.warp);
        let has_row = b.setp(Cmp::Lt, row, ROWS);
        b.if_(has_row, |b| {
            let place = output.place(b, row);
            if let Some(sink) = output.sink(b, &place) {
                let to = self.number(b, row, SINK, stage);
                b.st_shared(to, sink);
            }
        });
    }

    #[track_caller]
    fn for_each_row(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, Reg<u32>)) {
        b.range(0, ROWS / LOADERS, |b, n| {
            let row = b.eval(n * LOADERS + self.warp);
            body(b, row);
        });
    }

    /// Where a number of a row is.
    #[track_caller]
    fn number(&self, b: &mut Builder, row: Reg<u32>, which: u32, stage: Reg<u32>) -> SmemPtr {
        let which = b.value(which);
        self.frame.shared.of_queries.element(b, &[row, which, stage])
    }

    /// Where the lane's bytes of a row are.
    #[track_caller]
    fn place(&self, b: &mut Builder, row: Reg<u32>, stage: Reg<u32>) -> SmemPtr {
        let word = b.eval(self.lane * (LANE_BYTES / 4));
        self.frame.shared.queries.element(b, &[word, row, stage])
    }

    /// Multiplies the lane's numbers of a row, f16 where keys are e4m3, and returns what they are to be multiplied with.
    #[track_caller]
    fn convert(&self, b: &mut Builder, at: SmemPtr) -> Reg<f32> {
        let vectors = [0, VECTOR_BYTES].map(|offset| b.ld_shared_vector::<u32>(at.plus(offset), 4));
        let words = vectors.concat();
        let zero = b.value::<u32>(0);
        let largest = words.iter().fold(zero, |largest, word| {
            let (low, high) = ((*word << 16) & 0x7fff_0000, *word & 0x7fff_0000);
            b.eval(largest.max(low).max(high))
        });
        let largest = b.join_lanes(largest, 32, |b, x, y| b.eval(x.max(y)));
        let [most, twice] = [2 * ONE + LARGEST, 2 * ONE].map(|n| b.value::<u32>(n));
        let exponent = b.eval((most - (largest >> EXPONENT)).min(MOST));
        let bits = [exponent << EXPONENT, (twice - exponent) << EXPONENT];
        let [factor, inverse] = bits.map(|bits| {
            let bits = b.eval(bits);
            b.float_from_bits(bits)
        });
        let narrow = b.setp(Cmp::Lt, self.lane, SCALED * BLOCK * 2 / LANE_BYTES);
        for (n, vector) in (0..).zip(words.chunks_exact(4)) {
            let converted: Vec<_> = vector
                .iter()
                .map(|word| {
                    let [x, y] =
                        b.unpack(HalfType::Bf16, *word).map(|number| b.mul(number, factor));
                    let [f16, bf16] =
                        [HalfType::F16, HalfType::Bf16].map(|half| b.pack(half, x, y));
                    b.select::<u32>(narrow, f16, bf16)
                })
                .collect();
            b.st_shared_vector(at.plus(n * VECTOR_BYTES), &converted);
        }
        inverse
    }
}

/// What a lane has of its two rows: 16 neighbouring columns of each block.
pub struct Queries {
    /// Words of either row of the blocks that stay in registers.
    words: [Vec<Reg<u32>>; 2],
    /// Where the lane's words of the upper row are.
    row: SmemPtr,
    /// Where the numbers of the upper row are.
    numbers: SmemPtr,
    ring: Cursor<Consumer>,
    done: Cursor<Consumer>,
}

impl Queries {
    /// Registers for them.
    #[track_caller]
    pub fn new(b: &mut Builder, shared: &Shared) -> Self {
        Queries {
            words: [0, 1].map(|_| b.regs((KEPT * WORDS) as usize)),
            row: SmemPtr { base: b.reg(), offset: 0 },
            numbers: SmemPtr { base: b.reg(), offset: 0 },
            ring: shared.query_ring.consumer(b),
            done: shared.query_ring.consumer(b),
        }
    }

    /// Takes the rows of the next block: a lane has a quarter of row `lane / 4` and of that eight further down.
    #[track_caller]
    pub fn take(&self, b: &mut Builder, shared: &Shared, lane: Reg<u32>) {
        // Zero, but the assembler does not know. It keeps the words of a load in neighbouring registers, and without this
        // would move those of an operand, which come from two rows, to neighbouring ones again for every product.
        let nothing = b.special("%ctaid.y");
        let (row, quarter) = (b.eval(lane / 4), b.eval(lane % 4));
        let slot = self.ring.take(b);
        slot.wait(b);
        let word = b.eval(quarter * WORDS);
        let first = shared.queries.element(b, &[word, row, slot.stage()]);
        let zero = b.value(0);
        let numbers = shared.of_queries.element(b, &[row, zero, slot.stage()]);
        for (to, from) in [(self.row, first), (self.numbers, numbers)] {
            let address = b.smem_address(from);
            b.assign(to.base, address);
        }
        for block in 0..KEPT {
            let loaded = self.load(b, shared, block);
            for (words, loaded) in self.words.iter().zip(loaded) {
                let words = &words[(block * WORDS) as usize..];
                words
                    .iter()
                    .zip(loaded)
                    .for_each(|(&word, loaded)| b.assign(word, loaded ^ nothing));
            }
        }
    }

    /// Loads a lane's words of a block of both rows.
    #[track_caller]
    fn load(&self, b: &mut Builder, shared: &Shared, block: u32) -> [Vec<Reg<u32>>; 2] {
        [0, 8].map(|row| {
            let at = self.row.plus(shared.queries.offset(&[block * BLOCK / 2, row]));
            let vectors =
                [0, VECTOR_BYTES].map(|right| b.ld_shared_vector::<u32>(at.plus(right), 4));
            vectors.concat()
        })
    }

    /// Gives the rows' place in shared memory back; `lead` is true in one lane.
    #[track_caller]
    pub fn release(&self, b: &mut Builder, lead: Reg<bool>) {
        b.warp_sync();
        self.done.take(b).release_if(b, lead);
    }

    /// The A operands of a block, 16 columns each.
    #[track_caller]
    pub fn operands(&self, b: &mut Builder, shared: &Shared, block: u32) -> [[Reg<u32>; 4]; 4] {
        let [upper, lower] = if block < KEPT {
            let first = (block * WORDS) as usize;
            [0, 1].map(|half| self.words[half][first..].to_vec())
        } else {
            self.load(b, shared, block)
        };
        std::array::from_fn(|step| {
            let first = 2 * step;
            [upper[first], lower[first], upper[first + 1], lower[first + 1]]
        })
    }

    /// The sinks of both rows.
    #[track_caller]
    pub fn sinks(&self, b: &mut Builder, shared: &Shared) -> [Reg<f32>; 2] {
        self.numbers(b, shared, SINK)
    }

    /// What products of either row are to be multiplied with.
    #[track_caller]
    pub fn scales(&self, b: &mut Builder, shared: &Shared) -> [Reg<f32>; 2] {
        self.numbers(b, shared, SCALE)
    }

    #[track_caller]
    fn numbers(&self, b: &mut Builder, shared: &Shared, which: u32) -> [Reg<f32>; 2] {
        [0, 8].map(|row| {
            let at = self.numbers.plus(shared.of_queries.offset(&[row, which]));
            b.ld_shared::<f32>(at)
        })
    }
}
