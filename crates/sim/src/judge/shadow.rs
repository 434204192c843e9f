//! Shadow memory: who last wrote and who has read each 4-byte cell since.

use super::agent::AgentId;
use super::clock::{Clock, Clocks};
use super::pages::PageMap;
use crate::instruction::Pc;

/// An access: agent, its time, the instruction, whether it is strong, and the bytes of the cell.
///
/// Packed into 64 bits: time 27, agent 12, strong 1, instruction 20, bytes 4. Zero is no access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u64);

impl Access {
    /// The last instruction that can be told.
    pub(crate) const LAST_PC: Pc = (1 << 20) - 1;
    /// The last time that can be told.
    pub(crate) const LAST_TIME: u32 = (1 << 27) - 1;
    /// Agents that can be told apart.
    pub(crate) const AGENTS: usize = 1 << 12;

    /// An access of the bytes in `mask` of a cell.
    pub fn new(agent: AgentId, time: u32, pc: Pc, mask: u8) -> Access {
        let agent = usize::from(agent);
        debug_assert!(agent < Access::AGENTS && pc <= Access::LAST_PC && time <= Access::LAST_TIME);
        Access(u64::from(time) << 37 | (agent as u64) << 25 | u64::from(pc) << 4 | u64::from(mask))
    }

    /// The same, by a strong operation (an atomic or volatile one, or one with a scope).
    fn made_strong(self, strong: bool) -> Access {
        Access(self.0 | u64::from(strong) << 24)
    }

    fn is_strong(self) -> bool {
        self.0 >> 24 & 1 != 0
    }

    /// Who.
    pub fn agent(self) -> AgentId {
        AgentId((self.0 >> 25 & 0xFFF) as u16)
    }

    /// When.
    pub fn time(self) -> u32 {
        (self.0 >> 37) as u32
    }

    /// Where in the program.
    pub fn pc(self) -> Pc {
        (self.0 >> 4 & 0xF_FFFF) as Pc
    }

    fn mask(self) -> u8 {
        (self.0 & 0xF) as u8
    }

    fn is_none(self) -> bool {
        self.0 == 0
    }

    fn known_to(self, clock: &Clock) -> bool {
        clock.get(self.agent()) >= self.time()
    }

    /// Same agent, time and instruction.
    fn same_as(self, other: Access) -> bool {
        self.0 & !0xF == other.0 & !0xF
    }
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The earlier one.
    pub other: Access,
    /// Whether it was a write.
    pub wrote: bool,
    /// It is ordered, but no proxy fence makes it visible.
    pub only_unfenced: bool,
}

