//! Values that come from memory nobody wrote: tensor memory, shared memory, outputs.
//!
//! Loading such memory is no mistake yet: compilers load whole tiles before they know whether a
//! loop runs at all, and throw the registers away. It becomes one when the value, or something
//! computed from it, is stored. So a load of unwritten cells marks its destination, marks follow
//! the data from register to register lane by lane, and a store of a marked lane is reported.
//! Marks do not pass through shuffles from one lane to another, nor through memory.

use crate::cluster::{Cluster, Run};
use crate::op::{Inst, Op, Pc, Tcgen05};
use crate::operands::Use;
use crate::register::Reg;
use crate::rules::Rule;
use std::collections::HashMap;

/// The marked registers of a warp.
pub struct Unwritten {
    /// Lanes of each register that hold such a value.
    lanes: HashMap<Reg, u32>,
    /// The load, and what it read.
    origin: (Pc, String),
}

impl Unwritten {
    fn of(&self, reg: Reg) -> u32 {
        self.lanes.get(&reg).copied().unwrap_or(0)
    }

    fn set(&mut self, reg: Reg, mask: u32, marked: u32) {
        let lanes = self.of(reg) & !mask | marked & mask;
        match lanes {
            0 => self.lanes.remove(&reg),
            _ => self.lanes.insert(reg, lanes),
        };
    }
}

impl Cluster<'_> {
    /// A load gave what nobody wrote.
    pub(crate) fn mark_unwritten(
        &mut self,
        w: usize,
        d: impl IntoIterator<Item = Reg>,
        mask: u32,
        what: String,
    ) {
        let origin = (self.pc(w), what);
        let unwritten = self.warps[w]
            .unwritten
            .get_or_insert_with(|| Box::new(Unwritten { lanes: HashMap::new(), origin }));
        d.into_iter().for_each(|reg| unwritten.set(reg, mask, mask));
    }

    /// Follows marks through an instruction that is about to execute.
    pub(crate) fn follow_unwritten(&mut self, w: usize, inst: &Inst, mask: u32) -> Run<()> {
        let warp = &mut self.warps[w];
        let Some(unwritten) = &mut warp.unwritten else { return Ok(()) };
        let mut marked = 0;
        let mut written = Vec::new();
        inst.op.registers(&mut |reg, how| match how {
            Use::Read => marked |= unwritten.of(reg),
            Use::Write => written.push(reg),
        });
        // A selection passes on only what it selects: that is how garbage is masked.
        if let Op::Select32 { s, p: (p, negated), .. } = &inst.op {
            let first = warp.registers.p(*p) ^ if *negated { u32::MAX } else { 0 };
            marked = unwritten.of(Reg::R32(s[0])) & first | unwritten.of(Reg::R32(s[1])) & !first;
        }
        if stores(&inst.op) && marked & mask != 0 {
            self.stored_unwritten(w, (marked & mask).trailing_zeros())?;
        }
        let warp = &mut self.warps[w];
        let Some(unwritten) = &mut warp.unwritten else { return Ok(()) };
        written.into_iter().for_each(|reg| unwritten.set(reg, mask, marked));
        if unwritten.lanes.is_empty() {
            warp.unwritten = None;
        }
        Ok(())
    }

    fn stored_unwritten(&self, w: usize, lane: u32) -> Run<()> {
        let Some(unwritten) = &self.warps[w].unwritten else { return Ok(()) };
        let (pc, what) = &unwritten.origin;
        let message =
            format!("lane {lane} stores a value that comes from {what}, which nobody wrote");
        let other = Some(("read:".to_string(), self.site(w, *pc, None)));
        let help =
            "shared memory, tensor memory and outputs hold nothing useful before they are written";
        self.hazard(w, Rule::Uninitialised, message, other, Some(help))
    }
}

fn stores(op: &Op) -> bool {
    match op {
        Op::Store(_) | Op::Atomic(_) | Op::Stmatrix { .. } | Op::WmmaStore(_) => true,
        Op::Tcgen05(op) => matches!(**op, Tcgen05::Store { .. }),
        _ => false,
    }
}
