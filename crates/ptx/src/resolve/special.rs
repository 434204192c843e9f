//! The special registers of PTX.

/// Special registers with a single value.
const SCALARS: &[&str] = &[
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%is_explicit_cluster",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_0",
    "%reserved_smem_offset_1",
    "%total_smem_size",
    "%aggr_smem_size",
    "%dynamic_smem_size",
    "%current_graph_exec",
    "WARP_SZ",
];

/// Special registers with `.x`, `.y`, `.z` and `.w`.
const VECTORS: &[&str] = &[
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
];

/// Whether `name` is a special register, such as `%tid.x` or `%laneid`, or the constant `WARP_SZ`.
pub fn is_special_register(name: &str) -> bool {
    if SCALARS.contains(&name) {
        return true;
    }
    match name.split_once('.') {
        Some((base, component)) => {
            VECTORS.contains(&base) && matches!(component, "x" | "y" | "z" | "w")
        }
        None => {
            VECTORS.contains(&name)
                || numbered(name, "%envreg", 32)
                || numbered(name, "%pm", 8)
                || name.strip_suffix("_64").is_some_and(|pm| numbered(pm, "%pm", 8))
        }
    }
}

fn numbered(name: &str, prefix: &str, count: u32) -> bool {
    let number = name.strip_prefix(prefix).and_then(|digits| digits.parse::<u32>().ok());
    number.is_some_and(|n| n < count)
}
