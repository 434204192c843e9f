//! The common case of memory access: lanes that load or store 32-bit words of their own CTA's shared
//! memory, whole rows at a time.

use super::alu::lanes;
use crate::cluster::{Cluster, Run};
use crate::load::RESERVED_SHARED;
use crate::memory::address::SHARED_OFFSET;
use crate::op::{Addr, Load, MemSpace, Store};
use crate::register::{LANES, R32, Reg, Row32};

impl Cluster<'_> {
    /// Each lane's offset, if all are aligned and inside the CTA's own shared memory.
    fn word_offsets(
        &self,
        w: usize,
        addr: Addr,
        space: MemSpace,
        mask: u32,
        bytes: u32,
    ) -> Option<[u32; LANES]> {
        let (MemSpace::Shared, Reg::R32(base)) = (space, addr.base) else { return None };
        let warp = &self.warps[w];
        let size = self.ctas[warp.cta].shared.len() as u32;
        let align = bytes.next_power_of_two() - 1;
        let row = warp.registers.r32(base);
        let mut offsets = [0; LANES];
        for lane in lanes(mask) {
            let at = row.0[lane].wrapping_add(addr.offset as u32);
            let offset = at & SHARED_OFFSET;
            let inside = offset >= RESERVED_SHARED && offset + bytes <= size;
            if at >> 24 != warp.cta as u32 || !inside || at & align != 0 {
                return None;
            }
            offsets[lane] = offset;
        }
        Some(offsets)
    }

    /// Loads rows of words; false leaves the access to the general way.
    pub(super) fn load_words(&mut self, w: usize, load: &Load, mask: u32) -> Run<bool> {
        let bytes = 4 * load.dst.len() as u32;
        let plain = |d: &Option<Reg>| matches!(d, None | Some(Reg::R32(_)));
        let offsets = self.word_offsets(w, load.addr, load.space, mask, bytes);
        let Some(offsets) = offsets.filter(|_| load.dst.iter().all(plain)) else {
            return Ok(false);
        };
        let cta = self.warps[w].cta;
        self.note_words(w, cta, &offsets, mask, bytes, false)?;
        if self.launch.options.checks {
            let shared = &self.ctas[cta].shared;
            let missing =
                |lane: usize| shared.first_unwritten(offsets[lane] as usize, bytes as usize);
            let marked = lanes(mask).filter(|l| missing(*l).is_some()).fold(0, |m, l| m | 1 << l);
            if let Some(byte) = lanes(marked).find_map(missing) {
                let what = format!("shared memory at offset {byte:#x}");
                self.mark_unwritten(w, load.dst.iter().flatten().copied(), marked, what);
            }
        }
        let memory = self.ctas[cta].shared.bytes();
        for (i, d) in load.dst.iter().enumerate() {
            let Some(Reg::R32(d)) = d else { continue };
            let mut row = Row32::splat(0);
            for lane in lanes(mask) {
                let at = offsets[lane] as usize + 4 * i;
                row.0[lane] = memory[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            }
            self.warps[w].registers.set32(*d, mask, &row);
        }
        self.count_access(w, load.space, load.addr, mask, bytes, false);
        Ok(true)
    }

    /// Stores rows of words; false leaves the access to the general way.
    pub(super) fn store_words(&mut self, w: usize, store: &Store, mask: u32) -> Run<bool> {
        let bytes = 4 * store.src.len() as u32;
        let offsets = self.word_offsets(w, store.addr, store.space, mask, bytes);
        let rows = store.src.iter().map(|s| match s {
            Reg::R32(r) => Some(*r),
            _ => None,
        });
        let (Some(offsets), Some(rows)) = (offsets, rows.collect::<Option<Vec<R32>>>()) else {
            return Ok(false);
        };
        let cta = self.warps[w].cta;
        self.note_words(w, cta, &offsets, mask, bytes, true)?;
        let shared = &mut self.ctas[cta].shared;
        let registers = &self.warps[w].registers;
        for lane in lanes(mask) {
            let place = shared.write(offsets[lane] as usize, bytes as usize);
            for (word, r) in place.chunks_exact_mut(4).zip(&rows) {
                word.copy_from_slice(&registers.r32(*r).0[lane].to_le_bytes());
            }
        }
        self.count_access(w, store.space, store.addr, mask, bytes, true);
        Ok(true)
    }
}
