//! What is most likely the matter.
//!
//! Each waiter has a reason to wait. Of all reasons the one that says most is the cause: an exact
//! mistake before a count that is short, and that before warps that only wait for others.

use super::{Awaited, Diagnosis, Waiter};
use crate::error::Site;
use crate::instruction::BarrierId;
use crate::instruction::{Op, Tcgen05};
use crate::machine::CtaRank;
use crate::mbarrier::Mbarrier;
use crate::scheduler::Missed;
use crate::warp::WarpId;

/// How much a reason says; the first says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Names the mistake.
    Mistake,
    /// A phase that a warp missed which still waits, or whose barrier is waited for.
    Missed,
    /// Something is short, and it is known what.
    Short,
    /// A phase that nobody completes.
    Phase,
    /// A barrier of threads that are elsewhere.
    Threads,
    /// Memory that nobody writes.
    Change,
}

/// A reason to wait.
pub(super) struct Cause {
    pub(super) rank: Rank,
    pub(super) text: String,
    /// Where it is, if not where warps wait.
    pub(super) origin: Option<Site>,
    pub(super) help: Option<String>,
    /// The waiters it is about.
    pub(super) about: Option<Awaited>,
}

impl Cause {
    fn new(rank: Rank, text: String, help: impl Into<String>) -> Cause {
        Cause { rank, text, origin: None, help: Some(help.into()), about: None }
    }
}

impl Diagnosis<'_, '_> {
    /// Why a waiter waits.
    pub(super) fn cause(&self, waiter: &Waiter) -> Cause {
        let cta = self.machine.warps[waiter.w].cta;
        let mut cause = match &waiter.awaited {
            Awaited::Phase(id, phase) => self.phase_cause(waiter, *id, *phase),
            Awaited::Named(id) => self.named_cause(cta, *id),
            Awaited::Cluster(_) => Cause::new(
                Rank::Threads,
                format!("{} threads arrived at the cluster barrier", self.machine.barrier.arrived),
                "every thread of the cluster that has not exited arrives at its barrier",
            ),
            Awaited::Lanes(missing) => Cause::new(
                Rank::Mistake,
                format!(
                    "lanes {missing:#010x} of a warp do not come to where the others wait for them"
                ),
                "an instruction with .aligned, or that names lanes in a member mask, is executed by all of them \
                 together",
            ),
            Awaited::TensorMemory => self.allocation_cause(cta),
            Awaited::Warpgroup => Cause::new(
                Rank::Short,
                "not all warps of a warpgroup issue the same wgmma".into(),
                "the four warps of a warpgroup execute a wgmma together",
            ),
            Awaited::Registers(_) => Cause::new(
                Rank::Mistake,
                "setmaxnreg.inc asks for registers that nobody gives back".into(),
                self.explain_registers(),
            ),
            Awaited::Change => Cause::new(
                Rank::Change,
                "all that run only look whether something has changed, and nobody changes it"
                    .into(),
                "look for a flag or phase that is never written",
            ),
        };
        cause.about = Some(waiter.awaited.clone());
        cause
    }

    fn allocation_cause(&self, cta: CtaRank) -> Cause {
        let asks =
            |cta: CtaRank| self.machine.ctas.at(cta).is_some_and(|cta| cta.tensor.asked.is_some());
        let alone = asks(cta) && !asks(cta.peer());
        let (text, help) = match alone {
            true => (
                "a CTA allocates tensor memory for its pair, and the peer CTA does not",
                "with .cta_group::2 a warp of each CTA of the pair executes tcgen05.alloc",
            ),
            false => (
                "no tensor memory is free for tcgen05.alloc",
                "tcgen05.dealloc what is no longer used before the next alloc",
            ),
        };
        Cause::new(Rank::Short, text.into(), help)
    }

    fn explain_registers(&self) -> String {
        let launch = self.machine.kernel.registers_at_launch.unwrap_or_default();
        let warps = self.machine.ctas[CtaRank(0)].warps.len();
        format!(
            "at launch each thread has {launch} registers (.maxntid, .minnctapersm and .maxnreg decide), the \
             CTA's {warps} warps together {}: setmaxnreg shares these out, and no more",
            launch as usize * warps
        )
    }