impl Conflict {
    /// Makes the earlier access part of what someone knows.
    pub(super) fn teach(&self, clocks: &mut Clocks) {
        clocks.all.raise(self.other.agent(), self.other.time());
        if self.only_unfenced {
            clocks.fenced.raise(self.other.agent(), self.other.time());
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    reads: [Access; 3],
}

/// Who looks, and what it knows.
pub struct Viewer<'a> {
    /// The access, its byte mask to be filled in per cell.
    pub agent: AgentId,
    /// Its time.
    pub time: u32,
    /// Its instruction.
    pub pc: Pc,
    /// Everything it knows.
    pub all: &'a Clock,
    /// What a fence made visible to it, where one is due; `None` where none is.
    pub fenced: Option<&'a Clock>,
    /// Whether writes need the fence too.
    pub fence_writes: bool,
    /// Whether they need it behind reads as well.
    pub fence_after_reads: bool,
    /// Whose accesses a fence must come behind.
    pub generic: &'a dyn Fn(AgentId) -> bool,
    /// Agents that count as ordered (a warp's own tensor-memory pipes).
    pub own: Option<[AgentId; 2]>,
    /// Whether the access is strong: two such are never a race.
    pub strong: bool,
}

impl<'a> Viewer<'a> {
    /// A warp's own weak access.
    pub fn of_warp(warp: AgentId, time: u32, pc: Pc, all: &'a Clock) -> Viewer<'a> {
        Viewer {
            agent: warp,
            time,
            pc,
            all,
            fenced: None,
            fence_writes: false,
            fence_after_reads: false,
            generic: &|_| true,
            own: None,
            strong: false,
        }
    }

    fn knows(&self, access: Access) -> bool {
        access.known_to(self.all)
            || self.own.is_some_and(|own| own.contains(&access.agent()))
            || self.strong && access.is_strong()
    }

    /// The access to the bytes in `mask` of a cell.
    fn access(&self, mask: u8) -> Access {
        Access::new(self.agent, self.time, self.pc, mask).made_strong(self.strong)
    }

    fn unfenced(&self, access: Access) -> bool {
        let Some(fenced) = self.fenced else { return false };
        (self.generic)(access.agent()) && !access.known_to(fenced)
    }
}

/// Cells of a page.
const PAGE: usize = 1024;

/// Pages that are found by number rather than by hashing: shared and tensor memory have so few.
const DENSE: u64 = 256;

/// The shadow of one memory.
#[derive(Default)]
pub struct Shadow {
    dense: Vec<Option<Box<[Cell; PAGE]>>>,
    pages: PageMap<Box<[Cell; PAGE]>>,
    /// Number of pages.
    allocated: usize,
    beside: Beside,
}

/// What few cells have, by their numbers.
#[derive(Default)]
struct Beside {
    /// Reads that did not fit into their cell.
    reads: PageMap<Vec<Access>>,
    /// Ordinary writes whose place in the cell a strong write has taken.
    covered: PageMap<Access>,
}

impl Shadow {
    /// Checks and records a read or write of a byte range; the first conflict.
    pub fn access(
        &mut self,
        viewer: &Viewer,
        start: u64,
        len: u64,
        write: bool,
    ) -> Result<(), (u64, Conflict)> {
        let mut at = start;
        let end = start + len;
        while at < end {
            let page = at / 4 / PAGE as u64;
            let page_end = ((page + 1) * PAGE as u64 * 4).min(end);
            let fresh = || {
                self.allocated += 1;
                Box::new([Cell::default(); PAGE])
            };
            let cells = if page < DENSE {
                if self.dense.len() <= page as usize {
                    self.dense.resize_with(page as usize + 1, || None);
                }
                self.dense[page as usize].get_or_insert_with(fresh)
            } else {
                self.pages.entry(page).or_insert_with(fresh)
            };
            if at.is_multiple_of(4) && page_end.is_multiple_of(4) {
                let (first, last) =
                    ((at / 4) as usize % PAGE, ((page_end - 1) / 4) as usize % PAGE);
                let cells = &mut cells[first..=last];
                whole_cells(viewer, cells, at / 4, write, &mut self.beside)?;
                at = page_end;
                continue;
            }
            while at < page_end {
                let first = (at % 4) as u32;
                let count = (4 - first).min((end - at) as u32);
                let mask = (((1u32 << count) - 1) << first) as u8;
                let number = at / 4;
                let cell = &mut cells[number as usize % PAGE];
                let access = viewer.access(mask);
                let result = match write {
                    true => cell.write(viewer, access, number, &mut self.beside),
                    false => cell.read(viewer, access, number, &mut self.beside),
                };
                result.map_err(|conflict| (at, conflict))?;
                at += u64::from(count);
            }
        }
        Ok(())
    }

    /// Bytes of host memory, about.
    pub fn bytes(&self) -> u64 {
        (self.allocated * size_of::<[Cell; PAGE]>()) as u64
    }

    /// The last write of the cell at a byte address.
    pub fn last_write(&self, at: u64) -> Option<Access> {
        let number = at / 4;
        let write = self.page(number / PAGE as u64)?[number as usize % PAGE].write;
        (!write.is_none()).then_some(write)
    }

    fn page(&self, page: u64) -> Option<&[Cell; PAGE]> {
        let dense = self.dense.get(page as usize).and_then(Option::as_deref);
        if page < DENSE { dense } else { self.pages.get(&page).map(|cells| &**cells) }
    }

    /// Checks without recording: is the last ordinary write known where a strong one has come behind it?
    pub fn look_behind_strong(
        &self,
        viewer: &Viewer,
        start: u64,
        len: u64,
    ) -> Result<(), (u64, Conflict)> {
        if self.beside.covered.is_empty() {
            return Ok(());
        }
        for number in start / 4..(start + len).div_ceil(4) {
            let Some(write) = self.beside.covered.get(&number) else { continue };
            if !viewer.knows(*write) {
                let conflict = Conflict { other: *write, wrote: true, only_unfenced: false };
                return Err((number * 4, conflict));
            }
        }
        Ok(())
    }

