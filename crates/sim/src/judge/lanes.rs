//! Order between the lanes of a warp (pedantic mode).
//!
//! Lanes run in step here, and usually on the hardware, but only `bar.warp.sync` or a wider barrier
//! orders what they do to memory. Since the last one, no lane may read from shared memory what another
//! lane wrote there, nor overwrite what another one read, and a lane that arrives on an mbarrier
//! publishes its own stores and fences alone. (Loads that an arrival allows others to overwrite are not
//! followed: their values are there when they are used.)

use crate::instruction::Pc;
use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::register::Lane;
use crate::rules::Rule;
use crate::warp::WarpId;
use std::collections::HashMap;

/// What the lanes of a warp did to a word of shared memory.
#[derive(Default)]
struct Word {
    writers: u32,
    readers: u32,
    pc: Pc,
}

/// What the lanes of a warp did to shared memory since they were last synchronised.
#[derive(Default)]
pub(crate) struct Lanes {
    /// By CTA and word.
    words: HashMap<(CtaRank, u32), Word>,
    /// Lanes that have something to publish, and where the last of them got it.
    unsaid: u32,
    pc: Pc,
    /// Lanes that stored something and neither fenced it nor told of it.
    unfenced: u32,
}

impl Lanes {
    /// Records an access; the last one by another lane, if the two conflict.
    fn touch(&mut self, word: (CtaRank, u32), lane: Lane, write: bool, pc: Pc) -> Option<Pc> {
        let me = lane.mask();
        let word = self.words.entry(word).or_default();
        let conflict = match write {
            true => word.readers & !me != 0,
            false => word.writers & !me != 0 && word.writers & me == 0,
        };
        let other = word.pc;
        if write {
            (self.unsaid, self.pc) = (self.unsaid | me, pc);
            self.unfenced |= me;
            *word = Word {
                writers: if word.pc == pc { word.writers | me } else { me },
                readers: 0,
                pc,
            };
        } else {
            (word.readers, word.pc) = (word.readers | me, pc);
        }
        conflict.then_some(other)
    }
}

impl Judge<'_> {
    /// A lane's own load or store of shared memory.
    pub(crate) fn note_lane(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        lane: Lane,
        (cta, offset): (CtaRank, u32),
        bytes: u32,
        write: bool,
    ) -> Run<()> {
        let pc = machine.pc(w);
        for word in offset / 4..(offset + bytes).div_ceil(4) {
            let Some(lanes) = self.checker.as_mut().and_then(|c| c.lanes.as_mut()) else {
                return Ok(());
            };
            let Some(other) = lanes[w].touch((cta, word), lane, write, pc) else { continue };
            let done = if write {
                "overwrites what another lane read"
            } else {
                "reads what another lane wrote"
            };
            let message = format!("lane {lane} {done}, and nothing orders the lanes of the warp");
            let site = Some(("the other lane:".to_owned(), machine.site(w, other, None)));
            let help = "bar.warp.sync between the two: lanes that run in step are not synchronised";
            self.hazard(machine, w, Rule::MissingWarpSync, message, site, Some(help))?;
        }
        Ok(())
    }

    /// Lanes write to shared memory with `stmatrix`, `cp.async` or atomically.
    pub(crate) fn note_writes_of_lanes(&mut self, w: WarpId, mask: u32) {
        if let Some(lanes) = self.checker.as_mut().and_then(|c| c.lanes.as_mut()) {
            lanes[w].unfenced |= mask;
        }
    }

    /// Lanes execute `fence.proxy.async`, which concerns others where they stored or copied something.
    pub(crate) fn note_proxy_fence_of_lanes(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        mask: u32,
    ) {
        let lanes = self.checker.as_mut().and_then(|c| c.lanes.as_mut());
        let Some(lanes) = lanes else { return };
        let fenced = lanes[w].unfenced & mask;
        lanes[w].unfenced &= !mask;
        if fenced != 0 {
            self.note_unsaid(machine, w, fenced);
        }
    }

    /// Lanes have stores or fences to publish.
    pub(crate) fn note_unsaid(&mut self, machine: &Machine<'_>, w: WarpId, mask: u32) {
        let pc = machine.pc(w);
        if let Some(lanes) = self.checker.as_mut().and_then(|c| c.lanes.as_mut()) {
            (lanes[w].unsaid, lanes[w].pc) = (lanes[w].unsaid | mask, pc);
        }
    }

    /// Lanes arrive on an mbarrier.
    pub(crate) fn note_arrival_of_lanes(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        mask: u32,
    ) -> Run<()> {
        let Some(lanes) = self.checker.as_mut().and_then(|c| c.lanes.as_mut()) else {
            return Ok(());
        };
        let (unsaid, pc) = (lanes[w].unsaid & !mask, lanes[w].pc);
        if unsaid == 0 {
            lanes[w].unfenced = 0;
            return Ok(());
        }
        let lane = unsaid.trailing_zeros();
        let message = format!(
            "an arrival publishes what its own lane stored and fenced; lane {lane} did so too, and \
             does not arrive"
        );
        let site = Some(("stored or fenced:".to_owned(), machine.site(w, pc, None)));
        let help = "bar.warp.sync before the arrival";
        self.hazard(machine, w, Rule::MissingWarpSync, message, site, Some(help))
    }

    /// A warp's lanes are synchronised.
    pub(crate) fn synchronise_lanes(&mut self, w: WarpId) {
        if let Some(lanes) = self.checker.as_mut().and_then(|c| c.lanes.as_mut()) {
            lanes[w] = Lanes { unfenced: lanes[w].unfenced, ..Lanes::default() };
        }
    }
}
