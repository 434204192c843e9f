//! Decoding of barriers and fences.

use crate::alu::BoolOp;
use crate::instruction::{BarKind, Barrier, Exchange, Fence, Op};
use crate::load::{Decoded, Loader, arg};
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn barrier(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        if has("warp") {
            let mask = self.s32(i, 0)?;
            self.emit(i, Exchange::WarpSync { mask });
            return Ok(());
        }
        // `bar` is `barrier.aligned`.
        let aligned = opcode == "bar" || has("aligned");
        if has("cluster") {
            let op = if has("arrive") {
                Barrier::ClusterArrive { aligned }
            } else {
                Barrier::ClusterWait { aligned }
            };
            self.emit(i, op);
            return Ok(());
        }
        let op = if has("red") {
            self.reducing_barrier(i, aligned)?
        } else {
            let kind = if has("arrive") { BarKind::Arrive } else { BarKind::Sync };
            let count = if i.args.len() > 1 { Some(self.s32(i, 1)?) } else { None };
            Barrier::Bar { kind, aligned, id: self.s32(i, 0)?, count, reduce: None }
        };
        self.emit(i, op);
        Ok(())
    }

    fn reducing_barrier(&mut self, i: &Resolved<'m>, aligned: bool) -> Decoded<Barrier> {
        let kind = if i.instruction.has("popc") {
            BarKind::Popc
        } else {
            let op = i.instruction.modifiers.iter().find_map(|m| BoolOp::from_name(m.as_str()));
            match op.ok_or("bar.red without an operation")? {
                BoolOp::Xor => return Err("bar.red.xor: there are .and, .or and .popc".into()),
                op @ (BoolOp::And | BoolOp::Or) => BarKind::Reduce(op),
            }
        };
        let d = match arg(i, 0)? {
            Arg::Reg(_) => self.reg(i, 0)?,
            other => return Err(format!("bar.red into {}", crate::load::kind(other))),
        };
        let last = i.args.len() - 1;
        let (p, negated) = self.predicate(arg(i, last)?)?;
        let count = if last == 3 { Some(self.s32(i, 2)?) } else { None };
        let id = self.s32(i, 1)?;
        Ok(Barrier::Bar { kind, aligned, id, count, reduce: Some(Box::new((d, p, negated))) })
    }

    /// `membar` and `fence`.
    pub(crate) fn fence(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let fence =
            if i.instruction.opcode.as_str() == "fence" { what_fence(i) } else { Fence::Thread };
        self.emit(i, Barrier::Fence(fence));
        Ok(())
    }

    /// `griddepcontrol`.
    pub(crate) fn grid_dependency(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        match i.instruction.has("wait") {
            true => self.emit(i, Barrier::Fence(Fence::EarlierGrids)),
            false => self.emit(i, Op::Nop),
        }
        Ok(())
    }
}

fn what_fence(i: &Resolved) -> Fence {
    let has = |name: &str| i.instruction.has(name);
    let starts =
        |prefix: &str| i.instruction.modifiers.iter().any(|m| m.as_str().starts_with(prefix));
    if has("mbarrier_init") {
        Fence::MbarrierInit
    } else if has("proxy") && starts("async") {
        Fence::ProxyAsync
    } else if has("proxy") {
        Fence::Proxy
    } else {
        Fence::Thread
    }
}
