//! The least time a problem can take on a device: its floating-point operations at the rate of large
//! matrix products, or its bytes at the rate of a copy, whichever is longer.

use serde::Serialize;
use sixwarp::{DeviceName, Problem};
use std::time::Instant;

/// What a device reaches where nothing is in the way.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// FLOP/s of large matrix products, where known.
    pub matmul: Option<f64>,
    /// Bytes per second that a copy reads and writes together, where known.
    pub copy: Option<f64>,
    /// Where the figures come from.
    pub source: String,
}

/// Products and copies measured with other people's code: torch's 8192³ bf16 product and device copy.
const MEASURED: [(&str, f64, f64); 1] = [("H200", 790e12, 4.3e12)];

/// Bytes of each of the two buffers of the host's copy: beyond any cache.
const COPY_BYTES: usize = 256 << 20;

impl Rates {
    /// The rates of a device, those given on the command line first.
    pub fn of(device: DeviceName, name: &str, tflops: Option<f64>, gbs: Option<f64>) -> Self {
        let mut rates = match device {
            DeviceName::Cuda(_) => Self::known(name),
            DeviceName::Cpu => Self::host(),
            _ => Self { matmul: None, copy: None, source: "unknown".to_string() },
        };
        if tflops.is_some() || gbs.is_some() {
            rates.source = "as given".to_string();
        }
        rates.matmul = tflops.map(|rate| rate * 1e12).or(rates.matmul);
        rates.copy = gbs.map(|rate| rate * 1e9).or(rates.copy);
        rates
    }

    fn known(name: &str) -> Self {
        match MEASURED.into_iter().find(|(part, ..)| name.contains(part)) {
            Some((part, matmul, copy)) => Self {
                matmul: Some(matmul),
                copy: Some(copy),
                source: format!("measured on an {part} with torch 2.11"),
            },
            None => Self {
                matmul: None,
                copy: None,
                source: format!("unknown for {name}: give --matmul-tflops and --copy-gbs"),
            },
        }
    }

    /// The host's copy, measured now on one thread; its products are not.
    fn host() -> Self {
        let (from, mut to) = (vec![1u8; COPY_BYTES], vec![0u8; COPY_BYTES]);
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            let start = Instant::now();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let copy = Some(2.0 * COPY_BYTES as f64 / best);
        let source = "copy measured now, on one thread; give --matmul-tflops".to_string();
        Self { matmul: None, copy, source }
    }

    /// The floor of `problem` in microseconds, `None` where a rate is missing.
    pub fn floor(&self, problem: &Problem) -> Option<f64> {
        let seconds = (problem.flops() / self.matmul?).max(bytes(problem) / self.copy?);
        Some(seconds * 1e6)
    }
}

/// Bytes of every tensor, each once.
pub fn bytes(problem: &Problem) -> f64 {
    problem.slots().into_iter().map(|slot| problem.slot_bytes(slot) as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sixwarp::{DType, Segment, View};

    #[test]
    fn the_longer_of_the_two_is_the_floor() {
        let view = |tokens| View::bhsd(DType::Bf16, [1, 1, tokens, 64]);
        let keys = Segment::new(view(100), view(100));
        let problem = Problem::builder(view(10)).segment(keys).build().unwrap();
        assert_eq!(problem.flops(), 256_000.0);
        assert_eq!(bytes(&problem), 2.0 * 64.0 * 220.0);
        let rates =
            |matmul, copy| Rates { matmul: Some(matmul), copy: Some(copy), source: "".into() };
        assert_eq!(rates(256e9, 1e18).floor(&problem), Some(1.0));
        assert_eq!(rates(1e18, 28.16e9).floor(&problem), Some(1.0));
    }
}
