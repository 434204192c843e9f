use super::element::Element;
use super::error::OperandError;
use super::fragment::{self, Accumulator, Lanes};
use super::gemm;

/// A warp-level `mma.sync` of shape m16n8kK, or m8n8kK as its upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaSync {
    /// Rows of A and D: 16, or 8 of which the others are zeros.
    pub rows: usize,
    /// Depth of the reduction.
    pub depth: usize,
    /// Element type of A.
    pub a: Element,
    /// Element type of B.
    pub b: Element,
    /// Type of C.
    pub c: Accumulator,
    /// Type of D.
    pub d: Accumulator,
    /// `.satfinite` of the integer kinds.
    pub saturate: bool,
    /// Counts bits that differ (`.xor.popc`) rather than pairs of ones.
    pub differ: bool,
}

const COLUMNS: usize = 8;

impl MmaSync {
    /// Reads the modifiers of an `mma`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<MmaSync, OperandError> {
        let mut shape = None;
        let mut types = Vec::new();
        let (mut saturate, mut differ) = (false, false);
        for name in modifiers {
            match name {
                "sync" | "aligned" | "row" | "col" | "kind::f8f6f4" | "and" | "popc" => {}
                "satfinite" => saturate = true,
                "xor" => differ = true,
                "f16" | "bf16" | "tf32" | "f32" | "s32" | "e4m3" | "e5m2" | "e2m3" | "e3m2"
                | "e2m1" | "s8" | "u8" | "s4" | "u4" | "b1" => types.push(name),
                _ if shape.is_none() && name.starts_with('m') => shape = Some(parse_shape(name)?),
                _ => return OperandError::unsupported(format!("mma with .{name}")),
            }
        }
        let (Some((rows, depth)), &[d, a, b, c]) = (shape, types.as_slice()) else {
            return OperandError::illegal("mma needs a shape and the types of D, A, B, C");
        };
        let unknown = |name: &str| OperandError::Illegal(format!("mma with type .{name} there"));
        let mma = MmaSync {
            rows,
            depth,
            a: Element::from_modifier(a).ok_or_else(|| unknown(a))?,
            b: Element::from_modifier(b).ok_or_else(|| unknown(b))?,
            c: Accumulator::from_modifier(c).ok_or_else(|| unknown(c))?,
            d: Accumulator::from_modifier(d).ok_or_else(|| unknown(d))?,
            saturate,
            differ,
        };
        mma.check()?;
        Ok(mma)
    }

    fn check(&self) -> Result<(), OperandError> {
        let quarter = 4 * self.a.per_register();
        let integers = self.a.is_integer();
        let fits = match self.rows {
            8 => self.depth == quarter && integers,
            _ => self.depth == quarter || self.depth == 2 * quarter,
        };
        let consistent = self.b.is_integer() == integers
            && self.b.per_register() == self.a.per_register()
            && (self.d == Accumulator::S32) == integers
            && (self.c == Accumulator::S32) == integers;
        if fits && consistent {
            return Ok(());
        }
        OperandError::illegal(format!(
            "mma.m{}n8k{} of {:?} by {:?} into {:?} does not exist",
            self.rows, self.depth, self.a, self.b, self.d
        ))
    }

    /// Registers of a lane for A.
    pub const fn a_registers(&self) -> usize {
        self.rows / 8 * self.depth / (4 * self.a.per_register())
    }

    /// Registers of a lane for B.
    pub const fn b_registers(&self) -> usize {
        self.depth / (4 * self.b.per_register())
    }

    /// `D = A*B + C`.
    pub fn execute(&self, a: &[Lanes], b: &[Lanes], c: &[Lanes]) -> Vec<Lanes> {
        let mut a_panel = vec![0f32; 16 * self.depth];
        fragment::unpack_a(self.a, a, self.depth, &mut a_panel);
        let mut b_panel = vec![0f32; self.depth * COLUMNS];
        fragment::unpack_b(self.b, b, &mut b_panel);
        let mut panel = vec![0f32; 16 * COLUMNS];
        if self.differ {
            start_with_differences(&mut b_panel, &mut panel);
        }
        if self.d == Accumulator::S32 {
            gemm::accumulate(COLUMNS, self.depth, &a_panel, &b_panel, &mut panel);
            let mut d = c.to_vec();
            fragment::add_d(&panel, COLUMNS, self.saturate, &mut d);
            return d;
        }
        fragment::unpack_d(self.c, c, COLUMNS, &mut panel);
        gemm::accumulate(COLUMNS, self.depth, &a_panel, &b_panel, &mut panel);
        let mut d = vec![[0; 32]; self.d.registers(COLUMNS)];
        fragment::pack_d(self.d, &panel, COLUMNS, &mut d);
        d
    }
}

