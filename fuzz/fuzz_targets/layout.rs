//! No text makes a layout parser panic, and what parses prints to text that parses to the same.
//!
//! ```text
//! cargo +nightly fuzz run layout fuzz/corpus/layout fuzz/seeds/layout
//! ```
#![no_main]

use layout::{ComposedLayout, IntTuple, Layout, Swizzle};
use libfuzzer_sys::fuzz_target;
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn survives<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>().expect(&printed), value);
    }
}

fuzz_target!(|text: &str| {
    survives::<IntTuple>(text);
    survives::<Layout>(text);
    survives::<Swizzle>(text);
    survives::<ComposedLayout>(text);
});
