//! Block scales of the `mx` kinds, in tensor memory.
//!
//! Scale `s` of row `m` of A is byte `id + s` of the cell at column `m/32`, lane `m%32`, and every
//! quarter of 32 lanes holds a copy; B's scales are laid out the same way over its columns. Each
//! quarter is served by its own copy, so the scales for a row of D are read from the row's quarter.

use super::data_path::DataPath;
use super::error::OperandError;
use super::gemm;
use super::instruction_descriptor::{InstructionDescriptor, MmaKind, ScaleFormat};
use super::tensor_memory::{TensorMemory, TmemAddress};
use crate::numeric::{Format, ue8m0_to_f32};

/// `.scale_vec`: scales to a row of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleVector {
    /// `.scale_vec::1X`.
    One,
    /// `.scale_vec::2X`.
    Two,
    /// `.scale_vec::4X`.
    Four,
}

impl ScaleVector {
    /// The vector a kind has when the instruction does (or does not) name one; `.block32` is
    /// [`ScaleVector::Two`] until the kind is known.
    pub(super) fn of_kind(
        kind: MmaKind,
        named: Option<ScaleVector>,
    ) -> Result<Option<ScaleVector>, OperandError> {
        match (kind, named) {
            (MmaKind::Mxf8f6f4, Some(ScaleVector::One | ScaleVector::Two) | None) => {
                Ok(Some(ScaleVector::One))
            }
            (MmaKind::Mxf4, Some(ScaleVector::Two) | None) => Ok(Some(ScaleVector::Two)),
            (MmaKind::Mxf4nvf4, Some(vector @ (ScaleVector::Two | ScaleVector::Four))) => {
                Ok(Some(vector))
            }
            (_, None) if !kind.is_scaled() => Ok(None),
            _ => OperandError::illegal(format!(
                "tcgen05.mma with {kind:?} and scale vector {named:?} does not exist"
            )),
        }
    }

    const fn count(self) -> usize {
        match self {
            ScaleVector::One => 1,
            ScaleVector::Two => 2,
            ScaleVector::Four => 4,
        }
    }
}

/// The scales of one group of columns of an instruction.
pub(super) struct BlockScales<'a> {
    pub addresses: (TmemAddress, TmemAddress),
    pub vector: ScaleVector,
    pub fields: &'a InstructionDescriptor,
    pub path: DataPath,
    pub part: usize,
}

impl BlockScales<'_> {
    /// `c += sum over blocks of (a * b within the block) * scale of a * scale of b`.
    ///
    /// A block's products are summed in f32; scaling and adding the block are done in f64 and
    /// rounded once.
    pub fn accumulate(
        &self,
        tensor: &TensorMemory,
        depth: usize,
        a: &[f32],
        b: &[f32],
        c: &mut [f32],
    ) {
        let columns = b.len() / depth;
        let block = depth / self.vector.count();
        let mut sums = vec![0f32; c.len()];
        for s in 0..self.vector.count() {
            let k = s * block;
            let a_block: Vec<f32> =
                a.chunks_exact(depth).flat_map(|row| &row[k..k + block]).copied().collect();
            sums.fill(0.0);
            let b_block = &b[k * columns..(k + block) * columns];
            gemm::accumulate(columns, block, &a_block, b_block, &mut sums);
            self.scale_and_add(tensor, s, columns, &sums, c);
        }
    }

    fn scale_and_add(
        &self,
        tensor: &TensorMemory,
        s: usize,
        columns: usize,
        sums: &[f32],
        c: &mut [f32],
    ) {
        let (a, b) = self.addresses;
        let rows = sums.chunks_exact(columns).zip(c.chunks_exact_mut(columns));
        for (row, (sums, c)) in rows.enumerate() {
            let quarter = self.path.lane(row, self.part) / 32;
            let row_scale = self.scale(tensor, a, quarter, row, self.fields.a_scale_id + s);
            for (n, (sum, c)) in sums.iter().zip(c).enumerate() {
                let column_scale = self.scale(tensor, b, quarter, n, self.fields.b_scale_id + s);
                let scaled = f64::from(*sum) * row_scale * column_scale;
                *c = (f64::from(*c) + scaled) as f32;
            }
        }
    }

    fn scale(
        &self,
        tensor: &TensorMemory,
        address: TmemAddress,
        quarter: usize,
        index: usize,
        byte: usize,
    ) -> f64 {
        let cell = tensor.lane(quarter * 32 + index % 32)[address.column + index / 32];
        let bits = (cell >> (8 * (byte % 4))) as u8;
        f64::from(match self.fields.scale_format {
            ScaleFormat::Ue8m0 => ue8m0_to_f32(bits),
            ScaleFormat::Ue4m3 => Format::UE4M3.decode(u32::from(bits)),
        })
    }
}
