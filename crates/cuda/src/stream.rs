use crate::driver::{self, Context};
use crate::{Bound, Device, Error};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An order of work on a device: the default stream, one of our own, or the caller's.
#[derive(Clone)]
pub struct Stream {
    context: Arc<Context>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// Kept by others; 0 is the default stream.
    Borrowed(usize),
    Owned(Arc<driver::Stream>),
}

impl Stream {
    pub(crate) fn default_of(device: &Device) -> Self {
        Stream::borrowed(device, 0)
    }

    pub(crate) fn borrowed(device: &Device, handle: usize) -> Self {
        Stream { context: device.context().clone(), kind: Kind::Borrowed(handle) }
    }

    pub(crate) fn create(device: &Device) -> Result<Self, Error> {
        let stream = driver::Stream::create(device.context())?;
        let kind = Kind::Owned(Arc::new(stream));
        Ok(Stream { context: device.context().clone(), kind })
    }

    /// The `CUstream` handle.
    pub fn handle(&self) -> usize {
        match &self.kind {
            Kind::Borrowed(handle) => *handle,
            Kind::Owned(stream) => stream.handle(),
        }
    }

    /// Waits for everything queued.
    pub fn synchronize(&self) -> Result<(), Error> {
        Ok(self.context.synchronize(self.handle())?)
    }

    /// Waits for everything queued, but not for ever.
    ///
    /// Where the work does not end in time (a kernel waits for a barrier that nobody completes),
    /// the device is lost to this process: nothing can stop a kernel, and every later call would
    /// wait for it. Later calls are errors; what is on the device goes with the process.
    pub fn synchronize_within(&self, limit: Duration) -> Result<(), Error> {
        let start = Instant::now();
        while !self.context.is_idle(self.handle())? {
            if start.elapsed() > limit {
                self.context.lose();
                return Err(Error::Timeout { limit });
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

/// Launches recorded once, to be queued again with one call.
pub struct Graph {
    graph: driver::Graph,
    /// A graph refers to the kernels of what it recorded.
    _recorded: Vec<Bound>,
}

impl Graph {
    /// Records the launches of `programs`, in order. The stream is only used to record on and must
    /// not be the default one.
    pub fn record(stream: &Stream, programs: &[&Bound]) -> Result<Graph, Error> {
        stream.context.begin_capture(stream.handle())?;
        let queued = programs.iter().try_for_each(|bound| bound.launch(stream));
        // The recording is ended even when a launch failed: the stream would stay unusable.
        let graph = driver::Graph::end_capture(&stream.context, stream.handle());
        queued?;
        let recorded = programs.iter().map(|&bound| bound.clone()).collect();
        Ok(Graph { graph: graph?, _recorded: recorded })
    }

    /// Queues everything recorded.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        Ok(self.graph.launch(stream.handle())?)
    }
}
