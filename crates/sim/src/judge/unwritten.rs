//! Values that nobody wrote: registers at the start of a kernel, and what is loaded from memory before
//! anything was stored there (outputs; shared, local and tensor memory).
//!
//! To hold or load such a value is no mistake yet: compilers leave registers undefined that are never looked
//! at, load whole tiles before they know whether a loop runs at all, and throw both away. It becomes one when
//! the value, or something made of it, leaves the registers: when it is stored, is an address, decides a branch
//! or whether a guarded instruction is executed, or is an operand of anything but arithmetic. So bits that
//! nobody wrote are marked, marks follow the data from register to register, lane by lane (`check::flow`,
//! `check::effects`), and such a use of a marked bit is reported. Marks pass through shared and local memory, not
//! through global memory.

use crate::instruction::{Arithmetic, Inst, Op, Pc};
use crate::judge::Judge;
use crate::load::Kernel;
use crate::machine::{Machine, Run};
use crate::register::{LANES, Lane, P, Reg};
use crate::rules::Rule;
use crate::warp::WarpId;
use std::collections::HashMap;

/// Undefined bits of the lanes of a register.
pub(super) type Bits = [u64; LANES];

/// The marks of a register.
#[derive(Clone)]
struct Row {
    /// Lanes with a marked bit.
    lanes: u32,
    /// The bits, unless all of the marked lanes are.
    bits: Option<Box<Bits>>,
    /// Where the first of them comes from: a watched register of the kernel by its number, or behind those a
    /// load.
    origin: usize,
}

/// A set of registers.
#[derive(Clone, Default)]
struct RegisterSet([Vec<u64>; 3]);

impl RegisterSet {
    fn place(reg: Reg) -> (usize, usize) {
        match reg {
            Reg::P(p) => (0, p.0 as usize),
            Reg::R32(r) => (1, r.0 as usize),
            Reg::R64(r) | Reg::R128(r) => (2, r.0 as usize),
        }
    }

    fn contains(&self, reg: Reg) -> bool {
        let (file, number) = RegisterSet::place(reg);
        self.0[file].get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    fn set(&mut self, reg: Reg, member: bool) {
        let (file, number) = RegisterSet::place(reg);
        let words = &mut self.0[file];
        if words.len() <= number / 64 {
            words.resize(number / 64 + 1, 0);
        }
        let bit = 1 << (number % 64);
        words[number / 64] =
            if member { words[number / 64] | bit } else { words[number / 64] & !bit };
    }
}

/// A load that gave what nobody wrote.
#[derive(Clone)]
struct Load {
    pc: Pc,
    /// What nobody wrote.
    what: String,
    /// Whether that is a thread's own memory, or memory that a marked register was stored to.
    of_register: bool,
}

/// The marked registers of a warp; 128-bit ones are two rows.
#[derive(Clone, Default)]
pub struct Unwritten {
    marked: RegisterSet,
    rows: HashMap<Reg, Row>,
    /// Watched registers of the kernel.
    watched: usize,
    /// Loads that gave what nobody wrote.
    loads: Vec<Load>,
    /// Rows whose marks come from a load.
    loaded_rows: usize,
}

/// All bits of a register.
pub(super) fn whole(reg: Reg) -> u64 {
    match reg {
        Reg::P(_) => 1,
        Reg::R32(_) => u32::MAX.into(),
        Reg::R64(_) | Reg::R128(_) => u64::MAX,
    }
}

impl Unwritten {
    /// What a warp of a kernel starts with: nothing in the registers that may be read before they are written.
    pub(crate) fn at_start(kernel: &Kernel) -> Option<Box<Unwritten>> {
        let watched = kernel.undefined.len();
        let mut unwritten = Unwritten { watched, ..Unwritten::default() };
        for (origin, (reg, _)) in kernel.undefined.iter().enumerate() {
            unwritten.insert(*reg, Row { lanes: u32::MAX, bits: None, origin });
        }
        (watched > 0).then(|| Box::new(unwritten))
    }

    /// Whether an instruction may use or replace what is marked.
    pub(crate) fn concerns(&self, inst: &Inst, carry: P) -> bool {
        (inst.follows || self.loaded_rows > 0) && self.touches(inst, carry)
    }

    fn touches(&self, inst: &Inst, carry: P) -> bool {
        let mut touched = inst.guard.is_some_and(|(p, _)| self.marked.contains(Reg::P(p)));
        touched |= matches!(inst.op, Op::Arithmetic(Arithmetic::Carry { .. }))
            && self.marked.contains(Reg::P(carry));
        inst.op.registers(&mut |reg, _| {
            let mut rows = crate::load::rows(reg);
            touched |= rows.any(|row| self.marked.contains(row));
        });
        touched
    }

    /// The marked lanes of a row.
    pub(super) fn lanes(&self, row: Reg) -> u32 {
        self.rows.get(&row).map_or(0, |marks| marks.lanes)
    }

    /// The marked bits of a row.
    pub(super) fn bits(&self, row: Reg) -> Option<Bits> {
        let marks = self.rows.get(&row)?;
        let all =
            || std::array::from_fn(|i| if marks.lanes >> i & 1 != 0 { whole(row) } else { 0 });
        Some(marks.bits.as_deref().copied().unwrap_or_else(all))
    }

    /// Where the marks of a row come from.
    pub(super) fn origin(&self, row: Reg) -> usize {
        self.rows.get(&row).map_or(0, |marks| marks.origin)
    }

