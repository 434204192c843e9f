//! Ending long computations early.
//!
//! Whether to stop is asked on the calling thread alone, now and then: in Python only the main thread
//! handles signals. The answer reaches the other threads through the call's [`Stop`].

use std::cell::Cell;
use std::fmt;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is asked: often enough for a person, and seldom enough for what asking costs.
const INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 100 });
/// Tiles between looks at the clock.
const TILES: u32 = 16;

/// A computation was stopped; what it was to write holds anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the computation was interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Runs `work`; [`attention`](crate::attention()) in it ends early once `ask` answers true, and asks no more.
///
/// # Errors
/// If it did.
pub fn interruptible<R>(
    ask: &dyn Fn() -> bool,
    work: impl FnOnce() -> R,
) -> Result<R, Interrupted> {
    let (asked, tiles, stop) = (Cell::new(Instant::now()), Cell::new(0), Cell::new(false));
    let watch = Watch { ask, asked, tiles, stop };
    let before = WATCH.replace((&raw const watch).cast());
    let restored = Restore(before);
    let result = work();
    drop(restored);
    match watch.stop.get() {
        true => Err(Interrupted),
        false => Ok(result),
    }
}

/// Whom a thread asks.
struct Watch<'a> {
    ask: &'a dyn Fn() -> bool,
    /// When it was asked last.
    asked: Cell<Instant>,
    /// Tiles since then.
    tiles: Cell<u32>,
    stop: Cell<bool>,
}

thread_local! {
    static WATCH: Cell<*const Watch<'static>> = const { Cell::new(null()) };
}

/// Puts back whom the thread asked before, also when the work panics.
struct Restore(*const Watch<'static>);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCH.set(self.0);
    }
}

impl Watch<'_> {
    /// Hands the thread's watch, if it has one, to `read`.
    fn with<R>(read: impl FnOnce(&Watch<'_>) -> R) -> Option<R> {
        // SAFETY: it is null, or points to a watch of a call of `interruptible` on this thread, which
        // is still there: `Restore` replaces the pointer before that function returns or unwinds.
        unsafe { WATCH.get().as_ref() }.map(read)
    }

    fn is_due(&self) -> bool {
        !self.stop.get() && self.asked.get().elapsed() >= INTERVAL
    }

    fn is_due_after_a_tile(&self) -> bool {
        self.tiles.set(self.tiles.get() + 1);
        if self.tiles.get() < TILES {
            return false;
        }
        self.tiles.set(0);
        self.is_due()
    }

    fn answer(&self) -> bool {
        if self.is_due() {
            self.stop.set((self.ask)());
            self.asked.set(Instant::now());
        }
        self.stop.get()
    }
}

/// Whether the threads of one call are to stop.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Whether the call ends early.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it is time to [ask](Self::ask), after another tile of keys.
    pub(crate) fn is_due(&self) -> bool {
        Watch::with(|watch| watch.is_due_after_a_tile()).unwrap_or(false)
    }

    /// Asks, if it is time, and says whether the call ends early.
    ///
    /// Who is asked may run anything on this thread, another call and other users of tile registers
    /// included.
    pub(crate) fn ask(&self) -> bool {
        if Watch::with(|watch| watch.answer()).unwrap_or(false) {
            self.0.store(true, Ordering::Relaxed);
        }
        self.is_set()
    }

    /// As [`Stop::ask`], after another tile of keys.
    #[inline(always)]
    pub(crate) fn is_set_after_a_tile(&self) -> bool {
        self.is_set() || (self.is_due() && self.ask())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_may_be_interrupted_asks() {
        let stop = Stop::default();
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        assert!(!stop.ask());
        let result = interruptible(&ask, || {
            std::thread::scope(|scope| scope.spawn(|| assert!(!stop.ask())).join().unwrap());
            [stop.ask(), stop.ask(), stop.is_set(), stop.ask(), stop.ask()]
        });
        // Once it is to stop, it is not asked again.
        assert_eq!((result, asked.get()), (Err(Interrupted), 3));
        assert!(stop.is_set());
        assert_eq!(interruptible(&|| true, || 5), Ok(5));
    }

    #[test]
    fn calls_within_calls_have_their_own_answers() {
        let outer = interruptible(&|| false, || {
            let inner = interruptible(&|| true, || Stop::default().ask());
            assert_eq!(inner, Err(Interrupted));
            let panic = std::panic::catch_unwind(|| {
                let _ = interruptible(&|| true, || panic!("in the work"));
            });
            assert!(panic.is_err());
            Stop::default().ask()
        });
        assert_eq!(outer, Ok(false));
        assert!(!Stop::default().ask());
    }

    #[test]
    fn the_clock_is_looked_at_once_in_so_many_tiles() {
        let stop = Stop::default();
        let due = interruptible(&|| false, || (1..=3 * TILES).filter(|_| stop.is_due()).count());
        assert_eq!(due, Ok(3));
    }
}
