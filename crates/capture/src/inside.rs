//! Calls that this library makes itself, and the border to C.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, calls of this thread are this library's or the driver's own, not the program's.
pub struct Inside;

impl Inside {
    /// Nothing if the call is not the program's. Without a folder to write to, no call is looked at.
    pub fn enter() -> Option<Inside> {
        crate::settings::settings()?;
        // A thread that is ending has no such variable any more.
        let before = INSIDE.try_with(|inside| inside.replace(true));
        matches!(before, Ok(false)).then_some(Inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

/// Runs something of ours: the program goes on whatever becomes of it.
pub fn quietly<T>(body: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(body));
    if result.is_err() {
        eprintln!("sixwarp: capturing failed: this is a bug of sixwarp");
    }
    result.ok()
}