    fn named_cause(&self, cta: CtaRank, id: u32) -> Cause {
        let (arrived, expected) = self.named_count(cta, id);
        let missing = expected.saturating_sub(arrived);
        Cause::new(
            Rank::Threads,
            format!("named barrier {id} still needs {missing} of {expected} threads"),
            "the number of threads given with a named barrier (else all of the CTA) is that of the warps that come to it",
        )
    }

    /// A wait that was let go though it came too late may have led to this one.
    pub(super) fn missed_cause(&self, waiters: &[Waiter]) -> Option<Cause> {
        let Missed { warp, pc, barrier, phase } = self.missed?;
        let waits = |waiter: &&Waiter| waiter.w == warp || on_barrier(waiter, barrier);
        let about = waiters.iter().find(waits).map(|waiter| waiter.awaited.clone());
        let rank = if about.is_some() { Rank::Missed } else { Rank::Threads };
        let name = self.machine.mbarrier_name(barrier.0, barrier.1);
        let text = format!(
            "{} missed its phase: mbarrier {name} completed phase {phase} and the next one before the warp looked",
            self.machine.warp_names(&[warp])
        );
        let help = "a wait names only the parity of its phase, and takes the phase after next for it: every warp that \
                    waits for a buffer to be full also arrives at the barrier that lets it be filled again";
        let origin = Some(self.machine.site(warp, pc, None));
        Some(Cause { origin, about, ..Cause::new(rank, text, help) })
    }

    fn phase_cause(&self, waiter: &Waiter, id: BarrierId, phase: u64) -> Cause {
        let name = self.machine.mbarrier_name(id.0, id.1);
        let Some(bar) = self.machine.ctas[id.0].mbarriers.get(&id.1) else {
            let text = format!("mbarrier {name} was invalidated while warps wait for it");
            return Cause::new(Rank::Mistake, text, "mbarrier.inval when nobody waits any more");
        };
        let wrong = wrong_count(&name, bar).or_else(|| self.never_committed(&name, id, bar));
        let wrong = wrong.or_else(|| wrong_parity(&name, bar.seen(waiter.w, waiter.mask), phase));
        wrong.unwrap_or_else(|| self.never_complete(&name, bar))
    }

    /// A phase that lacks arrivals.
    fn never_complete(&self, name: &str, bar: &Mbarrier) -> Cause {
        let Mbarrier { phase, pending, expected, init_count, .. } = bar;
        if pending == expected && *phase > 0 {
            let text = format!("nobody arrives at phase {phase} of mbarrier {name}");
            let whereabouts = self.whereabouts(bar);
            let help = match whereabouts.is_empty() {
                true => {
                    "the phases before it are complete: look for a producer that ended early, or a loop of the \
                     consumer that goes round once too often"
                }
                false => {
                    "the waiting warps count more phases than the exited ones made: compare how both compute the \
                     number of their tiles, from which length and with which mask"
                }
            };
            return Cause::new(Rank::Phase, text + &whereabouts, help);
        }
        let text = format!("mbarrier {name} still needs {pending} of {expected} arrival(s)");
        let help = format!(
            "the count given to mbarrier.init ({init_count}) must equal the arrivals of one phase"
        );
        Cause::new(Rank::Phase, text, help)
    }

    /// Where the warps are that completed the phase before, if they all have exited.
    fn whereabouts(&self, bar: &Mbarrier) -> String {
        let warps = self.arrived_before(bar);
        if warps.is_empty() || !warps.iter().all(|w| self.machine.warps[*w].done()) {
            return String::new();
        }
        let who = self.machine.warp_names(&warps);
        format!(": {who}, which arrived in phase {}, has exited", bar.phase - 1)
    }

