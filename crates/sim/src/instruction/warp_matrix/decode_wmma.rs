//! Decoding of `wmma`: loads and stores of fragments, and multiplies as `mma.sync`s of their tiles.

use crate::instruction::space;
use crate::instruction::{MmaSyncOp, WarpMatrix, WmmaTransfer};
use crate::load::{Decoded, Loader, arg};
use crate::load::{modifiers, same_count, told};
use crate::matrix::{Accumulator, Element, MmaSync, WmmaMatrix, WmmaShape};
use crate::register::{R32, Reg};
use ptx::resolve::{Arg, Resolved};

/// Registers of a lane for A and B of f16, whatever the shape.
const HALF_REGISTERS: usize = 8;

impl<'m> Loader<'m> {
    pub(crate) fn wmma(&mut self, i: &Resolved<'m>) -> Decoded<WarpMatrix> {
        let has = |name: &str| i.instruction.has(name);
        match () {
            _ if has("load") => Ok(WarpMatrix::WmmaLoad(Box::new(self.wmma_transfer(i, 1, 0)?))),
            _ if has("store") => Ok(WarpMatrix::WmmaStore(Box::new(self.wmma_transfer(i, 0, 1)?))),
            _ if has("f64") => self.mma_f64(i),
            _ => self.wmma_mma(i),
        }
    }

    fn wmma_transfer(
        &mut self,
        i: &Resolved<'m>,
        address: usize,
        fragment: usize,
    ) -> Decoded<WmmaTransfer> {
        let matrix = WmmaMatrix::from_modifiers(modifiers(i)).map_err(told)?;
        let registers = arg(i, fragment)?.clone();
        let registers = self.elements(&registers).iter().map(|e| self.any_reg(e));
        let registers = registers.collect::<Decoded<Box<[Reg]>>>()?;
        let due = matrix.units() * matrix.registers_per_unit();
        let repeats =
            i.instruction.has("f16") && !i.instruction.has("c") && !i.instruction.has("d");
        same_count(registers.len(), if repeats { HALF_REGISTERS } else { due })?;
        let stride = match i.args.get(2) {
            Some(stride) => self.source32(stride)?,
            None => self.constants.const32(&mut self.frame, matrix.packed_stride()),
        };
        let (addr, space) = (self.address(i, address)?, space(i.instruction));
        Ok(WmmaTransfer { matrix, registers, addr, stride, space })
    }

    /// One `mma.sync` for every 16 rows and 8 columns of D; 8 rows are half of one.
    fn wmma_mma(&mut self, i: &Resolved<'m>) -> Decoded<WarpMatrix> {
        let (shape, mma) = wmma_types(i)?;
        let mut list = |index: usize| {
            let operand: Arg = arg(i, index)?.clone();
            self.row_list(&operand)
        };
        let [a, b, c] = [list(1)?, list(2)?, list(3)?];
        let d = self.destination_list(arg(i, 0)?)?;
        let (down, across) = (shape.rows / 8, shape.columns / 8);
        let k_tiles = shape.depth / (4 * mma.a.per_register());
        let repeated = |tiles: usize| if mma.a == Element::F16 { HALF_REGISTERS } else { tiles };
        same_count(a.len(), repeated(down * k_tiles))?;
        same_count(b.len(), repeated(across * k_tiles))?;
        let per_tile = |kind: Accumulator| kind.registers(8) / 2;
        same_count(c.len(), down * across * per_tile(mma.c))?;
        same_count(d.len(), down * across * per_tile(mma.d))?;
        let zero = self.constants.const32(&mut self.frame, 0);
        let sink = self.frame.new32();
        // The registers of two tiles of a list that goes down first, `n` each.
        let pair = |list: &[R32], column: usize, row: usize, n: usize, none: R32| {
            let at = |row: usize| match row < down {
                true => list[(column * down + row) * n..][..n].to_vec(),
                false => vec![none; n],
            };
            [at(row), at(row + 1)].concat()
        };
        let mut parts = Vec::new();
        for column in 0..across {
            for row in (0..down).step_by(2) {
                let a = (0..k_tiles).flat_map(|k| pair(&a, k, row, 1, zero)).collect();
                let b = b[column * k_tiles..][..k_tiles].into();
                let c = pair(&c, column, row, per_tile(mma.c), zero).into();
                let d = pair(&d, column, row, per_tile(mma.d), sink).into();
                parts.push(MmaSyncOp { mma, d, s: [a, b, c] });
            }
        }
        Ok(WarpMatrix::MmaSync(parts.into()))
    }
}

/// Shape and types of a `wmma.mma`; with f16 it names those of D and C alone.
fn wmma_types(i: &Resolved) -> Decoded<(WmmaShape, MmaSync)> {
    let shape = WmmaShape::from_modifiers(modifiers(i)).map_err(told)?;
    let types: Vec<&str> = modifiers(i)
        .filter(|m| Element::from_modifier(m).is_some() || matches!(*m, "f32" | "s32"))
        .collect();
    let [d, a, b, c] = match types[..] {
        [d, c] => [d, "f16", "f16", c],
        [d, a, b, c] => [d, a, b, c],
        _ => return Err("wmma.mma of these types is not known here".into()),
    };
    let element =
        |name: &str| Element::from_modifier(name).ok_or(format!("wmma with .{name} there"));
    let kind =
        |name: &str| Accumulator::from_modifier(name).ok_or(format!("wmma with .{name} there"));
    let saturate = i.instruction.has("satfinite");
    let (a, b, c, d) = (element(a)?, element(b)?, kind(c)?, kind(d)?);
    let WmmaShape { rows, depth, .. } = shape;
    Ok((shape, MmaSync { rows: rows.min(16), depth, a, b, c, d, saturate, differ: false }))
}
