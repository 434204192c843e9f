//! Running plans for Python, whose signals are handled meanwhile.

use super::INTERPRETER;
use super::python::Interpreter;
use crate::ffi::sixwarp_run;
use crate::{Kind, Memory, Plan};

/// Tells the library the functions of the interpreter, before any other function of `fast` is called.
///
/// # Safety
/// The table must be as [`Interpreter`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_interpreter(interpreter: *const Interpreter) {
    // SAFETY: the caller gives the table.
    INTERPRETER.get_or_init(|| unsafe { *interpreter });
}

/// As [`sixwarp_run`]; when a signal's handler raises, the run ends early with Python's error set.
///
/// # Safety
/// As [`sixwarp_run`], with the interpreter's lock held (`ctypes.PyDLL`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_run_in_python(
    plan: *const Plan,
    tensors: *const Memory,
    count: usize,
    workspace: *const Memory,
    stream: usize,
) -> i32 {
    // SAFETY: as the caller says.
    let run = || unsafe { sixwarp_run(plan, tensors, count, workspace, stream) };
    let Some(python) = INTERPRETER.get() else { return run() };
    // SAFETY: the lock is held, and nothing of Python's is touched.
    unsafe { python.unlocked(run) }.unwrap_or(Kind::Failed as i32)
}
