//! Kernels that measure the constants of a machine, as PTX: loops of one kind of instruction between two looks at the
//! clock.

macro_rules! texts {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../microbenchmarks/", $name, ".ptx")))),*]
    };
}

const TEXTS: [(&str, &str); 18] = texts![
    "alu" "convert" "copy" "copy_small" "copy_tensor" "empty" "fma" "mbarrier" "mufu" "shared" "softmax" "stream"
    "wgmma_rs_64" "wgmma_rs_128" "wgmma_rs_256" "wgmma_ss_64" "wgmma_ss_128" "wgmma_ss_256"
];

/// The PTX of the microbenchmark `name`, whose kernel has that name; `None` if there is none.
///
/// ```
/// let text = sixwarp_time::microbenchmark("mufu").expect("one of special functions");
/// assert!(text.contains(".entry mufu"));
/// assert_eq!(sixwarp_time::microbenchmark("nothing"), None);
/// ```
pub fn microbenchmark(name: &str) -> Option<&'static str> {
    TEXTS.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}
