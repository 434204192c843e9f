//! `tcgen05`: tensor memory and its matrix unit.

use crate::engine::{Group, Pending, Stream};
use crate::error::{Error, Fault, Hazard, Unsupported};
use crate::exec::Execution;
use crate::exec::Flow;
use crate::exec::Work;
use crate::instruction::lane_address;
use crate::instruction::{Addr, MatrixSource, MemSpace, Tcgen05, Tcgen05MmaOp};
use crate::judge::Judge;
use crate::judge::Moment;
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::{
    CtaMemory, DecodedMma, Lanes, Major, MmaA, MmaFootprint, MmaOperands, OperandError,
    SharedMatrix, SharedOperands, TMEM_COLUMNS, TensorMemory, TmemAddress, TmemCopy, TmemRect,
    TmemTransfer, shifted,
};
use crate::record::Event;
use crate::register::lanes;
use crate::register::{FULL, Lane, R32, R64, Reg, Row32, bits};
use crate::rules::Rule;
use crate::warp::WarpId;

/// 16-byte chunks of a row of a K-major operand: each multiply takes 32 bytes.
const ROW_CHUNKS: u32 = 2;

/// A `tcgen05.mma` with its operands as they were at issue.
pub struct MmaWork {
    /// CTAs, the leader first.
    pub ctas: Vec<CtaRank>,
    /// The multiply.
    pub mma: DecodedMma,
    /// What each of the CTAs sees of it.
    pub footprints: Vec<MmaFootprint>,
}

/// A CTA's tensor memory: contents, what was written, what is allocated.
#[derive(Default)]
pub struct TensorState {
    /// Contents.
    pub cells: TensorMemory,
    written: Vec<u64>,
    /// First column and number of columns.
    pub allocations: Vec<(u32, u32)>,
    /// Allocations given back, and when, where that is followed.
    pub(crate) freed: Vec<(u32, u32, Option<Moment>)>,
    /// Columns a warp asked for on behalf of a pair of CTAs, and where the peer's warp got them.
    pub(crate) asked: Option<u32>,
    pub(crate) given: Option<u32>,
    /// Whether `relinquish_alloc_permit` was executed.
    pub relinquished: bool,
}

impl TensorState {
    fn mark(&mut self, rect: &TmemRect) {
        self.written.resize(TMEM_COLUMNS * 2, 0);
        let lanes = lane_mask(rect);
        for column in rect.columns.clone() {
            self.written[2 * column] |= lanes as u64;
            self.written[2 * column + 1] |= (lanes >> 64) as u64;
        }
    }

    /// A column none of whose lanes in the rectangle was ever written.
    fn unwritten_column(&self, rect: &TmemRect) -> Option<usize> {
        let lanes = lane_mask(rect);
        let seen = |column: usize| match self.written.get(2 * column..2 * column + 2) {
            Some(words) => u128::from(words[0]) | u128::from(words[1]) << 64,
            None => 0,
        };
        rect.columns.clone().find(|column| seen(*column) & lanes == 0)
    }

    /// Whether a range of columns is free.
    pub(crate) fn is_free(&self, start: u32, columns: u32) -> bool {
        self.allocations.iter().all(|(at, n)| start + columns <= *at || at + n <= start)
    }

    fn allocated(&self, rect: &TmemRect) -> bool {
        self.allocations.iter().any(|(at, n)| inside(rect, *at, *n))
    }

    /// When an area around a rectangle was freed, if it was.
    fn freed(&self, rect: &TmemRect) -> Option<Option<Moment>> {
        let found = self.freed.iter().rev().find(|(at, n, _)| inside(rect, *at, *n));
        found.map(|(_, _, moment)| *moment)
    }
}

fn inside(rect: &TmemRect, at: u32, columns: u32) -> bool {
    rect.columns.start >= at as usize && rect.columns.end <= (at + columns) as usize
}

fn lane_mask(rect: &TmemRect) -> u128 {
    rect.lanes.clone().fold(0, |mask, lane| mask | 1 << lane)
}

