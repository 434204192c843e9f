//! Decoding of `tcgen05`.

use crate::instruction::{MatrixSource, Op, Tcgen05, Tcgen05MmaOp, space};
use crate::load::{Decoded, Loader, arg, modifiers, same_count, told};
use crate::matrix::{Tcgen05Mma, TmemCopy, TmemTransfer};
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn tcgen05(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let op = self.tcgen05_op(i)?;
        self.emit(i, Op::Tcgen05(Box::new(op)));
        Ok(())
    }

    fn tcgen05_op(&mut self, i: &Resolved<'m>) -> Decoded<Tcgen05> {
        let has = |name: &str| i.instruction.has(name);
        let pair = has("cta_group::2");
        let what = i.instruction.modifiers.first().map_or("", |m| m.as_str());
        Ok(match what {
            "alloc" => Tcgen05::Alloc {
                dst: self.address(i, 0)?,
                space: space(i.instruction),
                columns: self.s32(i, 1)?,
                pair,
            },
            "dealloc" => Tcgen05::Dealloc { address: self.s32(i, 0)?, columns: self.s32(i, 1)? },
            "relinquish_alloc_permit" => Tcgen05::Relinquish,
            "wait::ld" => Tcgen05::Wait { loads: true },
            "wait::st" => Tcgen05::Wait { loads: false },
            "fence::before_thread_sync" => Tcgen05::Fence { after: false },
            "fence::after_thread_sync" => Tcgen05::Fence { after: true },
            "ld" => {
                let transfer = TmemTransfer::from_modifiers(modifiers(i)).map_err(told)?;
                let d = self.destination_list(arg(i, 0)?)?;
                same_count(d.len(), transfer.registers())?;
                let immediate = if i.args.len() > 2 { self.count(i, 2)? } else { 0 };
                Tcgen05::Load { transfer, d, address: self.address(i, 1)?, immediate }
            }
            "st" => {
                let transfer = TmemTransfer::from_modifiers(modifiers(i)).map_err(told)?;
                let last = i.args.len().saturating_sub(1);
                let s = self.row_list(arg(i, last)?)?;
                same_count(s.len(), transfer.registers())?;
                let immediate = if last > 1 { self.count(i, 1)? } else { 0 };
                Tcgen05::Store { transfer, s, address: self.address(i, 0)?, immediate }
            }
            "mma" => Tcgen05::Mma(Box::new(self.tcgen05_mma(i)?)),
            "cp" => {
                let copy = TmemCopy::from_modifiers(modifiers(i)).map_err(told)?;
                Tcgen05::Copy {
                    copy,
                    address: self.address(i, 0)?,
                    descriptor: self.s64(i, 1)?,
                    pair,
                }
            }
            "shift" => Tcgen05::Shift { address: self.address(i, 0)?, pair },
            "commit" => Tcgen05::Commit {
                mbar: self.address(i, 0)?,
                space: space(i.instruction),
                multicast: match has("multicast::cluster") {
                    true => Some(self.s32(i, 1)?),
                    false => None,
                },
            },
            other => return Err(format!("tcgen05.{other} is not known here")),
        })
    }

    fn tcgen05_mma(&mut self, i: &Resolved<'m>) -> Decoded<Tcgen05MmaOp> {
        let mma = Tcgen05Mma::from_modifiers(modifiers(i)).map_err(told)?;
        let a = match arg(i, 1)? {
            Arg::Address(..) => MatrixSource::Tensor(self.address(i, 1)?),
            _ => MatrixSource::Descriptor(self.s64(i, 1)?),
        };
        let (d, b, descriptor) = (self.address(i, 0)?, self.s64(i, 2)?, self.s32(i, 3)?);
        let mut next = 4;
        let scales = match mma.kind.is_scaled() {
            true => {
                next += 2;
                Some([self.address(i, 4)?, self.address(i, 5)?])
            }
            false => None,
        };
        let disabled = match arg(i, next)? {
            list @ Arg::Vector(_) => {
                next += 1;
                self.row_list(list)?
            }
            _ => Box::new([]),
        };
        let accumulate = self.predicate(arg(i, next)?)?;
        let scale_d = match (i.args.get(next + 1), mma.stationary) {
            (None | Some(Arg::Integer(0)), _) => 0,
            (Some(Arg::Integer(value)), false) => *value as u32,
            _ => return Err("a zero-column mask is not known here".into()),
        };
        Ok(Tcgen05MmaOp { mma, d, a, b, descriptor, disabled, accumulate, scale_d, scales })
    }
}
