//! Marks of what nobody wrote where instructions do more than arithmetic: memory, matrices, barriers, copies.
//!
//! Operands of such instructions are used, and a marked one is reported. Two kinds of data are only passed on:
//! matrices in registers, of which some rows or columns may mean nothing, and what is stored where the program
//! itself loads it again.

use super::flow::Operands;
use super::unwritten::{Bits, Unwritten, whole};
use crate::instruction::{
    AsyncCopy, Control, Inst, MatrixSource, MemoryAccess, MmaSyncOp, Op, Store, Tcgen05,
    WarpMatrix, WarpgroupMma, WgmmaOp,
};
use crate::instruction::{Place, advance, transpose_8x8};
use crate::judge::Judge;
use crate::load::rows;
use crate::machine::{Machine, Run};
use crate::register::{FULL, LANES, Lane, R32, R64, Reg};
use crate::warp::WarpId;

/// The fragments of a matrix multiply.
struct Product {
    a: Vec<Reg>,
    b: Vec<Reg>,
    c: Vec<Reg>,
    d: Vec<Reg>,
}

fn narrow(rows: &[R32]) -> Vec<Reg> {
    rows.iter().map(|r| Reg::R32(*r)).collect()
}

fn wide(rows: &[R64]) -> Vec<Reg> {
    rows.iter().map(|r| Reg::R64(*r)).collect()
}

impl Product {
    fn of_mma(op: &MmaSyncOp) -> Product {
        let [a, b, c] = &op.s;
        Product { a: narrow(a), b: narrow(b), c: narrow(c), d: narrow(&op.d) }
    }

    fn of_mma_f64(d: &[R64], [a, b, c]: &[Box<[R64]>; 3]) -> Product {
        Product { a: wide(a), b: wide(b), c: wide(c), d: wide(d) }
    }

    /// One that adds to its accumulators, or replaces them.
    fn of_wgmma(op: &WgmmaOp, adds: bool) -> Product {
        let d = narrow(&op.d);
        let c = if adds { d.clone() } else { Vec::new() };
        Product { a: narrow(registers_of(&op.a)), b: Vec::new(), c, d }
    }

    /// The lanes of D that are made of A or B that nobody wrote. A's rows stay in the lanes they are in; a
    /// fragment of which a part is marked may have marked rows that nobody looks at.
    fn marked_lanes(&self, unwritten: &Unwritten) -> u32 {
        let all_marked = |fragment: &[Reg]| match fragment {
            [] => 0,
            rows => rows.iter().fold(FULL, |lanes, row| lanes & unwritten.lanes(*row)),
        };
        let b = if all_marked(&self.b) == FULL { FULL } else { 0 };
        all_marked(&self.a) | b
    }

    /// The marked bits of each register of D, and where they come from.
    fn marks(&self, unwritten: &Unwritten) -> Vec<(Reg, Bits, usize)> {
        let lanes = self.marked_lanes(unwritten);
        let factor = self.a.iter().chain(&self.b).find(|row| unwritten.lanes(**row) != 0);
        let marks = |(i, d): (usize, &Reg)| {
            let c = self.c.get(i * self.c.len() / self.d.len());
            let added = c.and_then(|c| unwritten.bits(*c)).unwrap_or([0; LANES]);
            let bits = |i: usize| if lanes >> i & 1 != 0 { whole(*d) } else { added[i] };
            let from = if lanes == 0 { c } else { factor };
            (*d, std::array::from_fn(bits), from.map_or(0, |row| unwritten.origin(*row)))
        };
        self.d.iter().enumerate().map(marks).collect()
    }
}

