//! `tcgen05.alloc` and `tcgen05.dealloc`.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Access, Order, Place};
use crate::instruction::{Addr, MemSpace};
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::TMEM_COLUMNS;
use crate::register::{Lane, R32};
use crate::rules::Rule;
use crate::warp::{Wait, WarpId};

impl Execution<'_, '_> {
    pub(crate) fn tmem_alloc(
        &mut self,
        w: WarpId,
        lane: Lane,
        (dst, space): (Addr, MemSpace),
        columns: R32,
        pair: bool,
    ) -> Run<Flow> {
        let columns = self.machine.warps[w].registers.r32(columns)[lane];
        if !columns.is_power_of_two() || !(32..=512).contains(&columns) {
            let message =
                format!("tcgen05.alloc of {columns} columns: 32, 64, 128, 256 or 512 are possible");
            return self.machine.fault(w, None, "tmem-columns", message, None);
        }
        let cta = self.machine.warps[w].cta;
        if self.machine.ctas[cta].tensor.relinquished {
            let message = "tcgen05.alloc after this CTA gave up its permit".to_string();
            self.judge.survivable(self.machine, w, None, Rule::TmemPermit, message, None)?;
        }
        let (holder, offset) = self.machine.shared_operand(self.judge, w, lane, dst, space, 4)?;
        let start = match pair {
            true => self.machine.take_together(w, columns)?,
            false => self.machine.take(&[cta], columns),
        };
        let Some(start) = start else { return Ok(Flow::Retry(Wait::TensorMemory)) };
        self.machine.event();
        self.before_access(w, lane, Access::write(Place::Shared(holder, offset), 4, Order::Weak))?;
        let shared = &mut self.machine.ctas[holder].shared;
        shared.write(offset as usize, 4).copy_from_slice(&start.to_le_bytes());
        Ok(Flow::Next)
    }

    pub(crate) fn tmem_dealloc(&mut self, w: WarpId, address: u32, columns: u32) -> Run<()> {
        self.machine.event();
        let cta = self.machine.warps[w].cta;
        let tensor = &mut self.machine.ctas[cta].tensor;
        let start = address & 0xFFFF;
        let Some(index) = tensor.allocations.iter().position(|a| *a == (start, columns)) else {
            let message = format!(
                "tcgen05.dealloc of {columns} columns at column {start}; allocated are (column, columns): {:?}",
                tensor.allocations
            );
            let help = "free exactly what tcgen05.alloc gave";
            return self.judge.survivable(
                self.machine,
                w,
                None,
                Rule::TmemDealloc,
                message,
                Some(help),
            );
        };
        tensor.allocations.remove(index);
        let now = self.judge.now(w);
        tensor.freed.retain(|(at, n, _)| (*at, *n) != (start, columns));
        tensor.freed.push((start, columns, now));
        self.judge.note_tmem_free(self.machine, w, cta, start as usize, columns as usize)?;
        self.machine.retry(|wait| *wait == Wait::TensorMemory);
        Ok(())
    }
}

impl Machine<'_> {
    /// A warp of each CTA of a pair allocates: the first waits, the second takes columns in both.
    fn take_together(&mut self, w: WarpId, columns: u32) -> Run<Option<u32>> {
        let ctas = self.group(w, true)?;
        let (cta, peer) = (self.warps[w].cta, self.warps[w].cta.peer());
        if let Some(start) = self.ctas[cta].tensor.given.take() {
            return Ok(Some(start));
        }
        self.ctas[cta].tensor.asked = Some(columns);
        let Some(other) = self.ctas[peer].tensor.asked else { return Ok(None) };
        if other != columns {
            let message =
                format!("tcgen05.alloc of {columns} columns; the peer CTA's is of {other}");
            return self.fault(w, None, "tmem-columns", message, None);
        }
        let start = self.take(&ctas, columns);
        if start.is_some() {
            ctas.iter().for_each(|cta| self.ctas[*cta].tensor.asked = None);
            self.ctas[peer].tensor.given = start;
            self.retry(|wait| *wait == Wait::TensorMemory);
        }
        Ok(start)
    }

    /// Takes an aligned range of columns that is free in each of the CTAs.
    fn take(&mut self, ctas: &[CtaRank], columns: u32) -> Option<u32> {
        let free = |start: &u32| ctas.iter().all(|c| self.ctas[*c].tensor.is_free(*start, columns));
        let start = (0..=TMEM_COLUMNS as u32 - columns).step_by(32).find(free)?;
        ctas.iter().for_each(|cta| self.ctas[*cta].tensor.allocations.push((start, columns)));
        Some(start)
    }
}
