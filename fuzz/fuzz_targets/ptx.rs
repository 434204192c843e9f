//! No text makes the PTX parser, resolver or verifier panic, and what parses prints to text that
//! parses to the same tree.
//!
//! ```text
//! cargo +nightly fuzz run ptx fuzz/corpus/ptx crates/ptx/tests/snippets tests/ptx tests/fail
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(module) = ptx::parse(text) else { return };
    let printed = module.to_string();
    match ptx::parse(&printed) {
        Ok(again) => assert_eq!(again, module),
        Err(error) => panic!("{error}\n{printed}"),
    }
    for function in module.functions() {
        let _ = ptx::resolve::resolve(&module, function);
    }
    ptx::verify(&module);
});