impl Judge<'_> {
    /// Follows marks through an instruction that is more than arithmetic.
    pub(super) fn follow_effect(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        inst: &Inst,
        mask: u32,
    ) -> Run<()> {
        if mask == 0 {
            return Ok(());
        }
        match &inst.op {
            Op::MemoryAccess(MemoryAccess::Store(store)) => {
                return self.check_stored_address(machine, w, store, mask);
            }
            Op::WarpMatrix(WarpMatrix::MmaSync(parts)) => {
                self.follow_products(w, parts.iter().map(Product::of_mma))
            }
            Op::WarpMatrix(WarpMatrix::MmaF64 { d, s }) => {
                self.follow_products(w, [Product::of_mma_f64(d, s)])
            }
            Op::WarpMatrix(WarpMatrix::Movmatrix { d, a }) => {
                self.follow_transpose(w, Reg::R32(*d), Reg::R32(*a))
            }
            Op::WarpgroupMma(WarpgroupMma::Mma(op)) => {
                self.check_uses(machine, w, &inst.op, mask)?;
                let (p, negated) = op.accumulate;
                let adds = (machine.warps[w].registers.p(p) & 1 != 0) != negated;
                self.follow_products(w, [Product::of_wgmma(op, adds)]);
            }
            op => {
                self.check_uses(machine, w, op, mask)?;
                self.overwrite(w, op, mask);
            }
        }
        Ok(())
    }

    fn follow_products(&mut self, w: WarpId, products: impl IntoIterator<Item = Product>) {
        self.change_marks(w, |unwritten| {
            // All are read before any is written.
            let marks: Vec<_> =
                products.into_iter().flat_map(|product| product.marks(unwritten)).collect();
            for (row, bits, origin) in marks {
                unwritten.set(row, FULL, &bits, origin);
            }
        });
    }

    fn follow_transpose(&mut self, w: WarpId, d: Reg, a: Reg) {
        self.change_marks(w, |unwritten| {
            let bits = unwritten.bits(a).unwrap_or([0; LANES]);
            let bits = transpose_8x8(&bits.map(|bits| bits as u32)).map(u64::from);
            unwritten.set(d, FULL, &bits, unwritten.origin(a));
        });
    }

    /// The results of an operation are written.
    fn overwrite(&mut self, w: WarpId, op: &Op, mask: u32) {
        let all_lanes = matches!(op, Op::Tcgen05(op) if matches!(**op, Tcgen05::Load { .. }));
        let mask = if all_lanes { FULL } else { mask };
        self.change_marks(w, |unwritten| {
            for row in Operands::of(op).writes {
                unwritten.set(row, mask, &[0; LANES], 0);
            }
        });
    }

    fn change_marks(&mut self, w: WarpId, change: impl FnOnce(&mut Unwritten)) {
        let marks = &mut self.unwritten[w];
        if let Some(unwritten) = marks {
            change(unwritten);
        }
        marks.take_if(|unwritten| unwritten.is_empty());
    }

    /// Reports the first marked operand that is used.
    fn check_uses(&self, machine: &Machine<'_>, w: WarpId, op: &Op, mask: u32) -> Run<()> {
        let Some(unwritten) = &self.unwritten[w] else { return Ok(()) };
        for row in Operands::of(op).reads {
            if let marked @ 1.. = unwritten.lanes(row) & mask & users(op, row) {
                self.used_unwritten(machine, w, row, marked.trailing_zeros(), does(op))?;
            }
        }
        Ok(())
    }

    fn check_stored_address(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        store: &Store,
        mask: u32,
    ) -> Run<()> {
        let Some(unwritten) = &self.unwritten[w] else { return Ok(()) };
        match unwritten.lanes(store.addr.base) & mask {
            0 => Ok(()),
            marked => {
                let does = "stores to an address that comes from";
                self.used_unwritten(machine, w, store.addr.base, marked.trailing_zeros(), does)
            }
        }
    }

    /// Whether a store's values have marked bits in some lane.
    pub(crate) fn stores_unwritten(&self, w: WarpId, store: &Store, mask: u32) -> bool {
        let Some(unwritten) = &self.unwritten[w] else { return false };
        store.src.iter().flat_map(|reg| rows(*reg)).any(|row| unwritten.lanes(row) & mask != 0)
    }

    /// A lane has stored values that have marked bits; the bytes that hold nothing defined now.
    ///
    /// Marks of registers go along to local and shared memory, where the program itself looks at them again.
    /// Compilers copy structures whole, with their padding and members that were never set; so elsewhere such
    /// marks are reported only if all that is stored is marked. Marks of memory that nobody wrote always are.
    pub(crate) fn follow_store(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        lane: Lane,
        place: Place,
        store: &Store,
    ) -> Run<Vec<Place>> {
        let mut undefined = Vec::new();
        let stored = self.stored_marks(w, lane, store);
        let partly = stored.iter().any(|stored| stored.bits != stored.all);
        let kept = matches!(place, Place::Local(_) | Place::Shared(..));
        for Stored { row, at, bits, .. } in stored.into_iter().filter(|stored| stored.bits != 0) {
            let passes = (kept || partly) && self.is_of_register(w, row);
            if !passes && !matches!(place, Place::Local(_)) {
                self.used_unwritten(
                    machine,
                    w,
                    row,
                    lane.0 as u32,
                    "stores a value that comes from",
                )?;
            }
            let bytes = (0..8).filter(|i| bits >> (8 * i) & 0xFF != 0);
            undefined.extend(bytes.map(|i| advance(place, at + i)));
        }
        Ok(undefined)
    }

    /// The marks of the values that a lane stores.
    fn stored_marks(&self, w: WarpId, lane: Lane, store: &Store) -> Vec<Stored> {
        let width = u32::from(store.bytes).min(8);
        let all = u64::MAX >> (64 - 8 * width);
        let rows = store.src.iter().flat_map(|reg| rows(*reg)).zip((0..).step_by(width as usize));
        let stored =
            |(row, at)| Stored { row, at, all, bits: self.undefined_bits(w, row, lane) & all };
        rows.map(stored).collect()
    }
}

