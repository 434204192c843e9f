//! Writing results to standard output.

use crate::Outcome;
use std::io::{ErrorKind, Write};

/// Writes `text` as it is.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a value as indented JSON.
pub fn print_json<T: serde::Serialize>(value: &T) -> Outcome {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// The most characters of a line of a message.
const MOST_CHARACTERS: usize = 2000;

/// A message that may quote what others wrote: lines that nobody reads to the end are cut.
pub fn readable(message: &str) -> String {
    let shown = |line: &str| match line.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}… ({} bytes more)", &line[..end], line.len() - end),
        None => line.to_string(),
    };
    message.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// Whether the reader of standard output went away (`sixwarp … | head`), which is no failure.
pub fn is_closed_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
