//! Names of barriers, shared memory and warps in reports.

use crate::demangle::readable;
use crate::load::SharedVariable;
use crate::machine::{CtaRank, Machine};
use crate::warp::WarpId;

/// CTAs whose warps are listed one by one.
const LISTED: usize = 4;

impl Machine<'_> {
    /// The shared variable that an offset lies in or behind.
    pub(crate) fn shared_variable(&self, offset: u64) -> Option<&SharedVariable> {
        let variables = self.kernel.shared.iter().filter(|v| u64::from(v.offset) <= offset);
        variables.max_by_key(|v| v.offset)
    }

    /// Name of a barrier: the shared variable it lies in and its place there.
    pub(crate) fn mbarrier_name(&self, cta: CtaRank, offset: u32) -> String {
        let name = match self.shared_variable(offset.into()) {
            Some(v) if v.offset == offset => format!("`{}`", readable(&v.name)),
            Some(v) => format!("`{}+{}`", readable(&v.name), offset - v.offset),
            None => format!("at shared offset {offset:#x}"),
        };
        if self.ctas.len() > 1 { format!("{name} of CTA rank {cta}") } else { name }
    }

    /// `CTA (0,0,0) warps 0 to 3, 5; CTA (1,0,0) warp 0`.
    pub(crate) fn warp_names(&self, warps: &[WarpId]) -> String {
        let of_cta = |cta: CtaRank| {
            let indices = warps.iter().map(|w| &self.warps[*w]).filter(|warp| warp.cta == cta);
            let indices: Vec<u32> = indices.map(|warp| warp.index).collect();
            let [x, y, z] = self.ctas[cta].id;
            let s = if indices.len() == 1 { "" } else { "s" };
            (!indices.is_empty()).then(|| format!("CTA ({x},{y},{z}) warp{s} {}", ranges(&indices)))
        };
        let mut names: Vec<String> = self.ctas.ranks().filter_map(of_cta).collect();
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        if more > 0 {
            names.push(format!("{more} more CTAs"));
        }
        names.join("; ")
    }
}

/// `0 to 3, 5`.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn neighbours_are_ranges() {
        assert_eq!(super::ranges(&[0, 1, 2, 3, 5, 7, 8]), "0 to 3, 5, 7, 8");
    }
}
