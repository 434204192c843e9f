//! What is wrong with a PTX text, and where.

use crate::excerpt;
use std::error::Error;
use std::fmt;

/// PTX text that could not be read.
///
/// Displays as the place, what was expected, what stands there, and the source line (of a long one,
/// what is near) with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    line: u32,
    column: u32,
    message: String,
    /// What stands near the place on its line.
    near: String,
    /// Characters of it before the place.
    before: usize,
}

impl ParseError {
    /// An error at byte `offset` of `source`.
    pub(super) fn new(source: &str, offset: usize, message: String) -> Self {
        let offset = floor_char_boundary(source, offset);
        let start = source[..offset].rfind('\n').map_or(0, |i| i + 1);
        let end = source[offset..].find('\n').map_or(source.len(), |i| offset + i);
        let line = source[..offset].bytes().filter(|b| *b == b'\n').count() + 1;
        let (near, before) = excerpt::near(&source[start..end], offset - start);
        ParseError {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(source[start..offset].chars().count() + 1).unwrap_or(u32::MAX),
            message,
            near,
            before,
        }
    }

    /// Line, counted from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Column in characters, counted from 1.
    pub fn column(&self) -> u32 {
        self.column
    }

    /// What was expected and what was found.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay tabs so that the caret stands under its character.
        let before = self.near.chars().take(self.before);
        let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        writeln!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", self.near)?;
        write!(f, "{margin} | {indent}^")
    }
}

impl Error for ParseError {}

fn floor_char_boundary(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
