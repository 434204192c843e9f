//! Timelines, and their form as Chrome trace JSON (`chrome://tracing`, Perfetto).

pub mod svg;

use crate::error::Site;
use crate::machine::{CtaRank, Machine};
use crate::warp::WarpId;
use std::fmt::Write;

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// A warp, by its number in the cluster.
    Warp(WarpId),
    /// The copy engine of a CTA of the cluster.
    Copy(CtaRank),
    /// The tensor unit of a CTA of the cluster.
    Tensor(CtaRank),
}

/// Something that took time.
#[derive(Clone, Debug)]
pub struct Slice {
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Row in the CTA: warp number, or an engine.
    pub row: Row,
    /// What.
    pub name: String,
    /// First cycle.
    pub start: u64,
    /// Cycle behind the last.
    pub end: u64,
}

/// Row of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// Warp of the CTA.
    Warp(u32),
    /// Copy engine.
    Copy,
    /// Tensor unit.
    Tensor,
}

/// One of the last instructions of a warp that were more than arithmetic, branches and looks at an mbarrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Warp of the CTA.
    pub warp: u32,
    /// When.
    pub cycle: u64,
    /// PTX line.
    pub line: u32,
    /// The instruction.
    pub instruction: String,
}

/// The timeline of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The last instructions of every warp, its earliest first.
    pub steps: Vec<Step>,
    /// All slices, in no particular order.
    pub slices: Vec<Slice>,
}

impl Trace {
    /// Chrome trace format; one cycle is one microsecond there.
    pub fn to_json(&self) -> String {
        let mut processes: Vec<[u32; 3]> = self.slices.iter().map(|s| s.cta).collect();
        processes.sort_unstable_by_key(|[x, y, z]| [*z, *y, *x]);
        processes.dedup();
        let mut json = String::from("{\"traceEvents\":[\n");
        for (pid, [x, y, z]) in processes.iter().enumerate() {
            let _infallible = writeln!(
                json,
                "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{pid},\"args\":{{\"name\":\"CTA ({x},{y},{z})\"}}}},"
            );
        }
        for slice in &self.slices {
            let pid = processes.iter().position(|p| *p == slice.cta).unwrap_or(0);
            let tid = match slice.row {
                Row::Warp(index) => format!("\"warp {index:2}\""),
                Row::Copy => "\"copy engine\"".into(),
                Row::Tensor => "\"tensor unit\"".into(),
            };
            let (name, start, duration) = (&slice.name, slice.start, slice.end - slice.start);
            let _infallible = writeln!(
                json,
                "{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{start},\"dur\":{duration}}},"
            );
        }
        json.truncate(json.trim_end_matches([',', '\n']).len());
        json + "\n]}\n"
    }
}

impl Machine<'_> {
    /// Records a slice, if a timeline is wanted.
    pub(crate) fn trace_slice(&mut self, track: Track, name: &str, start: u64, end: u64) {
        if !self.launch.options.trace || end <= start {
            return;
        }
        let (cta, row) = match track {
            Track::Warp(w) => (self.warps[w].cta, Row::Warp(self.warps[w].index)),
            Track::Copy(cta) => (cta, Row::Copy),
            Track::Tensor(cta) => (cta, Row::Tensor),
        };
        let cta = self.ctas[cta].id;
        self.trace.slices.push(Slice { cta, row, name: name.into(), start, end });
    }

    /// Records the last instructions of a warp, if a timeline is wanted.
    pub(crate) fn trace_steps(&mut self, w: WarpId) {
        if !self.launch.options.trace {
            return;
        }
        let mut latest: Vec<_> = self.warps[w].recent.latest().collect();
        latest.reverse();
        for (pc, cycle) in latest {
            let Site { cta, warp, line, instruction, .. } = self.site(w, pc, None);
            self.trace.steps.push(Step { cta, warp, cycle, line, instruction });
        }
    }

    /// Records that a warp ran since its last wait, and now waits.
    pub(crate) fn trace_wait(&mut self, w: WarpId, name: &str, start: u64, end: u64) {
        let since = self.warps[w].running_since;
        self.trace_slice(Track::Warp(w), "run", since, start);
        self.trace_slice(Track::Warp(w), name, start, end);
        self.warps[w].running_since = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_one_event_per_slice() {
        let slice =
            |row, start| Slice { cta: [0; 3], row, name: "run".into(), start, end: start + 5 };
        let slices = vec![slice(Row::Warp(0), 0), slice(Row::Tensor, 3)];
        let trace = Trace { slices, steps: Vec::new() };
        let json = trace.to_json();
        assert_eq!(json.matches("\"ph\":\"X\"").count(), 2);
        assert!(json.contains("\"tid\":\"tensor unit\",\"ts\":3,\"dur\":5}\n]}"));
    }
}
