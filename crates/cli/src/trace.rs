//! `sixwarp trace`: who works and who waits in a kernel, cycle by cycle.

use crate::problem_args::{ProblemArgs, describe};
use crate::sim::Source;
use crate::stalls::Stalls;
use crate::timeline::{self, Lane};
use crate::{AnyError, Outcome, output};
use cases::CaseData;
use program::{Access, Program};
use serde::Serialize;
use sim::{Options, Report, Trace};
use sixwarp::{Device, DeviceName};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
A problem's own kernels, or any PTX:

  sixwarp trace --heads 16/1 --dim 128 --queries 8 --keys 1024
  sixwarp trace --device sim-sm90 --dim 64 --queries 256 --keys 512 --mask causal -o hopper
  sixwarp trace --dim 512 --heads 64/1 --shared --keys 640 --kernel combine
  sixwarp trace kernel.ptx --block 128 --arg in:f32[1024]=random --arg out:f32[1024]=poison
  sixwarp trace --launch captured.json --cta 3

How to read it. Every warp has a row, and so have the CTA's copy engine (TMA, cp.async) and its tensor
unit. Blue is work; pale boxes are waits, by what was waited for. A kernel is as fast as its fullest
row: the tensor unit of a good one has no gaps. A gap in it above a warp that waits for an mbarrier
names who was late: the row that works while the others wait.

NAME.json is for https://ui.perfetto.dev or chrome://tracing (one cycle is one microsecond there) and
has every CTA; NAME.svg is a picture of one. Cycles are the simulator's model: instructions cost issue
slots, copies 64 bytes per cycle after 500, multiplies the tensor unit's rate. They show who waits for
whom, not how long a GPU takes. For sim-sm90 and sim-sm100 the lines below the picture are of the model of
time, in which warps share units (docs/model-of-time.md): why warps wait, as shares of their time.";

/// Draws the timeline of a kernel: who works and who waits, on the simulator
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// For a problem: sim-sm80, -sm86, -sm89, -sm90, -sm100, -sm103 or -sm120
    #[arg(long, default_value = "sim-sm100")]
    device: DeviceName,
    /// The CTA to draw, as x,y,z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "0", value_parser = index)]
    cta: [u32; 3],
    /// Writes NAME.json and NAME.svg
    #[arg(long, short, value_name = "NAME", default_value = "trace")]
    output: PathBuf,
    /// Prints what was busy for how long as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    problem: ProblemArgs,
}

/// Runs, writes both files and prints the picture.
pub fn run(args: Args) -> Outcome {
    let (title, trace, stalls) = match args.source.is_given() {
        true => of_source(&args.source)?,
        false => of_problem(&args)?,
    };
    let rows = timeline::lanes(&trace, args.cta, timeline::plain_name);
    if rows.0.is_empty() {
        return Err(format!("no CTA {:?} did anything: try --cta 0", args.cta).into());
    }
    let written = Written::beside(&args.output);
    files::write(&written.perfetto, trace.to_json())?;
    let text = timeline::picture(&rows);
    let summary = Summary { stalls, ..Summary::new(&title, args.cta, &rows, &written) };
    let [x, y, z] = args.cta;
    let subtitle = format!("CTA ({x},{y},{z}); cycles are the simulator's model, not a GPU's");
    let drawing = timeline::drawing(&title, &subtitle, &rows);
    files::write(&written.picture, drawing.to_svg())?;
    if args.json {
        return output::print_json(&summary);
    }
    let (perfetto, picture) = (written.perfetto.display(), written.picture.display());
    let stalls = summary.stalls.map_or(String::new(), |stalls| format!("{stalls}\n"));
    output::print(&format!(
        "{title}\n{subtitle}\n\n{text}\n{stalls}{picture}   the picture\n{perfetto}   every CTA, for \
         https://ui.perfetto.dev\n"
    ))
}

