//! One launch: everything about it is on the disk before it runs.

use crate::inside::{Inside, quietly};
use crate::memory::{Reached, Unreachable, reach, read};
use crate::real;
use crate::settings::{Settings, settings};
use crate::state::{Kernel, state};
use launches::{LaunchConfig, Piece, SavedLaunch};
use serde_json::json;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where the arguments of a launch are.
#[derive(Clone, Copy)]
pub struct Passed {
    /// One pointer for each parameter, or null.
    pub params: *const *const u8,
    /// The other form, or null.
    pub extra: *const *const c_void,
}

/// Writes a launch if it was asked for, and lets it go on.
///
/// # Safety
/// The configuration and the arguments are those of a launch.
pub unsafe fn launch(
    config: &LaunchConfig,
    function: usize,
    passed: Passed,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let (Some(settings), Some(_inside)) = (settings(), Inside::enter()) else { return call() };
    // SAFETY: the caller's contract.
    let taken = quietly(|| unsafe { take(settings, config, function, passed) }).flatten();
    let result = call();
    if let Some(taken) = taken {
        quietly(|| taken.finish(settings, result));
    }
    result
}

/// A launch that was written.
struct Taken {
    folder: PathBuf,
    kernel: String,
    memory: Vec<Reached>,
}

/// Writes a launch, or tells why not.
///
/// # Safety
/// As for [`launch`].
unsafe fn take(
    settings: &Settings,
    config: &LaunchConfig,
    function: usize,
    passed: Passed,
) -> Option<Taken> {
    let mut state = state();
    let kernel = state.kernel(function);
    let name = kernel.as_ref().map_or("of a module that was not seen", |k| k.name.as_str());
    let number = state.counter.next(settings, name)?;
    // SAFETY: the caller's contract.
    let taken = unsafe { write(&mut state, settings, number, kernel.as_ref(), config, passed) };
    match taken {
        Ok(taken) => {
            state.record.captured(number);
            Some(taken)
        }
        Err(why) => {
            state.record.tell(number, format!("kernel `{name}` is not captured: {why}"));
            None
        }
    }
}

/// # Safety
/// As for [`launch`].
unsafe fn write(
    state: &mut crate::state::State,
    settings: &Settings,
    number: u64,
    kernel: Option<&Kernel>,
    config: &LaunchConfig,
    passed: Passed,
) -> Result<Taken, String> {
    let kernel = kernel.ok_or("the driver does not say which module it is of")?;
    let text = kernel.image.ptx(&kernel.name, &state.known, &settings.ptx)?;
    let module = ptx::parse_kernel(text, Some(&kernel.name))
        .map_err(|error| format!("its PTX is not understood: {error}"))?;
    let function = module.entry(&kernel.name).ok_or("its PTX does not have it")?;
    // SAFETY: the caller's contract, and the kernel's own list of parameters.
    let params = unsafe { launches::arguments(function, passed.params, passed.extra) }
        .ok_or("its arguments are missing")?;
    // SAFETY: the caller's contract.
    let cluster = unsafe { config.cluster() };
    wait_for_all(config.stream)?;
    let memory = reach(&mut state.memory, &params, settings.most_bytes).map_err(unreachable)?;
    let folder = settings.folder.join(format!("{}-{number:04}", std::process::id()));
    let saved = SavedLaunch {
        ptx: text,
        kernel: &kernel.name,
        grid: config.grid,
        block: config.block,
        cluster: cluster.unwrap_or_else(|| launches::required_cluster(function)),
        shared_bytes: config.shared_bytes,
        params: &params,
        memory: &pieces(&memory),
        keeps_results: settings.outputs,
    };
    saved.save(&folder).map_err(|error| error.to_string())?;
    let taken = Taken { folder, kernel: kernel.name.clone(), memory };
    taken.mark("started", None);
    flush(&taken.folder);
    Ok(taken)
}

fn pieces(memory: &[Reached]) -> Vec<Piece<'_>> {
    let all = memory.iter();
    all.map(|Reached { allocation, name, bytes }| Piece {
        base: allocation.base,
        name: name.clone(),
        bytes,
    })
    .collect()
}

fn unreachable(why: Unreachable) -> String {
    match why {
        Unreachable::TooMuch(bytes) => {
            let mib = bytes.div_ceil(1 << 20);
            format!("it can reach {mib} MiB of memory or more: raise --most-mib")
        }
        Unreachable::Refused(result) => {
            format!("the driver does not copy its memory (error {result})")
        }
    }
}

/// Waits for all work, so that memory is what the launch will find.
fn wait_for_all(stream: usize) -> Result<(), String> {
    let mut status = 0;
    // SAFETY: a place for the result, and the program's stream.
    if unsafe { real::is_capturing(stream, &mut status) } == Some(real::SUCCESS) && status != 0 {
        return Err("it is recorded for a CUDA graph: run the program without graphs".into());
    }
    // SAFETY: no preconditions.
    match unsafe { real::synchronize() } {
        Some(real::SUCCESS) => Ok(()),
        other => {
            let result = other.unwrap_or(-1);
            Err(format!("the work before it failed (error {result})"))
        }
    }
}

/// Files of a folder reach the disk, because a GPU that hangs may need a reset of the machine.
fn flush(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).chain([folder.to_owned()]) {
        // What cannot be flushed is still written.
        let _ = File::open(path).and_then(|file| file.sync_all());
    }
}

impl Taken {
    /// Says how far the launch has come.
    fn mark(&self, state: &str, result: Option<c_int>) {
        let value = json!({"state": state, "kernel": self.kernel, "result": result});
        if let Err(error) = files::write(self.folder.join("state.json"), format!("{value:#}\n")) {
            eprintln!("sixwarp: {error}");
        }
    }

    /// Waits for the launch, and keeps its results if they are wanted.
    fn finish(&self, settings: &Settings, result: c_int) {
        if result != real::SUCCESS {
            return self.mark("refused", Some(result));
        }
        if settings.no_wait {
            return;
        }
        // SAFETY: no preconditions.
        match unsafe { real::synchronize() } {
            Some(real::SUCCESS) => {}
            other => return self.mark("failed", other),
        }
        if settings.outputs {
            self.keep_outputs();
        }
        self.mark("finished", Some(result));
    }

    /// Writes memory that the launch has changed, as `after0.bin` and so on.
    fn keep_outputs(&self) {
        for (number, Reached { allocation, bytes, .. }) in self.memory.iter().enumerate() {
            let Ok(after) = read(allocation) else { continue };
            if after == *bytes {
                continue;
            }
            let path = self.folder.join(format!("after{number}.bin"));
            if let Err(error) = files::write(path, after) {
                eprintln!("sixwarp: {error}");
            }
        }
    }
}
