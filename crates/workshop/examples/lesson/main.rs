//! A chapter's kernel on the simulator or on a GPU, whole or without some of its instructions.
//!
//! ```text
//! cargo run -p sixwarp-workshop --example lesson -- tile
//! cargo run -p sixwarp-workshop --example lesson -- tile --without fence.proxy.async
//! cargo run -p sixwarp-workshop --example lesson -- wgmma --device cuda
//! cargo run -p sixwarp-workshop --example lesson -- wgmma --picture wgmma.svg
//! ```

mod picture;

use sixwarp_workshop::lesson::{self, Lesson};
use std::process::ExitCode;

const USAGE: &str =
    "lesson saxpy|tile|wgmma|tcgen05 [--without OPCODE] [--device sim|cuda] [--picture FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match parse(&words).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// What is asked for.
struct Request {
    lesson: Lesson,
    on_gpu: bool,
    picture: Option<String>,
}

fn parse(words: &[&str]) -> Result<Request, String> {
    let [name, rest @ ..] = words else { return Err(USAGE.into()) };
    let lesson = lesson::named(name).ok_or_else(|| format!("no lesson {name}: {USAGE}"))?;
    let (mut rest, mut request) = (rest, Request { lesson, on_gpu: false, picture: None });
    while let [option, value, more @ ..] = rest {
        let program = &mut request.lesson.program;
        match (*option, *value) {
            ("--without", opcode) => *program = lesson::without(program, opcode),
            ("--device", "sim" | "cuda") => request.on_gpu = *value == "cuda",
            ("--picture", path) => request.picture = Some(path.into()),
            _ => return Err(format!("{option} {value}: {USAGE}")),
        }
        rest = more;
    }
    if rest.is_empty() { Ok(request) } else { Err(USAGE.into()) }
}

fn run(request: Request) -> Result<(), String> {
    let Lesson { name, program, mut memory, expected } = request.lesson;
    if request.on_gpu {
        let device = cuda::Device::open(0).map_err(|error| error.to_string())?;
        device.run_host(&program, &mut memory).map_err(|error| error.to_string())?;
    } else {
        let trace = request.picture.is_some();
        let options = sim::Options { pedantic: true, trace, ..sim::Options::default() };
        let report = sim::run(&program, &memory, &options).map_err(|error| error.to_string())?;
        if let (Some(path), Some(trace)) = (request.picture, report.trace) {
            let title = format!("The kernel of the lesson `{name}`");
            files::write(&path, picture::draw(&title, &trace)).map_err(|why| why.to_string())?;
        }
        memory = report.buffers;
    }
    match memory.last() == Some(&expected) {
        true => println!("{name}: {} bytes are right", expected.len()),
        false => return Err(format!("{name}: the result is wrong")),
    }
    Ok(())
}
