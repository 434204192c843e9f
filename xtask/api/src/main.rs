//! Prints the public items of a crate, one a line, from the JSON that rustdoc wrote of it.

use public_api::Builder;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("the path of rustdoc's JSON is needed")?;
    // Of what every type has by itself, nothing is said.
    let api = Builder::from_rustdoc_json(path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    print!("{api}");
    Ok(())
}
