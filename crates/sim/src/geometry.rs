//! Whether a launch fits the chip, the kernel's own directives, and the simulator.

use crate::check::Access;
use crate::error::Error;
use crate::load::Kernel;
use crate::options::Options;
use program::{Launch, Limits};

/// What dynamic shared memory may lose here by its alignment behind static variables; the hardware packs
/// tighter.
const SHARED_PADDING: u64 = 1024;
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

/// Checks a launch before anything of its size is allocated.
pub(crate) fn check(kernel: &Kernel, launch: &Launch) -> Result<(), Error> {
    let checks = [check_extents, check_directives, check_shared];
    checks
        .iter()
        .try_for_each(|check| check(kernel, launch))
        .map_err(|message| Error::Load(format!("kernel `{}`: {message}", kernel.name)))
}

fn check_extents(kernel: &Kernel, launch: &Launch) -> Result<(), String> {
    let Limits {
        grid: most_ctas, block: most_threads, threads: most, cluster_with_opt_in, sm, ..
    } = kernel.chip;
    let Launch { grid, block, cluster, .. } = launch;
    let threads = product(block);
    if outside(block, &most_threads) || threads > u64::from(most) {
        return Err(format!(
            "a block of {block:?} is {threads} threads; 1 to {most} are possible, {most_threads:?} along \
             x, y and z"
        ));
    }
    if outside(grid, &most_ctas) {
        return Err(format!("a grid of {grid:?}; 1 to {most_ctas:?} CTAs are possible"));
    }
    let ctas = product(cluster);
    if ctas == 0 || ctas > u64::from(cluster_with_opt_in) {
        return Err(format!(
            "a cluster of {cluster:?}: 1 to {cluster_with_opt_in} CTAs are possible on sm_{sm}"
        ));
    }
    if (0..3).any(|i| !grid[i].is_multiple_of(cluster[i])) {
        return Err(format!("grid {grid:?} is not a multiple of the cluster {cluster:?}"));
    }
    let clusters = product(grid) / ctas;
    if clusters > MOST_CLUSTERS {
        return Err(format!("a grid of {clusters} clusters: {MOST_CLUSTERS} can be simulated"));
    }
    Ok(())
}

fn outside(extents: &[u32; 3], most: &[u32; 3]) -> bool {
    extents.iter().zip(most).any(|(extent, most)| *extent == 0 || extent > most)
}

fn product(extents: &[u32; 3]) -> u64 {
    extents.iter().fold(1, |product: u64, extent| product.saturating_mul((*extent).into()))
}

fn check_directives(kernel: &Kernel, launch: &Launch) -> Result<(), String> {
    let (cluster, threads) = (launch.cluster, product(&launch.block));
    if let Some(required) = kernel.cluster.filter(|required| *required != cluster) {
        return Err(format!(
            "launched with cluster {cluster:?}; .reqnctapercluster says {required:?}"
        ));
    }
    if let Some(required) = kernel.required_threads.filter(|required| *required != threads) {
        return Err(format!("launched with {threads} threads; .reqntid says {required}"));
    }
    if let Some(most) = kernel.max_threads.filter(|most| threads > *most) {
        return Err(format!("launched with {threads} threads; .maxntid says at most {most}"));
    }
    Ok(())
}

fn check_shared(kernel: &Kernel, launch: &Launch) -> Result<(), String> {
    let fixed = u64::from(kernel.dynamic_shared - crate::load::RESERVED_SHARED);
    let (dynamic, most) = (launch.shared_bytes, u64::from(kernel.chip.shared_bytes));
    if fixed + u64::from(dynamic) > most + SHARED_PADDING {
        return Err(format!(
            "{dynamic} bytes of dynamic shared memory, beside {fixed} static ones: a CTA has {most} on \
             sm_{}",
            kernel.chip.sm
        ));
    }
    Ok(())
}
