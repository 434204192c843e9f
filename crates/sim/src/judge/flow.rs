//! How marks of what nobody wrote follow the data through arithmetic and exchanges between lanes.
//!
//! Instructions that only move bits pass on just the bits that they move: a result's bit is marked if it
//! changes with the marked bits of the sources, which is found by executing the instruction on several
//! choices of them. Sums and products of integers pass marks on to higher bits. In all other arithmetic, what is
//! marked in any of the sources of a lane marks the lane's whole result. `check::effects` is about the rest.

use super::unwritten::{Bits, Unwritten, whole};
use crate::instruction::{
    Arithmetic, Control, Exchange, Flow, Inst, Op, Use, Visit, exchange, execute_arithmetic,
};
use crate::judge::Judge;
use crate::load::{Frame, rows};
use crate::machine::{Machine, Run};
use crate::register::{FULL, LANES, P, Reg, Registers};
use crate::warp::WarpId;

/// Values that marked bits are tried with.
const TRIALS: [u64; 6] = [
    0,
    u64::MAX,
    0x5555_5555_5555_5555,
    0xAAAA_AAAA_AAAA_AAAA,
    0x3F81_4A5D_C2E7_1B96,
    0xC07E_B5A2_3D18_E469,
];

const NONE: Bits = [0; LANES];

/// The rows that an operation reads and writes.
pub(super) struct Operands {
    pub(super) reads: Vec<Reg>,
    pub(super) writes: Vec<Reg>,
}

impl Operands {
    /// Those of an operation; the carry flag is not among them.
    pub(super) fn of(op: &Op) -> Operands {
        Operands::told(|visit| op.registers(visit))
    }

    /// Those that are told one by one.
    fn told(registers: impl FnOnce(Visit<'_>)) -> Operands {
        let mut operands = Operands { reads: Vec::new(), writes: Vec::new() };
        registers(&mut |reg, how| match how {
            Use::Read => operands.reads.extend(rows(reg)),
            Use::Write => operands.writes.extend(rows(reg)),
        });
        operands
    }

    /// The same, and the carry flag.
    fn with_carry(op: &Arithmetic, carry: P) -> Operands {
        let mut operands = Operands::told(|visit| op.registers(visit));
        if let Arithmetic::Carry { carry_in, carry_out, .. } = op {
            operands.reads.extend(carry_in.then_some(Reg::P(carry)));
            operands.writes.extend(carry_out.then_some(Reg::P(carry)));
        }
        operands
    }

    /// The first of the rows read that is marked in one of `lanes`, and where its marks come from.
    fn origin(&self, unwritten: &Unwritten, lanes: u32) -> usize {
        let marked = self.reads.iter().find(|row| unwritten.lanes(**row) & lanes != 0);
        marked.map_or(0, |row| unwritten.origin(*row))
    }
}

impl Judge<'_> {
    /// Whether a warp has registers that hold what nobody wrote.
    #[inline(always)]
    pub(crate) fn follows(&self, w: WarpId) -> bool {
        self.unwritten[w].is_some()
    }

    /// Follows marks through an instruction that a warp has reached and the lanes of `mask` are about to execute.
    pub(crate) fn follow_unwritten(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        inst: &Inst,
        mask: u32,
    ) -> Run<()> {
        let marks = self.unwritten[w].as_ref();
        let concerned = marks.filter(|marks| marks.concerns(inst, machine.kernel.carry));
        let Some(unwritten) = concerned else { return Ok(()) };
        let here = machine.warps[w].fragments[0].mask;
        let doubtful = inst.guard.map_or(0, |(p, _)| unwritten.lanes(Reg::P(p)) & here);
        match &inst.op {
            // Lanes exchange when all have come.
            Op::Exchange(_) => self.doubt(machine, w, inst, doubtful),
            Op::Arithmetic(op) => {
                self.follow_arithmetic(machine, w, (inst, op), mask, doubtful);
                Ok(())
            }
            Op::Nop => Ok(()),
            Op::Control(_)
            | Op::MemoryAccess(_)
            | Op::Barrier(_)
            | Op::Mbarrier(_)
            | Op::AsyncCopy(_)
            | Op::LaunchControl(_)
            | Op::WarpMatrix(_)
            | Op::WarpgroupMma(_)
            | Op::Tcgen05(_) => {
                self.doubt(machine, w, inst, doubtful)?;
                self.follow_effect(machine, w, inst, mask)
            }
        }
    }

    /// What nobody wrote decides whether lanes execute something that others see.
    fn doubt(&self, machine: &Machine<'_>, w: WarpId, inst: &Inst, doubtful: u32) -> Run<()> {
        let Some((p, _)) = inst.guard.filter(|_| doubtful != 0) else { return Ok(()) };
        let does = match inst.op {
            Op::Control(Control::Branch { .. }) | Op::Control(Control::BranchIndex { .. }) => {
                "branches on a value that comes from"
            }
            _ => "executes this or not by a value that comes from",
        };
        self.used_unwritten(machine, w, Reg::P(p), doubtful.trailing_zeros(), does)
    }

