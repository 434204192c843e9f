//! Any tree prints to text that parses to the same tree.

mod trees;

use proptest::prelude::*;
use sixwarp_ptx::parse;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_module_survives(module in trees::module()) {
        let text = module.to_string();
        let again = parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&again, &module, "{}", text);
        prop_assert_eq!(again.to_string(), text);
    }
}