/// A value that a lane stores.
struct Stored {
    row: Reg,
    /// Where it goes, from the place of the store on.
    at: u32,
    /// The bits that are stored, and those of them that are marked.
    all: u64,
    bits: u64,
}

/// The lanes whose value of an operand is used: matrices in registers are passed on, and rows of matrices in
/// shared memory have their addresses in the first lanes.
fn users(op: &Op, row: Reg) -> u32 {
    match op {
        Op::WarpgroupMma(WarpgroupMma::Mma(op)) => {
            let passed_on = |r: R32| op.d.contains(&r) || registers_of(&op.a).contains(&r);
            if matches!(row, Reg::R32(r) if passed_on(r)) { 0 } else { FULL }
        }
        Op::WarpMatrix(WarpMatrix::Ldmatrix { shape, addr, .. }) if row == addr.base => {
            first_lanes(shape.rows())
        }
        Op::WarpMatrix(WarpMatrix::Stmatrix { shape, addr, .. }) if row == addr.base => {
            first_lanes(shape.rows())
        }
        _ => FULL,
    }
}

fn first_lanes(count: usize) -> u32 {
    FULL >> (LANES - count)
}

/// What an operation does with its operands.
fn does(op: &Op) -> &'static str {
    match op {
        Op::MemoryAccess(MemoryAccess::Atomic(_))
        | Op::WarpMatrix(WarpMatrix::Stmatrix { .. })
        | Op::WarpMatrix(WarpMatrix::WmmaStore(_))
        | Op::AsyncCopy(AsyncCopy::StoreAsync { .. }) => "stores a value that comes from",
        Op::Tcgen05(op) if matches!(**op, Tcgen05::Store { .. }) => {
            "stores a value that comes from"
        }
        Op::MemoryAccess(MemoryAccess::Load(_))
        | Op::WarpMatrix(WarpMatrix::Ldmatrix { .. })
        | Op::WarpMatrix(WarpMatrix::WmmaLoad(_)) => "loads from an address that comes from",
        Op::Control(Control::BranchIndex { .. }) => "branches on a value that comes from",
        _ => "uses a value that comes from",
    }
}

fn registers_of(a: &MatrixSource) -> &[R32] {
    match a {
        MatrixSource::Registers(rows) => rows,
        _ => &[],
    }
}