impl Execution<'_, '_> {
    pub(crate) fn tcgen05(&mut self, w: WarpId, op: &Tcgen05, mask: u32) -> Run<Flow> {
        if !op.is_issued_by_one_thread()
            && let Some(wait) = self.machine.converge(w, self.machine.warps[w].live)
        {
            return Ok(Flow::Retry(wait));
        }
        let first = lanes(mask).next().unwrap_or(Lane(0));
        let mut each = lanes(mask);
        match op {
            Tcgen05::Alloc { dst, space, columns, pair } => {
                return self.tmem_alloc(w, first, (*dst, *space), *columns, *pair);
            }
            Tcgen05::Dealloc { address, columns } => {
                let r = &self.machine.warps[w].registers;
                let (address, columns) = (r.r32(*address)[first], r.r32(*columns)[first]);
                self.tmem_dealloc(w, address, columns)?;
            }
            Tcgen05::Relinquish => {
                let cta = self.machine.warps[w].cta;
                self.machine.ctas[cta].tensor.relinquished = true;
            }
            Tcgen05::Load { transfer, d, address, immediate } => {
                self.tmem_load(w, first, *transfer, d, *address, *immediate)?;
            }
            Tcgen05::Store { transfer, s, address, immediate } => {
                self.machine.event();
                self.tmem_store(w, first, *transfer, s, *address, *immediate)?;
            }
            Tcgen05::Wait { loads } => {
                self.machine.record_plain(w, Event::WaitTensor);
                self.judge.tmem_wait(w, *loads);
            }
            Tcgen05::Fence { after } => each.for_each(|lane| self.tensor_fence(w, lane, *after)),
            Tcgen05::Mma(mma) => each.try_for_each(|lane| self.tcgen05_mma(w, lane, mma))?,
            Tcgen05::Copy { copy, address, descriptor, pair } => each.try_for_each(|lane| {
                self.tcgen05_copy(w, lane, *copy, (*address, *descriptor), *pair)
            })?,
            Tcgen05::Shift { address, pair } => {
                each.try_for_each(|lane| self.tcgen05_shift(w, lane, *address, *pair))?;
            }
            Tcgen05::Commit { mbar, space, multicast } => {
                each.try_for_each(|lane| self.tcgen05_commit(w, lane, *mbar, *space, *multicast))?
            }
        }
        Ok(Flow::Next)
    }

    fn tensor_fence(&mut self, w: WarpId, lane: Lane, after: bool) {
        self.judge.note_tensor_fence(w, after);
        if !after {
            self.judge.note_unsaid(self.machine, w, lane.mask());
        }
    }

    fn tcgen05_copy(
        &mut self,
        w: WarpId,
        lane: Lane,
        copy: TmemCopy,
        (address, descriptor): (Addr, R64),
        pair: bool,
    ) -> Run<()> {
        self.machine.warps[w].uncommitted = Some(self.machine.pc(w));
        let r = &self.machine.warps[w].registers;
        let address = TmemAddress::from(lane_address(r, address, lane) as u32);
        let descriptor = r.r64(descriptor)[lane];
        let ctas = self.machine.group(w, pair)?;
        for rect in copy.rects(address) {
            self.machine.check_rect(self.judge, w, &ctas, &rect)?;
            ctas.iter().for_each(|cta| self.machine.ctas[*cta].tensor.mark(&rect));
        }
        let work = Work::TmemCopy { ctas, copy, address, descriptor };
        self.issue(w, Stream::Tcgen05(w), Group::None, work)
    }

    fn tcgen05_shift(&mut self, w: WarpId, lane: Lane, address: Addr, pair: bool) -> Run<()> {
        self.machine.warps[w].uncommitted = Some(self.machine.pc(w));
        let address = lane_address(&self.machine.warps[w].registers, address, lane) as u32;
        let address = TmemAddress::from(address);
        let ctas = self.machine.group(w, pair)?;
        self.machine.check_rect(self.judge, w, &ctas, &shifted(address))?;
        let work = Work::Shift { ctas, address };
        self.issue(w, Stream::Tcgen05(w), Group::None, work)
    }

