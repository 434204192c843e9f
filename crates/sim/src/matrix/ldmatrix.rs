use super::error::OperandError;
use super::fragment::Lanes;

/// One row of a matrix in shared memory, at the address one lane supplies.
pub type MatrixRow = [u8; 16];

/// Shape and element width of the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// 8x8 of 16 bits.
    B16,
    /// 8x16 of 6 or 4 bits, widened to bytes.
    Narrow { bits: u32 },
    /// 16x16 of bytes, transposed; narrower elements are widened first.
    Square { bits: u32 },
    /// 16x8 of bytes, transposed (`stmatrix`).
    Tall,
}

/// A warp's `ldmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ldmatrix {
    shape: Shape,
    count: usize,
    transposed: bool,
}

/// A warp's `stmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stmatrix {
    shape: Shape,
    count: usize,
    transposed: bool,
}

struct Parsed<'m> {
    shape: &'m str,
    count: usize,
    transposed: bool,
    ty: &'m str,
    bits: u32,
}

fn parse<'m>(modifiers: impl IntoIterator<Item = &'m str>) -> Result<Parsed<'m>, OperandError> {
    let mut parsed = Parsed { shape: "m8n8", count: 1, transposed: false, ty: "b16", bits: 8 };
    for name in modifiers {
        match name {
            "sync" | "aligned" | "shared" | "shared::cta" => {}
            "m8n8" | "m16n16" | "m8n16" | "m16n8" => parsed.shape = name,
            "x1" => parsed.count = 1,
            "x2" => parsed.count = 2,
            "x4" => parsed.count = 4,
            "trans" => parsed.transposed = true,
            "b16" | "b8" | "b8x16" => parsed.ty = name,
            "b6x16_p32" => parsed.bits = 6,
            "b4x16_p64" => parsed.bits = 4,
            _ => return OperandError::unsupported(format!("ldmatrix/stmatrix with .{name}")),
        }
    }
    Ok(parsed)
}

impl Ldmatrix {
    /// Reads the modifiers of an `ldmatrix`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<Ldmatrix, OperandError> {
        let p = parse(modifiers)?;
        let shape = match (p.shape, p.ty, p.transposed) {
            ("m8n8", "b16", _) => Shape::B16,
            ("m16n16", "b8" | "b8x16", true) if p.count < 4 => Shape::Square { bits: p.bits },
            ("m8n16", "b8x16", false) if p.bits < 8 => Shape::Narrow { bits: p.bits },
            _ => {
                return OperandError::illegal(format!(
                    "ldmatrix.{}.x{}{}.{} does not exist",
                    p.shape,
                    p.count,
                    if p.transposed { ".trans" } else { "" },
                    p.ty
                ));
            }
        };
        Ok(Ldmatrix { shape, count: p.count, transposed: p.transposed })
    }

    /// Rows read: row `i` is at the address of lane `i`.
    pub const fn rows(&self) -> usize {
        match self.shape {
            Shape::Square { .. } => 16 * self.count,
            _ => 8 * self.count,
        }
    }

    /// Registers of a lane.
    pub const fn registers(&self) -> usize {
        match self.shape {
            Shape::Square { .. } => 2 * self.count,
            _ => self.count,
        }
    }

    /// The registers of all lanes, given the rows.
    pub fn load(&self, rows: &[MatrixRow]) -> Vec<Lanes> {
        match self.shape {
            Shape::B16 => {
                let fragments = rows.as_chunks::<8>().0.iter();
                fragments.map(|matrix| load_b16(matrix, self.transposed)).collect()
            }
            Shape::Narrow { bits } => {
                let matrices = rows.as_chunks::<8>().0.iter();
                matrices.map(|m| std::array::from_fn(|lane| narrow_word(m, lane, bits))).collect()
            }
            Shape::Square { bits } => {
                let matrices = rows.as_chunks::<16>().0.iter();
                matrices.flat_map(|m| load_square(&m.map(|row| widen(row, bits)))).collect()
            }
            Shape::Tall => unreachable!("only stmatrix has 16x8 matrices"),
        }
    }
}

/// Lane `l` gets row `l/4`, columns `2*(l%4)` and the next; or the same of the transpose.
fn load_b16(matrix: &[MatrixRow; 8], transposed: bool) -> Lanes {
    let at = |row: usize, column: usize| {
        let (row, column) = if transposed { (column, row) } else { (row, column) };
        u32::from(u16::from_le_bytes([matrix[row][2 * column], matrix[row][2 * column + 1]]))
    };
    std::array::from_fn(|l| at(l / 4, 2 * (l % 4)) | at(l / 4, 2 * (l % 4) + 1) << 16)
}

/// Spreads 16 elements of `bits` bits to the low bits of 16 bytes.
fn widen(row: MatrixRow, bits: u32) -> MatrixRow {
    let packed = u128::from_le_bytes(row);
    std::array::from_fn(|i| (packed >> (bits as usize * i)) as u8 & ((1u32 << bits) - 1) as u8)
}

fn narrow_word(matrix: &[MatrixRow; 8], lane: usize, bits: u32) -> u32 {
    let row = widen(matrix[lane / 4], bits);
    u32::from_le_bytes(std::array::from_fn(|b| row[4 * (lane % 4) + b]))
}