    /// A multiply without a commit, where one may be what the barrier waits for.
    fn never_committed(&self, name: &str, id: BarrierId, bar: &Mbarrier) -> Option<Cause> {
        if bar.tx != 0 || !self.may_await_commit(bar) {
            return None;
        }
        let goes_elsewhere = |w: WarpId| {
            let waits = |f: &crate::warp::Fragment| self.waiter(w, f);
            let mut waiters = self.machine.warps[w].fragments.iter().map(waits);
            waiters.any(|waiter| {
                matches!(waiter.awaited, Awaited::Phase(..)) && !on_barrier(&waiter, id)
            })
        };
        let (w, pc) = self.machine.warps.pairs().find_map(|(w, warp)| {
            let pc = warp.uncommitted.filter(|_| !goes_elsewhere(w))?;
            Some((w, pc))
        })?;
        let what = match &self.machine.kernel.code[pc as usize].op {
            Op::Tcgen05(op) => match **op {
                Tcgen05::Copy { .. } => "tcgen05.cp",
                Tcgen05::Shift { .. } => "tcgen05.shift",
                _ => "tcgen05.mma",
            },
            _ => return None,
        };
        let text = format!(
            "a {what} was issued and never committed, and mbarrier {name} lacks an arrival"
        );
        let help = format!(
            "tcgen05.commit behind the last {what}, by the same thread, to the mbarrier waited for"
        );
        let origin = Some(self.machine.site(w, pc, None));
        Some(Cause { origin, ..Cause::new(Rank::Mistake, text, help) })
    }

    /// Whether a commit may be what a barrier needs: its last phase was completed by one, or it had none.
    fn may_await_commit(&self, bar: &Mbarrier) -> bool {
        let by_commit = match &self.machine.kernel.code[bar.last.pc as usize].op {
            Op::Tcgen05(op) => matches!(**op, Tcgen05::Commit { .. }),
            _ => false,
        };
        bar.pending > 0 && (bar.phase == 0 || bar.pending < bar.expected || by_commit)
    }
}

fn on_barrier(waiter: &Waiter, barrier: BarrierId) -> bool {
    matches!(waiter.awaited, Awaited::Phase(id, _) if id == barrier)
}

/// Arrivals or bytes that cannot add up.
fn wrong_count(name: &str, bar: &Mbarrier) -> Option<Cause> {
    if bar.init_count >= 128 && bar.most_arrivals * 16 <= bar.init_count {
        let text = format!(
            "mbarrier {name} was initialised with count {}, and only {} arrival(s) per phase ever came",
            bar.init_count, bar.most_arrivals
        );
        let help = "the second operand of mbarrier.init is the number of arrivals, not bytes";
        return Some(Cause::new(Rank::Mistake, text, help));
    }
    if bar.tx < 0 {
        let text =
            format!("mbarrier {name} received {} bytes more than expect_tx announced", -bar.tx);
        let help = "expect_tx must be the sum of the full boxes of all copies that complete on it";
        return Some(Cause::new(Rank::Short, text, help));
    }
    (bar.pending == 0 && bar.tx > 0).then(|| {
        let text = format!(
            "mbarrier {name} has all its arrivals, but {} of the expected bytes never came",
            bar.tx
        );
        let help = "expect_tx must be the sum of the full boxes of all copies that complete on it";
        Cause::new(Rank::Short, text, help)
    })
}

/// A wait for another phase than the one after the last that the waiter saw.
fn wrong_parity(name: &str, seen: Option<u64>, phase: u64) -> Option<Cause> {
    let text = match seen {
        None if phase == 1 => {
            format!("the first wait for mbarrier {name} is for parity 1, when phase 0 is complete")
        }
        Some(seen) if seen + 2 <= phase => format!(
            "a wait for mbarrier {name} takes parity {} again: the warp last saw phase {seen}, and phase {} is \
             complete",
            phase & 1,
            seen + 1
        ),
        _ => return None,
    };
    let help = "the first wait takes parity 0 (or 1, to pass at once while nobody has arrived), and each one after it \
                the other parity";
    Some(Cause::new(Rank::Short, text, help))
}
