//! The variants that are measured beside each other.

use program::L2Promotion;
use sixwarp_workshop::gemm::{Config, Share};

/// Names and configurations; the first one is the default.
pub fn all() -> Vec<(&'static str, Config)> {
    let usual = Config::default();
    vec![
        ("default", usual),
        ("all-sms", Config { even: false, ..usual }),
        ("group-4", Config { group: 4, ..usual }),
        ("group-16", Config { group: 16, ..usual }),
        ("group-32", Config { group: 32, ..usual }),
        ("share-a", Config { share: Share::Left, group: 16, ..usual }),
        ("share-nothing", Config { share: Share::Nothing, group: 16, ..usual }),
        ("stages-3", Config { stages: 3, store_stages: 4, ..usual }),
        ("fetch-256", Config { promotion: L2Promotion::B256, ..usual }),
    ]
}
