//! Decoding of `mbarrier`.

use crate::instruction::{Addr, Mbarrier, MbarrierOp, MemSpace, Op, space};
use crate::load::{Decoded, Loader, arg};
use crate::register::Reg;
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn mbarrier(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        let what = i.instruction.modifiers.first().map_or("", |m| m.as_str());
        let at = match what {
            "init" | "inval" | "expect_tx" | "complete_tx" => 0,
            "pending_count" => return self.pending_count(i),
            "arrive" | "arrive_drop" => usize::from(!matches!(arg(i, 0)?, Arg::Address(..))),
            _ => 1,
        };
        let op = match what {
            "init" => MbarrierOp::Init(self.s32(i, 1)?),
            "inval" => MbarrierOp::Invalidate,
            "expect_tx" => MbarrierOp::ExpectTx(self.s32(i, 1)?),
            "complete_tx" => MbarrierOp::CompleteTx(self.s32(i, 1)?),
            "arrive" | "arrive_drop" => self.arrive(i, at, what == "arrive_drop")?,
            "test_wait" | "try_wait" => {
                let state = arg(i, 2)?;
                let (parity, token) = match has("parity") {
                    true => (Some(self.source32(state)?), None),
                    false => (None, Some(self.source64(state)?)),
                };
                let done = self.predicate_destination(arg(i, 0)?)?;
                MbarrierOp::Wait { done, parity, token, blocking: what == "try_wait" }
            }
            other => return Err(format!("mbarrier.{other} is not known here")),
        };
        let (addr, space) = (self.address(i, at)?, space(i.instruction));
        self.emit(i, Op::Mbarrier(Box::new(Mbarrier { op, addr, space })));
        Ok(())
    }

    fn arrive(&mut self, i: &Resolved<'m>, at: usize, drop: bool) -> Decoded<MbarrierOp> {
        let token = match (at, arg(i, 0)?) {
            (0, _) | (_, Arg::Sink) => None,
            (_, register) => match self.any_reg(register)? {
                Reg::R64(r) => Some(r),
                _ => return Err("the state must be a 64-bit register".into()),
            },
        };
        let last = match i.args.get(at + 1) {
            Some(operand) => Some(self.source32(operand)?),
            None => None,
        };
        let (count, expect) =
            if i.instruction.has("expect_tx") { (None, last) } else { (last, None) };
        Ok(MbarrierOp::Arrive { count, expect, drop, token })
    }

    fn pending_count(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let op = MbarrierOp::PendingCount { dst: self.d32(i, 0)?, token: self.s64(i, 1)? };
        let base = Reg::R32(self.constants.const32(&mut self.frame, 0));
        let addr = Addr { base, offset: 0 };
        let space = MemSpace::Shared;
        self.emit(i, Op::Mbarrier(Box::new(Mbarrier { op, addr, space })));
        Ok(())
    }
}