/// The timeline of `kernel`, or of the first one, of a program on a case's data; the kernels before it
/// run first.
pub fn of_kernel(
    program: &Program,
    data: &CaseData,
    kernel: Option<&str>,
) -> Result<Report, AnyError> {
    let names = || program.launches.iter().map(|launch| launch.kernel.as_str());
    let wanted = kernel.map_or(Some(0), |kernel| names().position(|name| name == kernel));
    let Some(wanted) = wanted else {
        let all = names().collect::<Vec<_>>().join(", ");
        return Err(format!("no kernel is called `{}`: {all}", kernel.unwrap_or_default()).into());
    };
    let part = |range: std::ops::Range<usize>, program: &Program| Program {
        launches: program.launches[range].to_vec(),
        ..program.clone()
    };
    let mut rest = program.clone();
    let contents = |buffer: &program::Buffer| {
        data.problem.slot_named(&buffer.name).map_or_else(Vec::new, |slot| data.bytes(slot))
    };
    let mut buffers: Vec<Vec<u8>> = program.buffers.iter().map(contents).collect();
    if wanted > 0 {
        buffers = sim::run(&part(0..wanted, program), &buffers, &Options::default())?.buffers;
        // What was written so far counts as written.
        rest.buffers.iter_mut().for_each(|buffer| buffer.access = Access::ReadWrite);
    }
    let options = Options { trace: true, record: true, ..Options::default() };
    Ok(sim::run(&part(wanted..wanted + 1, &rest), &buffers, &options)?)
}

/// What is drawn: its title, its timeline, and why warps wait.
type Drawn = (String, Trace, Option<Stalls>);

fn of_problem(args: &Args) -> Result<Drawn, AnyError> {
    let DeviceName::Simulated(arch) = args.device else {
        let device = args.device;
        return Err(format!("{device} draws no timeline: sim-sm80 to sim-sm120 do").into());
    };
    let case = args.problem.case()?;
    let data = CaseData::new(&case)?;
    let plan = sixwarp::plan(&data.problem, &Device::simulated(arch))?;
    let program = plan.program().ok_or("a plan without kernels")?;
    let kernel = args.source.options.kernel.as_deref();
    let report = of_kernel(program, &data, kernel)?;
    let first = program.launches.first().map(|launch| launch.kernel.as_str());
    let name = kernel.or(first).unwrap_or_default();
    let machine = crate::bench::machine(arch, None).ok();
    let stalls =
        machine.zip(report.recordings.first()).map(|(machine, first)| Stalls::of(machine, first));
    Ok((format!("{name} of {}, {arch}", describe(&case)), recorded(report)?, stalls))
}

fn of_source(source: &Source) -> Result<Drawn, AnyError> {
    let options = Options { trace: true, ..Options::default() };
    let report = source.execute(&options)?.into_result()?;
    Ok((source.name(), recorded(report)?, None))
}

fn recorded(report: Report) -> Result<Trace, AnyError> {
    report.trace.ok_or_else(|| "the simulator recorded no timeline".into())
}

fn index(text: &str) -> Result<[u32; 3], String> {
    let mut index = [0; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("at most x,y,z".to_string());
    }
    for (part, slot) in parts.iter().zip(&mut index) {
        *slot = part.trim().parse().map_err(|_| format!("`{part}` is no index"))?;
    }
    Ok(index)
}

/// The two files.
struct Written {
    perfetto: PathBuf,
    picture: PathBuf,
}

impl Written {
    fn beside(name: &Path) -> Written {
        let with = |extension: &str| {
            let mut path = name.as_os_str().to_owned();
            path.push(extension);
            PathBuf::from(path)
        };
        Written { perfetto: with(".json"), picture: with(".svg") }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary {
    title: String,
    cta: [u32; 3],
    cycles: u64,
    rows: Vec<RowSummary>,
    /// Why warps wait, where the model of time has the machine.
    stalls: Option<Stalls>,
    perfetto: PathBuf,
    picture: PathBuf,
}

#[derive(Serialize)]
struct RowSummary {
    name: String,
    busy_cycles: u64,
}

impl Summary {
    fn new(title: &str, cta: [u32; 3], rows: &(Vec<Lane<'_>>, u64), written: &Written) -> Summary {
        let row =
            |lane: &Lane<'_>| RowSummary { name: lane.name.clone(), busy_cycles: lane.busy() };
        Summary {
            title: title.to_string(),
            cta,
            cycles: rows.1,
            rows: rows.0.iter().map(row).collect(),
            stalls: None,
            perfetto: written.perfetto.clone(),
            picture: written.picture.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_up_to_three_parts() {
        assert_eq!(index("3"), Ok([3, 0, 0]));
        assert_eq!(index("1,2,3"), Ok([1, 2, 3]));
        assert!(index("1,2,3,4").is_err() && index("x").is_err());
    }

    #[test]
    fn a_name_with_a_dot_keeps_it() {
        assert_eq!(Written::beside(Path::new("v1.5")).picture, Path::new("v1.5.svg"));
    }
}
