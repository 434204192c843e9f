use crate::driver::Event;
use crate::{Bound, Error, Graph, Stream};

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

/// Times of the same work, measured several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// Microseconds, ascending.
    pub microseconds: Vec<f64>,
}

impl Samples {
    /// Times `bound` by replaying a graph of `launches` of it, `samples` times after one replay that
    /// is not counted; each sample is the time of one launch.
    ///
    /// The stream must not be the default one (it is recorded on).
    pub fn of_graph(
        stream: &Stream,
        bound: &Bound,
        launches: usize,
        samples: usize,
    ) -> Result<Samples, Error> {
        let graph = Graph::record(stream, &vec![bound; launches.max(1)])?;
        let timer = Timer::new(stream)?;
        let replay = || timer.microseconds(|stream| graph.launch(stream));
        replay()?;
        let times = (0..samples.max(1)).map(|_| Ok(replay()? / launches.max(1) as f64));
        Ok(Samples::new(times.collect::<Result<_, Error>>()?))
    }

    fn new(mut microseconds: Vec<f64>) -> Samples {
        microseconds.sort_by(f64::total_cmp);
        Samples { microseconds }
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// The one that a share of `quantile` is not above.
    pub fn at(&self, quantile: f64) -> f64 {
        let last = self.microseconds.len().saturating_sub(1);
        let index = (quantile.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.microseconds.get(index).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_in_order() {
        let samples = Samples::new(vec![3.0, 1.0, 2.0, 5.0, 4.0]);
        assert_eq!((samples.at(0.0), samples.median(), samples.at(1.0)), (1.0, 3.0, 5.0));
        assert!(Samples::new(vec![]).median().is_nan());
    }
}
