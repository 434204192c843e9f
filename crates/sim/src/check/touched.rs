//! Which bytes an asynchronous operation touches.

use super::pipes::Memory;
use crate::cluster::{Cluster, Run};
use crate::exec::{End, RESPONSE_BYTES, Work};
use crate::matrix::{SharedMatrix, SharedOperands, TMEM_COLUMNS, TmemRect};
use crate::op::{MatrixSource, Op, Tcgen05};
use crate::tensor_copy::Piece;

/// A byte range of a memory that an operation touches.
pub(super) struct Touched {
    pub(super) memory: Memory,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) write: bool,
    /// The matrix operand it is part of, in shared memory.
    pub(super) operand: Option<Operand>,
}

/// A matrix operand in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    /// What it is called.
    pub(super) name: &'static str,
    pub(super) matrix: SharedMatrix,
}

impl Cluster<'_> {
    /// What an operation touches.
    pub(super) fn touched(&self, w: usize, work: &Work) -> Run<Vec<Touched>> {
        let mut list = Vec::new();
        let mut shared = |cta: usize, start: u32, len: u32, write: bool| {
            list.push(Touched {
                memory: Memory::Shared(cta),
                start: start.into(),
                len: len.into(),
                write,
                operand: None,
            });
        };
        match work {
            Work::TensorLoad { plan, ends, .. } => {
                for end in ends {
                    let End::Shared(cta, _) = end else { continue };
                    for (start, len) in shared_pieces(&plan.pieces) {
                        shared(*cta, start, len, true);
                    }
                }
                list.extend(global_pieces(&plan.pieces, false, |at| self.is_tracked(at)));
            }
            Work::TensorStore { plan, cta, .. } => {
                for (start, len) in shared_pieces(&plan.pieces) {
                    shared(*cta, start, len, false);
                }
                list.extend(global_pieces(&plan.pieces, true, |at| self.is_tracked(at)));
            }
            Work::Bulk { from, ends, bytes, .. } => {
                for (end, write) in
                    std::iter::once((from, false)).chain(ends.iter().map(|e| (e, true)))
                {
                    list.extend(self.end_range(*end, *bytes, write));
                }
            }
            Work::CpAsync(parts) => {
                for part in parts {
                    list.extend(self.end_range(
                        End::Shared(part.cta, part.offset),
                        part.bytes,
                        true,
                    ));
                    if part.read > 0 {
                        list.extend(self.end_range(End::Global(part.from), part.read, false));
                    }
                }
            }
            Work::StoreAsync { to, data, reduce: None, .. } => {
                list.extend(self.end_range(*to, data.len() as u32, true));
            }
            Work::StoreAsync { .. } | Work::Arrive(_) => {}
            Work::CancelResponse { ends, .. } => {
                let range = |end: &End| self.end_range(*end, RESPONSE_BYTES, true);
                list.extend(ends.iter().flat_map(range));
            }
            Work::Wgmma(_) | Work::Mma(_) | Work::TmemCopy { .. } | Work::Shift { .. } => {
                return self.matrix_touched(w, work);
            }
        }
        Ok(list)
    }

    fn end_range(&self, end: End, bytes: u32, write: bool) -> Option<Touched> {
        let (memory, start) = match end {
            End::Shared(cta, offset) => (Memory::Shared(cta), u64::from(offset)),
            End::Global(at) if self.is_tracked(at) => (Memory::Global, at),
            End::Global(_) => return None,
        };
        Some(Touched { memory, start, len: bytes.into(), write, operand: None })
    }

    /// Memory nobody writes needs no shadow.
    pub(crate) fn is_tracked(&self, at: u64) -> bool {
        self.launch.global.find(at, 1, &mut 0).is_ok_and(|(allocation, _)| !allocation.read_only)
    }

    fn matrix_touched(&self, w: usize, work: &Work) -> Run<Vec<Touched>> {
        let mut list = Vec::new();
        match work {
            Work::Wgmma(work) => {
                let Op::Wgmma(op) = &self.kernel.code[work.pc as usize].op else { return Ok(list) };
                let cta = self.warps[work.first_warp].cta;
                let depth = op.mma.depth();
                if matches!(op.a, MatrixSource::Descriptor(_)) {
                    let a = op.mma.decode_a(work.descriptors[0], op.transpose[0]);
                    let ranges = a.footprint(64, depth, op.mma.a);
                    operand(&mut list, cta, Operand { name: "operand A", matrix: a }, ranges);
                }
                let b = op.mma.decode_b(work.descriptors[1], op.transpose[1]);
                let ranges = b.footprint(op.mma.columns, depth, op.mma.b);
                operand(&mut list, cta, Operand { name: "operand B", matrix: b }, ranges);
            }
            Work::Mma(work) => {
                let Op::Tcgen05(op) = &self.kernel.code[work.pc as usize].op else {
                    return Ok(list);
                };
                let Tcgen05::Mma(op) = &**op else { return Ok(list) };
                let SharedOperands { a, b } = match op.mma.shared_operands(&work.operands) {
                    Ok(shared) => shared,
                    Err(error) => return self.operand_error(w, &error),
                };
                for (index, cta) in work.ctas.iter().enumerate() {
                    let footprint = match op.mma.footprint(&work.operands, index) {
                        Ok(footprint) => footprint,
                        Err(error) => return self.operand_error(w, &error),
                    };
                    if let Some((matrix, _)) = a {
                        let a = Operand { name: "operand A", matrix };
                        operand(&mut list, *cta, a, footprint.shared_a);
                    }
                    let b = Operand { name: "operand B", matrix: b.0 };
                    operand(&mut list, *cta, b, footprint.shared_b);
                    list.extend(rect_ranges(*cta, &footprint.tensor_reads, false));
                    list.extend(rect_ranges(*cta, &footprint.tensor_writes, true));
                }
            }
            Work::TmemCopy { ctas, copy, address, descriptor } => {
                let (matrix, source) = match copy.shared_footprint(*descriptor) {
                    Ok(source) => source,
                    Err(error) => return self.operand_error(w, &error),
                };
                for cta in ctas {
                    let copied = Operand { name: "the source", matrix };
                    operand(&mut list, *cta, copied, source.clone());
                    list.extend(rect_ranges(*cta, &copy.rects(*address), true));
                }
            }
            _ => {}
        }
        Ok(list)
    }
}

