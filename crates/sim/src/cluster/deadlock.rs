//! Saying why nothing moves.

use super::Cluster;
use super::site::Run;
use crate::error::{Deadlock, Error, Waiting};
use crate::mbarrier::Mbarrier;
use crate::warp::Wait;
use std::collections::BTreeSet;

/// Waits listed in a report; the rest is counted.
const LISTED: usize = 12;

impl Cluster<'_> {
    /// The report of a cluster in which nobody can go on.
    pub(crate) fn deadlock<T>(&self) -> Run<T> {
        let mut waiting = Vec::new();
        let mut barriers = BTreeSet::new();
        let mut help = BTreeSet::new();
        for (w, warp) in self.warps.iter().enumerate() {
            for fragment in &warp.fragments {
                let site = self.site(w, fragment.wait_pc, None);
                let what = match fragment.wait {
                    Wait::Ready => continue,
                    Wait::Mbarrier { cta, offset, phase, .. } => {
                        barriers.insert((cta, offset));
                        let name = self.mbarrier_name(cta, offset);
                        format!("phase {phase} (parity {}) of mbarrier {name}", phase & 1)
                    }
                    Wait::Named { id, .. } => self.explain_named(warp.cta, id),
                    Wait::Cluster(phase) => format!(
                        "the cluster barrier (phase {phase}; {} threads arrived)",
                        self.barrier.arrived
                    ),
                    Wait::Lanes(missing) => format!(
                        "lanes {missing:#010x} of its warp, which are elsewhere: the warp must be converged here"
                    ),
                    Wait::Warpgroup => {
                        "the other warps of its warpgroup to issue the same wgmma".into()
                    }
                    Wait::Registers(count) => {
                        help.insert(self.explain_registers());
                        let has = warp.register_count.unwrap_or_default();
                        let spare = self.ctas[warp.cta].spare_registers;
                        format!(
                            "{count} registers for each of its threads: they have {has}, and {spare} are left of \
                             what other warps of the CTA gave back"
                        )
                    }
                    Wait::TensorMemory => {
                        "free tensor memory (and, for a pair of CTAs, for the peer to allocate too)"
                            .into()
                    }
                };
                waiting.push(Waiting { site, what });
            }
        }
        let notes = barriers.iter().filter_map(|(cta, offset)| {
            let bar = self.ctas[*cta].mbarriers.get(offset)?;
            help.extend(self.advice(*cta, *offset, bar));
            Some(self.explain_mbarrier(*cta, *offset, bar))
        });
        let notes = notes.collect();
        let hidden = waiting.len().saturating_sub(LISTED);
        waiting.truncate(LISTED);
        let mut help: Vec<String> = help.into_iter().collect();
        if hidden > 0 {
            help.push(format!("{hidden} more waits are not listed"));
        }
        Err(Box::new(Error::Deadlock(Box::new(Deadlock { waiting, notes, help }))))
    }

    /// The report of clusters that poll for something nobody will write.
    pub(crate) fn livelock<T>(&self) -> Run<T> {
        let mut waiting = Vec::new();
        for (w, warp) in self.warps.iter().enumerate() {
            for fragment in &warp.fragments {
                let site = self.site(w, fragment.pc, None);
                waiting.push(Waiting {
                    site,
                    what: "a change that nobody makes (it keeps running)".into(),
                });
            }
        }
        waiting.truncate(LISTED);
        let help =
            vec!["every warp only polls: look for a flag or phase that is never written".into()];
        Err(Box::new(Error::Deadlock(Box::new(Deadlock { waiting, notes: Vec::new(), help }))))
    }

    /// Name of a barrier: the shared variable it lies in and its place there.
    pub(crate) fn mbarrier_name(&self, cta: usize, offset: u32) -> String {
        let variables = self.kernel.shared.iter().filter(|v| v.offset <= offset);
        let name = match variables.max_by_key(|v| v.offset) {
            Some(v) if v.offset == offset => format!("`{}`", v.name),
            Some(v) => format!("`{}+{}`", v.name, offset - v.offset),
            None => format!("at shared offset {offset:#x}"),
        };
        if self.ctas.len() > 1 { format!("{name} of CTA rank {cta}") } else { name }
    }

    fn explain_registers(&self) -> String {
        let launch = self.kernel.registers_at_launch.unwrap_or_default();
        let warps = self.ctas[0].warps.len();
        format!(
            "at launch each thread has {launch} registers (.maxntid, .minnctapersm and .maxnreg decide), the \
             CTA's {warps} warps together {}: setmaxnreg shares these out, and no more",
            launch as usize * warps
        )
    }

    fn explain_named(&self, cta: usize, id: u32) -> String {
        let bar = &self.ctas[cta].named[id as usize];
        let expected = bar.expected.unwrap_or(32 * self.ctas[cta].live_warps);
        format!("named barrier {id}: {} of {expected} threads arrived", bar.arrived)
    }

    fn explain_mbarrier(&self, cta: usize, offset: u32, bar: &Mbarrier) -> String {
        let name = self.mbarrier_name(cta, offset);
        let last = self.site(bar.last.warp, bar.last.pc, None);
        let init = self.site(bar.init.warp, bar.init.pc, None);
        format!(
            "mbarrier {name}: phase {} is incomplete, {} of {} arrivals pending, {} transaction bytes \
             outstanding; initialised at PTX line {}, last touched by warp {} at PTX line {}: {}",
            bar.phase,
            bar.pending,
            bar.expected,
            bar.tx,
            init.line,
            last.warp,
            last.line,
            last.instruction
        )
    }

    /// The sentence that usually helps.
    fn advice(&self, cta: usize, offset: u32, bar: &Mbarrier) -> Option<String> {
        let name = self.mbarrier_name(cta, offset);
        if bar.init_count >= 128 && bar.most_arrivals * 16 <= bar.init_count {
            return Some(format!(
                "mbarrier {name} was initialised with count {}; only {} arrival(s) per phase ever came: \
                 the second operand of mbarrier.init is the number of arrivals, not bytes",
                bar.init_count, bar.most_arrivals
            ));
        }
        if bar.pending == 0 && bar.tx > 0 {
            return Some(format!(
                "mbarrier {name} has all its arrivals but {} bytes never came: expect_tx must be the sum of \
                 the full boxes of all copies that complete on it",
                bar.tx
            ));
        }
        if bar.tx < 0 {
            return Some(format!(
                "mbarrier {name} received {} bytes more than expect_tx announced",
                -bar.tx
            ));
        }
        if bar.pending == bar.expected && bar.phase > 0 {
            return Some(format!(
                "mbarrier {name} completed {} phase(s) and nobody arrived at the next one: look for a \
                 parity that is flipped too often or too rarely, or a producer that ended early",
                bar.phase
            ));
        }
        (bar.pending > 0).then(|| format!(
            "mbarrier {name} still needs {} arrival(s): the count given to mbarrier.init ({}) must equal the \
             arrivals of one phase", bar.pending, bar.init_count
        ))
    }
}
