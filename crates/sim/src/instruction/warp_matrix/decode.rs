//! Decoding of matrix instructions of a warp.

use crate::instruction::{MmaSyncOp, WarpMatrix, space};
use crate::load::{Decoded, Loader, arg, modifiers, same_count, told};
use crate::matrix::{Ldmatrix, MmaSync, Stmatrix};
use crate::register::{R32, R64, Reg};
use ptx::resolve::Resolved;

impl<'m> Loader<'m> {
    pub(crate) fn warp_matrix(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let op = match opcode {
            "mma" if i.instruction.has("f64") => self.mma_f64(i)?,
            "mma" => self.mma_sync(i)?,
            "wmma" => self.wmma(i)?,
            "ldmatrix" => self.ldmatrix(i)?,
            "stmatrix" => self.stmatrix(i)?,
            "movmatrix" => WarpMatrix::Movmatrix { d: self.d32(i, 0)?, a: self.s32(i, 1)? },
            other => return Err(format!("instruction `{other}` is not known here")),
        };
        self.emit(i, op);
        Ok(())
    }

    fn ldmatrix(&mut self, i: &Resolved<'m>) -> Decoded<WarpMatrix> {
        let shape = Ldmatrix::from_modifiers(modifiers(i)).map_err(told)?;
        let d = self.destination_list(arg(i, 0)?)?;
        same_count(d.len(), shape.registers())?;
        let (addr, space) = (self.address(i, 1)?, space(i.instruction));
        Ok(WarpMatrix::Ldmatrix { shape, d, addr, space })
    }

    fn stmatrix(&mut self, i: &Resolved<'m>) -> Decoded<WarpMatrix> {
        let shape = Stmatrix::from_modifiers(modifiers(i)).map_err(told)?;
        let s = self.row_list(arg(i, 1)?)?;
        same_count(s.len(), shape.registers())?;
        let (addr, space) = (self.address(i, 0)?, space(i.instruction));
        Ok(WarpMatrix::Stmatrix { shape, s, addr, space })
    }

    fn mma_sync(&mut self, i: &Resolved<'m>) -> Decoded<WarpMatrix> {
        let mma = MmaSync::from_modifiers(modifiers(i)).map_err(told)?;
        let [mut d, mut a] = [self.destination_list(arg(i, 0)?)?, self.row_list(arg(i, 1)?)?];
        let [b, mut c] = [self.row_list(arg(i, 2)?)?, self.row_list(arg(i, 3)?)?];
        same_count(a.len(), mma.a_registers())?;
        same_count(b.len(), mma.b_registers())?;
        same_count(c.len(), mma.rows * mma.c.registers(8) / 16)?;
        same_count(d.len(), mma.rows * mma.d.registers(8) / 16)?;
        if mma.rows == 8 {
            let zero = self.constants.const32(&mut self.frame, 0);
            let sink = self.frame.new32();
            let lower = |list: &[R32], none: R32| [list, &vec![none; list.len()]].concat().into();
            (a, c, d) = (lower(&a, zero), lower(&c, zero), lower(&d, sink));
        }
        Ok(WarpMatrix::MmaSync(Box::new([MmaSyncOp { mma, d, s: [a, b, c] }])))
    }

    pub(crate) fn mma_f64(&mut self, i: &Resolved<'m>) -> Decoded<WarpMatrix> {
        let shapes = [("m8n8k4", 1, 4), ("m16n8k4", 2, 4), ("m16n8k8", 2, 8), ("m16n8k16", 2, 16)];
        let shape = shapes.iter().find(|(name, ..)| i.instruction.has(name));
        let Some(&(_, down, depth)) = shape else {
            return Err("mma of f64 has shape m8n8k4, m16n8k4, m16n8k8 or m16n8k16".into());
        };
        let destinations = self.destinations(arg(i, 0)?)?;
        if !destinations.iter().all(|d| matches!(d, Some(Reg::R64(_)))) {
            return Err("an mma of f64 into registers that have not 64 bits".into());
        }
        let mut wide = |index: usize, due: usize| -> Decoded<Box<[R64]>> {
            let elements = self.elements(arg(i, index)?).to_vec();
            same_count(elements.len(), due)?;
            elements.iter().map(|e| self.source64(e)).collect()
        };
        let d = wide(0, 2 * down)?;
        let s = [wide(1, down * depth / 4)?, wide(2, depth / 4)?, wide(3, 2 * down)?];
        Ok(WarpMatrix::MmaF64 { d, s: Box::new(s) })
    }
}
