//! No text makes the PTX parser, resolver or verifier panic, and what parses prints to text that
//! parses to the same tree.

/// Panics where they do not keep that promise.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
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
}
