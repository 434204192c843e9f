//! `mma.sync`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Access, Order, Place};
use crate::instruction::{Addr, MemSpace, MmaSyncOp, WarpMatrix};
use crate::judge::Conflict;
use crate::judge::Judge;
use crate::judge::Stored;
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::{Lanes, Ldmatrix, OperandError, Stmatrix, mma_f64};
use crate::register::{FULL, Lane, R32, R64, Reg, Row32, Row64};
use crate::warp::WarpId;

impl Execution<'_, '_> {
    pub(crate) fn warp_matrix(&mut self, w: WarpId, op: &WarpMatrix, mask: u32) -> Run<Flow> {
        if let Some(wait) = self.machine.converge(w, self.machine.warps[w].live) {
            return Ok(Flow::Retry(wait));
        }
        match op {
            WarpMatrix::MmaSync(mma) => self.machine.mma_sync(w, mma),
            WarpMatrix::WmmaLoad(op) => self.wmma_load(w, op, mask)?,
            WarpMatrix::WmmaStore(op) => self.wmma_store(w, op, mask)?,
            WarpMatrix::MmaF64 { d, s } => self.machine.mma_f64(w, d, s),
            WarpMatrix::Ldmatrix { shape, d, addr, space } => {
                self.ldmatrix(w, *shape, d, (*addr, *space), mask)?;
            }
            WarpMatrix::Stmatrix { shape, s, addr, space } => {
                self.stmatrix(w, *shape, s, (*addr, *space), mask)?;
            }
            WarpMatrix::Movmatrix { d, a } => {
                let r = &mut self.machine.warps[w].registers;
                let out = transpose_8x8(&r.r32(*a).0);
                r.set32(*d, mask, &Row32(out));
            }
        }
        Ok(Flow::Next)
    }

    fn ldmatrix(
        &mut self,
        w: WarpId,
        shape: Ldmatrix,
        d: &[R32],
        (addr, space): (Addr, MemSpace),
        mask: u32,
    ) -> Run<()> {
        let rows = self.machine.matrix_rows(self.judge, w, addr, space, shape.rows())?;
        let mut data = Vec::with_capacity(rows.len());
        for (lane, (cta, offset)) in rows.iter().enumerate() {
            self.before_access(
                w,
                Lane(lane),
                Access::read(Place::Shared(*cta, *offset), 16, Order::Weak),
            )?;
            let bytes = &self.machine.ctas[*cta].shared.bytes()[*offset as usize..][..16];
            data.push(bytes.try_into().unwrap_or([0; 16]));
        }
        self.machine.counters.shared_read += 16 * rows.len() as u64;
        for (d, row) in d.iter().zip(shape.load(&data)) {
            self.machine.warps[w].registers.set32(*d, mask, &Row32(row));
        }
        Ok(())
    }

    fn stmatrix(
        &mut self,
        w: WarpId,
        shape: Stmatrix,
        s: &[R32],
        (addr, space): (Addr, MemSpace),
        mask: u32,
    ) -> Run<()> {
        self.machine.event();
        self.judge.note_writes_of_lanes(w, mask);
        let rows = self.machine.matrix_rows(self.judge, w, addr, space, shape.rows())?;
        let fragments: Vec<Lanes> =
            s.iter().map(|r| self.machine.warps[w].registers.r32(*r).0).collect();
        let data = shape.store(&fragments);
        let stored: Vec<Stored> = { rows.iter().zip(&data).enumerate() }
            .flat_map(|(lane, (row, data))| numbers_of_row(Reg::R32(s[lane / 8]), *row, data))
            .collect();
        let mut replicas = None;
        for (lane, ((cta, offset), data)) in rows.iter().zip(&data).enumerate() {
            let place = Place::Shared(*cta, *offset);
            let forgives = |judge: &mut Judge<'_>, machine: &Machine<'_>, conflict: &Conflict| {
                let replicas = replicas.get_or_insert_with(|| judge.replicas(machine, w, &stored));
                Ok(machine.repeats(w, conflict)
                    && judge.forgives(machine, w, replicas, (place, 2, 8), conflict))
            };
            let access = Access { compared: true, ..Access::write(place, 16, Order::Weak) };
            self.before_access_unless(w, Lane(lane), access, forgives)?;
            self.machine.ctas[*cta].shared.write(*offset as usize, 16).copy_from_slice(data);
        }
        self.judge.report_replicas(self.machine, w, replicas.as_ref())?;
        self.machine.counters.shared_written += 16 * rows.len() as u64;
        Ok(())
    }
}

impl Machine<'_> {
    /// An operand the matrix unit refuses.
    pub(crate) fn operand_error<T>(&self, w: WarpId, error: &OperandError) -> Run<T> {
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
        judge: &Judge<'_>,
        w: WarpId,
        addr: Addr,
        space: MemSpace,
        count: usize,
    ) -> Run<Vec<(CtaRank, u32)>> {
        let row = |lane: Lane| self.shared_operand(judge, w, lane, addr, space, 16);
        (0..count).map(Lane).map(row).collect()
    }

    /// The multiplies of an instruction; all read before any writes.
    fn mma_sync(&mut self, w: WarpId, parts: &[MmaSyncOp]) {
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

    fn mma_f64(&mut self, w: WarpId, d: &[R64], s: &[Box<[R64]>; 3]) {
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
    }
}

/// The 16-bit values of a row that `stmatrix` stores.
fn numbers_of_row(
    source: Reg,
    (cta, offset): (CtaRank, u32),
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
