use crate::Error;

/// Environment variable with a limit on host memory, in bytes.
const LIMIT: &str = "SIXWARP_MEMORY_LIMIT";

/// Bytes of host memory that may be allocated: `SIXWARP_MEMORY_LIMIT` if set, else what the system
/// says is available, else no limit.
pub fn available_bytes() -> u64 {
    let limit = std::env::var(LIMIT).ok().and_then(|text| text.parse().ok());
    limit.or_else(system_bytes).unwrap_or(u64::MAX)
}

fn system_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Refuses to go on if `what` needs more bytes than are available.
///
/// # Errors
/// [`Error::TooLarge`] with both numbers.
pub fn ensure_memory(what: &str, needed: u64) -> Result<(), Error> {
    let available = available_bytes();
    if needed <= available {
        return Ok(());
    }
    Err(Error::TooLarge { what: what.to_string(), needed, available })
}
