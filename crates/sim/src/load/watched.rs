//! Registers of matrix instructions that are not done when they are issued.

use super::{Fill, Loader};
use crate::instruction::{Arithmetic, MatrixSource, MemoryAccess, Op, Tcgen05, WarpgroupMma};
use crate::register::{R32, Reg};
use std::collections::{HashMap, HashSet};

impl Loader<'_> {
    /// Marks instructions that use registers of a `wgmma` or of a `tcgen05.ld`.
    pub(super) fn mark_watched_registers(&mut self) {
        let rows = self.frame.r32 as usize;
        let (mut wgmma, mut tmem) = (vec![false; rows], vec![false; rows]);
        for inst in &self.code {
            match &inst.op {
                Op::WarpgroupMma(WarpgroupMma::Mma(op)) => {
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
            if let Op::Arithmetic(Arithmetic::Mov32 { d, a }) = inst.op
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
        let mut loads: HashSet<Reg> = HashSet::new();
        for inst in &self.code {
            if let Op::MemoryAccess(MemoryAccess::Load(load)) = &inst.op
                && load.space.holds_global()
            {
                loads.extend(load.dst.iter().flatten());
            }
        }
        for inst in &mut self.code {
            inst.op.registers(&mut |reg, _| inst.touches_load |= loads.contains(&reg));
            inst.copies = match &inst.op {
                Op::Arithmetic(Arithmetic::Mov32 { a, .. }) => !constant[a.0 as usize],
                Op::Arithmetic(Arithmetic::Pack { .. })
                | Op::Arithmetic(Arithmetic::Unpack { .. }) => true,
                _ => false,
            };
            let (mut accumulator, mut loaded) = (false, false);
            inst.op.registers(&mut |reg, _| {
                if let Reg::R32(r) = reg {
                    accumulator |= wgmma[r.0 as usize];
                    loaded |= tmem[r.0 as usize];
                }
            });
            inst.touches_wgmma =
                accumulator && !matches!(inst.op, Op::WarpgroupMma(WarpgroupMma::Mma(_)));
            inst.touches_tmem = loaded;
        }
    }
}