    fn tmem_load(
        &mut self,
        w: WarpId,
        lane: Lane,
        transfer: TmemTransfer,
        d: &[R32],
        addr: Addr,
        immediate: u32,
    ) -> Run<()> {
        let (address, rects) =
            self.machine.transfer(self.judge, w, lane, transfer, addr, immediate)?;
        let cta = self.machine.warps[w].cta;
        self.judge.note_tmem_load(self.machine, w, cta, &rects, d)?;
        let unwritten = |rect: &TmemRect| self.machine.ctas[cta].tensor.unwritten_column(rect);
        if self.machine.launch.options.checks
            && let Some(column) = rects.iter().find_map(unwritten)
        {
            let d = d.iter().map(|r| Reg::R32(*r));
            let what = format!("tensor-memory column {column}, which nobody has written yet");
            self.judge.mark_unwritten(self.machine, w, d, FULL, what);
        }
        match transfer.load(&self.machine.ctas[cta].tensor.cells, address, immediate) {
            Ok(rows) => {
                for (d, row) in d.iter().zip(rows) {
                    self.machine.warps[w].registers.set32(*d, FULL, &Row32(row));
                }
                Ok(())
            }
            Err(error) => self.machine.operand_error(w, &error),
        }
    }

    fn tmem_store(
        &mut self,
        w: WarpId,
        lane: Lane,
        transfer: TmemTransfer,
        s: &[R32],
        addr: Addr,
        immediate: u32,
    ) -> Run<()> {
        let (address, rects) =
            self.machine.transfer(self.judge, w, lane, transfer, addr, immediate)?;
        let cta = self.machine.warps[w].cta;
        self.judge.note_tmem_store(self.machine, w, cta, &rects)?;
        let rows: Vec<Lanes> =
            s.iter().map(|r| self.machine.warps[w].registers.r32(*r).0).collect();
        let tensor = &mut self.machine.ctas[cta].tensor;
        rects.iter().for_each(|rect| tensor.mark(rect));
        match transfer.store(&mut tensor.cells, address, immediate, &rows) {
            Ok(()) => Ok(()),
            Err(error) => self.machine.operand_error(w, &error),
        }
    }

    fn tcgen05_mma(&mut self, w: WarpId, lane: Lane, op: &Tcgen05MmaOp) -> Run<()> {
        self.machine.warps[w].uncommitted = Some(self.machine.pc(w));
        let ctas = self.machine.group(w, op.mma.ctas == 2)?;
        let r = &self.machine.warps[w].registers;
        let tmem = |addr: Addr| TmemAddress::from(lane_address(r, addr, lane) as u32);
        let a = match &op.a {
            MatrixSource::Descriptor(d) => MmaA::Shared(r.r64(*d)[lane]),
            MatrixSource::Tensor(addr) => MmaA::Tensor(tmem(*addr)),
            MatrixSource::Registers(_) => {
                return self.machine.unsupported(w, "A of tcgen05.mma in registers".into());
            }
        };
        let operands = MmaOperands {
            d: tmem(op.d),
            a,
            b: r.r64(op.b)[lane],
            descriptor: r.r32(op.descriptor)[lane],
            accumulate: lane.is_in(r.p(op.accumulate.0)) != op.accumulate.1,
            scale_d: op.scale_d,
            disabled_lanes: op.disabled.iter().map(|x| r.r32(*x)[lane]).collect(),
            scales: op.scales.map(|[a, b]| (tmem(a), tmem(b))),
        };
        let mma = match op.mma.decode(operands) {
            Ok(mma) => mma,
            Err(error) => return self.machine.operand_error(w, &error),
        };
        let footprints: Vec<_> = (0..ctas.len()).map(|index| mma.footprint(index)).collect();
        for (cta, footprint) in ctas.iter().zip(&footprints) {
            for rect in footprint.tensor_reads.iter().chain(&footprint.tensor_writes) {
                self.machine.check_rect(self.judge, w, &[*cta], rect)?;
            }
            self.machine.check_mma_footprint(w, *cta, footprint)?;
            if let (MmaA::Tensor(_), Some(rect)) = (mma.a(), footprint.tensor_reads.first())
                && !mma.is_tf32()
            {
                self.judge.check_tensor_operand(self.machine, w, *cta, rect)?;
            }
            let tensor = &mut self.machine.ctas[*cta].tensor;
            footprint.tensor_writes.iter().for_each(|rect| tensor.mark(rect));
        }
        let work = MmaWork { ctas, mma, footprints };
        self.issue(w, Stream::Tcgen05(w), Group::None, Work::Mma(Box::new(work)))
    }

