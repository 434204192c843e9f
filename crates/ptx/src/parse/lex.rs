//! Tokens of PTX text.

/// One token. Text is borrowed from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name with its dotted tail: `%tid.x`, `$L__BB0_1`, `ld.global.v4.b32`, `_`.
    Word(&'a str),
    /// `.name`, without the dot; `::` belongs to it.
    Dot(&'a str),
    /// A literal that starts with a digit, unread.
    Number(&'a str),
    /// A string, without its quotes and with its escapes as written.
    Text(&'a str),
    /// A punctuation character.
    Punct(char),
    /// Something that is no token, and why.
    Bad(&'static str),
    /// The end of the text.
    End,
}

/// Cuts source text into tokens.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Lexer { source, at: 0, line: 1 }
    }

    /// A lexer that starts at a byte of the text, which is on this line.
    pub(super) fn at(source: &'a str, at: usize, line: u32) -> Self {
        Lexer { source, at, line }
    }

    /// The line the lexer stands on, counted from 1.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Byte offset behind the last token.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// The next token and the byte offset at which it starts.
    pub(super) fn next(&mut self) -> (Token<'a>, usize) {
        if let Err(bad) = self.skip_blank() {
            return (Token::Bad(bad), self.at);
        }
        let start = self.at;
        (self.token(start), start)
    }

    fn token(&mut self, start: usize) -> Token<'a> {
        let Some(first) = self.peek(0) else { return Token::End };
        match first {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' | b'%' => self.word(start),
            b'0'..=b'9' => self.number(start),
            b'.' => self.dot(start),
            b'"' => self.text(start),
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b',' | b';' | b':' | b'|' | b'+' | b'-'
            | b'!' | b'@' | b'<' | b'>' | b'=' => {
                self.at += 1;
                Token::Punct(first as char)
            }
            _ => Token::Bad("a character that PTX does not use"),
        }
    }

    /// The raw text up to the `}` that closes a debug section, one entry per line, without
    /// comments and blank lines. The lexer ends behind the brace.
    pub(super) fn section_lines(&mut self) -> Result<Vec<String>, &'static str> {
        let mut lines = vec![String::new()];
        loop {
            match self.peek(0).ok_or("the end of the text")? {
                b'}' => {
                    self.at += 1;
                    let trimmed = lines.iter().map(|line| line.trim().to_owned());
                    return Ok(trimmed.filter(|line| !line.is_empty()).collect());
                }
                b'/' if matches!(self.peek(1), Some(b'/' | b'*')) => self.skip_comment()?,
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                    lines.push(String::new());
                }
                _ => {
                    let rest = &self.source[self.at..];
                    let first = rest.chars().next().map_or(1, char::len_utf8);
                    let stop = rest[first..].find(['\n', '/', '}']);
                    let end = stop.map_or(rest.len(), |i| first + i);
                    let line = lines.last_mut().expect("starts with one line");
                    line.push_str(&rest[..end]);
                    self.at += end;
                }
            }
        }
    }

    /// Goes behind the `}` that closes the block whose `{` was read.
    pub(super) fn skip_block(&mut self) -> Result<(), &'static str> {
        let mut open = 1;
        while open > 0 {
            match self.peek(0).ok_or("the end of the text")? {
                b'{' => open += 1,
                b'}' => open -= 1,
                b'\n' => self.line += 1,
                b'/' if matches!(self.peek(1), Some(b'/' | b'*')) => {
                    self.skip_comment()?;
                    continue;
                }
                b'"' => {
                    if let Token::Bad(what) = self.text(self.at) {
                        return Err(what);
                    }
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) -> Result<(), &'static str> {
        loop {
            match self.peek(0) {
                Some(b'\n') => {
                    self.line += 1;
                    self.at += 1;
                }
                Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                Some(b'/') if matches!(self.peek(1), Some(b'/' | b'*')) => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), &'static str> {
        let rest = &self.source[self.at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            rest[2..].find("*/").ok_or("a comment without its `*/`")? + 4
        };
        self.line += rest.as_bytes()[..length].iter().filter(|b| **b == b'\n').count() as u32;
        self.at += length;
        Ok(())
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&accept) {
            self.at += 1;
        }
    }

    fn word(&mut self, start: usize) -> Token<'a> {
        self.at += 1;
        self.skip_while(is_name);
        while self.peek(0) == Some(b'.') && self.peek(1).is_some_and(is_name) {
            self.dotted_part();
        }
        match &self.source[start..self.at] {
            "%" => Token::Bad("a `%` without a name"),
            word => Token::Word(word),
        }
    }

    fn dot(&mut self, start: usize) -> Token<'a> {
        if !self.peek(1).is_some_and(is_name) {
            return Token::Bad("a `.` without a name");
        }
        self.dotted_part();
        Token::Dot(&self.source[start + 1..self.at])
    }

    /// `.name` and any number of `::name` behind it.
    fn dotted_part(&mut self) {
        self.at += 1;
        self.skip_while(is_name);
        while self.peek(0) == Some(b':')
            && self.peek(1) == Some(b':')
            && self.peek(2).is_some_and(is_name)
        {
            self.at += 2;
            self.skip_while(is_name);
        }
    }

    fn number(&mut self, start: usize) -> Token<'a> {
        let radix_prefix = self.peek(0) == Some(b'0')
            && self.peek(1).is_some_and(|c| matches!(c | 0x20, b'x' | b'b' | b'f' | b'd'));
        self.skip_while(is_name);
        if !radix_prefix {
            if self.peek(0) == Some(b'.') {
                self.at += 1;
                self.skip_while(is_name);
            }
            let exponent = matches!(self.source.as_bytes()[self.at - 1], b'e' | b'E');
            if exponent && matches!(self.peek(0), Some(b'+' | b'-')) {
                self.at += 1;
                self.skip_while(is_name);
            }
        }
        Token::Number(&self.source[start..self.at])
    }

    fn text(&mut self, start: usize) -> Token<'a> {
        let mut end = start + 1;
        loop {
            match self.source.as_bytes().get(end) {
                None | Some(b'\n') => return Token::Bad("a string without its closing quote"),
                Some(b'"') => break,
                Some(b'\\') if self.source.as_bytes().get(end + 1) != Some(&b'\n') => end += 2,
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        Token::Text(&self.source[start + 1..end])
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}
