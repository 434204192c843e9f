//! Kernels and device functions, up to their bodies.

use super::lex::Token;
use super::{Parsed, Parser};
use crate::Symbol;
use crate::ast::*;

impl Parser<'_> {
    /// `.entry` or `.func`, the current token, to the end of the body or declaration.
    pub(super) fn function(&mut self, linkage: Option<Linkage>) -> Parsed<Function> {
        let entry = self.token == Token::Dot("entry");
        self.bump();
        let mut directives = Vec::new();
        if self.token == Token::Dot("attribute") {
            let strings = vec![self.attribute()?.as_str().to_owned()];
            let name = Symbol::new("attribute");
            directives.push(FunctionDirective { name, values: Vec::new(), strings });
        }
        let returns = self.parameters()?;
        let name = self.name("a function name")?;
        let params = self.parameters()?;
        while let Token::Dot(name) = self.token {
            if name == "attribute" {
                return self
                    .fail("`.attribute` before the function's name, another directive here");
            }
            directives.push(self.function_directive(name)?);
        }
        let body = match self.accept(';') {
            true => None,
            false if self.token == Token::Punct('{') && self.unread.is_some() => {
                self.skip_body(name)?;
                None
            }
            false if self.token == Token::Punct('{') => Some(self.nested(|parser| parser.block())?),
            false => return self.fail("a directive, `{` or `;`"),
        };
        Ok(Function { linkage, entry, returns, name, params, directives, body })
    }

    /// `(param, …)`, or nothing at all.
    fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        let mut params = Vec::new();
        if self.accept('(') && !self.accept(')') {
            params.push(self.parameter()?);
            while self.accept(',') {
                params.push(self.parameter()?);
            }
            self.expect(')')?;
        }
        Ok(params)
    }

    fn function_directive(&mut self, name: &str) -> Parsed<FunctionDirective> {
        if name == "pragma" {
            let strings = self.pragma()?;
            return Ok(FunctionDirective { name: Symbol::new(name), values: Vec::new(), strings });
        }
        self.bump();
        let mut values = Vec::new();
        if let Token::Number(_) = self.token {
            values.push(self.u64("an integer")?);
            while self.accept(',') {
                values.push(self.u64("an integer")?);
            }
        }
        Ok(FunctionDirective { name: Symbol::new(name), values, strings: Vec::new() })
    }
}
