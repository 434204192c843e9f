//! Orders of work on a device, and work recorded to be done again.

use crate::device::Kind;
use crate::{Device, DeviceName, Error};
use problem::InvalidProblem;

/// An order of work on a device. On a GPU it is a CUDA stream; other devices have done their work when a
/// launch returns.
///
/// A stream of someone else (a `cudarc` stream, one of a framework) is used by its raw handle:
/// [`Stream::from_raw`].
#[derive(Clone)]
pub struct Stream {
    device: DeviceName,
    queue: Option<cuda::Stream>,
}

impl Device {
    /// The device's default stream.
    pub fn default_stream(&self) -> Stream {
        let queue = self.gpu().map(cuda::Device::default_stream);
        Stream { device: self.name(), queue }
    }

    /// A new stream that waits for no other.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new_stream(&self) -> Result<Stream, Error> {
        let queue = self.gpu().map(cuda::Device::new_stream).transpose()?;
        Ok(Stream { device: self.name(), queue })
    }

    pub(crate) fn gpu(&self) -> Option<&cuda::Device> {
        match &self.0 {
            Kind::Cuda { device, .. } => Some(device),
            _ => None,
        }
    }

    /// The GPU this is.
    pub(crate) fn expect_gpu(&self, what: &str) -> Result<&cuda::Device, Error> {
        let rule = format!("is a GPU where {what}");
        self.gpu().ok_or_else(|| InvalidProblem::new("device", rule, self).into())
    }
}

impl Stream {
    /// A stream of a GPU that someone else manages, by its `CUstream` handle; 0 is the default stream.
    ///
    /// # Safety
    /// The handle must be a stream of this device's primary context, and outlive the value.
    ///
    /// # Errors
    /// If the device is not a GPU.
    pub unsafe fn from_raw(device: &Device, handle: usize) -> Result<Self, Error> {
        let gpu = device.expect_gpu("a stream is given by its handle")?;
        // SAFETY: as the caller vouches.
        let queue = unsafe { cuda::Stream::from_raw(gpu, handle) };
        Ok(Stream { device: device.name(), queue: Some(queue) })
    }

    /// The `CUstream` handle; none where the device is not a GPU.
    pub fn handle(&self) -> Option<usize> {
        self.queue.as_ref().map(cuda::Stream::handle)
    }

    /// Waits for everything queued.
    ///
    /// # Errors
    /// If the device failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.queue {
            Some(stream) => Ok(stream.synchronize()?),
            None => Ok(()),
        }
    }

    /// Records what `work` queues on this stream as a graph, instead of doing it. The stream must be a GPU's
    /// and not its default one.
    ///
    /// # Errors
    /// That of `work`; if the device is not a GPU; if the driver refuses what was queued.
    pub fn capture(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
        let Some(stream) = &self.queue else {
            let rule = "is a GPU where graphs are recorded";
            return Err(InvalidProblem::new("device", rule, self.device).into());
        };
        cuda::Graph::capture(stream, work).map(Graph)
    }

    /// Refuses a stream of another device than `device`.
    pub(crate) fn ensure_of(&self, device: &Device) -> Result<(), InvalidProblem> {
        match self.device == device.name() {
            true => Ok(()),
            false => {
                Err(InvalidProblem::new("stream", format!("must be of {device}"), self.device))
            }
        }
    }

    pub(crate) fn queue(&self) -> Option<&cuda::Stream> {
        self.queue.as_ref()
    }
}

/// Work that was recorded once ([`Stream::capture`]), to be queued again with one call.
///
/// It works on the addresses that it was recorded with.
pub struct Graph(cuda::Graph);

impl Graph {
    /// Queues everything recorded.
    ///
    /// # Errors
    /// If the stream is not a GPU's, or the driver refuses.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        match stream.queue() {
            Some(stream) => Ok(self.0.launch(stream)?),
            None => {
                let rule = "is a GPU's where graphs are launched";
                Err(InvalidProblem::new("stream", rule, stream.device).into())
            }
        }
    }
}
