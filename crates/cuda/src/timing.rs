use crate::driver::Event;
use crate::{Error, Stream};

/// Takes the time of work on a stream, on the device's clock.
pub struct Timer {
    start: Event,
    end: Event,
    stream: Stream,
}

impl Timer {
    /// A timer on `stream`.
    pub fn new(stream: &Stream) -> Result<Timer, Error> {
        let event = || Event::create(stream.context());
        Ok(Timer { start: event()?, end: event()?, stream: stream.clone() })
    }

    /// Microseconds from the first to the last piece of work that `queue` puts on the stream, after
    /// waiting for it.
    pub fn microseconds(
        &self,
        queue: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<f64, Error> {
        self.start.record(self.stream.handle())?;
        queue(&self.stream)?;
        self.end.record(self.stream.handle())?;
        Ok(f64::from(self.end.milliseconds_since(&self.start)?) * 1e3)
    }
}
