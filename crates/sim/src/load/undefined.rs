//! Registers that may be read before they are written.
//!
//! Most kernels have none, and their runs pay nothing for the question. A register is *watched* if some path
//! from the kernel's start to a read of it does not write it; a write under a guard does not count. Runs follow
//! what watched registers hold, lane by lane (`check::flow`), through the instructions that it can reach.

use super::{Frame, Loader};
use crate::instruction::Use;
use crate::instruction::{Arithmetic, Control, Inst, MatrixSource, Op, Pc, WarpgroupMma};
use crate::register::{P, R64, Reg};
use ptx::Symbol;
use std::collections::HashMap;

/// Words of a table of registers by blocks: what the analysis may take of memory at one time.
const MOST_WORDS: usize = 1 << 21;
/// Tables beyond which the analysis is left out, and every register that a block reads first is watched.
const MOST_TABLES: usize = 64;

/// A number for every row of every file.
#[derive(Clone, Copy)]
struct Numbers(Frame);

impl Numbers {
    fn count(self) -> usize {
        (self.0.r32 + self.0.r64 + self.0.p) as usize
    }

    fn of(self, reg: Reg) -> usize {
        (match reg {
            Reg::R32(r) => r.0,
            Reg::R64(r) | Reg::R128(r) => self.0.r32 + r.0,
            Reg::P(p) => self.0.r32 + self.0.r64 + p.0,
        }) as usize
    }
}

/// The rows of a register: two of one of 128 bits.
pub(crate) fn rows(reg: Reg) -> impl Iterator<Item = Reg> {
    let (low, high) = match reg {
        Reg::R128(r) => (Reg::R64(r), Some(Reg::R64(R64(r.0 + 1)))),
        other => (other, None),
    };
    std::iter::once(low).chain(high)
}

/// Tells `visit` the rows that an instruction reads and writes, its guard and the carry flag included.
fn visit_rows(inst: &Inst, carry: P, visit: &mut dyn FnMut(Reg, Use)) {
    if let Some((p, _)) = inst.guard {
        visit(Reg::P(p), Use::Read);
    }
    if let Op::Arithmetic(Arithmetic::Carry { carry_in, carry_out, .. }) = &inst.op {
        if *carry_in {
            visit(Reg::P(carry), Use::Read);
        }
        if *carry_out {
            visit(Reg::P(carry), Use::Write);
        }
    }
    inst.op.registers(&mut |reg, how| rows(reg).for_each(|row| visit(row, how)));
}

/// Whether a `wgmma` cannot add to what its accumulators hold: its predicate is a constant, which no name
/// stands for.
fn overwrites(op: &Op, names: &HashMap<Reg, Symbol>) -> bool {
    let Op::WarpgroupMma(WarpgroupMma::Mma(op)) = op else { return false };
    let reads_d = |d: &&crate::register::R32| match &op.a {
        MatrixSource::Registers(a) => a.contains(d),
        _ => false,
    };
    let constant = !names.contains_key(&Reg::P(op.accumulate.0));
    constant && !op.accumulate.1 && !op.d.iter().any(|d| reads_d(&d))
}

/// A stretch of code that is entered at its start and left at its end.
struct Block {
    /// Registers it reads before it writes them, and those that it surely writes.
    exposed: Vec<u32>,
    killed: Vec<u32>,
    /// Blocks that it may go on to.
    next: Vec<usize>,
}

/// Looks through blocks one after the other.
struct Scan<'n> {
    names: &'n HashMap<Reg, Symbol>,
    numbers: Numbers,
    carry: P,
    /// Registers that have names.
    named: Vec<bool>,
    /// The block, counted from 1, and in which one a register was last killed and last found exposed.
    block: u32,
    killed_in: Vec<u32>,
    exposed_in: Vec<u32>,
}

