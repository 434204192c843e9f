//! The common case of memory access: lanes that load or store 32-bit words of their own CTA's shared
//! memory, whole rows at a time.

use super::banks::bank_conflicts;
use crate::exec::Execution;
use crate::instruction::{Addr, Load, MemSpace, Store};
use crate::machine::{Machine, Run};
use crate::memory::address::SHARED_OFFSET;
use crate::register::lanes;
use crate::register::{FULL, LANES, R32, Reg, Row32};
use crate::warp::WarpId;

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
        lanes(mask).map(move |lane| (lane.0, self.at[lane.0] as usize, len as usize))
    }

    /// Word `i` of the `N` that each lane loads.
    fn row<const N: usize>(&self, memory: &[u8], i: usize) -> Row32 {
        let mut row = Row32::splat(0);
        for (first, at, len) in self.blocks() {
            let (vectors, _) = memory[at..at + len].as_chunks::<4>().0.as_chunks::<N>();
            for (to, vector) in row.0[first..].iter_mut().zip(vectors) {
                *to = u32::from_le_bytes(vector[i]);
            }
        }
        row
    }

    fn bank_conflicts(&self) -> u64 {
        if self.run { 0 } else { bank_conflicts(&self.at, self.mask, self.bytes) }
    }
}

impl Execution<'_, '_> {
    /// Loads rows of words; false leaves the access to the general way.
    pub(crate) fn load_words(&mut self, w: WarpId, load: &Load, mask: u32) -> Run<bool> {
        match load.dst.len() {
            1 => self.load_vectors::<1>(w, load, mask),
            2 => self.load_vectors::<2>(w, load, mask),
            4 => self.load_vectors::<4>(w, load, mask),
            _ => Ok(false),
        }
    }

    /// The same for vectors of `N` words.
    fn load_vectors<const N: usize>(&mut self, w: WarpId, load: &Load, mask: u32) -> Run<bool> {
        let bytes = 4 * N as u32;
        let plain = |d: &Option<Reg>| matches!(d, None | Some(Reg::R32(_)));
        let words = self.machine.words(w, load.addr, load.space, mask, bytes);
        let Some(words) = words.filter(|_| load.dst.iter().all(plain)) else {
            return Ok(false);
        };
        let cta = self.machine.warps[w].cta;
        if self.machine.launch.options.checks {
            // The general way marks what nobody wrote.
            let shared = &self.machine.ctas[cta].shared;
            if words.ranges().any(|(at, len)| shared.first_unwritten(at, len).is_some()) {
                return Ok(false);
            }
            self.judge.note_loaded_ranges(self.machine, w, cta, words.ranges())?;
        }
        let memory = self.machine.ctas[cta].shared.bytes();
        for (i, d) in load.dst.iter().enumerate() {
            if let Some(Reg::R32(d)) = d {
                let row = words.row::<N>(memory, i);
                self.machine.warps[w].registers.set32(*d, mask, &row);
            }
        }
        let c = &mut self.machine.counters;
        c.shared_read += u64::from(bytes) * u64::from(mask.count_ones());
        c.bank_conflicts += words.bank_conflicts();
        Ok(true)
    }

    /// Stores rows of words; false leaves the access to the general way.
    pub(crate) fn store_words(&mut self, w: WarpId, store: &Store, mask: u32) -> Run<bool> {
        match store.src.len() {
            1 => self.store_vectors::<1>(w, store, mask),
            2 => self.store_vectors::<2>(w, store, mask),
            4 => self.store_vectors::<4>(w, store, mask),
            _ => Ok(false),
        }
    }

    /// The same for vectors of `N` words.
    fn store_vectors<const N: usize>(&mut self, w: WarpId, store: &Store, mask: u32) -> Run<bool> {
        let bytes = 4 * N as u32;
        let words = self.machine.words(w, store.addr, store.space, mask, bytes);
        let (Some(words), Some(src)) = (words, narrow::<N>(&store.src)) else {
            return Ok(false);
        };
        let cta = self.machine.warps[w].cta;
        if self.machine.launch.options.checks {
            // The general way looks whether the same was there already.
            if !self.judge.note_stored_ranges(self.machine, w, cta, words.ranges())? {
                return Ok(false);
            }
        }
        let shared = &mut self.machine.ctas[cta].shared;
        let registers = &self.machine.warps[w].registers;
        let rows = src.map(|r| registers.r32(r));
        for (first, at, len) in words.blocks() {
            let (vectors, _) = shared.write(at, len).as_chunks_mut::<4>().0.as_chunks_mut::<N>();
            for (lane, vector) in (first..).zip(vectors) {
                *vector = rows.map(|row| row.0[lane].to_le_bytes());
            }
        }
        let c = &mut self.machine.counters;
        c.shared_written += u64::from(bytes) * u64::from(mask.count_ones());
        c.bank_conflicts += words.bank_conflicts();
        Ok(true)
    }
}

impl Machine<'_> {
    /// Each lane's offset, if all are aligned and inside the CTA's own shared memory.
    #[inline(always)]
    fn words(
        &self,
        w: WarpId,
        addr: Addr,
        space: MemSpace,
        mask: u32,
        bytes: u32,
    ) -> Option<Words> {
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
            let wrong = address >> 24 != warp.cta.0 as u32 || outside || address & align != 0;
            bad |= wrong && mask >> lane & 1 != 0;
            gaps |= u32::from(offset != first + lane as u32 * bytes);
            at[lane] = offset;
        }
        (!bad).then_some(Words { at, bytes, mask, run: gaps == 0 })
    }
}

/// `N` registers, if all are of 32 bits.
fn narrow<const N: usize>(registers: &[Reg]) -> Option<[R32; N]> {
    let mut narrow = [R32(0); N];
    for (narrow, reg) in narrow.iter_mut().zip(registers) {
        let Reg::R32(r) = reg else { return None };
        *narrow = *r;
    }
    Some(narrow)
}
