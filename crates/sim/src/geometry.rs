//! Whether a launch fits the simulator; whether it fits the chip is for `program::check`.

use crate::error::Error;
use crate::judge::Access;
use crate::load::Kernel;
use crate::options::Options;
use program::Launch;

/// Most clusters of a grid: each has a number of 32 bits.
const MOST_CLUSTERS: u64 = u32::MAX as u64;

/// Checks that a kernel is not longer than the checks can tell its instructions apart.
pub(crate) fn check_length(kernel: &Kernel, options: &Options) -> Result<(), Error> {
    let (length, most) = (kernel.code.len(), Access::LAST_PC as usize + 1);
    if !options.checks || length <= most {
        return Ok(());
    }
    Err(Error::Load(format!(
        "kernel `{}` has {length} instructions, its calls inlined: {most} can be checked (`--no-checks`)",
        kernel.name
    )))
}

/// Checks that a grid's clusters can be numbered.
pub(crate) fn check_clusters(launch: &Launch) -> Result<(), Error> {
    let product = |extents: &[u32; 3]| {
        extents.iter().fold(1, |product: u64, extent| product.saturating_mul((*extent).into()))
    };
    let clusters = product(&launch.grid) / product(&launch.cluster).max(1);
    if clusters <= MOST_CLUSTERS {
        return Ok(());
    }
    Err(Error::Load(format!(
        "kernel `{}`: a grid of {clusters} clusters: {MOST_CLUSTERS} can be simulated",
        launch.kernel
    )))
}
