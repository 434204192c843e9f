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

/// Launches recorded once, to be queued again with one call. Their kernels stay loaded while the device is
/// open, which is as long as the process.
pub struct Graph(driver::Graph);

impl Graph {
    /// Records the launches of `programs`, in order. The stream is only used to record on and must
    /// not be the default one.
    pub fn record(stream: &Stream, programs: &[&Bound]) -> Result<Graph, Error> {
        Graph::capture(stream, || programs.iter().try_for_each(|bound| bound.launch(stream)))
    }

    /// Records what `work` queues on the stream, which must not be the default one. The stream runs nothing
    /// meanwhile, and cannot be waited for.
    ///
    /// # Errors
    /// That of `work`, or the driver's if it refuses the recording.
    pub fn capture<E: From<Error>>(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, E> {
        stream.context.begin_capture(stream.handle()).map_err(Error::from)?;
        let queued = work();
        // The recording is ended even when a launch failed: the stream would stay unusable.
        let graph = driver::Graph::end_capture(&stream.context, stream.handle());
        queued?;
        Ok(Graph(graph.map_err(Error::from)?))
    }

    /// Queues everything recorded.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        Ok(self.0.launch(stream.handle())?)
    }
}
