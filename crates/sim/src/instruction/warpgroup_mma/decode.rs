//! Decoding of `wgmma`.

use crate::instruction::{MatrixSource, WarpgroupMma, WgmmaOp};
use crate::load::{Decoded, Loader, arg, modifiers, same_count, told};
use crate::matrix::Wgmma;
use ptx::resolve::{Arg, Resolved};
use std::sync::Arc;

impl<'m> Loader<'m> {
    pub(crate) fn warpgroup_mma(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        let op = match () {
            _ if has("fence") => WarpgroupMma::Fence,
            _ if has("commit_group") => WarpgroupMma::Commit,
            _ if has("wait_group") => WarpgroupMma::Wait(self.count(i, 0)?),
            _ => self.wgmma(i)?,
        };
        self.emit(i, op);
        Ok(())
    }

    fn wgmma(&mut self, i: &Resolved<'m>) -> Decoded<WarpgroupMma> {
        let mma = Wgmma::from_modifiers(modifiers(i)).map_err(told)?;
        let d = self.destination_list(arg(i, 0)?)?;
        same_count(d.len(), mma.d_registers())?;
        let a = match arg(i, 1)? {
            Arg::Vector(_) => {
                let registers = self.row_list(arg(i, 1)?)?;
                same_count(registers.len(), 4)?;
                MatrixSource::Registers(registers)
            }
            _ => MatrixSource::Descriptor(self.s64(i, 1)?),
        };
        let b = self.s64(i, 2)?;
        let accumulate = self.predicate(arg(i, 3)?)?;
        let immediate = |index: usize| match i.args.get(index) {
            Some(Arg::Integer(value)) => Ok(*value),
            None => Ok(0),
            Some(_) => Err("scale and transpose operands must be immediates".to_string()),
        };
        let negate = [immediate(4)? == -1, immediate(5)? == -1];
        let transpose = match a {
            MatrixSource::Registers(_) => [false, immediate(6)? == 1],
            MatrixSource::Descriptor(_) | MatrixSource::Tensor(_) => {
                [immediate(6)? == 1, immediate(7)? == 1]
            }
        };
        Ok(WarpgroupMma::Mma(Arc::new(WgmmaOp { mma, d, a, b, accumulate, negate, transpose })))
    }
}