    /// Arithmetic passes marks on; where nobody wrote the guard, whether a result is old or new.
    fn follow_arithmetic(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        (inst, op): (&Inst, &Arithmetic),
        mask: u32,
        doubtful: u32,
    ) {
        let carry = machine.kernel.carry;
        let registers = &machine.warps[w].registers;
        let Some(mut unwritten) = self.unwritten[w].take() else { return };
        let operands = Operands::with_carry(op, carry);
        let origin = match (inst.guard, doubtful) {
            (Some((p, _)), 1..) => unwritten.origin(Reg::P(p)),
            _ => operands.origin(&unwritten, mask),
        };
        let results = match inst.flow {
            Flow::Bits(unit) => {
                let execute = |r: &mut Registers| execute_arithmetic(r, op, carry, mask);
                moved((self.trial(), registers), &unwritten, &operands, unit, execute)
            }
            Flow::Upwards => upwards(&unwritten, &operands),
            Flow::Whole => whole_lanes(registers, &unwritten, op, &operands),
        };
        for (row, mut bits) in operands.writes.iter().zip(results) {
            (0..LANES).filter(|i| doubtful >> i & 1 != 0).for_each(|i| bits[i] = whole(*row));
            unwritten.set(*row, mask | doubtful, &bits, origin);
        }
        self.unwritten[w] = (!unwritten.is_empty()).then_some(unwritten);
    }

    /// Registers to try an instruction on.
    fn trial(&mut self) -> &mut Registers {
        let Frame { r32, r64, p } = self.launch.kernel.frame;
        let new = || Registers::new(r32 as usize, r64 as usize, p as usize);
        self.trial.get_or_insert_with(new)
    }

    /// Lanes are about to exchange values.
    pub(crate) fn follow_exchange(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        op: &Exchange,
        mask: u32,
    ) -> Run<()> {
        let Some(unwritten) = &self.unwritten[w] else { return Ok(()) };
        let members = Reg::R32(op.members());
        if let marked @ 1.. = unwritten.lanes(members) & mask {
            let does = "names the lanes that take part by a value that comes from";
            self.used_unwritten(machine, w, members, marked.trailing_zeros(), does)?;
        }
        let registers = &machine.warps[w].registers;
        let Some(mut unwritten) = self.unwritten[w].take() else { return Ok(()) };
        let operands = Operands::told(|visit| op.registers(visit));
        let origin = operands.origin(&unwritten, mask);
        let execute = |r: &mut Registers| exchange(r, op, mask);
        let results = moved((self.trial(), registers), &unwritten, &operands, 1, execute);
        for (row, bits) in operands.writes.iter().zip(results) {
            unwritten.set(*row, mask, &bits, origin);
        }
        self.unwritten[w] = (!unwritten.is_empty()).then_some(unwritten);
        Ok(())
    }
}

/// The marked bits of the results of an instruction that moves bits: those that change with the marked bits
/// of its sources, in whole units of `unit` bits.
fn moved(
    (trial, registers): (&mut Registers, &Registers),
    unwritten: &Unwritten,
    operands: &Operands,
    unit: u8,
    execute: impl Fn(&mut Registers),
) -> Vec<Bits> {
    let Operands { reads, writes } = operands;
    let mut seen = vec![(NONE, NONE); writes.len()];
    for (number, fill) in TRIALS.iter().enumerate() {
        writes.iter().for_each(|row| trial.set_row(*row, &registers.row(*row)));
        for row in reads {
            let (value, marks) = (registers.row(*row), unwritten.bits(*row).unwrap_or(NONE));
            // Neighbouring lanes get different values.
            let filled = |i: usize| value[i] & !marks[i] | fill.rotate_left(i as u32) & marks[i];
            trial.set_row(*row, &std::array::from_fn(filled));
        }
        execute(trial);
        for (row, (first, changed)) in writes.iter().zip(&mut seen) {
            let value = trial.row(*row);
            match number {
                0 => *first = value,
                _ => (0..LANES).for_each(|i| changed[i] |= value[i] ^ first[i]),
            }
        }
    }
    seen.into_iter().map(|(_, changed)| changed.map(|bits| widened(bits, unit))).collect()
}

/// The units that have a bit.
fn widened(bits: u64, unit: u8) -> u64 {
    let ones = u64::MAX >> (64 - u32::from(unit));
    let starts = (0..64).step_by(unit.into());
    starts
        .map(|start| ones << start)
        .filter(|unit| bits & unit != 0)
        .fold(0, |all, unit| all | unit)
}

/// The marked bits of sums and products of integers: from the lowest marked bit of the sources on.
fn upwards(unwritten: &Unwritten, operands: &Operands) -> Vec<Bits> {
    let sources: Vec<Bits> = operands.reads.iter().filter_map(|row| unwritten.bits(*row)).collect();
    let marked = |i: usize| sources.iter().fold(0, |all, bits| all | bits[i]);
    let from_lowest = |bits: u64| bits | bits.wrapping_neg();
    let bits = |row: &Reg| std::array::from_fn(|i| from_lowest(marked(i)) & whole(*row));
    operands.writes.iter().map(bits).collect()
}

/// The marked bits of the results of other arithmetic.
fn whole_lanes(
    registers: &Registers,
    unwritten: &Unwritten,
    op: &Arithmetic,
    operands: &Operands,
) -> Vec<Bits> {
    let mut marked = operands.reads.iter().fold(0, |lanes, row| lanes | unwritten.lanes(*row));
    // `setp.and` with a predicate that is false is false, whatever is compared.
    if let Arithmetic::Compare { with: Some((join, p, negated)), .. } = op
        && unwritten.lanes(Reg::P(*p)) == 0
    {
        let other = registers.p(*p) ^ if *negated { FULL } else { 0 };
        marked &= join.apply(0, other) ^ join.apply(FULL, other);
    }
    let bits =
        |row: &Reg| std::array::from_fn(|i| if marked >> i & 1 != 0 { whole(*row) } else { 0 });
    operands.writes.iter().map(bits).collect()
}