impl<'n> Scan<'n> {
    fn new(names: &'n HashMap<Reg, Symbol>, numbers: Numbers, carry: P) -> Scan<'n> {
        let mut named = vec![false; numbers.count()];
        names.keys().for_each(|reg| named[numbers.of(*reg)] = true);
        let none = || vec![0; numbers.count()];
        Scan { names, numbers, carry, named, block: 0, killed_in: none(), exposed_in: none() }
    }

    fn block(&mut self, code: &[Inst], next: Vec<usize>) -> Block {
        self.block += 1;
        let mut block = Block { exposed: Vec::new(), killed: Vec::new(), next };
        for inst in code {
            self.expose(inst, &mut block.exposed);
            if inst.guard.is_none() {
                self.kill(inst, &mut block.killed);
            }
        }
        block
    }

    /// Adds the registers that an instruction reads and the block did not write before.
    fn expose(&mut self, inst: &Inst, exposed: &mut Vec<u32>) {
        let overwrites = overwrites(&inst.op, self.names);
        visit_rows(inst, self.carry, &mut |row, how| {
            let number = self.numbers.of(row);
            let accumulator = overwrites && matches!(row, Reg::R32(_));
            let defined = accumulator || self.killed_in[number] == self.block;
            if how == Use::Read && self.named[number] && !defined {
                stamp(&mut self.exposed_in, number, self.block, exposed);
            }
        });
    }

    /// Adds the registers that an instruction writes.
    fn kill(&mut self, inst: &Inst, killed: &mut Vec<u32>) {
        visit_rows(inst, self.carry, &mut |row, how| {
            let number = self.numbers.of(row);
            if how == Use::Write && self.named[number] {
                stamp(&mut self.killed_in, number, self.block, killed);
            }
        });
    }
}

/// Adds a register to those of a block, once.
fn stamp(last: &mut [u32], number: usize, block: u32, found: &mut Vec<u32>) {
    if std::mem::replace(&mut last[number], block) != block {
        found.push(number as u32);
    }
}

impl<'m> Loader<'m> {
    /// The names of the registers that the kernel and the functions it calls declare, and of the carry flag.
    fn register_names(&self) -> HashMap<Reg, Symbol> {
        let mut names = HashMap::from([(Reg::P(self.carry), Symbol::new("CC.CF"))]);
        let mut add = |declared: &[ptx::resolve::Register], assigned: &[Reg]| {
            for (declared, reg) in declared.iter().zip(assigned) {
                names.extend(rows(*reg).map(|row| (row, declared.name)));
            }
        };
        add(&self.body.registers, &self.registers);
        for (name, assigned) in &self.called_registers {
            if let Some(function) = self.functions.get(name) {
                add(&function.registers, assigned);
            }
        }
        names
    }

    /// Finds the registers that may be read before they are written, and marks the instructions that what they
    /// hold can reach.
    pub(crate) fn find_undefined(&mut self) -> Vec<(Reg, Symbol)> {
        let names = self.register_names();
        let numbers = Numbers(self.frame);
        let blocks = self.blocks(&names, numbers);
        let alive = alive_at_start(&blocks, numbers.count());
        let mut watched: Vec<(Reg, Symbol)> =
            names.into_iter().filter(|(reg, _)| alive[numbers.of(*reg)]).collect();
        watched.sort_unstable_by_key(|(reg, _)| *reg);
        if !watched.is_empty() {
            self.mark_followed(alive, numbers);
        }
        watched
    }

    /// The blocks of the code, with what they read and write of registers that have names.
    fn blocks(&self, names: &HashMap<Reg, Symbol>, numbers: Numbers) -> Vec<Block> {
        let starts = self.block_starts();
        let index: HashMap<usize, usize> =
            starts.iter().enumerate().map(|(i, start)| (*start, i)).collect();
        let mut scan = Scan::new(names, numbers, self.carry);
        let ends = starts.iter().skip(1).copied().chain([self.code.len()]);
        let block = |(start, end): (&usize, usize)| {
            let next = self.successors(end - 1).filter_map(|at| index.get(&at).copied()).collect();
            scan.block(&self.code[*start..end], next)
        };
        starts.iter().zip(ends).map(block).collect()
    }

    /// The instructions that blocks start with.
    fn block_starts(&self) -> Vec<usize> {
        let mut starts = vec![false; self.code.len()];
        starts[0] = true;
        let mut mark = |at: usize| {
            if let Some(start) = starts.get_mut(at) {
                *start = true;
            }
        };
        for (at, inst) in self.code.iter().enumerate() {
            if matches!(
                inst.op,
                Op::Control(Control::Branch { .. })
                    | Op::Control(Control::BranchIndex { .. })
                    | Op::Control(Control::Exit)
                    | Op::Control(Control::Trap(_))
            ) {
                mark(at + 1);
                self.successors(at).for_each(&mut mark);
            }
        }
        (0..starts.len()).filter(|at| starts[*at]).collect()
    }

