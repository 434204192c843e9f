//! Which bytes `tcgen05` operations read and write.

use super::MmaWork;
use crate::judge::{Operand, Touched, operand, rect_ranges};
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::{SharedOperands, TmemAddress, TmemCopy, TmemRect, shifted};
use crate::warp::WarpId;

impl MmaWork {
    /// What it touches of its CTAs' memories, as found when it was issued.
    pub(crate) fn footprint(&self) -> Vec<Touched> {
        let mut list = Vec::new();
        let SharedOperands { a, b } = self.mma.shared_operands();
        for (cta, footprint) in self.ctas.iter().zip(&self.footprints) {
            if let Some((matrix, _)) = a {
                let a = Operand { name: "operand A", matrix };
                operand(&mut list, *cta, a, &footprint.shared_a);
            }
            let b = Operand { name: "operand B", matrix: b.0 };
            operand(&mut list, *cta, b, &footprint.shared_b);
            list.extend(rect_ranges(*cta, &footprint.tensor_reads, false));
            list.extend(rect_ranges(*cta, &footprint.tensor_writes, true));
        }
        list
    }
}

impl Machine<'_> {
    /// What a `tcgen05.cp` touches.
    pub(crate) fn copy_footprint(
        &self,
        w: WarpId,
        ctas: &[CtaRank],
        copy: &TmemCopy,
        (address, descriptor): (TmemAddress, u64),
    ) -> Run<Vec<Touched>> {
        let (matrix, source) = match copy.shared_footprint(descriptor) {
            Ok(source) => source,
            Err(error) => return self.operand_error(w, &error),
        };
        let mut list = Vec::new();
        for cta in ctas {
            operand(&mut list, *cta, Operand { name: "the source", matrix }, &source);
            list.extend(rect_ranges(*cta, &copy.rects(address), true));
        }
        Ok(list)
    }
}

/// What a `tcgen05.shift` touches.
pub(crate) fn shift_footprint(ctas: &[CtaRank], address: TmemAddress) -> Vec<Touched> {
    let TmemRect { lanes, columns } = shifted(address);
    let (first, last) = (lanes.start, lanes.end);
    let read = TmemRect { lanes: first..last - 1, columns: columns.clone() };
    let written = TmemRect { lanes: first + 1..last, columns };
    let touched = |cta: &CtaRank| {
        let read = rect_ranges(*cta, std::slice::from_ref(&read), false);
        read.into_iter().chain(rect_ranges(*cta, std::slice::from_ref(&written), true))
    };
    ctas.iter().flat_map(touched).collect()
}
