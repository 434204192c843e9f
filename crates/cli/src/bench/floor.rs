//! The least time a problem can take on a device: its floating-point operations at the rate of large
//! matrix products, or its bytes at the rate of a copy, whichever is longer.

use cpu::ceilings;
use serde::Serialize;
use sixwarp::{DType, DeviceName, Problem, SegmentSlot, Slot};

/// What a device reaches where nothing is in the way.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// FLOP/s of large matrix products of 16-bit numbers, where known.
    pub matmul: Option<f64>,
    /// The same of f32.
    pub matmul_f32: Option<f64>,
    /// Bytes per second that a copy reads and writes together, where known.
    pub copy: Option<f64>,
    /// Where the figures come from.
    pub source: String,
}

/// Products and copies measured with other people's code: torch's 8192³ bf16 product and device copy.
const MEASURED: [(&str, f64, f64); 1] = [("H200", 790e12, 4.3e12)];

/// Bytes the host reads: from its last cache where that is large, as repeated calls do.
const READ_BYTES: usize = 64 << 20;

impl Rates {
    /// The rates of a device, those given on the command line first.
    pub fn of(device: DeviceName, name: &str, tflops: Option<f64>, gbs: Option<f64>) -> Self {
        let mut rates = match device {
            DeviceName::Cuda(_) => Self::known(name),
            DeviceName::Cpu => Self::host(),
            _ => Self::unknown("unknown".to_string()),
        };
        if tflops.is_some() || gbs.is_some() {
            rates.source = "as given".to_string();
        }
        let given = tflops.map(|rate| rate * 1e12);
        rates.matmul = given.or(rates.matmul);
        rates.matmul_f32 = given.or(rates.matmul_f32);
        rates.copy = gbs.map(|rate| rate * 1e9).or(rates.copy);
        rates
    }

    fn known(name: &str) -> Self {
        match MEASURED.into_iter().find(|(part, ..)| name.contains(part)) {
            Some((part, matmul, copy)) => Self {
                matmul: Some(matmul),
                matmul_f32: None,
                copy: Some(copy),
                source: format!("measured on an {part} with torch 2.11"),
            },
            None => {
                Self::unknown(format!("unknown for {name}: give --matmul-tflops and --copy-gbs"))
            }
        }
    }

    fn unknown(source: String) -> Self {
        Self { matmul: None, matmul_f32: None, copy: None, source }
    }

    /// The host's multiply-adds and reading, measured now.
    fn host() -> Self {
        let rates = ceilings::multiply_rates();
        let best = |takes: fn(&str) -> bool| {
            let taken = rates.iter().filter(|(name, _)| takes(name));
            taken.map(|(_, rate)| *rate).max_by(f64::total_cmp)
        };
        Self {
            matmul: best(|_| true),
            matmul_f32: best(|name| name.starts_with("f32")),
            copy: Some(ceilings::read_rate(READ_BYTES)),
            source: "multiply-adds and reading, measured now".to_string(),
        }
    }

    /// The floor of `problem` in microseconds, `None` where a rate is missing.
    pub fn floor(&self, problem: &Problem) -> Option<f64> {
        let f32 = problem.dtype() == DType::F32;
        let matmul = if f32 { self.matmul_f32? } else { self.matmul? };
        let seconds = (problem.flops() / matmul).max(bytes(problem) / self.copy?);
        Some(seconds * 1e6)
    }
}

/// Bytes of every tensor, each once; of rows that lists name, those of as many as the lists have entries.
pub fn bytes(problem: &Problem) -> f64 {
    let tokens = problem.q.batch() * problem.q.tokens();
    let read = |slot: Slot| {
        let all = problem.slot_bytes(slot) as f64;
        let Slot::Segment(n, SegmentSlot::K | SegmentSlot::V) = slot else { return all };
        let segment = &problem.segments[n as usize];
        let rows = (segment.k.batch() * segment.k.tokens()) as f64;
        segment.indices.map_or(all, |list| all * ((tokens * list.width) as f64 / rows).min(1.0))
    };
    problem.slots().into_iter().map(read).sum()
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
        let rates = |matmul, copy| Rates {
            matmul: Some(matmul),
            matmul_f32: None,
            copy: Some(copy),
            source: "".into(),
        };
        assert_eq!(rates(256e9, 1e18).floor(&problem), Some(1.0));
        assert_eq!(rates(1e18, 28.16e9).floor(&problem), Some(1.0));
    }
}
