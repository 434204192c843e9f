//! `mma.sync`, `ldmatrix`, `stmatrix`, `wgmma`.

use super::Flow;
use super::alu::lanes;
use super::memory::{Access, Order, Place};
use super::replicas::Stored;
use super::work::Work;
use crate::check::Conflict;
use crate::cluster::{Cluster, Run};
use crate::engine::{Group, Pending, Stream};
use crate::matrix::{Lanes, OperandError, Stmatrix, WgmmaA, WgmmaOperands, mma_f64};
use crate::op::{Addr, Inst, MatrixSource, MemSpace, MmaSyncOp, Op, Pc, WgmmaOp};
use crate::operands::Use;
use crate::register::{FULL, R32, Reg, Row32, Row64};
use crate::rules::Rule;
use crate::warp::Wait;

/// A `wgmma` of a warpgroup with its operands as they were at issue.
pub struct WgmmaWork {
    /// First warp of the warpgroup.
    pub first_warp: usize,
    /// The instruction.
    pub pc: Pc,
    /// A's fragments, warp after warp, if A is in registers.
    pub a: Vec<Lanes>,
    /// Descriptors of A and B.
    pub descriptors: [u64; 2],
    /// Whether D is added.
    pub accumulate: bool,
}

/// A `wgmma` that not all four warps have reached.
pub(crate) struct PartialWgmma {
    arrived: u8,
    group: u64,
    work: WgmmaWork,
}

