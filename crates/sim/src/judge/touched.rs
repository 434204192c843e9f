//! Which bytes an asynchronous operation touches.

use super::pipes::Memory;
use crate::exec::{End, Work};
use crate::instruction::{RESPONSE_BYTES, shift_footprint};
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::{SharedMatrix, TMEM_COLUMNS, TmemRect};
use crate::tensor_copy::Piece;
use crate::warp::WarpId;

/// A byte range of a memory that an operation touches.
pub(crate) struct Touched {
    pub(crate) memory: Memory,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) write: bool,
    /// The matrix operand it is part of, in shared memory.
    pub(crate) operand: Option<Operand>,
}

/// A matrix operand in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    /// What it is called.
    pub(crate) name: &'static str,
    pub(crate) matrix: SharedMatrix,
}

impl Machine<'_> {
    /// What an operation touches.
    pub(crate) fn touched(&self, w: WarpId, work: &Work) -> Run<Vec<Touched>> {
        let mut list = Vec::new();
        let mut shared = |cta: CtaRank, start: u32, len: u32, write: bool| {
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
            Work::StoreAsync { to, data, .. } => {
                list.extend(self.end_range(*to, data.len() as u32, true));
            }
            Work::Arrive(_) => {}
            Work::CancelResponse { ends, .. } => {
                let range = |end: &End| self.end_range(*end, RESPONSE_BYTES, true);
                list.extend(ends.iter().flat_map(range));
            }
            Work::Wgmma(work) => return Ok(work.footprint(self.warps[work.first_warp].cta)),
            Work::Mma(work) => return Ok(work.footprint()),
            Work::TmemCopy { ctas, copy, address, descriptor } => {
                return self.copy_footprint(w, ctas, copy, (*address, *descriptor));
            }
            Work::Shift { ctas, address } => list.extend(shift_footprint(ctas, *address)),
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
pub(crate) fn operand(
    list: &mut Vec<Touched>,
    cta: CtaRank,
    operand: Operand,
    ranges: &[std::ops::Range<u32>],
) {
    list.extend(ranges.iter().map(|r| Touched {
        memory: Memory::Shared(cta),
        start: r.start.into(),
        len: (r.end - r.start).into(),
        write: false,
        operand: Some(operand),
    }));
}

pub(crate) fn rect_ranges(cta: CtaRank, rects: &[TmemRect], write: bool) -> Vec<Touched> {
    let row = |rect: &TmemRect, lane: usize| Touched {
        memory: Memory::Tensor(cta),
        start: 4 * (lane * TMEM_COLUMNS + rect.columns.start) as u64,
        len: 4 * rect.columns.len() as u64,
        write,
        operand: None,
    };
    rects.iter().flat_map(|rect| rect.lanes.clone().map(move |lane| row(rect, lane))).collect()
}
