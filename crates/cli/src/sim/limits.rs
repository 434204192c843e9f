//! What a run may use of the host.

use sim::Limits;
use std::time::Duration;

/// What a run may use of the host.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Memory that the simulated machine may take, in bytes or with K, M, G or T behind
    #[arg(long, value_name = "BYTES", default_value = "8G", value_parser = bytes)]
    memory: u64,
    /// Warp instructions of a launch, polling included: then the report says which loops its warps are in
    #[arg(long, value_name = "N", default_value_t = Limits::default().instructions)]
    max_instructions: u64,
    /// Seconds that a launch may take, 0 for any time
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    timeout: Duration,
}

impl LimitArgs {
    /// The limits asked for.
    pub fn limits(&self) -> Limits {
        let time = (!self.timeout.is_zero()).then_some(self.timeout);
        Limits { memory: self.memory, instructions: self.max_instructions, time }
    }
}

/// `4096`, `64K`, `8G`.
fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(*unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let value = digits.parse().ok().and_then(|value: u64| value.checked_mul(1 << shift));
    value.ok_or_else(|| "expected a number of bytes, such as 512M or 8G".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value = text.parse().ok().and_then(|value| Duration::try_from_secs_f64(value).ok());
    value.ok_or_else(|| "expected a number of seconds, 0 or more".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("512"), Ok(512));
        assert_eq!(bytes("3K"), Ok(3072));
        assert_eq!(bytes("8G"), Ok(8 << 30));
        assert!(bytes("8g").is_err() && bytes("-1").is_err() && bytes("99999999T").is_err());
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("-1").is_err() && seconds("NaN").is_err() && seconds("1e30").is_err());
    }
}
