//! The queries of a row block, in the registers of every warp.

use super::config::{BLOCK, SCALED, WARPS};
use crate::call::rows::Block;
use crate::call::task::{OpenTile, Params};
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, GlobalPtr, Reg, VECTOR_BYTES};

/// Words that a lane has of a block of columns of a row: 16 columns.
const WORDS: usize = 8;

/// What a lane has of its two rows.
pub struct Queries {
    /// Of either row, words of each block of columns.
    words: [Vec<Reg<u32>>; 2],
}

impl Queries {
    /// Registers for them.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        Queries { words: [0, 1].map(|_| b.regs(WARPS as usize * WORDS)) }
    }

    /// Loads the rows of a block: row `row` and that eight further down, of which this lane is the `quarter`-th of four.
    #[track_caller]
    pub fn load(
        &self,
        b: &mut Builder,
        (params, open, block): (&Params, &OpenTile, &Block),
        row: Reg<u32>,
        quarter: Reg<u32>,
    ) {
        let output = BlockOutput { params, open, block };
        // Zero, but the assembler does not know. It keeps the words of a load in neighbouring registers, and without this
        // would move those of an operand, which come from two rows, to neighbouring ones again for every product.
        let nothing = b.special("%ctaid.y");
        for (half, words) in (0..).zip(&self.words) {
            let row = b.eval(row + half * 8);
            let place = output.place(b, row);
            let at = [open.sequence.q_batch.reg(), place.head.reg(), place.token.reg()];
            let at = at.map(|number| b.select::<u32>(place.live, number, 0));
            let from = params.exact_queries.row(b, at);
            words.iter().for_each(|word| b.assign(*word, 0));
            // Row after row: there are no registers for two on their way.
            b.if_(place.live, |b| load_row(b, from, quarter, words, nothing));
        }
    }

    /// The A operand of a step of 16 columns.
    pub fn operand(&self, block: u32, step: u32) -> [Reg<u32>; 4] {
        let first = block as usize * WORDS + step as usize * 2;
        let [upper, lower] = &self.words;
        [upper[first], lower[first], upper[first + 1], lower[first + 1]]
    }
}

/// Loads a lane's columns of a row: 16 neighbours of every block of fp8 numbers; eight of either half of the last block,
/// whose keys are wider.
#[track_caller]
fn load_row(
    b: &mut Builder,
    row: GlobalPtr,
    quarter: Reg<u32>,
    words: &[Reg<u32>],
    nothing: Reg<u32>,
) {
    let [wide, narrow] =
        [2 * VECTOR_BYTES, VECTOR_BYTES].map(|bytes| b.eval(quarter.widening_mul(bytes)));
    let (wide, narrow) = (b.global_add(row, wide), b.global_add(row, narrow));
    let mut loaded = Vec::new();
    for block in 0..WARPS {
        let (from, apart) = if block == SCALED { (narrow, BLOCK) } else { (wide, VECTOR_BYTES) };
        let from = from.plus((block * BLOCK * 2).into());
        loaded.extend(b.ld_global_vector::<u32>(from, WORDS / 2));
        loaded.extend(b.ld_global_vector::<u32>(from.plus(apart.into()), WORDS / 2));
    }
    for (&word, loaded) in words.iter().zip(loaded) {
        b.assign(word, loaded ^ nothing);
    }
}
