//! Events. Their times are those of the host: a simulator says nothing about a GPU's time.

use super::context::ensure_current;
use crate::driver::driver;
use crate::guard::{driver, give};
use crate::job::{Event, Job};
use crate::result::{CudaResult, Outcome};
use std::ffi::c_uint;
use std::sync::Arc;

fn event(handle: usize) -> Outcome<Arc<Event>> {
    driver()?.state().events.get(handle).cloned()
}

fn record(handle: usize, stream: usize) -> Outcome {
    let job = Job::Record(event(handle)?);
    driver()?.submit(stream, job).map(|_| ())
}

/// Host milliseconds between two events that have ended.
fn elapsed(start: usize, end: usize) -> Outcome<f32> {
    let (start, end) = (event(start)?.state(), event(end)?.state());
    let (Some(first), Some(last)) = (start.job, end.job) else {
        return Err(CudaResult::INVALID_HANDLE);
    };
    if !driver()?.queue.has_ended(first.max(last))? {
        return Err(CudaResult::NOT_READY);
    }
    let (Some(start), Some(end)) = (start.at, end.at) else { return Ok(0.0) };
    let forward = end.saturating_duration_since(start).as_secs_f64();
    let backward = start.saturating_duration_since(end).as_secs_f64();
    Ok(((forward - backward) * 1e3) as f32)
}

driver! {
    /// Makes an event.
    fn [cuEventCreate](handle: *mut usize, flags: c_uint) {
        let _ = flags;
        ensure_current()?;
        let made = driver()?.state().events.add(Arc::default());
        // SAFETY: the program's pointer.
        unsafe { give(handle, made) }
    }

    /// Ends an event.
    fn [cuEventDestroy_v2, cuEventDestroy](handle: usize) {
        driver()?.state().events.remove(handle).map(|_| ())
    }

    /// Records an event on a stream.
    fn [cuEventRecord, cuEventRecord_ptsz](handle: usize, stream: usize) {
        record(handle, stream)
    }

    /// Records an event on a stream.
    fn [cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz](handle: usize, stream: usize, flags: c_uint) {
        let _ = flags;
        record(handle, stream)
    }

    /// Whether the work before an event has ended.
    fn [cuEventQuery](handle: usize) {
        let Some(job) = event(handle)?.state().job else { return Ok(()) };
        if driver()?.queue.has_ended(job)? { Ok(()) } else { Err(CudaResult::NOT_READY) }
    }

    /// Waits for the work before an event.
    fn [cuEventSynchronize](handle: usize) {
        let job = event(handle)?.state().job;
        job.map_or(Ok(()), |job| driver()?.queue.wait_for(job))
    }

    /// Milliseconds between two events, on the host.
    fn [cuEventElapsedTime_v2, cuEventElapsedTime](milliseconds: *mut f32, start: usize, end: usize) {
        // SAFETY: the program's pointer.
        unsafe { give(milliseconds, elapsed(start, end)?) }
    }
}
