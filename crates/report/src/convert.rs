//! What the simulator says, as findings.

use crate::finding::{Finding, Kind};
use crate::hang::{Arrivals, Barrier, Hang, LastDeed, Waiter};
use crate::place::Place;
use crate::schedule::Schedule;
use crate::summary::{Allowed, Unchecked};

/// What an error of a run means: mistakes of the program, or a reason why it could not be checked.
pub fn outcome_of(error: &sim::Error, schedule: Schedule) -> Result<Vec<Finding>, Unchecked> {
    let found = |finding: Finding| Ok(vec![Finding { schedule: Some(schedule), ..finding }]);
    match error {
        sim::Error::Invalid(violations) => Ok(violations.iter().map(Finding::from).collect()),
        sim::Error::Load(message) => Err(Unchecked::Unreadable { message: message.clone() }),
        sim::Error::Unsupported(unsupported) => Err(Unchecked::from(unsupported)),
        sim::Error::Stopped(stopped) => {
            Err(Unchecked::Limit { message: stopped.to_string(), schedule: Some(schedule) })
        }
        sim::Error::Fault(fault) => found(Finding::from(&**fault)),
        sim::Error::Hazard(hazard) => found(Finding::from(&**hazard)),
        sim::Error::Deadlock(deadlock) => found(Finding::from(&**deadlock)),
    }
}

impl From<&sim::Unsupported> for Unchecked {
    fn from(unsupported: &sim::Unsupported) -> Unchecked {
        let place = Place::line(unsupported.line, &unsupported.instruction);
        Unchecked::Unsupported { message: unsupported.reason.clone(), place: Box::new(place) }
    }
}

impl From<&sim::Fault> for Finding {
    fn from(fault: &sim::Fault) -> Finding {
        Finding {
            places: vec![Place::from(&fault.site)],
            remedies: fault.help.iter().cloned().collect(),
            survivable: fault.survivable,
            ..Finding::new(Kind::Fault, fault.rule, &fault.message)
        }
    }
}

impl From<&sim::Hazard> for Finding {
    fn from(hazard: &sim::Hazard) -> Finding {
        let later = Place::from(&hazard.site);
        let earlier = hazard.other.iter();
        let earlier = earlier.map(|(role, site)| Place {
            role: role.trim_end_matches(':').to_owned(),
            ..Place::from(site)
        });
        let spelled = in_source_language(hazard);
        Finding {
            places: std::iter::once(later).chain(earlier).collect(),
            remedies: hazard.help.iter().cloned().chain(spelled).collect(),
            survivable: true,
            ..Finding::new(Kind::Hazard, hazard.rule.name(), &hazard.message)
        }
    }
}

/// How a barrier between two warps of a CTA is spelled in the language that the kernel was written in.
fn in_source_language(hazard: &sim::Hazard) -> Option<String> {
    let (_, other) = hazard.other.as_ref()?;
    let site = &hazard.site;
    let barrier = hazard.rule == sim::Rule::Race || hazard.rule == sim::Rule::Uninitialised;
    if !barrier || site.cta != other.cta || is_asynchronous(site) || is_asynchronous(other) {
        return None;
    }
    let (file, _) = site.loc.as_ref()?;
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    let (language, spelling) = match ending {
        "py" => ("Triton", "tl.debug_barrier()"),
        "cu" | "cuh" | "h" | "hpp" | "inl" => ("CUDA C++", "__syncthreads()"),
        _ => return None,
    };
    Some(format!("in {language}, `{spelling}` is such a barrier for the warps of a CTA"))
}

/// Whether an access is not the thread's own, so that a barrier of threads does not order it.
fn is_asynchronous(site: &sim::Site) -> bool {
    let named = ["cp.", "wgmma", "tcgen05", "st.async", "red.async"];
    named.iter().any(|name| site.instruction.contains(name))
}

impl From<&sim::Finding> for Finding {
    fn from(finding: &sim::Finding) -> Finding {
        match finding {
            sim::Finding::Fault(fault) => Finding::from(&**fault),
            sim::Finding::Hazard(hazard) => Finding::from(&**hazard),
        }
    }
}

impl Allowed {
    /// What a run passed over.
    pub fn of(allowed: &sim::Allowed, schedule: Schedule) -> Allowed {
        let finding = Finding { schedule: Some(schedule), ..Finding::from(&allowed.finding) };
        Allowed { finding, times: allowed.times }
    }
}

impl From<&sim::Deadlock> for Finding {
    fn from(deadlock: &sim::Deadlock) -> Finding {
        let origin = deadlock.origin.iter().map(Place::from);
        let waits = deadlock.waiting.iter().map(|waiting| {
            let role = format!("waits for {}", waiting.what);
            Place { role, ..Place::from(&waiting.site) }
        });
        Finding {
            places: origin.chain(waits).collect(),
            remedies: deadlock.help.clone(),
            hang: Some(Hang::from(deadlock)),
            ..Finding::new(Kind::Deadlock, "deadlock", &deadlock.cause)
        }
    }
}

impl From<&sim::Deadlock> for Hang {
    fn from(deadlock: &sim::Deadlock) -> Hang {
        let waiter = |waiting: &sim::Waiting| Waiter {
            place: Place::from(&waiting.site),
            count: waiting.warps,
            warps: waiting.who.clone(),
            awaits: waiting.what.clone(),
        };
        let deed = |deed: &sim::LastDeed| LastDeed {
            warps: deed.who.clone(),
            exited: deed.exited,
            place: Place::from(&deed.site),
        };
        Hang {
            waiters: deadlock.waiting.iter().map(waiter).collect(),
            unlisted: deadlock.unlisted,
            barriers: deadlock.barriers.iter().map(Barrier::from).collect(),
            last_deeds: deadlock.deeds.iter().map(deed).collect(),
        }
    }
}

impl From<&sim::BarrierState> for Barrier {
    fn from(state: &sim::BarrierState) -> Barrier {
        let arrivals = |arrivals: &sim::Arrivals| Arrivals {
            warps: arrivals.who.clone(),
            place: Place::from(&arrivals.site),
            count: arrivals.count,
            phases: arrivals.phases,
            last_phase: arrivals.last_phase,
            exited: arrivals.exited,
        };
        Barrier {
            name: state.name.clone(),
            phase: state.phase,
            arrived: state.expected - state.pending,
            expected: state.expected,
            missing_bytes: state.missing_bytes,
            initialised: Place::from(&state.init),
            arrivals: state.arrivals.iter().map(arrivals).collect(),
            unlisted: state.unlisted,
        }
    }
}
