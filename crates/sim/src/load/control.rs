//! Decoding of control flow, synchronisation and instructions without functional effect.

use super::operand::kind;
use super::{Decoded, Loader, arg};
use crate::alu::BoolOp;
use crate::op::{BarKind, Fence, Op};
use crate::register::{R32, Reg};
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(super) fn control(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let op = match opcode {
            "bra" => match arg(i, 0)? {
                Arg::Label(at) => Op::Branch { target: *at as u32 },
                other => return Err(format!("a branch to {}", kind(other))),
            },
            "brx" => match arg(i, 1)? {
                Arg::BranchTargets(labels) => Op::BranchIndex {
                    index: self.s32(i, 0)?,
                    targets: labels.iter().map(|at| *at as u32).collect(),
                },
                other => return Err(format!("brx.idx over {}", kind(other))),
            },
            // Inside an inlined function: go on behind it.
            "ret" if self.inlined() => Op::Branch { target: self.body.instructions.len() as u32 },
            "ret" | "exit" => Op::Exit,
            "trap" => Op::Trap("trap"),
            "brkpt" => Op::Trap("brkpt"),
            "call" => return self.call_system(i),
            "nanosleep" => Op::Sleep,
            "createpolicy" => {
                let d = self.d64(i, 0)?;
                let a = self.constants.const64(&mut self.frame, 0);
                Op::Mov64 { d, a }
            }
            "griddepcontrol" if i.instruction.has("wait") => Op::Fence(Fence::EarlierGrids),
            "setmaxnreg" => {
                let count = self.immediate(i, 0)?;
                Op::SetRegisters(u32::try_from(count).map_err(|_| format!("{count} registers"))?)
            }
            "griddepcontrol" | "prefetch" | "prefetchu" | "discard" | "applypriority"
            | "pmevent" => Op::Nop,
            "membar" => Op::Fence(Fence::Thread),
            "fence" => Op::Fence(fence(i)),
            "bar" | "barrier" => return self.barrier(opcode, i),
            "clusterlaunchcontrol" => return self.cluster_launch_control(i),
            "activemask" => Op::ActiveMask { d: self.d32(i, 0)? },
            "elect" | "shfl" | "vote" | "match" | "redux" => return self.warp_wide(opcode, i),
            other => return Err(format!("instruction `{other}` is not known here")),
        };
        self.emit(i, op);
        Ok(())
    }

    fn barrier(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        if has("warp") {
            let mask = self.s32(i, 0)?;
            self.emit(i, Op::WarpSync { mask });
            return Ok(());
        }
        // `bar` is `barrier.aligned`.
        let aligned = opcode == "bar" || has("aligned");
        if has("cluster") {
            let op = if has("arrive") {
                Op::ClusterArrive { aligned }
            } else {
                Op::ClusterWait { aligned }
            };
            self.emit(i, op);
            return Ok(());
        }
        let op = if has("red") {
            self.reducing_barrier(i, aligned)?
        } else {
            let kind = if has("arrive") { BarKind::Arrive } else { BarKind::Sync };
            let count = if i.args.len() > 1 { Some(self.s32(i, 1)?) } else { None };
            Op::Bar { kind, aligned, id: self.s32(i, 0)?, count, reduce: None }
        };
        self.emit(i, op);
        Ok(())
    }

    fn reducing_barrier(&mut self, i: &Resolved<'m>, aligned: bool) -> Decoded<Op> {
        let kind = if i.instruction.has("popc") {
            BarKind::Popc
        } else {
            let op = i.instruction.modifiers.iter().find_map(|m| BoolOp::from_name(m.as_str()));
            BarKind::Reduce(op.ok_or("bar.red without an operation")?)
        };
        let d = match (arg(i, 0)?, kind) {
            (Arg::Reg(_), _) => self.reg(i, 0)?,
            (other, _) => return Err(format!("bar.red into {}", super::operand::kind(other))),
        };
        let last = i.args.len() - 1;
        let (p, negated) = self.predicate(arg(i, last)?)?;
        let count = if last == 3 { Some(self.s32(i, 2)?) } else { None };
        let id = self.s32(i, 1)?;
        Ok(Op::Bar { kind, aligned, id, count, reduce: Some(Box::new((d, p, negated))) })
    }

    fn cluster_launch_control(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        if has("try_cancel") {
            let (dst, mbar) = (self.address(i, 0)?, self.address(i, 1)?);
            let multicast = has("multicast::cluster::all");
            self.emit(i, Op::TryCancel { dst, mbar, multicast });
            return Ok(());
        }
        let Reg::R128(response) = self.reg(i, 1)? else {
            return Err("the response must be a 128-bit register".into());
        };
        let op = match has("is_canceled") {
            true => Op::IsCanceled { d: self.predicate_destination(arg(i, 0)?)?, response },
            false => Op::FirstCta { d: self.first_cta(i)?, response },
        };
        self.emit(i, op);
        Ok(())
    }

    /// Destinations of `get_first_ctaid`: a vector of all coordinates, or one named.
    fn first_cta(&mut self, i: &Resolved<'m>) -> Decoded<[Option<R32>; 3]> {
        let first = arg(i, 0)?.clone();
        let elements = self.elements(&first);
        let axes = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"];
        let from = axes.iter().position(|axis| i.instruction.has(axis)).unwrap_or(0);
        let mut d = [None; 3];
        for (element, d) in elements.iter().zip(&mut d[from..]) {
            *d = match self.destination(element)? {
                Some(Reg::R32(r)) => Some(r),
                Some(_) => return Err("a coordinate of a CTA has 32 bits".into()),
                None => None,
            };
        }
        Ok(d)
    }
}

fn fence(i: &Resolved) -> Fence {
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
