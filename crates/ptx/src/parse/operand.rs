//! Operands and addresses.

use super::lex::Token;
use super::{Parsed, Parser, number};
use crate::Symbol;
use crate::ast::*;

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Parsed<Operand> {
        match self.token {
            Token::Word(word) => self.named(word),
            Token::Number(_) | Token::Punct('-' | '+') => self.number(),
            Token::Punct('!') => {
                self.bump();
                Ok(Operand::Not(self.name("a predicate register")?))
            }
            Token::Punct('{') => {
                Ok(Operand::Vector(self.nested(|parser| parser.operands_until('}'))?))
            }
            Token::Punct('(') => {
                Ok(Operand::List(self.nested(|parser| parser.operands_until(')'))?))
            }
            Token::Punct('[') => self.nested(|parser| parser.address_operand()),
            Token::Text(text) => {
                self.bump();
                Ok(Operand::Text(text.to_owned()))
            }
            _ => self.fail("an operand"),
        }
    }

    /// `name`, `name+offset`, `_`, or the pair `a|b`.
    fn named(&mut self, word: &str) -> Parsed<Operand> {
        self.bump();
        let first = match word {
            "_" => Operand::Sink,
            _ => Operand::Name(Symbol::new(word)),
        };
        if self.accept('|') {
            let second = match self.name("a register or `_`")? {
                name if name == "_" => Operand::Sink,
                name => Operand::Name(name),
            };
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        match (first, self.token) {
            (Operand::Name(name), Token::Punct('+' | '-')) => {
                Ok(Operand::NameOffset(name, self.offset()?))
            }
            (first, _) => Ok(first),
        }
    }

    fn number(&mut self) -> Parsed<Operand> {
        let negative = self.sign();
        let Token::Number(text) = self.token else { return self.fail("a number") };
        match number::operand(text, negative) {
            Ok(operand) => {
                self.bump();
                Ok(operand)
            }
            Err(expected) => self.fail(expected),
        }
    }

    /// Any run of `+` and `-`; true if it negates.
    fn sign(&mut self) -> bool {
        let mut negative = false;
        while let Token::Punct(sign @ ('+' | '-')) = self.token {
            negative ^= sign == '-';
            self.bump();
        }
        negative
    }

    /// The comma-separated operands up to `close`, the current token being the opening bracket.
    fn operands_until(&mut self, close: char) -> Parsed<Vec<Operand>> {
        self.bump();
        let mut operands = Vec::new();
        if self.accept(close) {
            return Ok(operands);
        }
        operands.push(self.operand()?);
        while self.accept(',') {
            operands.push(self.operand()?);
        }
        match self.accept(close) {
            true => Ok(operands),
            false => self.fail(&format!("`,` or `{close}`")),
        }
    }

    /// `[base+offset]` or `[base+offset, group, …]`.
    fn address_operand(&mut self) -> Parsed<Operand> {
        self.bump();
        let base = match self.token {
            Token::Number(_) => AddressBase::Absolute(self.u64("an address")?),
            _ => AddressBase::Name(self.name("a register, a variable or an address")?),
        };
        let address = Address { base, offset: self.offset()? };
        let mut groups = Vec::new();
        while self.accept(',') {
            groups.push(self.operand()?);
        }
        match self.accept(']') {
            true if groups.is_empty() => Ok(Operand::Address(address)),
            true => Ok(Operand::TensorAddress(address, groups)),
            false => self.fail("`+`, `,` or `]`"),
        }
    }

    /// The sum of any number of signed integers; 0 if there is none.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        let start = self.start;
        let mut sum: i128 = 0;
        while let Token::Punct('+' | '-') = self.token {
            let negative = self.sign();
            let magnitude = i128::from(self.u64("a byte offset")?);
            sum = sum.saturating_add(if negative { -magnitude } else { magnitude });
        }
        i64::try_from(sum)
            .map_err(|_| self.error_at(start, "a byte offset of 64 bits", &sum.to_string()))
    }
}
