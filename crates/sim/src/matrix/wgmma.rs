use super::element::Element;
use super::error::OperandError;
use super::fragment::{self, Accumulator, Lanes};
use super::gemm;
use super::shared_matrix::{Major, SharedMatrix};

/// Rows of a `wgmma` tile; each of the four warps holds 16.
const ROWS: usize = 64;
const WARP_ROWS: usize = 16;

/// A `wgmma.mma_async` as its modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wgmma {
    /// Columns, a multiple of 8 up to 256.
    pub columns: usize,
    /// Element type of A.
    pub a: Element,
    /// Element type of B.
    pub b: Element,
    /// Accumulator type.
    pub d: Accumulator,
    /// `.satfinite` of the integer kinds.
    pub saturate: bool,
}

/// Where A comes from.
#[derive(Clone, Copy, Debug)]
pub enum WgmmaA<'a> {
    /// Shared memory.
    Shared(SharedMatrix),
    /// Registers: those of warp 0 of the warpgroup first, four per warp.
    Registers(&'a [Lanes]),
}

/// Everything a `wgmma` reads but its accumulators.
#[derive(Clone, Copy, Debug)]
pub struct WgmmaOperands<'a> {
    /// A.
    pub a: WgmmaA<'a>,
    /// B.
    pub b: SharedMatrix,
    /// `scale-d`: whether D is added (otherwise it counts as 0).
    pub accumulate: bool,
    /// `imm-scale-a` is -1.
    pub negate_a: bool,
    /// `imm-scale-b` is -1.
    pub negate_b: bool,
}

impl Wgmma {
    /// Reads the modifiers of a `wgmma.mma_async`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<Wgmma, OperandError> {
        let mut shape = None;
        let mut types = Vec::new();
        let mut saturate = false;
        for name in modifiers {
            match name {
                "mma_async" | "sync" | "aligned" | "and" | "popc" => {}
                "satfinite" => saturate = true,
                "sp" => return OperandError::unsupported("wgmma.mma_async.sp (sparse A)"),
                _ if name.starts_with("m64n") => shape = Some(name),
                _ => types.push(name),
            }
        }
        let (Some(shape), &[d, a, b]) = (shape, types.as_slice()) else {
            return OperandError::illegal("wgmma.mma_async needs a shape and the types of D, A, B");
        };
        let unknown =
            |name: &str| OperandError::Illegal(format!("wgmma with element type .{name}"));
        let wgmma = Wgmma {
            columns: parse_columns(shape)?,
            a: Element::from_modifier(a).ok_or_else(|| unknown(a))?,
            b: Element::from_modifier(b).ok_or_else(|| unknown(b))?,
            d: Accumulator::from_modifier(d).ok_or_else(|| unknown(d))?,
            saturate,
        };
        wgmma.check(shape)?;
        Ok(wgmma)
    }

    fn check(&self, shape: &str) -> Result<(), OperandError> {
        let depth = format!("k{}", self.depth());
        if !shape.ends_with(&depth) {
            return OperandError::illegal(format!(
                "wgmma .{shape} with {:?} needs {depth}",
                self.a
            ));
        }
        if matches!(self.a, Element::S4 | Element::U4) {
            return OperandError::illegal(format!("wgmma of {:?} does not exist", self.a));
        }
        let integers = self.a.is_integer();
        if self.b.is_integer() != integers || (self.d == Accumulator::S32) != integers {
            return OperandError::illegal(format!(
                "wgmma of {:?} by {:?} cannot accumulate in {:?}",
                self.a, self.b, self.d
            ));
        }
        Ok(())
    }

    /// Depth of the reduction: 32 bytes of A.
    pub const fn depth(&self) -> usize {
        8 * self.a.per_register()
    }

    /// Accumulator registers of a lane.
    pub const fn d_registers(&self) -> usize {
        self.d.registers(self.columns)
    }

    /// Decodes an A descriptor; `transposed` is `imm-trans-a`.
    pub fn decode_a(&self, descriptor: u64, transposed: bool) -> SharedMatrix {
        SharedMatrix::from_sm90(descriptor, major(transposed))
    }

    /// Decodes a B descriptor; `transposed` is `imm-trans-b`.
    pub fn decode_b(&self, descriptor: u64, transposed: bool) -> SharedMatrix {
        SharedMatrix::from_sm90(descriptor, major(transposed))
    }

    /// Performs the instruction: `shared` is the CTA's shared memory from offset 0, `d` the
    /// accumulators of the four warps, warp 0 first, [`Wgmma::d_registers`] each.
    pub fn execute(
        &self,
        operands: &WgmmaOperands<'_>,
        shared: &[u8],
        d: &mut [Lanes],
    ) -> Result<(), OperandError> {
        let depth = self.depth();
        let mut a = vec![0f32; ROWS * depth];
        self.read_a(operands.a, shared, &mut a)?;
        let mut b = vec![0f32; depth * self.columns];
        operands.b.gather(shared, self.b, (self.columns, depth), &mut b, (1, self.columns))?;
        if operands.negate_a != operands.negate_b {
            a.iter_mut().for_each(|x| *x = -*x);
        }
        if !operands.accumulate {
            d.fill([0; 32]);
        }
        let warps = d.chunks_exact_mut(self.d_registers());
        for (warp, a) in warps.zip(a.chunks_exact(WARP_ROWS * depth)) {
            fragment::update_d(self.d, self.columns, self.saturate, warp, |panel| {
                gemm::accumulate(self.columns, depth, a, &b, panel);
            });
        }
        Ok(())
    }

    fn read_a(&self, a: WgmmaA<'_>, shared: &[u8], panel: &mut [f32]) -> Result<(), OperandError> {
        let depth = self.depth();
        match a {
            WgmmaA::Shared(matrix) => {
                matrix.gather(shared, self.a, (ROWS, depth), panel, (depth, 1))
            }
            WgmmaA::Registers(registers) => {
                let panels = panel.chunks_exact_mut(WARP_ROWS * depth);
                for (registers, panel) in registers.chunks_exact(4).zip(panels) {
                    fragment::unpack_a(self.a, registers, depth, panel);
                }
                Ok(())
            }
        }
    }
}