    pub(crate) fn perform_mma(&mut self, pending: &Pending, work: &MmaWork) -> Run<()> {
        self.machine.check_rows_of(self.judge, pending, work)?;
        let mut memories: Vec<CtaMemory> = self
            .machine
            .ctas
            .pairs_mut()
            .filter(|(rank, _)| work.ctas.contains(rank))
            .map(|(_, cta)| CtaMemory { shared: cta.shared.bytes(), tensor: &mut cta.tensor.cells })
            .collect();
        if let Err(error) = work.mma.execute(&mut memories) {
            return self.machine.work_error(pending, &error);
        }
        self.machine.counters.mma_flops += work.mma.flops();
        Ok(())
    }

    fn tcgen05_commit(
        &mut self,
        w: WarpId,
        lane: Lane,
        mbar: Addr,
        space: MemSpace,
        multicast: Option<R32>,
    ) -> Run<()> {
        self.machine.warps[w].uncommitted = None;
        let (cta, offset) = self.machine.barrier_at(self.judge, w, lane, mbar, space)?;
        let signals: Vec<_> = match multicast {
            None => vec![(cta, offset)],
            Some(mask) => {
                let mask = self.machine.warps[w].registers.r32(mask)[lane] & 0xFFFF;
                bits(mask).map(|rank| (CtaRank(rank), offset)).collect()
            }
        };
        for signal in &signals {
            if !self.machine.ctas.holds(signal.0) {
                let message = format!(
                    "commit names CTA rank {} of a cluster of {}",
                    signal.0,
                    self.machine.ctas.len()
                );
                return self.machine.fault(w, None, "multicast", message, None);
            }
            self.known_signal(w, lane, *signal)?;
        }
        self.issue(w, Stream::Tcgen05(w), Group::None, Work::Arrive(signals))
    }
}

