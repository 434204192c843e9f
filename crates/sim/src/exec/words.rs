//! The common case of memory access: lanes that load or store 32-bit words of their own CTA's shared
//! memory, whole rows at a time.

use super::alu::lanes;
use super::banks::bank_conflicts;
use crate::cluster::{Cluster, Run};
use crate::memory::address::SHARED_OFFSET;
use crate::op::{Addr, Load, MemSpace, Store};
use crate::register::{FULL, LANES, Reg, Row32};

/// Where the lanes of a warp access shared memory.
struct Words {
    at: [u32; LANES],
    /// Bytes of each lane.
    bytes: u32,
    mask: u32,
    /// All lanes take part and follow each other without a gap.
    run: bool,
}

impl Words {
    /// The ranges accessed, as few as possible.
    fn ranges(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        self.blocks().map(|(_, at, len)| (at, len))
    }

    /// The same, each with the first lane that accesses it.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize, usize)> + Clone {
        let (mask, len) = match self.run {
            true => (1, LANES as u32 * self.bytes),
            false => (self.mask, self.bytes),
        };
        lanes(mask).map(move |lane| (lane, self.at[lane] as usize, len as usize))
    }

    fn bank_conflicts(&self) -> u64 {
        if self.run { 0 } else { bank_conflicts(&self.at, self.mask, self.bytes) }
    }
}

impl Cluster<'_> {
    /// Each lane's offset, if all are aligned and inside the CTA's own shared memory.
    #[inline(always)]
    fn words(&self, w: usize, addr: Addr, space: MemSpace, mask: u32, bytes: u32) -> Option<Words> {
        let (MemSpace::Shared, Reg::R32(base)) = (space, addr.base) else { return None };
        let warp = &self.warps[w];
        let size = self.ctas[warp.cta].shared.len() as u32;
        let align = bytes.next_power_of_two() - 1;
        let row = warp.registers.r32(base);
        let (mut at, mut bad, mut gaps) = ([0; LANES], false, mask ^ FULL);
        let first = row.0[0].wrapping_add(addr.offset as u32) & SHARED_OFFSET;
        for lane in 0..LANES {
            let address = row.0[lane].wrapping_add(addr.offset as u32);
            let offset = address & SHARED_OFFSET;
            let outside = offset < self.kernel.first_shared || offset + bytes > size;
            let wrong = address >> 24 != warp.cta as u32 || outside || address & align != 0;
            bad |= wrong && mask >> lane & 1 != 0;
            gaps |= u32::from(offset != first + lane as u32 * bytes);
            at[lane] = offset;
        }
        (!bad).then_some(Words { at, bytes, mask, run: gaps == 0 })
    }

    /// Loads rows of words; false leaves the access to the general way.
    pub(super) fn load_words(&mut self, w: usize, load: &Load, mask: u32) -> Run<bool> {
        let bytes = 4 * load.dst.len() as u32;
        let plain = |d: &Option<Reg>| matches!(d, None | Some(Reg::R32(_)));
        let words = self.words(w, load.addr, load.space, mask, bytes);
        let Some(words) = words.filter(|_| load.dst.iter().all(plain)) else {
            return Ok(false);
        };
        let cta = self.warps[w].cta;
        if self.launch.options.checks {
            // The general way marks what nobody wrote.
            let shared = &self.ctas[cta].shared;
            if words.ranges().any(|(at, len)| shared.first_unwritten(at, len).is_some()) {
                return Ok(false);
            }
            self.note_loaded_ranges(w, cta, words.ranges())?;
        }
        let memory = self.ctas[cta].shared.bytes();
        for (i, d) in load.dst.iter().enumerate() {
            let Some(Reg::R32(d)) = d else { continue };
            let mut row = Row32::splat(0);
            match words.ranges().next() {
                Some((first, len)) if words.run => {
                    let block = &memory[first..first + len];
                    let lanes_of = block.chunks_exact(bytes as usize);
                    row.0.iter_mut().zip(lanes_of).for_each(|(to, lane)| *to = word(lane, 4 * i));
                }
                _ => {
                    for lane in lanes(mask) {
                        row.0[lane] = word(memory, words.at[lane] as usize + 4 * i);
                    }
                }
            }
            self.warps[w].registers.set32(*d, mask, &row);
        }
        let c = &mut self.counters;
        c.shared_read += u64::from(bytes) * u64::from(mask.count_ones());
        c.bank_conflicts += words.bank_conflicts();
        Ok(true)
    }

    /// Stores rows of words; false leaves the access to the general way.
    pub(super) fn store_words(&mut self, w: usize, store: &Store, mask: u32) -> Run<bool> {
        let bytes = 4 * store.src.len() as u32;
        let words = self.words(w, store.addr, store.space, mask, bytes);
        let plain = |s: &Reg| matches!(s, Reg::R32(_));
        let Some(words) = words.filter(|_| store.src.iter().all(plain)) else {
            return Ok(false);
        };
        let cta = self.warps[w].cta;
        if self.launch.options.checks {
            // The general way looks whether the same was there already.
            if !self.note_stored_ranges(w, cta, words.ranges())? {
                return Ok(false);
            }
        }
        let shared = &mut self.ctas[cta].shared;
        let registers = &self.warps[w].registers;
        let row = |s: &Reg| match s {
            Reg::R32(r) => Some(registers.r32(*r)),
            _ => None,
        };
        for (first, at, len) in words.blocks() {
            let place = shared.write(at, len);
            for (lane, place) in place.chunks_exact_mut(bytes as usize).enumerate() {
                for (to, row) in place.chunks_exact_mut(4).zip(store.src.iter().filter_map(row)) {
                    to.copy_from_slice(&row.0[first + lane].to_le_bytes());
                }
            }
        }
        let c = &mut self.counters;
        c.shared_written += u64::from(bytes) * u64::from(mask.count_ones());
        c.bank_conflicts += words.bank_conflicts();
        Ok(true)
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}