/// Rows and depth of `m16n8k32`, `m8n8k16` and so on.
fn parse_shape(name: &str) -> Result<(usize, usize), OperandError> {
    let parts = name[1..].split_once("n8k");
    match parts.and_then(|(rows, depth)| Some((rows.parse().ok()?, depth.parse().ok()?))) {
        Some(shape @ (8 | 16, _)) => Ok(shape),
        _ => OperandError::unsupported(format!("mma with .{name}")),
    }
}

/// Makes sums of products of bits count where bits differ: `a ^ b` is `b + a * (1 - 2b)`.
fn start_with_differences(b_panel: &mut [f32], sums: &mut [f32]) {
    for bits in b_panel.chunks_exact_mut(COLUMNS) {
        for (column, bit) in bits.iter_mut().enumerate() {
            sums.iter_mut().skip(column).step_by(COLUMNS).for_each(|sum| *sum += *bit);
            *bit = 1.0 - 2.0 * *bit;
        }
    }
}

/// `mma.sync` of doubles, m8n8k4 or m16n8kK: registers as for narrower types, one number each.
pub fn mma_f64(a: &[[f64; 32]], b: &[[f64; 32]], c: &[[f64; 32]]) -> Vec<[f64; 32]> {
    let down = c.len() / 2;
    let mut d = c.to_vec();
    for (i, lanes) in d.iter_mut().enumerate() {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let (row, column) = (lane / 4, 2 * (lane % 4) + i % 2);
            for k in 0..4 * b.len() {
                let a = a[k / 4 * down + i / 2][4 * row + k % 4];
                *sum = a.mul_add(b[k / 4][4 * column + k % 4], *sum);
            }
        }
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs a matrix into registers by `place(register, lane, element) -> matrix index`.
    fn pack(
        registers: usize,
        element: Element,
        place: impl Fn(usize, usize, usize) -> f32,
    ) -> Vec<Lanes> {
        let per = element.per_register();
        let bits = 32 / per;
        let encode = |x: f32| match element {
            Element::F16 => u32::from(half::f16::from_f32(x).to_bits()),
            Element::Bf16 => u32::from(half::bf16::from_f32(x).to_bits()),
            Element::Tf32 => x.to_bits(),
            Element::S4 => x as i32 as u32 & 0xF,
            _ => u32::from(x as i8 as u8),
        };
        (0..registers)
            .map(|r| {
                std::array::from_fn(|lane| {
                    (0..per).fold(0, |word, j| word | encode(place(r, lane, j)) << (bits * j))
                })
            })
            .collect()
    }

    fn check(modifiers: &str) {
        let mma = MmaSync::from_modifiers(modifiers.split('.')).unwrap();
        let per = mma.a.per_register();
        let at = |m: usize, k: usize| ((m * 7 + k * 3) % 13) as f32 - 6.0;
        let bt = |k: usize, n: usize| ((k * 5 + n * 11) % 9) as f32 - 4.0;
        let a = pack(mma.a_registers(), mma.a, |r, lane, j| {
            at(lane / 4 + 8 * (r % 2), lane % 4 * per + j + 4 * per * (r / 2))
        });
        let b = pack(mma.b_registers(), mma.b, |r, lane, j| {
            bt(lane % 4 * per + j + 4 * per * r, lane / 4)
        });
        let one = match mma.c {
            Accumulator::F32 => 1f32.to_bits(),
            Accumulator::F16 => 0x3C00_3C00,
            Accumulator::S32 => 1,
        };
        let c = vec![[one; 32]; mma.c.registers(8)];
        let d = mma.execute(&a, &b, &c);
        for lane in 0..32 {
            for i in 0..4 {
                let (m, n) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
                let sum: f32 = (0..mma.depth).map(|k| at(m, k) * bt(k, n)).sum();
                let got = match mma.d {
                    Accumulator::F32 => f32::from_bits(d[i][lane]),
                    Accumulator::S32 => d[i][lane] as i32 as f32,
                    Accumulator::F16 => {
                        half::f16::from_bits((d[i / 2][lane] >> (16 * (i % 2))) as u16).to_f32()
                    }
                };
                assert_eq!(got, 1.0 + sum, "{modifiers} D[{m}][{n}]");
            }
        }
    }

    #[test]
    fn shapes_and_types() {
        check("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
        check("sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32");
        check("sync.aligned.m16n8k16.row.col.f16.f16.f16.f16");
        check("sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
        check("sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32");
        check("sync.aligned.m16n8k32.row.col.s32.s8.s8.s32");
        check("sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32");
        check("sync.aligned.m16n8k32.row.col.s32.s4.s4.s32");
        check("sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32");
    }

    #[test]
    fn bits_are_counted() {
        let bits = |seed: u32| -> Vec<Lanes> {
            let word = |i: u32| (i * 7 + seed).wrapping_mul(0x9E37_79B9).rotate_left(i);
            (0..4).map(|r| std::array::from_fn(|lane| word(32 * r + lane as u32))).collect()
        };
        let (a, b) = (bits(1), &bits(5)[..2]);
        for (op, count) in [
            ("and", (|a, b| (a & b).count_ones()) as fn(u32, u32) -> u32),
            ("xor", |a, b| (a ^ b).count_ones()),
        ] {
            let name = format!("m16n8k256.row.col.s32.b1.b1.s32.{op}.popc");
            let mma = MmaSync::from_modifiers(name.split('.')).unwrap();
            let d = mma.execute(&a, b, &[[3; 32]; 4]);
            for (i, lane) in (0..4).flat_map(|i| (0..32).map(move |lane| (i, lane))) {
                let (row, column) = (lane / 4, 2 * (lane % 4) + i % 2);
                let words = (0..8).map(|k| {
                    let (quarter, half) = (k % 4, k / 4);
                    count(a[2 * half + i / 2][4 * row + quarter], b[half][4 * column + quarter])
                });
                assert_eq!(d[i][lane], 3 + words.sum::<u32>(), "{op} {i} {lane}");
            }
        }
    }

    #[test]
    fn doubles() {
        let a = std::array::from_fn(|i| i as f64);
        let b = std::array::from_fn(|i| (i * i % 7) as f64);
        let d = mma_f64(&[a], &[b], &[[0.5; 32]; 2]);
        let expected: f64 = (0..4).map(|k| a[3 * 4 + k] * b[5 * 4 + k]).sum();
        assert_eq!(d[1][3 * 4 + 2], 0.5 + expected);

        // m16n8k8, row 11: its registers of A are the second and the fourth.
        let (other, more) = (a.map(|x| 31.0 - x), b.map(|x| x - 2.0));
        let d = mma_f64(&[[0.0; 32], a, [0.0; 32], other], &[b, more], &[[0.5; 32]; 4]);
        let second: f64 = (0..4).map(|k| other[3 * 4 + k] * more[5 * 4 + k]).sum();
        assert_eq!(d[3][3 * 4 + 2], 0.5 + expected + second);
        assert_eq!(d[1][3 * 4 + 2], 0.5);
    }

    #[test]
    fn unknown_forms_are_refused() {
        let error = |m: &str| MmaSync::from_modifiers(m.split('.')).unwrap_err().to_string();
        assert!(error("sync.aligned.m8n32k16.row.col.s32.s8.s8.s32").contains("not supported"));
        assert!(error("sync.aligned.m8n8k32.row.col.s32.s8.s8.s32").contains("does not exist"));
        assert!(error("sync.aligned.m16n8k32.row.col.f32.f16.f16.f32").contains("does not exist"));
    }
}
