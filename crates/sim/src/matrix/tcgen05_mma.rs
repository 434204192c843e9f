//! `tcgen05.mma`.

use super::block_scale::{BlockScales, ScaleVector};
use super::data_path::DataPath;
use super::element::{Element, f16_to_f32};
use super::error::OperandError;
use super::fragment::Accumulator;
use super::gemm;
use super::instruction_descriptor::{InstructionDescriptor, MmaKind};
use super::shared_matrix::{Major, SharedMatrix};
use super::tensor_memory::{TensorMemory, TmemAddress, TmemRect};
use crate::numeric::{Conversion, Format};
use std::ops::Range;

/// A `tcgen05.mma` as its modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcgen05Mma {
    /// Kind.
    pub kind: MmaKind,
    /// CTAs that take part: 1 or 2.
    pub ctas: usize,
    /// `.ws`.
    pub stationary: bool,
    /// Scales to a row, for scaled kinds.
    pub scale_vector: Option<ScaleVector>,
}

/// Where A comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaA {
    /// A shared-memory descriptor.
    Shared(u64),
    /// Tensor memory.
    Tensor(TmemAddress),
}

/// The operands of a `tcgen05.mma`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmaOperands {
    /// D.
    pub d: TmemAddress,
    /// A.
    pub a: MmaA,
    /// B's shared-memory descriptor.
    pub b: u64,
    /// The instruction descriptor.
    pub descriptor: u32,
    /// Whether D is added.
    pub accumulate: bool,
    /// `scale-input-d`: D is multiplied by `2^-scale_d` first.
    pub scale_d: u32,
    /// `disable-output-lane`: a set bit keeps a lane of D as it is; 4 words a CTA, or none.
    pub disabled_lanes: Vec<u32>,
    /// Tensor-memory addresses of A's and B's block scales.
    pub scales: Option<(TmemAddress, TmemAddress)>,
}

/// The memories of one CTA.
#[derive(Debug)]
pub struct CtaMemory<'a> {
    /// Shared memory from offset 0.
    pub shared: &'a [u8],
    /// Tensor memory.
    pub tensor: &'a mut TensorMemory,
}

/// What one CTA's memories see of an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MmaFootprint {
    /// Shared memory read for A.
    pub shared_a: Vec<Range<u32>>,
    /// Shared memory read for B.
    pub shared_b: Vec<Range<u32>>,
    /// Tensor memory read: A, scales, and D when it is accumulated to.
    pub tensor_reads: Vec<TmemRect>,
    /// Tensor memory written.
    pub tensor_writes: Vec<TmemRect>,
}

/// The operands in shared memory, as each CTA of the group sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedOperands {
    /// A, if it is there, and its rows in one CTA.
    pub a: Option<(SharedMatrix, usize)>,
    /// B, and its columns in one CTA.
    pub b: (SharedMatrix, usize),
}

/// A `tcgen05.mma` with its operands, decoded once: when it is issued.
#[derive(Clone, Debug)]
pub struct DecodedMma {
    mma: Tcgen05Mma,
    operands: MmaOperands,
    fields: InstructionDescriptor,
    path: DataPath,
    depth: usize,
    a: Option<SharedMatrix>,
    b: SharedMatrix,
}

impl Tcgen05Mma {
    /// Reads the modifiers of a `tcgen05.mma`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<Tcgen05Mma, OperandError> {
        let (mut kind, mut ctas, mut stationary, mut vector) = (None, 1, false, None);
        for name in modifiers {
            match name {
                "mma" | "block_scale" => {}
                "ws" => stationary = true,
                "cta_group::1" => ctas = 1,
                "cta_group::2" => ctas = 2,
                "scale_vec::1X" => vector = Some(ScaleVector::One),
                "scale_vec::2X" | "block32" => vector = Some(ScaleVector::Two),
                "scale_vec::4X" | "block16" => vector = Some(ScaleVector::Four),
                _ if name.starts_with("collector::") => {}
                _ if name.starts_with("kind::") => kind = MmaKind::from_modifier(name),
                _ => return OperandError::unsupported(format!("tcgen05.mma with .{name}")),
            }
        }
        let Some(kind) = kind else {
            return OperandError::illegal("tcgen05.mma without a known .kind");
        };
        let scale_vector = ScaleVector::of_kind(kind, vector)?;
        Ok(Tcgen05Mma { kind, ctas, stationary, scale_vector })
    }

    /// Decodes descriptors and addresses.
    pub fn decode(self, operands: MmaOperands) -> Result<DecodedMma, OperandError> {
        let fields = InstructionDescriptor::decode(self.kind, operands.descriptor)?;
        let path = DataPath::new(fields.rows, self.ctas, self.stationary)?;
        self.check_columns(&fields)?;
        path.check_lane(operands.d)?;
        let columns = fields.columns / path.parts;
        path.rects(operands.d, columns, |_| true).iter().try_for_each(TmemRect::check)?;
        let a = match operands.a {
            MmaA::Shared(descriptor) => {
                let matrix = SharedMatrix::from_sm100(descriptor, fields.a_major)?;
                check_major("A", &matrix, fields.a)?;
                Some(matrix)
            }
            MmaA::Tensor(address) => {
                path.check_lane(address)?;
                path.rects(address, A_COLUMNS, |_| true).iter().try_for_each(TmemRect::check)?;
                None
            }
        };
        let b = SharedMatrix::from_sm100(operands.b, fields.b_major)?;
        check_major("B", &b, fields.b)?;
        let depth = self.kind.depth();
        Ok(DecodedMma { mma: self, operands, fields, path, depth, a, b })
    }

    fn check_columns(&self, fields: &InstructionDescriptor) -> Result<(), OperandError> {
        let n = fields.columns;
        let step = match (self.kind, self.ctas) {
            (MmaKind::I8, 2) => 32,
            (MmaKind::I8, _) if n > 32 => 16,
            (_, 2) => 16,
            _ => 8,
        };
        let legal = match self.stationary {
            true => matches!(n, 64 | 128 | 256),
            false => (step.max(8)..=256).contains(&n) && n.is_multiple_of(step),
        };
        if legal {
            return Ok(());
        }
        OperandError::illegal(format!(
            "instruction descriptor: N = {n} (bits 22:17) does not exist for M = {} with \
             cta_group::{}{}",
            fields.rows,
            self.ctas,
            if self.stationary { ".ws" } else { "" }
        ))
    }
}