impl Machine<'_> {
    /// The CTAs a `tcgen05` instruction works on, the even one first.
    pub(crate) fn group(&self, w: WarpId, pair: bool) -> Run<Vec<CtaRank>> {
        let cta = self.warps[w].cta;
        if !pair {
            return Ok(vec![cta]);
        }
        if !self.ctas.holds(cta.pair()[1]) {
            let message = "cta_group::2 needs a cluster with the peer CTA".to_string();
            return self.fault(w, None, "cta-pair", message, None);
        }
        Ok(cta.pair().to_vec())
    }

    /// Checks that a rectangle is allocated in every CTA of the group.
    fn check_rect(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        ctas: &[CtaRank],
        rect: &TmemRect,
    ) -> Run<()> {
        if let Err(error) = rect.check() {
            return self.operand_error(w, &error);
        }
        for cta in ctas {
            let tensor = &self.ctas[*cta].tensor;
            if !tensor.allocated(rect) && !judge.outlives(w, tensor.freed(rect)) {
                let message = format!(
                    "tensor-memory columns {}..{} are not allocated; allocated are (column, columns): {:?}",
                    rect.columns.start, rect.columns.end, tensor.allocations
                );
                let help =
                    "column offsets start from the address tcgen05.alloc wrote to shared memory";
                if rect.columns.end > TMEM_COLUMNS {
                    return self.fault(w, None, "tmem-bounds", message, Some(help));
                }
                judge.survivable(self, w, None, Rule::TmemBounds, message, Some(help))?;
            }
        }
        Ok(())
    }

    /// A warp reaches a quarter of the lanes: those of its number modulo 4.
    fn check_quarter(&self, judge: &Judge<'_>, w: WarpId, rect: &TmemRect) -> Run<()> {
        let quarter = (self.warps[w].index % 4) as usize;
        let own = 32 * quarter..32 * quarter + 32;
        if rect.lanes.start >= own.start && rect.lanes.end <= own.end {
            return Ok(());
        }
        let message = format!(
            "warp {} accesses tensor-memory lanes {}..{}; it may only access lanes {}..{}",
            self.warps[w].index, rect.lanes.start, rect.lanes.end, own.start, own.end
        );
        let help = "warp w of a CTA owns lanes 32*(w%4)..: add (w%4)<<21 to the address, and use four warps \
                    for all 128 lanes";
        judge.survivable(self, w, None, Rule::TmemLanes, message, Some(help))
    }

    /// Where a warp's load or store starts, and what it touches. An address without a lane base means
    /// the warp's own quarter: that is how DeepGEMM and FlashMLA write it, though the manual wants the
    /// base.
    fn transfer(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        transfer: TmemTransfer,
        addr: Addr,
        immediate: u32,
    ) -> Run<(TmemAddress, Vec<TmemRect>)> {
        let named = TmemAddress::from(lane_address(&self.warps[w].registers, addr, lane) as u32);
        let base = 32 * (self.warps[w].index % 4) as usize;
        let own = if named.lane < 32 { named.lane + base } else { named.lane };
        let meant = TmemAddress { lane: own, ..named };
        let judged = if self.launch.options.pedantic { named } else { meant };
        for rect in transfer.rects(judged, immediate) {
            self.check_quarter(judge, w, &rect)?;
        }
        let rects = transfer.rects(meant, immediate);
        for rect in &rects {
            self.check_rect(judge, w, &[self.warps[w].cta], rect)?;
        }
        Ok((meant, rects))
    }

    /// Operands must lie in shared memory that exists and was written.
    fn check_mma_footprint(
        &mut self,
        w: WarpId,
        cta: CtaRank,
        footprint: &MmaFootprint,
    ) -> Run<()> {
        for (name, ranges) in [("A", &footprint.shared_a), ("B", &footprint.shared_b)] {
            for range in ranges {
                self.check_operand(w, cta, name, range.clone())?;
            }
        }
        Ok(())
    }

    /// Checks the shared memory of a matrix operand.
    pub(crate) fn check_operand(
        &mut self,
        w: WarpId,
        cta: CtaRank,
        name: &str,
        range: std::ops::Range<u32>,
    ) -> Run<()> {
        let size = self.ctas[cta].shared.len() as u32;
        if range.end > size || range.start < crate::load::RESERVED_SHARED {
            let message = format!(
                "operand {name} reaches shared offsets {:#x}..{:#x}; this CTA has up to {size:#x}",
                range.start, range.end
            );
            let help = "the descriptor's start address, leading and stride byte offsets are all in units of 16 bytes";
            return self.fault(w, None, "matrix-operand", message, Some(help));
        }
        Ok(())
    }

    /// Rows of a K-major operand that are written only in part: their unwritten bytes reach every
    /// result. A row without any data is padding whose results nobody uses.
    pub(crate) fn check_rows(
        &self,
        judge: &Judge<'_>,
        pending: &Pending,
        cta: CtaRank,
        matrix: &SharedMatrix,
        rows: usize,
    ) -> Run<()> {
        if !self.launch.options.checks || matrix.major != Major::K {
            return Ok(());
        }
        let shared = &self.ctas[cta].shared;
        for row in 0..rows as u32 {
            let missing = |chunk: &u32| {
                let at = matrix.chunk_address(*chunk, row) as usize;
                at + 16 > shared.len() || shared.first_unwritten(at, 16).is_some()
            };
            let found = (0..ROW_CHUNKS).filter(missing).count() as u32;
            if found != 0 && found != ROW_CHUNKS {
                let site = self.site(pending.warp, pending.pc, None);
                let hazard = Hazard {
                    rule: Rule::OperandLayout,
                    message: format!("row {row} of a matrix operand is written only in part"),
                    site,
                    other: None,
                    help: Some("what was stored and what the descriptor reads are laid out differently: compare \
                                swizzle, leading and stride byte offset".into()),
                };
                return judge.report_hazard(hazard);
            }
        }
        Ok(())
    }

    /// The same for the operands of a `tcgen05.mma` in each of its CTAs.
    fn check_rows_of(&self, judge: &Judge<'_>, pending: &Pending, work: &MmaWork) -> Run<()> {
        if !self.launch.options.checks {
            return Ok(());
        }
        let SharedOperands { a, b } = work.mma.shared_operands();
        for (cta, (matrix, rows)) in
            work.ctas.iter().flat_map(|cta| a.into_iter().chain([b]).map(move |m| (*cta, m)))
        {
            self.check_rows(judge, pending, cta, &matrix, rows)?;
        }
        Ok(())
    }

    /// An error found when an operation was performed, told at its instruction.
    pub(crate) fn work_error<T>(&self, pending: &Pending, error: &OperandError) -> Run<T> {
        let site = self.site(pending.warp, pending.pc, None);
        Err(Box::new(match error {
            OperandError::Unsupported(reason) => Error::Unsupported(Unsupported {
                instruction: site.instruction,
                line: site.line,
                reason: reason.clone(),
            }),
            OperandError::Illegal(message) => Error::Fault(Box::new(Fault {
                rule: "matrix-operand",
                message: message.clone(),
                site,
                help: None,
                survivable: false,
            })),
        }))
    }
}
