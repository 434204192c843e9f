//! Where the warps of a launch are that ran too long.

use crate::error::{Error, Running, Stopped};
use crate::instruction::{Control, Op, Pc};
use crate::machine::{Machine, Run};
use crate::warp::{Wait, WarpId};
use crate::watchdog::Stop;
use std::collections::BTreeMap;

/// Places listed in a report; the rest is counted.
const LISTED: usize = 8;

/// First and last instruction of a place where warps are, and whether they wait there.
type Place = (Pc, Pc, bool);

impl Machine<'_> {
    /// The report of a launch that a limit ended: the loops its warps are in, the most crowded first.
    pub(crate) fn stopped<T>(&self, stop: Stop) -> Run<T> {
        let mut places: BTreeMap<Place, Vec<WarpId>> = BTreeMap::new();
        for (w, warp) in self.warps.pairs() {
            for fragment in &warp.fragments {
                let warps = places.entry(self.place_of(fragment)).or_default();
                if warps.last() != Some(&w) {
                    warps.push(w);
                }
            }
        }
        let mut places: Vec<(Place, Vec<WarpId>)> = places.into_iter().collect();
        places.sort_by_key(|((.., waits), warps)| (*waits, std::cmp::Reverse(warps.len())));
        let unlisted = places.len().saturating_sub(LISTED);
        let running = places.iter().take(LISTED).map(|(place, warps)| self.running(*place, warps));
        let stopped = Stopped { reason: stop.to_string(), running: running.collect(), unlisted };
        Err(Box::new(Error::Stopped(Box::new(stopped))))
    }

    fn place_of(&self, fragment: &crate::warp::Fragment) -> Place {
        if fragment.wait != Wait::Ready {
            return (fragment.wait_pc, fragment.wait_pc, true);
        }
        let (first, last) = self.innermost_loop(fragment.pc).unwrap_or((fragment.pc, fragment.pc));
        (first, last, false)
    }

    /// The shortest loop around an instruction: where a branch behind it goes, and that branch.
    fn innermost_loop(&self, pc: Pc) -> Option<(Pc, Pc)> {
        let backward = |(last, inst): (usize, &crate::instruction::Inst)| match &inst.op {
            Op::Control(Control::Branch { target }) if *target <= pc => Some((*target, last as Pc)),
            Op::Control(Control::BranchIndex { targets, .. }) => {
                let first = targets.iter().copied().filter(|target| *target <= pc).max()?;
                Some((first, last as Pc))
            }
            _ => None,
        };
        let loops = self.kernel.code.iter().enumerate().skip(pc as usize).filter_map(backward);
        loops.min_by_key(|(first, last)| last - first)
    }

    fn running(&self, (first, last, waits): Place, warps: &[WarpId]) -> Running {
        let w = warps.first().copied().unwrap_or(WarpId(0));
        let end = self.site(w, last, None);
        let last = (last != first).then_some((end.line, end.loc));
        Running { site: self.site(w, first, None), last, waits, warps: self.warp_names(warps) }
    }
}