/// Every kind reads 32 bytes of A per row: 8 columns of tensor memory.
const A_COLUMNS: usize = 8;

fn check_major(name: &str, matrix: &SharedMatrix, element: Element) -> Result<(), OperandError> {
    use super::shared_matrix::MatrixSwizzle::B128Base32;
    let base32 = matrix.swizzle == B128Base32;
    match matrix.major {
        Major::Mn if (element == Element::Tf32) != base32 => OperandError::illegal(format!(
            "operand {name} is M/N-major with swizzle {:?}: 32-bit types need 128B swizzle with a \
             32-byte base, and only they may use it",
            matrix.swizzle
        )),
        Major::Mn if element == Element::E2m1Packed => {
            OperandError::illegal(format!("operand {name}: packed fp4 must be K-major"))
        }
        _ => Ok(()),
    }
}

impl MmaOperands {
    fn writes_lane(&self, cta: usize, lane: usize) -> bool {
        let word = self.disabled_lanes.get(cta * 4 + lane / 32);
        word.is_none_or(|word| word >> (lane % 32) & 1 == 0)
    }
}

impl DecodedMma {
    /// Where A comes from.
    pub fn a(&self) -> MmaA {
        self.operands.a
    }

    /// Whether an element of A fills a column of tensor memory.
    pub fn is_tf32(&self) -> bool {
        matches!(self.mma.kind, MmaKind::Tf32)
    }

    /// Multiply-add operations of all CTAs, two per product.
    pub fn flops(&self) -> u64 {
        2 * (self.fields.rows * self.fields.columns * self.depth) as u64
    }

    /// Bits of an element of A.
    pub fn element_bits(&self) -> u64 {
        32 / self.fields.a.per_register() as u64
    }

    /// Shared memory and tensor memory that CTA number `cta` of the group sees touched.
    pub fn footprint(&self, cta: usize) -> MmaFootprint {
        let DecodedMma { operands, path, fields, depth, .. } = self;
        let columns = fields.columns / path.parts;
        let d = || path.rects(operands.d, columns, |lane| operands.writes_lane(cta, lane));
        let mut footprint = MmaFootprint {
            shared_a: self.a.map_or_else(Vec::new, |a| a.footprint(path.rows, *depth, fields.a)),
            shared_b: self.b.footprint(fields.columns / self.mma.ctas, *depth, fields.b),
            tensor_writes: d(),
            ..MmaFootprint::default()
        };
        if let MmaA::Tensor(address) = operands.a {
            footprint.tensor_reads.extend(path.rects(address, A_COLUMNS, |_| true));
        }
        if operands.accumulate {
            footprint.tensor_reads.extend(d());
        }
        if let Some((a, b)) = operands.scales {
            for (address, count) in [(a, path.rows.div_ceil(32)), (b, columns.div_ceil(32))] {
                let columns = address.column..address.column + count;
                footprint.tensor_reads.push(TmemRect { lanes: 0..128, columns });
            }
        }
        footprint
    }

    /// The operands in shared memory.
    pub fn shared_operands(&self) -> SharedOperands {
        SharedOperands {
            a: self.a.map(|a| (a, self.path.rows)),
            b: (self.b, self.fields.columns / self.mma.ctas),
        }
    }

