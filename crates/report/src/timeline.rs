use crate::finding::Finding;
use serde::{Deserialize, Serialize};
use sim::Row;

/// What warps and engines did until something was found, in cycles of the simulator's cost model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Cycle behind the last.
    pub end: u64,
    /// Warps first, then the engines of their CTAs.
    pub rows: Vec<TimelineRow>,
    /// Rows of warps that had no part in it and are left out.
    pub unlisted: usize,
}

/// A warp or an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// `CTA (0,0,0) warp 3`, `CTA (0,0,0) copy engine`.
    pub name: String,
    /// What took time there.
    pub spans: Vec<Span>,
    /// The last instructions of a warp that were more than arithmetic, branches and waits.
    pub steps: Vec<Step>,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// `run`, `wait for mbarrier`, `tensor load`.
    pub name: String,
    /// First cycle.
    pub start: u64,
    /// Cycle behind the last.
    pub end: u64,
}

/// An instruction that a warp executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub cycle: u64,
    /// Line of the PTX.
    pub ptx_line: u32,
    /// The instruction.
    pub instruction: String,
}

/// Warps that are drawn at most.
const MOST_WARPS: usize = 16;
/// Spans of a row that are kept: the last ones.
const MOST_SPANS: usize = 400;

impl Timeline {
    /// What the warps that a finding names did, and the engines of their CTAs.
    pub fn of(trace: &sim::Trace, finding: &Finding) -> Timeline {
        let warps = warps_of(trace, finding);
        let mut ctas: Vec<[u32; 3]> = warps.iter().map(|(cta, _)| *cta).collect();
        ctas.dedup();
        let engines = ctas.iter().flat_map(|cta| [(*cta, Row::Copy), (*cta, Row::Tensor)]);
        let rows = warps.iter().map(|(cta, warp)| (*cta, Row::Warp(*warp))).chain(engines);
        let rows: Vec<TimelineRow> =
            rows.filter_map(|(cta, row)| TimelineRow::of(trace, cta, row)).collect();
        let spans = rows.iter().flat_map(|row| row.spans.iter().map(|span| span.end));
        let steps = rows.iter().flat_map(|row| row.steps.iter().map(|step| step.cycle));
        let end = spans.chain(steps).max().unwrap_or(0);
        let drawn = |slice: &&sim::Slice| match slice.row {
            Row::Warp(warp) => !warps.contains(&(slice.cta, warp)) && ctas.contains(&slice.cta),
            Row::Copy | Row::Tensor => false,
        };
        let mut others: Vec<_> =
            trace.slices.iter().filter(drawn).map(|slice| (slice.cta, slice.row)).collect();
        others.sort_unstable();
        others.dedup();
        Timeline { end, rows, unlisted: others.len() }
    }
}

/// The warps that a finding names, those of its first places before others; of a deadlock also those that have
/// exited or wait in the same CTA.
fn warps_of(trace: &sim::Trace, finding: &Finding) -> Vec<([u32; 3], u32)> {
    let mut named: Vec<([u32; 3], u32)> = Vec::new();
    let mut finding = finding.clone();
    for thread in finding.all_places_mut().filter_map(|place| place.thread) {
        let warp = (thread.cta, thread.warp);
        if !named.contains(&warp) {
            named.push(warp);
        }
    }
    if finding.hang.is_some() {
        let cta = named.first().map(|(cta, _)| *cta);
        let same = trace.steps.iter().filter(|step| Some(step.cta) == cta);
        for warp in same.map(|step| (step.cta, step.warp)) {
            if !named.contains(&warp) {
                named.push(warp);
            }
        }
    }
    named.truncate(MOST_WARPS);
    named.sort_unstable_by_key(|([x, y, z], warp)| ([*z, *y, *x], *warp));
    named
}

impl TimelineRow {
    /// A row of a trace; none for an engine that did nothing.
    fn of(trace: &sim::Trace, cta: [u32; 3], row: Row) -> Option<TimelineRow> {
        let slices = trace.slices.iter().filter(|slice| (slice.cta, slice.row) == (cta, row));
        let span = |s: &sim::Slice| Span { name: s.name.clone(), start: s.start, end: s.end };
        let mut spans: Vec<Span> = slices.map(span).collect();
        spans.sort_by_key(|span| (span.start, span.end));
        spans.drain(..spans.len().saturating_sub(MOST_SPANS));
        let [x, y, z] = cta;
        let (name, steps) = match row {
            Row::Warp(warp) => {
                let own = trace.steps.iter().filter(|step| (step.cta, step.warp) == (cta, warp));
                (format!("CTA ({x},{y},{z}) warp {warp}"), own.map(Step::from).collect())
            }
            Row::Copy if spans.is_empty() => return None,
            Row::Tensor if spans.is_empty() => return None,
            Row::Copy => (format!("CTA ({x},{y},{z}) copy engine"), Vec::new()),
            Row::Tensor => (format!("CTA ({x},{y},{z}) tensor unit"), Vec::new()),
        };
        Some(TimelineRow { name, spans, steps })
    }
}

impl From<&sim::Step> for Step {
    fn from(step: &sim::Step) -> Step {
        let instruction = step.instruction.clone();
        Step { cycle: step.cycle, ptx_line: step.line, instruction }
    }
}