    /// Checks without recording: is the last write of every byte known?
    pub fn look(&self, viewer: &Viewer, start: u64, len: u64) -> Result<(), (u64, Conflict)> {
        for number in start / 4..(start + len).div_ceil(4) {
            let Some(cells) = self.page(number / PAGE as u64) else { continue };
            let write = cells[number as usize % PAGE].write;
            if !write.is_none() && !viewer.knows(write) {
                let conflict = Conflict { other: write, wrote: true, only_unfenced: false };
                return Err((number * 4, conflict));
            }
        }
        Ok(())
    }
}

/// Accesses every byte of neighbouring cells, of which `number` is the first.
fn whole_cells(
    viewer: &Viewer,
    cells: &mut [Cell],
    number: u64,
    write: bool,
    beside: &mut Beside,
) -> Result<(), (u64, Conflict)> {
    let access = viewer.access(0xF);
    // Whoever wrote one cell mostly wrote its neighbours too: judged once.
    let mut known_write = None;
    for (i, cell) in cells.iter_mut().enumerate() {
        let number = number + i as u64;
        let again = if write { cell.write == access } else { cell.reads[0] == access };
        if again && (write || known_write == Some(cell.write)) {
            continue;
        }
        let result = match write {
            true => cell.write(viewer, access, number, beside),
            false => cell.read(viewer, access, number, beside),
        };
        result.map_err(|conflict| (4 * number, conflict))?;
        known_write = Some(cell.write);
    }
    Ok(())
}

impl Cell {
    fn read(
        &mut self,
        viewer: &Viewer,
        access: Access,
        number: u64,
        beside: &mut Beside,
    ) -> Result<(), Conflict> {
        let write = self.write;
        if !write.is_none() && write.mask() & access.mask() != 0 {
            if !viewer.knows(write) {
                return Err(Conflict { other: write, wrote: true, only_unfenced: false });
            }
            if viewer.unfenced(write) {
                return Err(Conflict { other: write, wrote: true, only_unfenced: true });
            }
        }
        for slot in &mut self.reads {
            // A read this one knows of is implied by it.
            if slot.is_none()
                || slot.same_as(access)
                || (slot.known_to(viewer.all) && slot.mask() & !access.mask() == 0)
            {
                let mask = if slot.same_as(access) { slot.0 & 0xF } else { 0 };
                *slot = Access(access.0 | mask);
                return Ok(());
            }
        }
        let extra = beside.reads.entry(number).or_default();
        extra.retain(|read| !(read.known_to(viewer.all) && read.mask() & !access.mask() == 0));
        extra.push(access);
        Ok(())
    }

