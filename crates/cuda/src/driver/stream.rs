//! Streams, events and captured graphs.

use super::{Context, Result};
use crate::error::check;
use cudarc::driver::sys;
use std::ptr::null_mut;
use std::sync::Arc;

/// A stream of our own, destroyed when dropped.
pub(crate) struct Stream {
    context: Arc<Context>,
    handle: usize,
}

impl Stream {
    pub(crate) fn create(context: &Arc<Context>) -> Result<Stream> {
        context.bind()?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle; destroyed once, in `drop`.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        Ok(Stream { context: context.clone(), handle: stream as usize })
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created once; the driver finishes the work that is queued.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.handle as sys::CUstream) };
        }
    }
}

impl Context {
    /// Waits for everything queued on a stream.
    pub(crate) fn synchronize(&self, stream: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: stream handles come from `Stream` or from `Stream::from_raw`'s caller, who
        // vouches for them.
        let result = unsafe { sys::cuStreamSynchronize(stream as sys::CUstream) };
        check("cuStreamSynchronize", result)
    }

    /// Whether everything queued on a stream has ended.
    pub(crate) fn is_idle(&self, stream: usize) -> Result<bool> {
        self.bind()?;
        // SAFETY: as in `synchronize`.
        match unsafe { sys::cuStreamQuery(stream as sys::CUstream) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Begins to record what is queued on a stream instead of running it.
    pub(crate) fn begin_capture(&self, stream: usize) -> Result<()> {
        self.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: as in `synchronize`.
        let result = unsafe { sys::cuStreamBeginCapture_v2(stream as sys::CUstream, mode) };
        check("cuStreamBeginCapture", result)
    }
}

/// A point on a stream whose time is taken.
pub(crate) struct Event {
    context: Arc<Context>,
    handle: usize,
}

impl Event {
    pub(crate) fn create(context: &Arc<Context>) -> Result<Event> {
        context.bind()?;
        let mut event = null_mut();
        // SAFETY: writes one handle; destroyed once, in `drop`.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, 0) })?;
        Ok(Event { context: context.clone(), handle: event as usize })
    }

    pub(crate) fn record(&self, stream: usize) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the event is alive; the stream as in `synchronize`.
        let result =
            unsafe { sys::cuEventRecord(self.handle as sys::CUevent, stream as sys::CUstream) };
        check("cuEventRecord", result)
    }

    /// Milliseconds from `start` to this event, after waiting for it.
    pub(crate) fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        self.context.bind()?;
        let mut milliseconds = 0.0;
        let (start, end) = (start.handle as sys::CUevent, self.handle as sys::CUevent);
        // SAFETY: both events are alive; writes one number.
        unsafe {
            check("cuEventSynchronize", sys::cuEventSynchronize(end))?;
            let result = sys::cuEventElapsedTime(&mut milliseconds, start, end);
            check("cuEventElapsedTime", result)?;
        }
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.handle as sys::CUevent) };
        }
    }
}

/// Recorded work, ready to run again.
pub(crate) struct Graph {
    context: Arc<Context>,
    handle: usize,
}

impl Graph {
    /// Ends a recording begun on `stream` and prepares it to run.
    pub(crate) fn end_capture(context: &Arc<Context>, stream: usize) -> Result<Graph> {
        context.bind()?;
        let mut graph = null_mut();
        // SAFETY: writes one handle, destroyed below.
        let result = unsafe { sys::cuStreamEndCapture(stream as sys::CUstream, &mut graph) };
        check("cuStreamEndCapture", result)?;
        let mut runnable = null_mut();
        // SAFETY: the graph is valid until destroyed; the runnable one does not refer to it.
        let result = unsafe {
            let result = sys::cuGraphInstantiateWithFlags(&mut runnable, graph, 0);
            let _ = sys::cuGraphDestroy(graph);
            result
        };
        check("cuGraphInstantiate", result)?;
        Ok(Graph { context: context.clone(), handle: runnable as usize })
    }

    pub(crate) fn launch(&self, stream: usize) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the graph is alive; the stream as in `synchronize`.
        let result =
            unsafe { sys::cuGraphLaunch(self.handle as sys::CUgraphExec, stream as sys::CUstream) };
        check("cuGraphLaunch", result)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: instantiated once.
            let _ = unsafe { sys::cuGraphExecDestroy(self.handle as sys::CUgraphExec) };
        }
    }
}
