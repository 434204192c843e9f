//! The parser: PTX text of any compiler to a [`Module`].
//!
//! A hand-written lexer and a recursive descent with one token of lookahead. It knows the shape of
//! PTX, not its opcodes: an instruction of a PTX version newer than this crate reads like any
//! other, and whether it is right is the verifier's question.

mod body;
mod error;
mod function;
mod kernel;
mod lex;
mod number;
mod operand;
mod variable;

pub use error::ParseError;
pub use kernel::parse_kernel;

use crate::Symbol;
use crate::ast::*;
use crate::excerpt::beginning;
use lex::{Lexer, Token};
use std::collections::HashMap;

/// How deep blocks, vectors and initialisers may nest. Compilers stay below ten; the limit keeps
/// hostile text from exhausting the stack.
const MAX_DEPTH: u32 = 128;

/// Reads a PTX module.
///
/// ```
/// let module = sixwarp_ptx::parse(".version 8.7 .target sm_90a .address_size 64 .entry f() { ret; }")?;
/// assert!(module.entry("f").is_some());
/// let error = sixwarp_ptx::parse(".version 8.7 .target sm_90a .address_size 64 .entry f() { ret }").unwrap_err();
/// assert_eq!(error.message(), "expected an operand, found `}`");
/// # Ok::<(), sixwarp_ptx::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Module, ParseError> {
    Parser::new(text).module()
}

type Parsed<T> = Result<T, ParseError>;

struct Parser<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    /// The current token, where it starts, and its line.
    token: Token<'a>,
    start: usize,
    line: u32,
    depth: u32,
    /// Where the bodies are that were left out, if bodies are.
    unread: Option<HashMap<Symbol, Lexer<'a>>>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Self {
        let mut parser = Parser {
            source,
            lexer: Lexer::new(source),
            token: Token::End,
            start: 0,
            line: 1,
            depth: 0,
            unread: None,
        };
        parser.bump();
        parser
    }

    fn module(&mut self) -> Parsed<Module> {
        self.directive("version")?;
        let version = self.version_number()?;
        self.directive("target")?;
        let target = self.names()?;
        let address_size = match self.accept_dot("address_size") {
            true => self.u32("an address size, 32 or 64")?,
            // The ISA's default is 32, but ptxas takes that of its host.
            false => 64,
        };
        let mut items = Vec::new();
        while self.token != Token::End {
            self.item(&mut items)?;
        }
        Ok(Module { version, target, address_size, items })
    }

    fn version_number(&mut self) -> Parsed<(u32, u32)> {
        let expected = "a version such as `8.7`";
        let Token::Number(text) = self.token else { return self.fail(expected) };
        let parts = text.split_once('.');
        let version = parts.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let Some(version) = version else { return self.fail(expected) };
        self.bump();
        Ok(version)
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let Token::Dot(name) = self.token else {
            return self.fail("a directive such as `.visible`, `.global` or `.file`");
        };
        match name {
            "file" => items.push(Item::File(self.file()?)),
            "section" => items.push(self.section()?),
            "pragma" => items.push(Item::Pragma(self.pragma()?)),
            "alias" => items.push(self.alias()?),
            _ => {
                let linkage = self.linkage();
                match self.token {
                    Token::Dot("entry" | "func") => {
                        items.push(Item::Function(self.function(linkage)?));
                    }
                    _ => items.extend(self.variables(linkage)?.into_iter().map(Item::Variable)),
                }
            }
        }
        Ok(())
    }

    fn file(&mut self) -> Parsed<File> {
        self.bump();
        let index = self.u32("a file number")?;
        let path = self.text("a path in quotes")?;
        let stamp = match self.accept(',') {
            true => {
                let time = self.u64("a timestamp")?;
                self.expect(',')?;
                Some((time, self.u64("a file size")?))
            }
            false => None,
        };
        Ok(File { index, path, stamp })
    }

    fn section(&mut self) -> Parsed<Item> {
        self.bump();
        let name = match self.token {
            Token::Dot(name) => Symbol::new(&format!(".{name}")),
            Token::Word(name) => Symbol::new(name),
            _ => return self.fail("a section name"),
        };
        self.bump();
        if self.token != Token::Punct('{') {
            return self.fail("`{`");
        }
        // The brace is the current token, so the lexer stands right behind it.
        let lines = match self.lexer.section_lines() {
            Ok(lines) => lines,
            Err(found) => return Err(self.error_at(self.start, "the section's `}`", found)),
        };
        self.bump();
        Ok(Item::Section { name, lines })
    }

    /// `.pragma "…", …;`
    fn pragma(&mut self) -> Parsed<Vec<String>> {
        self.bump();
        let mut strings = vec![self.text("a pragma in quotes")?];
        while self.accept(',') {
            strings.push(self.text("a pragma in quotes")?);
        }
        self.expect(';')?;
        Ok(strings)
    }

    fn alias(&mut self) -> Parsed<Item> {
        self.bump();
        let alias = self.name("a function name")?;
        self.expect(',')?;
        let aliasee = self.name("a function name")?;
        self.expect(';')?;
        Ok(Item::Alias(alias, aliasee))
    }

    fn linkage(&mut self) -> Option<Linkage> {
        let linkage = match self.token {
            Token::Dot("visible") => Linkage::Visible,
            Token::Dot("extern") => Linkage::Extern,
            Token::Dot("weak") => Linkage::Weak,
            Token::Dot("common") => Linkage::Common,
            _ => return None,
        };
        self.bump();
        Some(linkage)
    }

    fn names(&mut self) -> Parsed<Vec<Symbol>> {
        let mut names = vec![self.name("a name")?];
        while self.accept(',') {
            names.push(self.name("a name")?);
        }
        Ok(names)
    }
}