    /// Performs the instruction on the memories of its CTAs, the leader (even rank) first.
    pub fn execute(&self, ctas: &mut [CtaMemory<'_>]) -> Result<(), OperandError> {
        let b = self.read_b(ctas)?;
        for (index, cta) in ctas.iter_mut().enumerate() {
            for part in 0..self.path.parts {
                let a = self.read_a(cta, part)?;
                let mut c = self.read_d(cta.tensor, part);
                let columns = self.fields.columns / self.path.parts;
                let b = column_slice(&b, self.fields.columns, part * columns, columns);
                match (self.operands.scales, self.mma.scale_vector) {
                    (Some(addresses), Some(vector)) => {
                        let scales = BlockScales {
                            addresses,
                            vector,
                            fields: &self.fields,
                            path: self.path,
                            part,
                        };
                        scales.accumulate(cta.tensor, self.depth, &a, &b, &mut c);
                    }
                    _ => gemm::accumulate(columns, self.depth, &a, &b, &mut c),
                }
                self.write_d(cta.tensor, (index, part), &c);
            }
        }
        Ok(())
    }

    /// B as a depth x columns panel; each CTA of a pair supplies half of the columns.
    fn read_b(&self, ctas: &[CtaMemory<'_>]) -> Result<Vec<f32>, OperandError> {
        let columns = self.fields.columns;
        let share = columns / ctas.len();
        let mut panel = vec![0f32; self.depth * columns];
        for (index, cta) in ctas.iter().enumerate() {
            let out = &mut panel[index * share..];
            self.b.gather(cta.shared, self.fields.b, (share, self.depth), out, (1, columns))?;
        }
        Ok(panel)
    }

    fn read_a(&self, cta: &CtaMemory<'_>, part: usize) -> Result<Vec<f32>, OperandError> {
        let (rows, depth) = (self.path.rows, self.depth);
        let mut panel = vec![0f32; rows * depth];
        match (self.operands.a, &self.a) {
            (MmaA::Tensor(address), _) => {
                let per = self.fields.a.per_register();
                for (row, out) in panel.chunks_exact_mut(depth).enumerate() {
                    let lane = address.lane + self.path.lane(row, part);
                    let cells = &cta.tensor.lane(lane)[address.column..];
                    for (out, &cell) in out.chunks_exact_mut(per).zip(cells) {
                        self.fields.a.unpack_register(cell, out);
                    }
                }
            }
            (_, Some(a)) => {
                a.gather(cta.shared, self.fields.a, (rows, depth), &mut panel, (depth, 1))?;
            }
            _ => unreachable!("A is in shared or in tensor memory"),
        }
        if self.fields.negate_a != self.fields.negate_b {
            panel.iter_mut().for_each(|x| *x = -*x);
        }
        Ok(panel)
    }

    /// What the products are added to: D, scaled, or zero. Integer sums start at zero.
    fn read_d(&self, tensor: &TensorMemory, part: usize) -> Vec<f32> {
        let operands = &self.operands;
        let columns = self.fields.columns / self.path.parts;
        let mut panel = vec![0f32; self.path.rows * columns];
        if !operands.accumulate || self.fields.d == Accumulator::S32 {
            return panel;
        }
        let scale = (-f64::from(operands.scale_d)).exp2() as f32;
        for (row, out) in panel.chunks_exact_mut(columns).enumerate() {
            let lane = operands.d.lane + self.path.lane(row, part);
            let cells = &tensor.lane(lane)[operands.d.column..];
            for (out, &cell) in out.iter_mut().zip(cells) {
                let value = match self.fields.d {
                    Accumulator::F16 => f16_to_f32(cell as u16),
                    _ => f32::from_bits(cell),
                };
                *out = if operands.scale_d == 0 { value } else { value * scale };
            }
        }
        panel
    }

    fn write_d(&self, tensor: &mut TensorMemory, (cta, part): (usize, usize), panel: &[f32]) {
        let operands = &self.operands;
        let half = Conversion::nearest(Format::F16);
        let columns = self.fields.columns / self.path.parts;
        for (row, values) in panel.chunks_exact(columns).enumerate() {
            let lane = operands.d.lane + self.path.lane(row, part);
            if !operands.writes_lane(cta, lane) {
                continue;
            }
            let cells = &mut tensor.lane_mut(lane)[operands.d.column..];
            for (cell, &value) in cells.iter_mut().zip(values) {
                *cell = match self.fields.d {
                    Accumulator::F32 => value.to_bits(),
                    Accumulator::F16 => *cell & 0xFFFF_0000 | half.apply_f32(value),
                    Accumulator::S32 => {
                        let old = if operands.accumulate { *cell } else { 0 };
                        Accumulator::add_integer(old, value, self.fields.saturate)
                    }
                };
            }
        }
    }
}

fn column_slice(panel: &[f32], pitch: usize, first: usize, count: usize) -> Vec<f32> {
    panel.chunks_exact(pitch).flat_map(|row| &row[first..first + count]).copied().collect()
}

#[cfg(test)]
mod tests;
