//! No text makes a layout parser panic, and what parses prints to text that parses to the same.

use layout::{ComposedLayout, IntTuple, Layout, Swizzle};
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn survives<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>().expect(&printed), value);
    }
}

/// Panics where the parsers do not keep that promise.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    survives::<IntTuple>(text);
    survives::<Layout>(text);
    survives::<Swizzle>(text);
    survives::<ComposedLayout>(text);
}
