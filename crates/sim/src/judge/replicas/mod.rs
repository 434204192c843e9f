//! Warps that hold copies of the same data and all store them.
//!
//! Compilers let them. Where the stores leave the same bytes they race without harm. What counts is
//! what an instruction of the whole warp leaves, because lanes of one warp may store to one place, too.
//! Copies that were computed in different orders differ by rounding ([`Numbers`]): the last one stays,
//! and which that is is a matter of time, but all are right. That is a finding of its own, and of
//! pedantic mode, not a race.

mod numbers;

pub(crate) use numbers::Numbers;

use crate::exec::Execution;
use crate::instruction::{Access, Order, Place, advance, lane_address};
use crate::instruction::{Pc, Store};
use crate::judge::Conflict;
use crate::judge::Judge;
use crate::machine::{Machine, Run};
use crate::register::lanes;
use crate::register::{Lane, Reg};
use crate::rules::Rule;
use crate::warp::WarpId;
use std::collections::HashMap;

/// One value of a store.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) place: Place,
    /// 1, 2, 4 or 8.
    pub(crate) bytes: u32,
    pub(crate) value: u64,
    /// The register it comes from.
    pub(crate) source: Reg,
    /// Whether it is one of a pair that the register holds.
    pub(crate) half: bool,
}

/// The first of neighbouring values, the bytes of each, and how many there are.
type Values = (Place, u32, u32);

/// How a value that an instruction leaves compares with what is there.
#[derive(Clone, Copy)]
enum Verdict {
    Same,
    /// They differ by so many units in the last place of such numbers.
    Rounded {
        numbers: Numbers,
        units: u64,
        there: u64,
        value: u64,
    },
    Different,
}

/// What an instruction of a warp leaves, against what was there before.
pub(crate) struct Replicas {
    verdicts: HashMap<Place, Verdict>,
    /// A value that was let pass though it is rounded differently, and who stored the other.
    rounded: Option<(Place, Verdict, WarpId, Pc)>,
}

impl Replicas {
    /// Whether the instruction leaves neighbouring values as they are.
    fn changes_nothing(&self, (place, bytes, count): Values) -> bool {
        let same = |i| matches!(self.verdicts.get(&advance(place, bytes * i)), Some(Verdict::Same));
        (0..count).all(same)
    }

    /// Whether a conflict at neighbouring values does no harm; `by` is the other warp if it executed the
    /// same instruction.
    fn forgives(&mut self, values: Values, by: Option<(WarpId, Pc)>) -> bool {
        if self.changes_nothing(values) {
            return true;
        }
        let (place, bytes, count) = values;
        let Some((warp, pc)) = by else { return false };
        for place in (0..count).map(|i| advance(place, bytes * i)) {
            match self.verdicts.get(&place) {
                Some(Verdict::Same) => {}
                Some(rounded @ Verdict::Rounded { .. }) => {
                    self.rounded.get_or_insert((place, *rounded, warp, pc));
                }
                Some(Verdict::Different) | None => return false,
            }
        }
        true
    }
}

impl Execution<'_, '_> {
    /// Checks a lane's store: bounds and ordering. Warps that store copies of the same data do no harm.
    #[inline(always)]
    pub(crate) fn before_store(
        &mut self,
        w: WarpId,
        (lane, mask): (Lane, u32),
        place: Place,
        store: &Store,
        replicas: &mut Option<Replicas>,
    ) -> Run<()> {
        let (bytes, count) = (u32::from(store.bytes), store.src.len() as u32);
        let values = (place, bytes.min(8), count * bytes.div_ceil(8));
        let order = Order::of(store.strong);
        let access = Access { compared: true, ..Access::write(place, bytes * count, order) };
        let forgives = |judge: &mut Judge<'_>, machine: &Machine<'_>, conflict: &Conflict| {
            let replicas = judge.replicas_of(machine, w, store, mask, replicas)?;
            Ok(judge.forgives(machine, w, replicas, values, conflict))
        };
        match self.before_access_unless(w, lane, access, forgives) {
            // Clusters that store what is there already do no harm either.
            Err(error) if error.rule() == Rule::Race.name() => {
                let replicas = self.judge.replicas_of(self.machine, w, store, mask, replicas)?;
                if replicas.changes_nothing(values) { Ok(()) } else { Err(error) }
            }
            outcome => outcome,
        }
    }
}

