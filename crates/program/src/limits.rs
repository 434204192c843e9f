/// What an architecture allows a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Architecture number: 90 for `sm_90a`.
    pub sm: u32,
    /// CTAs per grid dimension.
    pub grid: [u32; 3],
    /// Threads per CTA dimension.
    pub block: [u32; 3],
    /// Threads of a CTA.
    pub threads: u32,
    /// Shared memory of a CTA, static and dynamic, with the opt-in attribute.
    pub shared_bytes: u32,
    /// CTAs of a cluster on every device of the architecture; 1 where there are no clusters.
    pub cluster: u32,
    /// CTAs of a cluster where the kernel opts in and the device agrees.
    pub cluster_with_opt_in: u32,
    /// Bytes of kernel parameters.
    pub param_bytes: u64,
}

impl Limits {
    /// The limits of `target`, as `.target` names it (`sm_90a`); `None` for one not known here.
    pub fn of(target: &str) -> Option<Limits> {
        let name = target.strip_prefix("sm_")?;
        let number = name.strip_suffix(['a', 'f']).unwrap_or(name);
        let sm: u32 = number.parse().ok().filter(|_| !number.starts_with('+'))?;
        let shared_kib = match sm {
            50 | 52 | 53 | 60 | 61 | 62 => 48,
            70 | 72 => 96,
            75 => 64,
            80 | 87 => 163,
            86 | 88 | 89 | 120 | 121 => 99,
            90 | 100 | 101 | 103 | 110 => 227,
            _ => return None,
        };
        let clusters = sm >= 90;
        Some(Limits {
            sm,
            grid: [(1 << 31) - 1, 65535, 65535],
            block: [1024, 1024, 64],
            threads: 1024,
            shared_bytes: shared_kib << 10,
            cluster: if clusters { 8 } else { 1 },
            cluster_with_opt_in: if clusters { 16 } else { 1 },
            param_bytes: 32_764,
        })
    }
}