    /// The instructions that may follow one.
    fn successors(&self, at: usize) -> impl Iterator<Item = usize> {
        let inst = &self.code[at];
        let (targets, ends): (&[Pc], bool) = match &inst.op {
            Op::Control(Control::Branch { target }) => (std::slice::from_ref(target), true),
            Op::Control(Control::BranchIndex { targets, .. }) => (targets, true),
            Op::Control(Control::Exit) | Op::Control(Control::Trap(_)) => (&[], true),
            _ => (&[], false),
        };
        let falls = (!ends || inst.guard.is_some()).then_some(at + 1);
        targets.iter().map(|target| *target as usize).chain(falls)
    }

    /// Marks the instructions that read or write what a watched register holds, or something made of it.
    fn mark_followed(&mut self, mut reached: Vec<bool>, numbers: Numbers) {
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); numbers.count()];
        let mut written: Vec<Vec<u32>> = vec![Vec::new(); self.code.len()];
        for (at, inst) in self.code.iter().enumerate() {
            visit_rows(inst, self.carry, &mut |row, how| match how {
                Use::Read => readers[numbers.of(row)].push(at as u32),
                Use::Write => written[at].push(numbers.of(row) as u32),
            });
        }
        let mut left: Vec<usize> = (0..reached.len()).filter(|number| reached[*number]).collect();
        while let Some(number) = left.pop() {
            for &at in &readers[number] {
                self.code[at as usize].follows = true;
                let results = written[at as usize].iter().map(|result| *result as usize);
                left.extend(
                    results.filter(|result| !std::mem::replace(&mut reached[*result], true)),
                );
            }
        }
        for (inst, written) in self.code.iter_mut().zip(written) {
            inst.follows |= written.iter().any(|number| reached[*number as usize]);
        }
    }
}

/// Which registers have a read that no write surely precedes.
fn alive_at_start(blocks: &[Block], registers: usize) -> Vec<bool> {
    let mut alive = vec![false; registers];
    // Most registers are written and read within one block, and need no table.
    let mut exposed: Vec<u32> = blocks.iter().flat_map(|block| &block.exposed).copied().collect();
    exposed.sort_unstable();
    exposed.dedup();
    let per_table = 64 * (MOST_WORDS / blocks.len().max(1)).max(1);
    if exposed.len() > MOST_TABLES.saturating_mul(per_table) {
        exposed.iter().for_each(|number| alive[*number as usize] = true);
        return alive;
    }
    let mut column = vec![u32::MAX; registers];
    for table in exposed.chunks(per_table) {
        column.fill(u32::MAX);
        table.iter().zip(0..).for_each(|(number, i)| column[*number as usize] = i);
        let entry = live_in(blocks, &column, table.len().div_ceil(64));
        for (number, i) in table.iter().zip(0..) {
            alive[*number as usize] |= entry[i / 64] >> (i % 64) & 1 != 0;
        }
    }
    alive
}

/// The registers of a table that are alive where the code starts, as bits.
fn live_in(blocks: &[Block], column: &[u32], words: usize) -> Vec<u64> {
    let bits = |numbers: &[u32]| {
        let mut bits = vec![0u64; words];
        for i in numbers.iter().map(|number| column[*number as usize]).filter(|i| *i != u32::MAX) {
            bits[i as usize / 64] |= 1 << (i % 64);
        }
        bits
    };
    let killed: Vec<Vec<u64>> = blocks.iter().map(|block| bits(&block.killed)).collect();
    let mut live: Vec<Vec<u64>> = blocks.iter().map(|block| bits(&block.exposed)).collect();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
    for (i, block) in blocks.iter().enumerate() {
        block.next.iter().for_each(|next| before[*next].push(i));
    }
    let mut left: Vec<usize> = (0..blocks.len()).collect();
    let mut queued = vec![true; blocks.len()];
    while let Some(block) = left.pop() {
        queued[block] = false;
        for &earlier in &before[block] {
            let mut grew = false;
            for word in 0..words {
                let new = live[block][word] & !killed[earlier][word] & !live[earlier][word];
                live[earlier][word] |= new;
                grew |= new != 0;
            }
            if grew && !std::mem::replace(&mut queued[earlier], true) {
                left.push(earlier);
            }
        }
    }
    live.swap_remove(0)
}

#[cfg(test)]
mod tests;