impl Cluster<'_> {
    pub(super) fn matrix_op(&mut self, w: usize, op: &Op, mask: u32) -> Run<Flow> {
        let by_one_thread = matches!(op, Op::Tcgen05(op) if op.is_issued_by_one_thread());
        if !by_one_thread && let Some(wait) = self.converge(w, self.warps[w].live) {
            return Ok(Flow::Retry(wait));
        }
        match op {
            Op::MmaSync(mma) => {
                self.mma_sync(w, mma);
                Ok(Flow::Next)
            }
            Op::WmmaLoad(op) => self.wmma_load(w, op, mask),
            Op::WmmaStore(op) => self.wmma_store(w, op, mask),
            Op::MmaF64 { d, s } => {
                let r = &mut self.warps[w].registers;
                let rows = |i: usize| -> Vec<[f64; 32]> {
                    s[i].iter().map(|x| r.r64(*x).0.map(f64::from_bits)).collect()
                };
                let out = mma_f64(&rows(0), &rows(1), &rows(2));
                for (d, row) in d.iter().zip(out) {
                    r.set64(*d, FULL, &Row64(row.map(f64::to_bits)));
                }
                // Rows are 4 for each register of D, the depth 4 for each of B.
                self.counters.mma_flops += (2 * (4 * d.len()) * 8 * (4 * s[1].len())) as u64;
                Ok(Flow::Next)
            }
            Op::Ldmatrix { shape, d, addr, space } => {
                let rows = self.matrix_rows(w, *addr, *space, shape.rows())?;
                let mut data = Vec::with_capacity(rows.len());
                for (lane, (cta, offset)) in rows.iter().enumerate() {
                    self.before_read(w, lane, Place::Shared(*cta, *offset), 16, Order::Weak)?;
                    let bytes = &self.ctas[*cta].shared.bytes()[*offset as usize..][..16];
                    data.push(bytes.try_into().unwrap_or([0; 16]));
                }
                self.counters.shared_read += 16 * rows.len() as u64;
                for (d, row) in d.iter().zip(shape.load(&data)) {
                    self.warps[w].registers.set32(*d, mask, &Row32(row));
                }
                Ok(Flow::Next)
            }
            Op::Stmatrix { shape, s, addr, space } => {
                self.stmatrix(w, *shape, s, (*addr, *space), mask)?;
                Ok(Flow::Next)
            }
            Op::Movmatrix { d, a } => {
                let r = &mut self.warps[w].registers;
                let out = transpose_8x8(&r.r32(*a).0);
                r.set32(*d, mask, &Row32(out));
                Ok(Flow::Next)
            }
            Op::WgmmaFence => {
                self.warps[w].wgmma.fenced = true;
                self.warps[w].wgmma.ever_fenced = true;
                self.warps[w].wgmma.dirty.fill(0);
                Ok(Flow::Next)
            }
            Op::WgmmaCommit => {
                self.warps[w].wgmma.group += 1;
                Ok(Flow::Next)
            }
            Op::WgmmaWait(pending) => self.wgmma_wait(w, *pending),
            Op::Wgmma(op) => self.wgmma(w, op),
            Op::Tcgen05(op) => self.tcgen05(w, op, mask),
            _ => {
                self.unsupported(w, "this instruction is decoded but has no effect defined".into())
            }
        }
    }

    /// An operand the matrix unit refuses.
    pub(crate) fn operand_error<T>(&self, w: usize, error: &OperandError) -> Run<T> {
        match error {
            OperandError::Unsupported(reason) => self.unsupported(w, reason.clone()),
            OperandError::Illegal(message) => {
                self.fault(w, None, "matrix-operand", message.clone(), None)
            }
        }
    }

    /// CTA and offset of each row lane `0..count` names.
    fn matrix_rows(
        &self,
        w: usize,
        addr: Addr,
        space: MemSpace,
        count: usize,
    ) -> Run<Vec<(usize, u32)>> {
        let row = |lane: usize| self.shared_operand(w, lane, addr, space, 16);
        (0..count).map(row).collect()
    }

    fn stmatrix(
        &mut self,
        w: usize,
        shape: Stmatrix,
        s: &[R32],
        (addr, space): (Addr, MemSpace),
        mask: u32,
    ) -> Run<()> {
        self.event();
        self.note_writes_of_lanes(w, mask);
        let rows = self.matrix_rows(w, addr, space, shape.rows())?;
        let fragments: Vec<Lanes> = s.iter().map(|r| self.warps[w].registers.r32(*r).0).collect();
        let data = shape.store(&fragments);
        let stored: Vec<Stored> = { rows.iter().zip(&data).enumerate() }
            .flat_map(|(lane, (row, data))| numbers_of_row(Reg::R32(s[lane / 8]), *row, data))
            .collect();
        let mut replicas = None;
        for (lane, ((cta, offset), data)) in rows.iter().zip(&data).enumerate() {
            let place = Place::Shared(*cta, *offset);
            let forgives = |this: &mut Self, conflict: &Conflict| {
                let replicas = replicas.get_or_insert_with(|| this.replicas(w, &stored));
                Ok(this.repeats(w, conflict) && this.forgives(w, replicas, (place, 2, 8), conflict))
            };
            let access =
                Access { place, bytes: 16, write: true, order: Order::Weak, compared: true };
            self.before_access(w, lane, access, forgives)?;
            self.ctas[*cta].shared.write(*offset as usize, 16).copy_from_slice(data);
        }
        self.report_replicas(w, replicas.as_ref())?;
        self.counters.shared_written += 16 * rows.len() as u64;
        Ok(())
    }

    /// The multiplies of an instruction; all read before any writes.
    fn mma_sync(&mut self, w: usize, parts: &[MmaSyncOp]) {
        let r = &mut self.warps[w].registers;
        let rows = |list: &[R32]| -> Vec<Lanes> { list.iter().map(|x| r.r32(*x).0).collect() };
        let execute =
            |op: &MmaSyncOp| op.mma.execute(&rows(&op.s[0]), &rows(&op.s[1]), &rows(&op.s[2]));
        let out: Vec<Vec<Lanes>> = parts.iter().map(execute).collect();
        for (op, out) in parts.iter().zip(out) {
            for (d, row) in op.d.iter().zip(out) {
                r.set32(*d, FULL, &Row32(row));
            }
            self.counters.mma_flops += (2 * op.mma.rows * 8 * op.mma.depth) as u64;
        }
    }

    fn wgmma(&mut self, w: usize, op: &WgmmaOp) -> Run<Flow> {
        let index = self.warps[w].index % 4;
        let first = w - index as usize;
        let pc = self.pc(w);
        self.check_wgmma_fence(w, op)?;
        let r = &self.warps[w].registers;
        let uniform = |row: &Row64| row.0[0];
        let a: Vec<Lanes> = match &op.a {
            MatrixSource::Registers(rows) => rows.iter().map(|x| r.r32(*x).0).collect(),
            _ => Vec::new(),
        };
        let a_descriptor = match &op.a {
            MatrixSource::Descriptor(d) => uniform(r.r64(*d)),
            _ => 0,
        };
        let accumulate = (r.p(op.accumulate.0) & 1 != 0) != op.accumulate.1;
        let descriptors = [a_descriptor, uniform(r.r64(op.b))];
        let group = self.warps[w].wgmma.group;
        self.warps[w].wgmma.enter(group, pc, &op.d);
        let queue = self.warpgroups.entry(first).or_default();
        let slot = queue.iter().position(|p| p.arrived >> index & 1 == 0);
        let slot = slot.unwrap_or_else(|| {
            let a = vec![[0; 32]; 4 * a.len()];
            let work = WgmmaWork { first_warp: first, pc, a, descriptors, accumulate };
            queue.push(PartialWgmma { arrived: 0, group, work });
            queue.len() - 1
        });
        let partial = &mut queue[slot];
        let other = partial.work.pc;
        if other != pc {
            let other = self.site(first, other, None).line;
            let message = format!(
                "the warps of a warpgroup execute different wgmma instructions (the other is at PTX line {other})"
            );
            return self.fault(w, None, "warpgroup", message, None);
        }
        let at = index as usize * a.len();
        partial.work.a[at..at + a.len()].copy_from_slice(&a);
        partial.arrived |= 1 << index;
        let threads = self.ctas[self.warps[w].cta].warps.clone();
        let members = threads.end.min(first + 4) - first;
        if members < 4 {
            return self.fault(
                w,
                None,
                "warpgroup",
                "wgmma needs four warps; this CTA's last warpgroup has fewer".into(),
                None,
            );
        }
        if partial.arrived == 0xF {
            let partial = queue.remove(slot);
            let group = Group::Wgmma(first, partial.group);
            self.issue(w, Stream::Wgmma(first), group, Work::Wgmma(Box::new(partial.work)))?;
            self.wake_warpgroup(first);
        }
        Ok(Flow::Next)
    }

    fn wake_warpgroup(&mut self, first: usize) {
        for warp in &mut self.warps[first..first + 4] {
            for fragment in &mut warp.fragments {
                if fragment.wait == Wait::Warpgroup {
                    fragment.wait = Wait::Ready;
                }
            }
        }
    }

    fn wgmma_wait(&mut self, w: usize, pending: u32) -> Run<Flow> {
        let index = self.warps[w].index % 4;
        let first = w - index as usize;
        let below = self.warps[w].wgmma.group.saturating_sub(pending.into());
        let partial = self.warpgroups.get(&first).into_iter().flatten();
        if { partial }.any(|p| p.group < below && p.arrived >> index & 1 != 0) {
            return Ok(Flow::Retry(Wait::Warpgroup));
        }
        self.finish_group(w, |g| matches!(g, Group::Wgmma(who, n) if who == first && n < below))?;
        let kernel = self.kernel;
        self.warps[w].wgmma.leave(below, |pc| match &kernel.code[pc as usize].op {
            Op::Wgmma(op) => &op.d,
            _ => &[],
        });
        Ok(Flow::Next)
    }

    pub(super) fn perform_wgmma(&mut self, pending: &Pending, work: &WgmmaWork) -> Run<()> {
        let Op::Wgmma(op) = &self.kernel.code[work.pc as usize].op else { return Ok(()) };
        let warps = work.first_warp..work.first_warp + 4;
        let mut d: Vec<Lanes> = Vec::with_capacity(4 * op.d.len());
        for w in warps.clone() {
            d.extend(op.d.iter().map(|r| self.warps[w].registers.r32(*r).0));
        }
        let a = match op.a {
            MatrixSource::Registers(_) => WgmmaA::Registers(&work.a),
            _ => WgmmaA::Shared(op.mma.decode_a(work.descriptors[0], op.transpose[0])),
        };
        let operands = WgmmaOperands {
            a,
            b: op.mma.decode_b(work.descriptors[1], op.transpose[1]),
            accumulate: work.accumulate,
            negate_a: op.negate[0],
            negate_b: op.negate[1],
        };
        let cta = self.warps[work.first_warp].cta;
        if let WgmmaA::Shared(a) = &operands.a {
            self.check_rows(pending, cta, a, 64)?;
        }
        self.check_rows(pending, cta, &operands.b, op.mma.columns)?;
        if let Err(error) = op.mma.execute(&operands, self.ctas[cta].shared.bytes(), &mut d) {
            return self.work_error(pending, &error);
        }
        for (w, rows) in warps.zip(d.chunks_exact(op.d.len())) {
            for (r, row) in op.d.iter().zip(rows) {
                self.warps[w].registers.set32(*r, FULL, &Row32(*row));
            }
        }
        self.counters.mma_flops += 2 * 64 * (op.mma.columns * op.mma.depth()) as u64;
        Ok(())
    }

    /// An instruction touches a register a `wgmma` accumulates in: the hardware's result is only
    /// there after `wgmma.wait_group`.
    pub(super) fn touch_accumulators(&mut self, w: usize, inst: &Inst) -> Run<()> {
        let wgmma = &self.warps[w].wgmma;
        let mut reads = None;
        let mut writes = Vec::new();
        let mut reads_dirty = false;
        inst.op.registers(&mut |reg, how| {
            if let Reg::R32(r) = reg {
                match how {
                    Use::Read => {
                        reads = reads.or(wgmma.in_flight(r).then_some(r));
                        reads_dirty |= wgmma.is_dirty(r);
                    }
                    Use::Write => writes.push(r),
                }
            }
        });
        let overwrites = writes.iter().copied().find(|r| wgmma.in_flight(*r));
        let copy = inst.copies;
        if let Some(r) = reads.or(overwrites) {
            self.settle_wgmma(w)?;
            if !copy && self.launch.options.checks {
                self.early_accumulator(w, r, reads.is_some())?;
            }
        }
        let wgmma = &mut self.warps[w].wgmma;
        // A copy is no work of its own: the assembler lets both be one register.
        if !copy || reads_dirty {
            writes.into_iter().for_each(|r| wgmma.mark_dirty(r));
        }
        Ok(())
    }

    /// Completes every issued wgmma of a warp's warpgroup, so that copies see their results.
    fn settle_wgmma(&mut self, w: usize) -> Run<()> {
        let first = w - (self.warps[w].index % 4) as usize;
        while let Some(pending) = self.engines.take_first(|p| p.stream == Stream::Wgmma(first)) {
            self.complete(pending)?;
        }
        Ok(())
    }

    fn early_accumulator(&self, w: usize, r: R32, read: bool) -> Run<()> {
        let kernel = self.kernel;
        let of = |pc: Pc| match &kernel.code[pc as usize].op {
            Op::Wgmma(op) => op.d.contains(&r),
            _ => false,
        };
        let site = self.warps[w].wgmma.live.iter().rev().find(|(_, pc)| of(*pc));
        let other =
            site.map(|(_, pc)| ("the wgmma in flight:".to_string(), self.site(w, *pc, None)));
        let verb = if read { "read" } else { "overwritten" };
        let message = format!("an accumulator register of a wgmma in flight is {verb}");
        let help =
            "wgmma.wait_group must come between the wgmma and the first use of its registers";
        self.hazard(w, Rule::WgmmaInFlight, message, other, Some(help))
    }

    fn check_wgmma_fence(&self, w: usize, op: &WgmmaOp) -> Run<()> {
        let wgmma = &self.warps[w].wgmma;
        // Registers that change between a fence and the first wgmma behind it are common.
        if wgmma.fenced && !self.launch.options.pedantic || !self.launch.options.checks {
            return Ok(());
        }
        let a: &[R32] = match &op.a {
            MatrixSource::Registers(rows) => rows,
            _ => &[],
        };
        let dirty = op.d.iter().chain(a).any(|r| wgmma.is_dirty(*r));
        if wgmma.ever_fenced && !dirty {
            return Ok(());
        }
        let message = match wgmma.ever_fenced {
            true => "registers of this wgmma were written since the last wgmma.fence",
            false => "the first wgmma of this warp has no wgmma.fence before it",
        };
        let message = message.to_string();
        let help = "execute wgmma.fence.sync.aligned after writing accumulator or A registers and before the \
                    first wgmma that uses them";
        self.hazard(w, Rule::MissingWgmmaFence, message, None, Some(help))
    }
}

/// The 16-bit values of a row that `stmatrix` stores.
fn numbers_of_row(
    source: Reg,
    (cta, offset): (usize, u32),
    data: &[u8; 16],
) -> impl Iterator<Item = Stored> {
    let (values, _) = data.as_chunks::<2>();
    let stored = move |(i, value): (usize, &[u8; 2])| Stored {
        place: Place::Shared(cta, offset + 2 * i as u32),
        bytes: 2,
        value: u16::from_le_bytes(*value).into(),
        source,
        half: true,
    };
    values.iter().enumerate().map(stored)
}

/// The 8x8 transpose of `movmatrix`: lane `l` holds row `l/4`, columns `2(l%4)` and the next.
pub(crate) fn transpose_8x8(a: &Lanes) -> Lanes {
    let at = |row: usize, column: usize| a[4 * row + column / 2] >> (16 * (column % 2)) & 0xFFFF;
    std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        at(column, row) | at(column + 1, row) << 16
    })
}

/// Lanes of a mask, for callers outside this module.
pub(super) fn first_lane(mask: u32) -> usize {
    lanes(mask).next().unwrap_or(0)
}