/// Byte `b` of register `r` is row `4*(l%4) + b%2 + 2*r`, column `l/4 + 8*(b/2)`; taken from the
/// thread-value layout of CUTLASS's copy atom, the manual gives it as a figure only.
fn load_square(matrix: &[MatrixRow; 16]) -> [Lanes; 2] {
    std::array::from_fn(|r| {
        std::array::from_fn(|l| {
            u32::from_le_bytes(std::array::from_fn(|b| {
                matrix[4 * (l % 4) + b % 2 + 2 * r][l / 4 + 8 * (b / 2)]
            }))
        })
    })
}

impl Stmatrix {
    /// Reads the modifiers of an `stmatrix`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<Stmatrix, OperandError> {
        let p = parse(modifiers)?;
        let shape = match (p.shape, p.ty, p.transposed) {
            ("m8n8", "b16", _) => Shape::B16,
            ("m16n8", "b8", true) => Shape::Tall,
            _ => {
                return OperandError::illegal(format!(
                    "stmatrix.{}.{} with{} .trans does not exist",
                    p.shape,
                    p.ty,
                    if p.transposed { "" } else { "out" }
                ));
            }
        };
        Ok(Stmatrix { shape, count: p.count, transposed: p.transposed })
    }

    /// Rows written: row `i` goes to the address of lane `i`.
    pub const fn rows(&self) -> usize {
        8 * self.count
    }

    /// Registers of a lane.
    pub const fn registers(&self) -> usize {
        self.count
    }

    /// The rows the registers of all lanes make.
    pub fn store(&self, registers: &[Lanes]) -> Vec<MatrixRow> {
        registers.iter().flat_map(|lanes| self.rows_of(lanes)).collect()
    }

    fn rows_of(&self, lanes: &Lanes) -> [MatrixRow; 8] {
        let mut rows = [[0u8; 16]; 8];
        for (l, word) in lanes.iter().enumerate() {
            for (b, byte) in word.to_le_bytes().into_iter().enumerate() {
                let (row, column) = match self.shape {
                    Shape::Tall => (2 * (l % 4) + b % 2, l / 4 + 8 * (b / 2)),
                    _ if self.transposed => (2 * (l % 4) + b / 2, l / 4 * 2 + b % 2),
                    _ => (l / 4, 4 * (l % 4) + b),
                };
                rows[row][column] = byte;
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<MatrixRow> {
        (0..count).map(|r| std::array::from_fn(|b| (r * 16 + b) as u8)).collect()
    }

    #[test]
    fn x4_gives_each_lane_a_pair_of_each_matrix() {
        let load = Ldmatrix::from_modifiers("sync.aligned.m8n8.x4.shared.b16".split('.')).unwrap();
        assert_eq!((load.rows(), load.registers()), (32, 4));
        let registers = load.load(&rows(32));
        // Lane 13: row 3, columns 2 and 3, bytes 4..8 of that row.
        assert_eq!(registers[1][13].to_le_bytes(), [180, 181, 182, 183]);
    }

    #[test]
    fn stmatrix_undoes_ldmatrix() {
        for trans in ["", ".trans"] {
            let modifiers = format!("sync.aligned.m8n8.x2{trans}.shared.b16");
            let load = Ldmatrix::from_modifiers(modifiers.split('.')).unwrap();
            let store = Stmatrix::from_modifiers(modifiers.split('.')).unwrap();
            let original = rows(16);
            assert_eq!(store.store(&load.load(&original)), original, "{modifiers}");
        }
    }

    #[test]
    fn transposed_load_swaps_rows_and_columns() {
        let load = Ldmatrix::from_modifiers("m8n8.x1.trans.b16".split('.')).unwrap();
        let registers = load.load(&rows(8));
        // Lane 13 of the transpose: column 3 of rows 2 and 3.
        assert_eq!(registers[0][13].to_le_bytes(), [38, 39, 54, 55]);
    }

    #[test]
    fn narrow_elements_land_in_the_low_bits() {
        let load = Ldmatrix::from_modifiers("m8n16.x1.b8x16.b4x16_p64".split('.')).unwrap();
        let mut matrix = rows(8);
        matrix[0] = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE, 9, 9, 9, 9, 9, 9, 9, 9];
        let registers = load.load(&matrix);
        assert_eq!(registers[0][1].to_le_bytes(), [4, 5, 6, 7]);
    }

    #[test]
    fn square_and_tall_shapes_are_inverse_up_to_row_order() {
        let load = Ldmatrix::from_modifiers("m16n16.x1.trans.b8".split('.')).unwrap();
        let store = Stmatrix::from_modifiers("m16n8.x2.trans.b8".split('.')).unwrap();
        let original = rows(16);
        let again = store.store(&load.load(&original));
        // The load takes rows 4q, 4q+1 to the first register and 4q+2, 4q+3 to the second.
        for (i, row) in again.iter().enumerate() {
            let (register, p) = (i / 8, i % 8);
            assert_eq!(*row, original[4 * (p / 2) + p % 2 + 2 * register]);
        }
    }

    #[test]
    fn missing_forms_are_refused() {
        let error = Ldmatrix::from_modifiers("m16n16.x4.trans.b8".split('.')).unwrap_err();
        assert!(error.to_string().contains("does not exist"), "{error}");
    }
}
