//! Races of reads whose value nobody uses.
//!
//! Every warp of a CTA may load a scalar that one of them then overwrites: `n = load(p); store(p, n + 1)` compiled for
//! several warps. The loads of the other warps race with the store, and do no harm if what they gave is thrown away.
//! So after such a race the launch runs once more with the loads in doubt: they are not held against stores, and what
//! they give is marked as if nobody had written it. If it is used, the race is reported. If the launch ends without
//! that, a note says so.

use crate::error::{Error, Hazard, Place, Site};
use crate::options::Options;
use crate::report::Outcome;
use crate::rules::Rule;

/// Loads that race with stores of a warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// PTX line of the load.
    line: u32,
    /// Warp of the CTA that stores.
    writer: u32,
    /// The first of the loads.
    load: Site,
    /// The store.
    store: Site,
}

/// Loads in doubt at one time.
const MOST: usize = 8;

impl Doubt {
    /// The load that a race is about, if it is an ordinary one of global memory by another warp of the CTA.
    fn of(error: &Error) -> Option<Doubt> {
        let Error::Hazard(hazard) = error else { return None };
        let Hazard { rule: Rule::Race, site, other: Some((_, other)), .. } = &**hazard else {
            return None;
        };
        let (load, store) = if is_load(site) { (site, other) } else { (other, site) };
        let fits = is_load(load) && is_store(store);
        let apart = load.cta == store.cta && load.warp != store.warp;
        (fits && apart && load.line > 0).then(|| Doubt {
            line: load.line,
            writer: store.warp,
            load: load.clone(),
            store: store.clone(),
        })
    }

    /// Whether it is about what a warp executes at a line.
    pub(crate) fn concerns(&self, line: u32, warp: u32) -> bool {
        self.line == line && self.writer != warp
    }

    fn same_as(&self, other: &Doubt) -> bool {
        (self.line, self.writer) == (other.line, other.writer)
    }

    fn note(&self) -> String {
        let Doubt { load, store, .. } = self;
        format!(
            "loads race with a store by warp {} of their CTA, and the value is never used\n  --> {}\n   | {}\n  --> {}\n   | {}",
            store.warp,
            Place(load),
            load.instruction,
            Place(store),
            store.instruction
        )
    }
}

/// The instruction of a site, without its guard.
fn instruction(site: &Site) -> &str {
    let text = site.instruction.as_str();
    match text.starts_with('@') {
        true => text.split_once(' ').map_or("", |(_, rest)| rest.trim_start()),
        false => text,
    }
}

fn is_load(site: &Site) -> bool {
    let opcode = instruction(site).split_whitespace().next().unwrap_or_default();
    let strong = ["volatile", "relaxed", "acquire", "mmio"];
    opcode.starts_with("ld.global") && !opcode.split('.').any(|part| strong.contains(&part))
}

fn is_store(site: &Site) -> bool {
    let opcode = instruction(site).split('.').next().unwrap_or_default();
    ["st", "atom", "red"].contains(&opcode)
}

/// Runs something; where it ends with a race of loads, runs it again with them in doubt.
pub(crate) fn settle(options: &Options, run: impl Fn(&[Doubt]) -> Outcome) -> Outcome {
    let first = run(&[]);
    if options.pedantic || options.allow.contains(&Rule::Uninitialised) {
        return first;
    }
    let mut doubts: Vec<Doubt> = Vec::new();
    let mut doubt = first.error.as_ref().and_then(Doubt::of);
    while let Some(new) = doubt.take().filter(|_| doubts.len() < MOST) {
        if doubts.iter().any(|old| old.same_as(&new)) {
            return first;
        }
        doubts.push(new);
        let mut again = run(&doubts);
        match &again.error {
            None => {
                again.report.notes.extend(doubts.iter().map(Doubt::note));
                return again;
            }
            Some(error) => doubt = Doubt::of(error),
        }
    }
    first
}