    fn write(
        &mut self,
        viewer: &Viewer,
        access: Access,
        number: u64,
        beside: &mut Beside,
    ) -> Result<(), Conflict> {
        let write = self.write;
        if write.same_as(access) {
            self.write = Access(write.0 | access.0);
            return Ok(());
        }
        if !write.is_none() && write.mask() & access.mask() != 0 && !viewer.knows(write) {
            return Err(Conflict { other: write, wrote: true, only_unfenced: false });
        }
        let unknown = |read: &Access| {
            !read.is_none() && read.mask() & access.mask() != 0 && !viewer.knows(*read)
        };
        let extra = if beside.reads.is_empty() { None } else { beside.reads.get(&number) };
        if let Some(read) =
            self.reads.iter().chain(extra.into_iter().flatten()).find(|r| unknown(r))
        {
            return Err(Conflict { other: *read, wrote: false, only_unfenced: false });
        }
        let reads: &[Access] = if viewer.fence_after_reads { &self.reads } else { &[] };
        if viewer.fence_writes
            && let Some(other) =
                [write].iter().chain(reads).find(|a| !a.is_none() && viewer.unfenced(**a))
        {
            return Err(Conflict { other: *other, wrote: *other == write, only_unfenced: true });
        }
        self.write = access;
        for read in &mut self.reads {
            if read.mask() & !access.mask() == 0 {
                *read = Access::default();
            }
        }
        if extra.is_some() {
            beside.reads.remove(&number);
        }
        if access.is_strong() != write.is_strong() && !write.is_none() {
            match access.is_strong() {
                true => beside.covered.insert(number, write),
                false => beside.covered.remove(&number),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer<'a>(agent: u16, time: u32, all: &'a Clock, fenced: Option<&'a Clock>) -> Viewer<'a> {
        Viewer {
            agent: AgentId(agent),
            time,
            pc: 7,
            all,
            fenced,
            fence_writes: false,
            fence_after_reads: false,
            generic: &|agent| agent < AgentId(2),
            own: None,
            strong: false,
        }
    }

    fn clock(entries: &[(u16, u32)]) -> Clock {
        let mut clock = Clock::default();
        entries.iter().for_each(|(agent, time)| clock.raise(AgentId(*agent), *time));
        clock
    }

    #[test]
    fn unordered_accesses_conflict_and_ordered_ones_do_not() {
        let mut shadow = Shadow::default();
        let writer = clock(&[(0, 1)]);
        shadow.access(&viewer(0, 1, &writer, None), 16, 8, true).unwrap();
        let stranger = clock(&[(1, 1)]);
        let (at, conflict) =
            shadow.access(&viewer(1, 1, &stranger, None), 20, 4, false).unwrap_err();
        assert_eq!((at, conflict.other.agent(), conflict.wrote), (20, AgentId(0), true));
        let informed = clock(&[(0, 1), (1, 1)]);
        shadow.access(&viewer(1, 1, &informed, None), 20, 4, false).unwrap();
        let (_, conflict) =
            shadow.access(&viewer(0, 2, &clock(&[(0, 2)]), None), 20, 4, true).unwrap_err();
        assert!(!conflict.wrote);
    }

    #[test]
    fn neighbouring_bytes_do_not_conflict() {
        let mut shadow = Shadow::default();
        shadow.access(&viewer(0, 1, &clock(&[(0, 1)]), None), 4, 2, true).unwrap();
        shadow.access(&viewer(1, 1, &clock(&[(1, 1)]), None), 6, 2, true).unwrap();
    }

    #[test]
    fn a_strong_write_does_not_hide_the_ordinary_one_before_it() {
        let mut shadow = Shadow::default();
        let (mine, theirs) = (clock(&[(0, 2)]), clock(&[(1, 1)]));
        let atomic = |agent, time, all| Viewer { strong: true, ..viewer(agent, time, all, None) };
        shadow.access(&viewer(0, 1, &mine, None), 8, 4, true).unwrap();
        shadow.access(&atomic(0, 2, &mine), 8, 4, true).unwrap();
        let (at, conflict) = shadow.look_behind_strong(&atomic(1, 1, &theirs), 4, 8).unwrap_err();
        assert_eq!((at, conflict.other.time(), conflict.wrote), (8, 1, true));
        let informed = clock(&[(0, 1), (1, 1)]);
        shadow.look_behind_strong(&atomic(1, 1, &informed), 4, 8).unwrap();
        // An ordinary write stands in the cell itself.
        shadow.access(&viewer(0, 3, &clock(&[(0, 3)]), None), 8, 4, true).unwrap();
        shadow.look_behind_strong(&atomic(1, 1, &theirs), 4, 8).unwrap();
    }

    #[test]
    fn strong_accesses_conflict_with_weak_ones_only() {
        let mut shadow = Shadow::default();
        let (mine, theirs) = (clock(&[(0, 1)]), clock(&[(1, 1)]));
        let atomic = |agent, time, all| Viewer { strong: true, ..viewer(agent, time, all, None) };
        shadow.access(&atomic(0, 1, &mine), 0, 4, true).unwrap();
        shadow.access(&atomic(1, 1, &theirs), 0, 4, true).unwrap();
        shadow.access(&viewer(0, 1, &mine, None), 0, 4, false).unwrap_err();
        let informed = clock(&[(0, 1), (1, 1)]);
        shadow.access(&viewer(0, 1, &informed, None), 0, 4, false).unwrap();
        let (_, conflict) = shadow.access(&atomic(1, 2, &theirs), 0, 4, true).unwrap_err();
        assert!(!conflict.wrote);
    }

    #[test]
    fn many_readers_are_all_remembered() {
        let mut shadow = Shadow::default();
        for agent in 0..6 {
            shadow.access(&viewer(agent, 1, &clock(&[(agent, 1)]), None), 0, 4, false).unwrap();
        }
        let almost = clock(&[(0, 1), (1, 1), (2, 1), (3, 1), (5, 1), (9, 1)]);
        let (_, conflict) = shadow.access(&viewer(9, 1, &almost, None), 0, 4, true).unwrap_err();
        assert_eq!(conflict.other.agent(), AgentId(4));
    }

    #[test]
    fn the_asynchronous_proxy_needs_a_fence() {
        let mut shadow = Shadow::default();
        shadow.access(&viewer(0, 1, &clock(&[(0, 1)]), None), 0, 4, true).unwrap();
        let (all, none) = (clock(&[(0, 1)]), Clock::default());
        let (_, conflict) =
            shadow.access(&viewer(5, 1, &all, Some(&none)), 0, 4, false).unwrap_err();
        assert!(conflict.only_unfenced);
        shadow.access(&viewer(5, 1, &all, Some(&all)), 0, 4, false).unwrap();
    }
}
