//! How far a long check has come, for a person at a terminal.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Checks that are shorter show nothing.
const PATIENCE: Duration = Duration::from_millis(700);
/// Time between two drawings.
const PAUSE: Duration = Duration::from_millis(100);
const WIDTH: usize = 24;

/// A line on standard error that is drawn over and over, if that is a terminal.
pub struct Progress {
    title: String,
    total: usize,
    /// When it began, and when it was last drawn.
    state: Option<Mutex<(Instant, Option<Instant>)>>,
}

impl Progress {
    /// Nothing of `total` has ended yet.
    pub fn new(title: &str, total: usize) -> Progress {
        let shown = total > 1 && std::io::stderr().is_terminal();
        let state = shown.then(|| Mutex::new((Instant::now(), None)));
        Progress { title: title.to_owned(), total, state }
    }

    /// So many have ended.
    pub fn ended(&self, count: usize) {
        let Some(state) = &self.state else { return };
        // A drawing that is left out does no harm, and neither does one by a thread that panicked.
        let Ok(mut state) = state.lock() else { return };
        let due = match state.1 {
            Some(last) => last.elapsed() > PAUSE,
            None => state.0.elapsed() > PATIENCE,
        };
        if due {
            state.1 = Some(Instant::now());
            let mut err = std::io::stderr().lock();
            let _unimportant = write!(err, "\r{}\x1b[K", bar(count, self.total, &self.title));
            let _unimportant = err.flush();
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        let drawn = |state: &Mutex<(Instant, Option<Instant>)>| {
            state.lock().is_ok_and(|state| state.1.is_some())
        };
        if self.state.as_ref().is_some_and(drawn) {
            let mut err = std::io::stderr().lock();
            let _unimportant = write!(err, "\r\x1b[K");
            let _unimportant = err.flush();
        }
    }
}

/// `[######      ] 12/24 kernel.ptx`.
fn bar(count: usize, total: usize, title: &str) -> String {
    let filled = WIDTH * count.min(total) / total.max(1);
    let title: String = title.chars().take(60).collect();
    format!("[{}{}] {count}/{total} {title}", "#".repeat(filled), " ".repeat(WIDTH - filled))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bar_fills() {
        assert_eq!(super::bar(0, 4, "k"), format!("[{}] 0/4 k", " ".repeat(24)));
        assert_eq!(super::bar(4, 4, "k"), format!("[{}] 4/4 k", "#".repeat(24)));
    }
}