impl Machine<'_> {
    /// The values that `st` of a warp stores, in the order of its lanes.
    fn stored(&self, judge: &Judge<'_>, w: WarpId, store: &Store, mask: u32) -> Run<Vec<Stored>> {
        let bytes = u32::from(store.bytes);
        let mut all = Vec::new();
        for lane in lanes(mask) {
            let registers = &self.warps[w].registers;
            let at = lane_address(registers, store.addr, lane);
            let place =
                self.place(judge, w, lane, store.space, at, bytes * store.src.len() as u32)?;
            for (i, source) in store.src.iter().enumerate() {
                let place = advance(place, bytes * i as u32);
                let stored = |place, bytes, value| Stored {
                    place,
                    bytes,
                    value,
                    source: *source,
                    half: false,
                };
                if let Reg::R128(r) = *source {
                    let value = registers.lane128(r, lane);
                    all.push(stored(place, 8, value as u64));
                    all.push(stored(advance(place, 8), 8, (value >> 64) as u64));
                } else {
                    let used = u64::MAX >> (64 - 8 * bytes.min(8));
                    all.push(stored(place, bytes, registers.lane(*source, lane) & used));
                }
            }
        }
        Ok(all)
    }

    /// Whether the earlier access is a store by the instruction that a warp executes.
    pub(crate) fn repeats(&self, w: WarpId, conflict: &Conflict) -> bool {
        let source = |pc: Pc| self.kernel.code[pc as usize].source;
        conflict.wrote && source(conflict.other.pc()) == source(self.pc(w))
    }
}

impl Judge<'_> {
    /// What a store leaves, compared when it is first asked for.
    fn replicas_of<'r>(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        store: &Store,
        mask: u32,
        replicas: &'r mut Option<Replicas>,
    ) -> Run<&'r mut Replicas> {
        if replicas.is_none() {
            let stored = machine.stored(self, w, store, mask)?;
            *replicas = Some(self.replicas(machine, w, &stored));
        }
        Ok(replicas.as_mut().expect("just compared"))
    }

    /// Compares what an instruction leaves with what is there; before it stores anything that matters.
    pub(crate) fn replicas(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        stored: &[Stored],
    ) -> Replicas {
        let left: HashMap<Place, &Stored> = stored.iter().map(|one| (one.place, one)).collect();
        let verdicts = left.into_iter().map(|(place, one)| (place, self.verdict(machine, w, one)));
        Replicas { verdicts: verdicts.collect(), rounded: None }
    }

    fn verdict(&mut self, machine: &Machine<'_>, w: WarpId, stored: &Stored) -> Verdict {
        let Stored { place, bytes, value, source, half } = *stored;
        let there = machine.read(w, Lane(0), place, bytes);
        if there == value {
            return Verdict::Same;
        }
        let kernel = machine.kernel;
        let known = self.numbers.entry(source);
        let known = *known.or_insert_with(|| numbers::numbers_in(kernel, source));
        let numbers = if half { known.and_then(Numbers::element) } else { known };
        let units = numbers.and_then(|numbers| numbers.rounding(there, value, bytes));
        match (numbers, units) {
            (Some(numbers), Some(units)) => Verdict::Rounded { numbers, units, there, value },
            _ => Verdict::Different,
        }
    }

    /// Whether a conflict of a warp's store with an earlier access does no harm.
    pub(crate) fn forgives(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        replicas: &mut Replicas,
        values: Values,
        conflict: &Conflict,
    ) -> bool {
        let by = self
            .checker
            .as_ref()
            .filter(|_| machine.repeats(w, conflict))
            .map(|checker| (checker.warp_of(conflict.other.agent()), conflict.other.pc()));
        replicas.forgives(values, by)
    }

    /// Tells of values that were let pass though they are rounded differently.
    pub(crate) fn report_replicas(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        replicas: Option<&Replicas>,
    ) -> Run<()> {
        let Some((place, verdict, other, pc)) = replicas.and_then(|replicas| replicas.rounded)
        else {
            return Ok(());
        };
        let Verdict::Rounded { numbers, units, there, value } = verdict else { return Ok(()) };
        let s = if units == 1 { "" } else { "s" };
        let message = format!(
            "{} is stored by two warps, and their {} differ by rounding only, {units} unit{s} in the last place: \
             {value:#x} over {there:#x}",
            machine.name_stored(place),
            numbers.name()
        );
        let help = "which of them stays is a matter of time: one warp stores, or all compute in the same order";
        let site = Some(("the other store:".to_owned(), machine.site(other, pc, None)));
        self.hazard(machine, w, Rule::UnequalReplicas, message, site, Some(help))
    }
}