/// Single tokens.
impl<'a> Parser<'a> {
    fn bump(&mut self) {
        (self.token, self.start) = self.lexer.next();
        self.line = self.lexer.line();
    }

    fn accept(&mut self, punct: char) -> bool {
        let found = self.token == Token::Punct(punct);
        if found {
            self.bump();
        }
        found
    }

    fn accept_dot(&mut self, name: &str) -> bool {
        let found = self.token == Token::Dot(name);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, punct: char) -> Parsed<()> {
        match self.accept(punct) {
            true => Ok(()),
            false => self.fail(&format!("`{punct}`")),
        }
    }

    fn directive(&mut self, name: &str) -> Parsed<()> {
        match self.accept_dot(name) {
            true => Ok(()),
            false => self.fail(&format!("`.{name}`")),
        }
    }

    fn name(&mut self, expected: &str) -> Parsed<Symbol> {
        let Token::Word(word) = self.token else { return self.fail(expected) };
        self.bump();
        Ok(Symbol::new(word))
    }

    fn text(&mut self, expected: &str) -> Parsed<String> {
        let Token::Text(text) = self.token else { return self.fail(expected) };
        self.bump();
        Ok(text.to_owned())
    }

    fn u64(&mut self, expected: &str) -> Parsed<u64> {
        let Token::Number(text) = self.token else { return self.fail(expected) };
        let Ok((value, _)) = number::integer(text) else { return self.fail(expected) };
        self.bump();
        Ok(value)
    }

    fn u32(&mut self, expected: &str) -> Parsed<u32> {
        let start = self.start;
        let value = self.u64(expected)?;
        u32::try_from(value).map_err(|_| {
            self.error_at(start, &format!("{expected} below 2^32"), &value.to_string())
        })
    }

    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        Err(self.error_at(self.start, expected, &describe(self.token)))
    }

    fn error_at(&self, offset: usize, expected: &str, found: &str) -> ParseError {
        ParseError::new(self.source, offset, format!("expected {expected}, found {found}"))
    }

    /// Runs `inner` one level deeper, refusing text that nests beyond all reason.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(ParseError::new(self.source, self.start, message));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }
}

fn describe(token: Token<'_>) -> String {
    match token {
        Token::Word(text) | Token::Number(text) => format!("`{}`", beginning(text)),
        Token::Dot(text) => format!("`.{}`", beginning(text)),
        Token::Text(text) => format!("the string \"{}\"", beginning(text)),
        Token::Punct(punct) => format!("`{punct}`"),
        Token::Bad(what) => what.to_owned(),
        Token::End => "the end of the text".to_owned(),
    }
}