fn shared_pieces(pieces: &[Piece]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for piece in pieces {
        let (start, len) = match *piece {
            Piece::Copy { shared, bytes, .. } | Piece::Fill { shared, bytes } => (shared, bytes),
        };
        match ranges.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 += len,
            _ => ranges.push((start, len)),
        }
    }
    ranges
}

fn global_pieces(pieces: &[Piece], write: bool, tracked: impl Fn(u64) -> bool) -> Vec<Touched> {
    let copies = pieces.iter().filter_map(|piece| match *piece {
        Piece::Copy { global, bytes, .. } => Some((global, bytes)),
        Piece::Fill { .. } => None,
    });
    let copies: Vec<_> = copies.collect();
    if !copies.first().is_some_and(|(at, _)| tracked(*at)) {
        return Vec::new();
    }
    let touched = |(start, len): (u64, u32)| Touched {
        memory: Memory::Global,
        start,
        len: len.into(),
        write,
        operand: None,
    };
    copies.into_iter().map(touched).collect()
}

/// Shared memory a matrix operand is read from.
fn operand(
    list: &mut Vec<Touched>,
    cta: usize,
    operand: Operand,
    ranges: Vec<std::ops::Range<u32>>,
) {
    list.extend(ranges.into_iter().map(|r| Touched {
        memory: Memory::Shared(cta),
        start: r.start.into(),
        len: (r.end - r.start).into(),
        write: false,
        operand: Some(operand),
    }));
}

pub(super) fn rect_ranges(cta: usize, rects: &[TmemRect], write: bool) -> Vec<Touched> {
    let row = |rect: &TmemRect, lane: usize| Touched {
        memory: Memory::Tensor(cta),
        start: 4 * (lane * TMEM_COLUMNS + rect.columns.start) as u64,
        len: 4 * rect.columns.len() as u64,
        write,
        operand: None,
    };
    rects.iter().flat_map(|rect| rect.lanes.clone().map(move |lane| row(rect, lane))).collect()
}
