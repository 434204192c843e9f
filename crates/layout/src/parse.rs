//! Reading CuTe's notation back: tuples, layouts, swizzles, composed layouts, slices and tilers.
//!
//! The reader accepts what CuTe's C++ and Python printers write: spaces anywhere between tokens,
//! static integers with a leading underscore (`_8`), and `Sw<…>` or `S<…>` for swizzles.

use std::fmt;
use std::str::FromStr;

use crate::algebra::Tiler;
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result};
use crate::int_tuple::IntTuple;
use crate::layout::Layout;
use crate::slice::Slice;
use crate::swizzle::Swizzle;

/// Tuples nested deeper than this are refused, so that reading cannot exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// A text that is not in the layout notation, with the place where reading stopped.
///
/// `Display` shows the text and a caret under the offending character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    /// Offset in characters, not bytes: it is where the caret goes.
    position: usize,
    expected: String,
}

impl ParseError {
    /// The offset, in characters, of the offending character.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What the reader would have accepted there.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = match self.text.chars().nth(self.position) {
            Some(character) => format!("'{character}'"),
            None => "the end".to_owned(),
        };
        writeln!(
            f,
            "expected {}, found {found} at character {}",
            self.expected,
            self.position + 1
        )?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {:>width$}", '^', width = self.position + 1)
    }
}

impl std::error::Error for ParseError {}