    fn insert(&mut self, row: Reg, marks: Row) {
        self.remove(row);
        self.loaded_rows += usize::from(marks.origin >= self.watched);
        self.marked.set(row, true);
        self.rows.insert(row, marks);
    }

    fn remove(&mut self, row: Reg) {
        if let Some(marks) = self.rows.remove(&row) {
            self.loaded_rows -= usize::from(marks.origin >= self.watched);
            self.marked.set(row, false);
        }
    }

    /// Replaces the marks of a row in the lanes of `mask`.
    pub(super) fn set(&mut self, row: Reg, mask: u32, bits: &Bits, origin: usize) {
        let old = self.bits(row).unwrap_or([0; LANES]);
        let new: Bits = std::array::from_fn(|i| if mask >> i & 1 != 0 { bits[i] } else { old[i] });
        let lanes = (0..LANES).fold(0, |lanes, i| lanes | u32::from(new[i] != 0) << i);
        if lanes == 0 {
            return self.remove(row);
        }
        let partial = new.iter().any(|bits| *bits != 0 && *bits != whole(row));
        let kept = lanes & !mask != 0 && lanes & mask == 0;
        let origin = if kept { self.origin(row) } else { origin };
        self.insert(row, Row { lanes, bits: partial.then(|| Box::new(new)), origin });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of a load among the origins.
    fn load(&mut self, load: Load) -> usize {
        let known = self.loads.iter().position(|other| other.pc == load.pc);
        self.watched
            + known.unwrap_or_else(|| {
                self.loads.push(load);
                self.loads.len() - 1
            })
    }

    /// Whether the marks of a row come from a register, perhaps by way of memory.
    fn is_of_register(&self, row: Reg) -> bool {
        let load = self.origin(row).checked_sub(self.watched).and_then(|at| self.loads.get(at));
        load.is_none_or(|load| load.of_register)
    }
}

impl Judge<'_> {
    /// A load gave what nobody wrote.
    pub(crate) fn mark_unwritten(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        d: impl IntoIterator<Item = Reg>,
        mask: u32,
        what: String,
    ) {
        let rows = d.into_iter().flat_map(crate::load::rows);
        let marks = rows.map(|row| (row, whole(row)));
        self.mark(w, marks, mask, Load { pc: machine.pc(w), what, of_register: false });
    }

    /// A lane loaded bytes to a register, those of `bytes` unwritten.
    pub(crate) fn mark_unwritten_bytes(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        lane: Lane,
        d: Reg,
        bytes: u16,
        (what, of_register): (String, bool),
    ) {
        let bits = |bytes: u16| {
            (0..8).filter(|i| bytes >> i & 1 != 0).fold(0, |bits, i| bits | 0xFF << (8 * i))
        };
        let marks = crate::load::rows(d).zip([bytes, bytes >> 8]);
        let marks = marks.map(|(row, bytes)| (row, bits(bytes) & whole(row)));
        self.mark(w, marks, lane.mask(), Load { pc: machine.pc(w), what, of_register });
    }

    fn mark(&mut self, w: WarpId, marks: impl Iterator<Item = (Reg, u64)>, mask: u32, load: Load) {
        let watched = self.launch.kernel.undefined.len();
        let fresh = || Box::new(Unwritten { watched, ..Unwritten::default() });
        let unwritten = self.unwritten[w].get_or_insert_with(fresh);
        let origin = unwritten.load(load);
        marks.for_each(|(row, bits)| unwritten.set(row, mask, &[bits; LANES], origin));
    }

    /// Whether the marks of a row come from a register, perhaps by way of memory.
    pub(super) fn is_of_register(&self, w: WarpId, row: Reg) -> bool {
        self.unwritten[w].as_ref().is_some_and(|unwritten| unwritten.is_of_register(row))
    }

    /// The undefined bits of a lane's row.
    pub(super) fn undefined_bits(&self, w: WarpId, row: Reg, lane: Lane) -> u64 {
        let bits = self.unwritten[w].as_ref().and_then(|unwritten| unwritten.bits(row));
        bits.map_or(0, |bits| bits[lane.0])
    }

    /// A value that nobody wrote leaves the registers: a lane `does` something with what comes from `row`.
    pub(super) fn used_unwritten(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        row: Reg,
        lane: u32,
        does: &str,
    ) -> Run<()> {
        let Some(unwritten) = &self.unwritten[w] else { return Ok(()) };
        let origin = unwritten.origin(row);
        if let Some((_, name)) = self.launch.kernel.undefined.get(origin) {
            let message = format!("lane {lane} {does} register `{name}`, which nobody wrote");
            let help =
                "a register holds nothing before it is written: look for a path on which it is not";
            return self.hazard(machine, w, Rule::UninitialisedRegister, message, None, Some(help));
        }
        let Some(Load { pc, what, of_register }) = unwritten.loads.get(origin - unwritten.watched)
        else {
            return Ok(());
        };
        let message = format!("lane {lane} {does} {what}");
        let other = Some(("read:".to_string(), machine.site(w, *pc, None)));
        // Of memory that is a thread's own, or that was written with nothing, no other thread is to be waited for.
        let help = match of_register {
            true => {
                "shared, local and tensor memory and outputs hold nothing useful before they are written"
            }
            false => {
                "memory holds nothing useful before it is written: if another thread writes this, a barrier between \
                 its write and this read is missing"
            }
        };
        self.hazard(machine, w, Rule::Uninitialised, message, other, Some(help))
    }
}
