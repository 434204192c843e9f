//! Streams and their capture.

use super::context::ensure_current;
use crate::driver::{DEFAULT_STREAMS, Stream, driver};
use crate::guard::{driver, give, give_if_wanted};
use crate::job::{HostCall, Job};
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static CAPTURES: AtomicU64 = AtomicU64::new(1);

/// Whether a stream is captured, as the header numbers it.
fn status(stream: usize) -> Outcome<(c_uint, u64)> {
    let capture = driver()?.state().stream(stream)?.capture;
    Ok(capture.map_or((0, 0), |(number, _)| (1, number)))
}

/// A function that a stream calls with itself and a result.
type Callback = unsafe extern "C" fn(usize, u32, *mut c_void);

/// What a callback is called with.
struct CallbackData {
    callback: Callback,
    stream: usize,
    data: *mut c_void,
}

unsafe extern "C" fn call_back(data: *mut c_void) {
    // SAFETY: made by `cuStreamAddCallback`, and called once.
    let data = unsafe { Box::from_raw(data.cast::<CallbackData>()) };
    // SAFETY: the program passed a function that takes these arguments.
    unsafe { (data.callback)(data.stream, 0, data.data) };
}

driver! {
    /// Makes a stream.
    fn [cuStreamCreate](stream: *mut usize, flags: c_uint) {
        ensure_current()?;
        let made = driver()?.state().streams.add(Stream { flags, ..Stream::default() });
        // SAFETY: the program's pointer.
        unsafe { give(stream, made) }
    }

    /// Makes a stream; priorities mean nothing here.
    fn [cuStreamCreateWithPriority](stream: *mut usize, flags: c_uint, priority: c_int) {
        ensure_current()?;
        let made = Stream { flags, priority, ..Stream::default() };
        let made = driver()?.state().streams.add(made);
        // SAFETY: the program's pointer.
        unsafe { give(stream, made) }
    }

    /// Ends a stream; its work goes on.
    fn [cuStreamDestroy_v2, cuStreamDestroy](stream: usize) {
        driver()?.state().streams.remove(stream).map(|_| ())
    }

    /// Waits for a stream's work.
    fn [cuStreamSynchronize, cuStreamSynchronize_ptsz](stream: usize) {
        let driver = driver()?;
        let state = driver.state().stream(stream)?;
        if state.capture.is_some() {
            return Err(CudaResult::STREAM_CAPTURE_UNSUPPORTED);
        }
        let last = if stream <= DEFAULT_STREAMS { driver.queue.last() } else { state.last };
        driver.queue.wait_for(last)
    }

    /// Whether a stream's work has ended.
    fn [cuStreamQuery, cuStreamQuery_ptsz](stream: usize) {
        let driver = driver()?;
        let state = driver.state().stream(stream)?;
        let last = if stream <= DEFAULT_STREAMS { driver.queue.last() } else { state.last };
        if driver.queue.has_ended(last)? { Ok(()) } else { Err(CudaResult::NOT_READY) }
    }

    /// Lets a stream wait for an event, which it does anyway; a capture spreads so.
    fn [cuStreamWaitEvent, cuStreamWaitEvent_ptsz](stream: usize, event: usize, flags: c_uint) {
        let _ = flags;
        let mut state = driver()?.state();
        state.stream(stream)?;
        let capture = state.events.get(event)?.state().capture;
        let active = capture.filter(|capture| state.captures.contains_key(capture));
        if let (Some(capture), true) = (active, stream > DEFAULT_STREAMS) {
            state.streams.get_mut(stream)?.capture.get_or_insert((capture, false));
        }
        Ok(())
    }

    /// Flags of a stream.
    fn [cuStreamGetFlags, cuStreamGetFlags_ptsz](stream: usize, flags: *mut c_uint) {
        let known = driver()?.state().stream(stream)?.flags;
        // SAFETY: the program's pointer.
        unsafe { give(flags, known) }
    }

    /// Priority of a stream.
    fn [cuStreamGetPriority, cuStreamGetPriority_ptsz](stream: usize, priority: *mut c_int) {
        let known = driver()?.state().stream(stream)?.priority;
        // SAFETY: the program's pointer.
        unsafe { give(priority, known) }
    }

    /// The context of a stream.
    fn [cuStreamGetCtx, cuStreamGetCtx_ptsz](stream: usize, context: *mut usize) {
        let state = driver()?.state();
        state.stream(stream)?;
        // SAFETY: the program's pointer.
        unsafe { give(context, state.primary.0) }
    }

    /// A number of a stream that no other has.
    fn [cuStreamGetId, cuStreamGetId_ptsz](stream: usize, id: *mut u64) {
        driver()?.state().stream(stream)?;
        // SAFETY: the program's pointer.
        unsafe { give(id, stream as u64) }
    }

    /// Calls the program when the work before has ended.
    fn [cuStreamAddCallback, cuStreamAddCallback_ptsz](
        stream: usize, callback: Option<Callback>, data: *mut c_void, flags: c_uint,
    ) {
        let _ = flags;
        let callback = callback.ok_or(CudaResult::INVALID_VALUE)?;
        let data = Box::into_raw(Box::new(CallbackData { callback, stream, data }));
        let call = HostCall { function: call_back, data: data.cast() };
        driver()?.submit(stream, Job::Call(call)).map(|_| ())
    }

    /// Whether a stream is captured.
    fn [cuStreamIsCapturing, cuStreamIsCapturing_ptsz](stream: usize, captured: *mut c_uint) {
        let (status, _) = status(stream)?;
        // SAFETY: the program's pointer.
        unsafe { give(captured, status) }
    }

    /// Whether a stream is captured, and by which capture; its nodes are not told.
    fn [cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz](
        stream: usize, captured: *mut c_uint, id: *mut u64, graph: *mut usize, nodes: *mut *const c_void,
        count: *mut usize,
    ) {
        let (status, number) = status(stream)?;
        if status != 0 && !(graph.is_null() && nodes.is_null()) {
            return Err(CudaResult::NOT_SUPPORTED);
        }
        // SAFETY: the program's pointers.
        unsafe {
            give_if_wanted(id, number);
            give_if_wanted(count, 0);
            give(captured, status)
        }
    }

    /// Begins to record a stream's work instead of doing it.
    fn [cuStreamBeginCapture_v2, cuStreamBeginCapture, cuStreamBeginCapture_v2_ptsz](stream: usize, mode: c_uint) {
        let _ = mode;
        let mut state = driver()?.state();
        let captured = state.stream(stream)?.capture.is_some();
        if stream <= DEFAULT_STREAMS {
            return Err(CudaResult::STREAM_CAPTURE_UNSUPPORTED);
        }
        if captured {
            return Err(CudaResult::ILLEGAL_STATE);
        }
        let number = CAPTURES.fetch_add(1, Ordering::Relaxed);
        state.captures.insert(number, Vec::new());
        state.streams.get_mut(stream)?.capture = Some((number, true));
        Ok(())
    }

    /// Ends a capture: a graph of what was recorded.
    fn [cuStreamEndCapture, cuStreamEndCapture_ptsz](stream: usize, graph: *mut usize) {
        let mut state = driver()?.state();
        let Some((number, true)) = state.stream(stream)?.capture else {
            return Err(CudaResult::STREAM_CAPTURE_UNMATCHED);
        };
        let is_part = |stream: &&mut Stream| stream.capture.is_some_and(|(other, _)| other == number);
        state.streams.values_mut().filter(is_part).for_each(|stream| stream.capture = None);
        let jobs = state.captures.remove(&number).unwrap_or_default();
        let made = state.graphs.add(Arc::new(jobs));
        // SAFETY: the program's pointer.
        unsafe { give(graph, made) }
    }

    /// Captures do not disturb each other.
    fn [cuThreadExchangeStreamCaptureMode](mode: *mut c_uint) {
        if mode.is_null() { Err(CudaResult::INVALID_VALUE) } else { Ok(()) }
    }
}