/// A cursor over the characters of one text.
pub(crate) struct Reader<'a> {
    text: &'a str,
    chars: Vec<char>,
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Reader { text, chars: text.chars().collect(), position: 0 }
    }

    pub(crate) fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.position).is_some_and(|c| c.is_whitespace()) {
            self.position += 1;
        }
        self.chars.get(self.position).copied()
    }

    pub(crate) fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.position += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, wanted: char) -> std::result::Result<(), ParseError> {
        if self.accept(wanted) { Ok(()) } else { Err(self.error(&format!("'{wanted}'"))) }
    }

    fn error(&mut self, expected: &str) -> ParseError {
        self.peek();
        self.error_at(self.position, expected)
    }

    fn error_at(&self, position: usize, expected: &str) -> ParseError {
        ParseError { text: self.text.to_owned(), position, expected: expected.to_owned() }
    }

    pub(crate) fn end(&mut self) -> std::result::Result<(), ParseError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error("the end")) }
    }

    pub(crate) fn number(&mut self) -> std::result::Result<u64, ParseError> {
        self.peek();
        let start = self.position;
        // CuTe prints integers known at compile time as `_8`; here they are integers all the same.
        let digits_start = start + usize::from(self.chars.get(start) == Some(&'_'));
        let digits: String = self.chars[digits_start.min(self.chars.len())..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .collect();
        if digits.is_empty() {
            return Err(self.error_at(digits_start, "an integer"));
        }
        self.position = digits_start + digits.len();
        digits.parse().map_err(|_| self.error_at(start, "an integer below 2^64"))
    }

    fn signed(&mut self) -> std::result::Result<i64, ParseError> {
        let negative = self.accept('-');
        let start = self.position;
        let value = i64::try_from(self.number()?)
            .map_err(|_| self.error_at(start, "an integer below 2^63"))?;
        Ok(if negative { -value } else { value })
    }

    /// `open item, item, ... close`; a comma before the closing bracket is allowed, as in Python.
    pub(crate) fn list<T>(
        &mut self,
        (open, close): (char, char),
        mut item: impl FnMut(&mut Self) -> std::result::Result<T, ParseError>,
    ) -> std::result::Result<Vec<T>, ParseError> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                if !self.accept(',') {
                    return Err(self.error(&format!("',' or '{close}'")));
                }
                if self.accept(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(crate) fn int_tuple(&mut self, depth: usize) -> std::result::Result<IntTuple, ParseError> {
        if self.peek() != Some('(') {
            if !matches!(self.peek(), Some('_' | '0'..='9')) {
                return Err(self.error("an integer or '('"));
            }
            return Ok(IntTuple::Int(self.number()?));
        }
        if depth == MAX_DEPTH {
            return Err(self.error("at most 64 nested tuples, so an integer"));
        }
        Ok(IntTuple::Tuple(self.list(('(', ')'), |reader| reader.int_tuple(depth + 1))?))
    }

    /// `shape:stride`, or a shape alone for its compact column-major layout.
    fn layout(&mut self) -> Result<Layout> {
        let shape = self.int_tuple(0)?;
        if self.accept(':') {
            Layout::new(shape, self.int_tuple(0)?)
        } else {
            Layout::column_major(shape)
        }
    }

    fn swizzle(&mut self) -> Result<Swizzle> {
        self.expect('S')?;
        self.accept('w');
        let start = self.position;
        let fields = self.list(('<', '>'), Reader::signed)?;
        let &[bits, base, shift] = fields.as_slice() else {
            return Err(self.error_at(start, "three integers <bits,base,shift>").into());
        };
        let (Ok(bits), Ok(base), Ok(shift)) =
            (u32::try_from(bits), u32::try_from(base), i32::try_from(shift))
        else {
            return Err(self
                .error_at(start, "bits and base that are small and not negative")
                .into());
        };
        Swizzle::new(bits, base, shift)
    }

    /// `swizzle o offset o layout`, `swizzle o layout`, or a plain layout.
    fn composed(&mut self) -> Result<ComposedLayout> {
        if self.peek() != Some('S') {
            return ComposedLayout::new(Swizzle::NONE, 0, self.layout()?);
        }
        let swizzle = self.swizzle()?;
        self.expect('o')?;
        let start = self.position;
        if self.peek() != Some('(') {
            let offset = self.number()?;
            if self.accept('o') {
                return ComposedLayout::new(swizzle, offset, self.layout()?);
            }
            self.position = start;
        }
        ComposedLayout::new(swizzle, 0, self.layout()?)
    }

    fn slice(&mut self, depth: usize) -> std::result::Result<Slice, ParseError> {
        match self.peek() {
            Some('(') if depth < MAX_DEPTH => {
                Ok(Slice::Modes(self.list(('(', ')'), |reader| reader.slice(depth + 1))?))
            }
            Some('_') if !self.chars.get(self.position + 1).is_some_and(char::is_ascii_digit) => {
                self.position += 1;
                Ok(Slice::All)
            }
            Some('_' | '0'..='9') => Ok(Slice::At(self.number()?)),
            _ => Err(self.error("an integer, '_' or '('")),
        }
    }

    /// `<tiler,…>` by mode, `_` to leave a mode alone, or a layout.
    fn tiler(&mut self, depth: usize) -> Result<Tiler> {
        if depth == MAX_DEPTH {
            return Err(self.error("at most 64 nested tilers").into());
        }
        if self.peek() != Some('<') {
            let open = self.peek() == Some('_')
                && !self.chars.get(self.position + 1).is_some_and(char::is_ascii_digit);
            self.position += usize::from(open);
            return if open { Ok(Tiler::Keep) } else { Ok(Tiler::Layout(self.layout()?)) };
        }
        self.expect('<')?;
        let mut tilers = vec![self.tiler(depth + 1)?];
        while self.accept(',') {
            tilers.push(self.tiler(depth + 1)?);
        }
        if !self.accept('>') {
            return Err(self.error("',' or '>'").into());
        }
        Ok(Tiler::ByMode(tilers))
    }
}

macro_rules! from_str {
    ($type:ty, $read:expr) => {
        impl FromStr for $type {
            type Err = LayoutError;

            fn from_str(text: &str) -> Result<Self> {
                let mut reader = Reader::new(text);
                let value = $read(&mut reader)?;
                reader.end()?;
                Ok(value)
            }
        }
    };
}
from_str!(IntTuple, |reader: &mut Reader| reader.int_tuple(0));
from_str!(Layout, Reader::layout);
from_str!(Swizzle, Reader::swizzle);
from_str!(ComposedLayout, Reader::composed);
from_str!(Slice, |reader: &mut Reader| reader.slice(0));
from_str!(Tiler, |reader: &mut Reader| reader.tiler(0));

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: FromStr<Err = LayoutError> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn the_caret_points_at_the_character() {
        assert_eq!(
            message::<Layout>("(4,8:(1,4)"),
            "expected ',' or ')', found ':' at character 5\n  (4,8:(1,4)\n      ^"
        );
        assert_eq!(
            message::<Layout>("(4,x)"),
            "expected an integer or '(', found 'x' at character 4\n  (4,x)\n     ^"
        );
        assert_eq!(
            message::<Layout>("4:"),
            "expected an integer or '(', found the end at character 3\n  4:\n    ^"
        );
        assert_eq!(
            message::<Layout>("4:1 8"),
            "expected the end, found '8' at character 5\n  4:1 8\n      ^"
        );
        assert_eq!(
            message::<Layout>("99999999999999999999"),
            "expected an integer below 2^64, found '9' at character 1\n  99999999999999999999\n  ^"
        );
    }

    #[test]
    fn cute_spellings_are_read() {
        let composed: ComposedLayout =
            "Sw<3,4,3> o _0 o ((_128,_16),1):((64,_1),_0)".parse().unwrap();
        assert_eq!(composed.to_string(), "S<3,4,3> o 0 o ((128,16),1):((64,1),0)");
        assert_eq!(
            "S<3,4,3> o 8:1".parse::<ComposedLayout>().unwrap().to_string(),
            "S<3,4,3> o 0 o 8:1"
        );
        assert_eq!("(4, 2,)".parse::<Layout>().unwrap().to_string(), "(4,2):(1,4)");
        assert_eq!("((_,1),_2)".parse::<Slice>().unwrap().to_string(), "((_,1),2)");
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        // miri interprets some thousand times slower.
        let depth = if cfg!(miri) { 1000 } else { 100_000 };
        assert!(message::<IntTuple>(&"(".repeat(depth)).starts_with("expected at most 64 nested"));
        assert!(message::<Tiler>(&"<".repeat(depth)).starts_with("expected at most 64 nested"));
        assert!(message::<Slice>(&"(".repeat(depth)).starts_with("expected an integer"));
    }
}
