//! Decoding of matrix instructions.

use super::data::space;
use super::{Decoded, Fill, Loader, arg};
use crate::matrix::{
    Ldmatrix, MmaSync, OperandError, Stmatrix, Tcgen05Mma, TmemCopy, TmemTransfer, Wgmma,
};
use crate::op::{MatrixSource, MmaSyncOp, Op, Tcgen05, Tcgen05MmaOp, WgmmaOp};
use crate::register::{R32, R64, Reg};
use ptx::resolve::{Arg, Resolved};
use std::collections::HashMap;

pub(super) fn modifiers<'i>(i: &'i Resolved) -> impl Iterator<Item = &'static str> + 'i {
    i.instruction.modifiers.iter().map(|m| m.as_str())
}

pub(super) fn told(error: OperandError) -> String {
    error.to_string()
}

impl<'m> Loader<'m> {
    pub(super) fn matrix(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        let op = match opcode {
            "wgmma" if has("fence") => Op::WgmmaFence,
            "wgmma" if has("commit_group") => Op::WgmmaCommit,
            "wgmma" if has("wait_group") => Op::WgmmaWait(self.count(i, 0)?),
            "wgmma" => self.wgmma(i)?,
            "mma" if has("f64") => self.mma_f64(i)?,
            "mma" => self.mma_sync(i)?,
            "wmma" => self.wmma(i)?,
            "ldmatrix" => {
                let shape = Ldmatrix::from_modifiers(modifiers(i)).map_err(told)?;
                let d = self.destination_list(arg(i, 0)?)?;
                same_count(d.len(), shape.registers())?;
                Op::Ldmatrix { shape, d, addr: self.address(i, 1)?, space: space(i.instruction) }
            }
            "stmatrix" => {
                let shape = Stmatrix::from_modifiers(modifiers(i)).map_err(told)?;
                let s = self.row_list(arg(i, 1)?)?;
                same_count(s.len(), shape.registers())?;
                Op::Stmatrix { shape, s, addr: self.address(i, 0)?, space: space(i.instruction) }
            }
            "movmatrix" => Op::Movmatrix { d: self.d32(i, 0)?, a: self.s32(i, 1)? },
            "tcgen05" => Op::Tcgen05(Box::new(self.tcgen05(i)?)),
            other => return Err(format!("instruction `{other}` is not known here")),
        };
        self.emit(i, op);
        Ok(())
    }

    /// Sources of a vector operand.
    pub(super) fn row_list(&mut self, arg: &Arg) -> Decoded<Box<[R32]>> {
        self.elements(arg).to_vec().iter().map(|e| self.source32(e)).collect()
    }

    /// Destinations of a vector operand.
    pub(super) fn destination_list(&mut self, arg: &Arg) -> Decoded<Box<[R32]>> {
        let destinations = self.destinations(arg)?;
        let row = |d: &Option<Reg>| match d {
            Some(Reg::R32(r)) => Ok(*r),
            Some(_) => Err("a matrix in registers that have not 32 bits".into()),
            None => Ok(self.frame.new32()),
        };
        destinations.iter().map(row).collect()
    }

    fn wgmma(&mut self, i: &Resolved<'m>) -> Decoded<Op> {
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
            _ => [immediate(6)? == 1, immediate(7)? == 1],
        };
        Ok(Op::Wgmma(Box::new(WgmmaOp { mma, d, a, b, accumulate, negate, transpose })))
    }

    fn mma_sync(&mut self, i: &Resolved<'m>) -> Decoded<Op> {
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
        Ok(Op::MmaSync(Box::new([MmaSyncOp { mma, d, s: [a, b, c] }])))
    }

    pub(super) fn mma_f64(&mut self, i: &Resolved<'m>) -> Decoded<Op> {
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
        Ok(Op::MmaF64 { d, s: Box::new(s) })
    }

    fn tcgen05(&mut self, i: &Resolved<'m>) -> Decoded<Tcgen05> {
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

    /// Marks instructions that use registers of a `wgmma` or of a `tcgen05.ld`.
    pub(super) fn mark_watched_registers(&mut self) {
        let rows = self.frame.r32 as usize;
        let (mut wgmma, mut tmem) = (vec![false; rows], vec![false; rows]);
        for inst in &self.code {
            match &inst.op {
                Op::Wgmma(op) => {
                    op.d.iter().for_each(|r| wgmma[r.0 as usize] = true);
                    if let MatrixSource::Registers(a) = &op.a {
                        a.iter().for_each(|r| wgmma[r.0 as usize] = true);
                    }
                }
                Op::Tcgen05(op) => {
                    if let Tcgen05::Load { d, .. } = &**op {
                        d.iter().for_each(|r| tmem[r.0 as usize] = true);
                    }
                }
                _ => {}
            }
        }
        let mut constant = vec![false; rows];
        for fill in &self.constants.fills {
            if let Fill::Const32(r, _) = fill {
                constant[r.0 as usize] = true;
            }
        }
        // What is copied to a register of a wgmma was written where the copy's source was.
        let mut copied: HashMap<R32, Vec<R32>> = HashMap::new();
        for inst in &self.code {
            if let Op::Mov32 { d, a } = inst.op
                && !constant[a.0 as usize]
            {
                copied.entry(d).or_default().push(a);
            }
        }
        let mut left: Vec<R32> =
            (0..self.frame.r32).map(R32).filter(|r| wgmma[r.0 as usize]).collect();
        while let Some(d) = left.pop() {
            let sources = copied.get(&d).into_iter().flatten();
            left.extend(sources.filter(|a| !std::mem::replace(&mut wgmma[a.0 as usize], true)));
        }
        for inst in &mut self.code {
            inst.copies = match &inst.op {
                Op::Mov32 { a, .. } => !constant[a.0 as usize],
                Op::Pack { .. } | Op::Unpack { .. } => true,
                _ => false,
            };
            let (mut accumulator, mut loaded) = (false, false);
            inst.op.registers(&mut |reg, _| {
                if let Reg::R32(r) = reg {
                    accumulator |= wgmma[r.0 as usize];
                    loaded |= tmem[r.0 as usize];
                }
            });
            inst.touches_wgmma = accumulator && !matches!(inst.op, Op::Wgmma(_));
            inst.touches_tmem = loaded;
        }
    }
}

pub(super) fn same_count(found: usize, due: usize) -> Decoded<()> {
    if found == due {
        return Ok(());
    }
    Err(format!("{found} registers where this shape has {due}"))
}
