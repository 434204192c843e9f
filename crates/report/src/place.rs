use serde::{Deserialize, Serialize};
use std::fmt;

/// An instruction of a kernel, and the thread that executed it where one did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What happened there: `the other read`, `waits for …`; empty where the finding itself says it.
    pub role: String,
    /// Name of the kernel in the PTX; empty where the place is no kernel's.
    pub kernel: String,
    /// The instruction, or the declaration.
    pub instruction: String,
    /// Line of the PTX, from 1; 0 if unknown.
    pub ptx_line: u32,
    /// The line that the instruction was compiled from, where the PTX has `.loc`.
    pub source: Option<SourceLine>,
    /// The warp, where one was there.
    pub thread: Option<Thread>,
    /// Simulated cycle, where it is known.
    pub cycle: Option<u64>,
}

/// Whose instruction it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Warp of the CTA.
    pub warp: u32,
    /// Lane, where one is to blame.
    pub lane: Option<u32>,
}

/// A line of the text that a kernel was compiled from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file, as the PTX names it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What stands there, if the file is at hand.
    pub text: Option<String>,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        write!(f, "CTA ({x},{y},{z}) warp {}", self.warp)?;
        self.lane.map_or(Ok(()), |lane| write!(f, " lane {lane}"))
    }
}

impl Place {
    /// A place that is known by its line of PTX alone.
    pub fn line(ptx_line: u32, instruction: impl Into<String>) -> Place {
        Place { ptx_line, instruction: instruction.into(), ..Place::default() }
    }
}

impl From<&sim::Site> for Place {
    fn from(site: &sim::Site) -> Place {
        let source = |(file, line): &(String, u32)| SourceLine {
            file: file.clone(),
            line: *line,
            text: None,
        };
        Place {
            role: String::new(),
            kernel: site.kernel.clone(),
            instruction: site.instruction.clone(),
            ptx_line: site.line,
            source: site.loc.as_ref().map(source),
            thread: Some(Thread { cta: site.cta, warp: site.warp, lane: site.lane }),
            cycle: site.cycle,
        }
    }
}