fn major(transposed: bool) -> Major {
    if transposed { Major::Mn } else { Major::K }
}

fn parse_columns(shape: &str) -> Result<usize, OperandError> {
    let columns = shape["m64n".len()..].split('k').next().and_then(|n| n.parse().ok());
    match columns {
        Some(n @ 8..=256) if n % 8 == 0 => Ok(n),
        _ => OperandError::illegal(format!("wgmma shape .{shape}: N must be 8, 16, … 256")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared_matrix::MatrixSwizzle;
    use super::*;

    fn value(i: usize) -> f32 {
        ((i * 29 + 7) % 15) as f32 - 7.0
    }

    fn put(
        shared: &mut [u8],
        matrix: &SharedMatrix,
        element: Element,
        row: usize,
        k: usize,
        x: f32,
    ) {
        let at = matrix.element_address(row as u32, k as u32, element) as usize;
        match element {
            Element::F16 => {
                shared[at..at + 2].copy_from_slice(&half::f16::from_f32(x).to_le_bytes());
            }
            Element::Bf16 => {
                shared[at..at + 2].copy_from_slice(&half::bf16::from_f32(x).to_le_bytes());
            }
            Element::Tf32 => shared[at..at + 4].copy_from_slice(&x.to_le_bytes()),
            Element::S8 => shared[at] = x as i8 as u8,
            _ => unreachable!(),
        }
    }

    fn operand(start: u32, major: Major, swizzle: MatrixSwizzle) -> SharedMatrix {
        SharedMatrix { start, leading: 8192, stride: 1024, base_offset: 0, swizzle, major }
    }

    fn run(modifiers: &str, major: Major, swizzle: MatrixSwizzle) {
        let wgmma = Wgmma::from_modifiers(modifiers.split('.')).unwrap();
        let (n, depth) = (wgmma.columns, wgmma.depth());
        let a = operand(0, major, swizzle);
        let b = operand(0x8000, major, swizzle);
        let mut shared = vec![0u8; 0x20000];
        for k in 0..depth {
            (0..ROWS).for_each(|m| put(&mut shared, &a, wgmma.a, m, k, value(m * depth + k)));
            (0..n).for_each(|c| put(&mut shared, &b, wgmma.b, c, k, value(c * 31 + k)));
        }
        let operands = WgmmaOperands {
            a: WgmmaA::Shared(a),
            b,
            accumulate: true,
            negate_a: true,
            negate_b: false,
        };
        let three = match wgmma.d {
            Accumulator::F32 => 3f32.to_bits(),
            Accumulator::F16 => 0x4200_4200,
            Accumulator::S32 => 3,
        };
        let mut d = vec![[three; 32]; 4 * wgmma.d_registers()];
        wgmma.execute(&operands, &shared, &mut d).unwrap();
        for m in 0..ROWS {
            for c in 0..n {
                let sum: f32 = (0..depth).map(|k| value(m * depth + k) * value(c * 31 + k)).sum();
                let got = read(&wgmma, &d, m, c);
                assert_eq!(got, 3.0 - sum, "{modifiers} {major:?} {swizzle:?} D[{m}][{c}]");
            }
        }
    }

    /// D by the manual's figure: warp 16 rows, thread groups of four, pairs of columns.
    fn read(wgmma: &Wgmma, d: &[Lanes], m: usize, c: usize) -> f32 {
        let lane = m % 8 * 4 + c % 8 / 2;
        let i = c / 8 * 4 + m % 16 / 8 * 2 + c % 2;
        let warp = &d[m / 16 * wgmma.d_registers()..];
        match wgmma.d {
            Accumulator::F32 => f32::from_bits(warp[i][lane]),
            Accumulator::S32 => warp[i][lane] as i32 as f32,
            Accumulator::F16 => {
                half::f16::from_bits((warp[i / 2][lane] >> (16 * (i % 2))) as u16).to_f32()
            }
        }
    }

    #[test]
    fn shared_operands_of_every_swizzle_and_major() {
        use MatrixSwizzle::*;
        for swizzle in [None, B32, B64, B128] {
            for major in [Major::K, Major::Mn] {
                run("mma_async.sync.aligned.m64n40k16.f32.bf16.bf16", major, swizzle);
                run("mma_async.sync.aligned.m64n64k16.f16.f16.f16", major, swizzle);
            }
            run("mma_async.sync.aligned.m64n24k8.f32.tf32.tf32", Major::K, swizzle);
            run("mma_async.sync.aligned.m64n8k32.s32.s8.s8", Major::K, swizzle);
        }
    }

    #[test]
    fn register_a_equals_shared_a() {
        let wgmma = Wgmma::from_modifiers("m64n16k32.f32.e4m3.e5m2".split('.')).unwrap();
        let a = operand(0, Major::K, MatrixSwizzle::None);
        let b = operand(0x8000, Major::K, MatrixSwizzle::B32);
        let shared: Vec<u8> = (0..0x20000usize).map(|i| (i * 11 % 64) as u8).collect();
        let mut registers = vec![[0u32; 32]; 16];
        for (r, lanes) in registers.iter_mut().enumerate() {
            for (lane, word) in lanes.iter_mut().enumerate() {
                let row = r / 4 * 16 + lane / 4 + 8 * (r % 2);
                let k = lane % 4 * 4 + 16 * (r % 4 / 2);
                let at = a.element_address(row as u32, k as u32, Element::E4m3) as usize;
                *word = u32::from_le_bytes(shared[at..at + 4].try_into().unwrap());
            }
        }
        let mut results = Vec::new();
        for a in [WgmmaA::Shared(a), WgmmaA::Registers(&registers)] {
            let mut d = vec![[0x7FC0_0000u32; 32]; 4 * wgmma.d_registers()];
            let operands =
                WgmmaOperands { a, b, accumulate: false, negate_a: false, negate_b: false };
            wgmma.execute(&operands, &shared, &mut d).unwrap();
            results.push(d);
        }
        assert_eq!(results[0], results[1]);
        assert!(results[0].iter().flatten().any(|&bits| bits != 0));
    }

    #[test]
    fn bits_are_counted() {
        let wgmma = Wgmma::from_modifiers("m64n8k256.s32.b1.b1.and.popc".split('.')).unwrap();
        let a = operand(0, Major::K, MatrixSwizzle::B128);
        let b = operand(0x8000, Major::K, MatrixSwizzle::None);
        let shared: Vec<u8> = (0..0x10000usize).map(|i| ((i * 37) ^ (i / 7)) as u8).collect();
        let mut d = vec![[5; 32]; 4 * wgmma.d_registers()];
        let operands = WgmmaOperands {
            a: WgmmaA::Shared(a),
            b,
            accumulate: true,
            negate_a: false,
            negate_b: false,
        };
        wgmma.execute(&operands, &shared, &mut d).unwrap();
        // Rows of bits lie as rows of bytes do.
        let byte = |matrix: &SharedMatrix, row: usize, k: usize| {
            shared[matrix.element_address(row as u32, k as u32, Element::U8) as usize]
        };
        for (m, c) in (0..ROWS).flat_map(|m| (0..8).map(move |c| (m, c))) {
            let ones = (0..32).map(|k| (byte(&a, m, k) & byte(&b, c, k)).count_ones());
            assert_eq!(read(&wgmma, &d, m, c), 5.0 + ones.sum::<u32>() as f32, "D[{m}][{c}]");
        }
    }

    #[test]
    fn wrong_shapes_are_named() {
        let error = |m: &str| Wgmma::from_modifiers(m.split('.')).unwrap_err().to_string();
        assert!(error("m64n64k8.f32.f16.f16").contains("needs k16"));
        assert!(error("m64n12k16.f32.f16.f16").contains("N must be 8, 16"));
        assert!(error("m64n16k32.f32.s8.s8").contains("cannot accumulate in F32"));
    }
}
