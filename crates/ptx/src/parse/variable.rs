//! Variables, parameters and their initial values.

use super::lex::Token;
use super::{Parsed, Parser, number};
use crate::Symbol;
use crate::ast::*;

/// What a declaration says before its name.
struct Head {
    space: Space,
    align: Option<u32>,
    attribute: Option<Symbol>,
    pointer: Option<PointerAttribute>,
    vector: Option<u8>,
    ty: Type,
}

impl Parser<'_> {
    /// `.space … name{, name};`, one entry per name.
    pub(super) fn variables(&mut self, linkage: Option<Linkage>) -> Parsed<Vec<Variable>> {
        let head = self.variable_head()?;
        let mut variables = vec![self.declarator(linkage, &head)?];
        while self.accept(',') {
            variables.push(self.declarator(linkage, &head)?);
        }
        self.expect(';')?;
        Ok(variables)
    }

    /// One parameter of a function.
    pub(super) fn parameter(&mut self) -> Parsed<Variable> {
        let head = self.variable_head()?;
        self.declarator(None, &head)
    }

    /// The state space the current token names.
    pub(super) fn space(&self) -> Option<Space> {
        let Token::Dot(name) = self.token else { return None };
        Some(match name {
            "reg" => Space::Reg,
            "global" => Space::Global,
            "shared" => Space::Shared,
            "const" => Space::Const,
            "local" => Space::Local,
            "param" => Space::Param,
            _ => return None,
        })
    }

    fn variable_head(&mut self) -> Parsed<Head> {
        let Some(space) = self.space() else {
            return self.fail("a state space such as `.global`, `.shared` or `.param`");
        };
        self.bump();
        let (mut align, mut attribute, mut vector, mut pointer) = (None, None, None, None);
        let mut ty = None;
        while let Token::Dot(name) = self.token {
            match name {
                "align" => {
                    self.bump();
                    align = Some(self.u32("an alignment in bytes")?);
                }
                "attribute" => attribute = Some(self.attribute()?),
                "ptr" => pointer = Some(self.pointer_attribute()?),
                _ => match (vector_length(name), Type::from_name(name)) {
                    (Some(n), _) => {
                        vector = Some(n);
                        self.bump();
                    }
                    (_, Some(t)) => {
                        ty = Some(t);
                        self.bump();
                    }
                    _ => return self.fail("a type such as `.b32`, `.align` or `.ptr`"),
                },
            }
        }
        let Some(ty) = ty else { return self.fail("a type such as `.b32`") };
        Ok(Head { space, align, attribute, pointer, vector, ty })
    }

    /// `.ptr{.space}{.align n}`.
    fn pointer_attribute(&mut self) -> Parsed<PointerAttribute> {
        self.bump();
        let space = self.space();
        if space.is_some() {
            self.bump();
        }
        let align = match self.accept_dot("align") {
            true => Some(self.u32("an alignment in bytes")?),
            false => None,
        };
        Ok(PointerAttribute { space, align })
    }

    /// `.attribute(…)`: the text between the parentheses, its blanks removed.
    pub(super) fn attribute(&mut self) -> Parsed<Symbol> {
        self.bump();
        self.expect('(')?;
        let mut text = String::new();
        let mut open = 1;
        loop {
            match self.token {
                Token::Punct('(') => open += 1,
                Token::Punct(')') if open == 1 => break,
                Token::Punct(')') => open -= 1,
                Token::Punct(',') | Token::Dot(_) | Token::Number(_) | Token::Word(_) => {}
                _ => return self.fail("an attribute such as `.managed`"),
            }
            text.push_str(&self.source[self.start..self.lexer.offset()]);
            self.bump();
        }
        self.bump();
        Ok(Symbol::new(&text))
    }

    fn declarator(&mut self, linkage: Option<Linkage>, head: &Head) -> Parsed<Variable> {
        let name = self.name("a variable name")?;
        let mut extents = Vec::new();
        while self.accept('[') {
            let open = self.token == Token::Punct(']');
            extents.push(if open { None } else { Some(self.u64("an array extent")?) });
            self.expect(']')?;
        }
        let init = match self.accept('=') {
            true => Some(self.initializer()?),
            false => None,
        };
        let &Head { space, align, attribute, pointer, vector, ty } = head;
        Ok(Variable { linkage, space, align, attribute, pointer, vector, ty, name, extents, init })
    }

    fn initializer(&mut self) -> Parsed<Initializer> {
        match self.token {
            Token::Punct('{') => self.nested(|parser| parser.initializer_list()),
            Token::Word("generic") => {
                self.bump();
                self.expect('(')?;
                let name = self.name("a variable name")?;
                self.expect(')')?;
                Ok(Initializer::Generic(name, self.offset()?))
            }
            Token::Number(text) if number::integer(text).is_ok() => {
                let mask = self.u64("an integer")?;
                match self.accept('(') {
                    true => {
                        let inner = self.nested(|parser| parser.initializer())?;
                        self.expect(')')?;
                        Ok(Initializer::Masked(mask, Box::new(inner)))
                    }
                    false => {
                        let unsigned = text.ends_with(['U', 'u']);
                        let value = i128::from(mask);
                        Ok(Initializer::Value(Operand::Integer { value, unsigned }))
                    }
                }
            }
            _ => Ok(Initializer::Value(self.operand()?)),
        }
    }

    fn initializer_list(&mut self) -> Parsed<Initializer> {
        self.bump();
        let mut values = Vec::new();
        if !self.accept('}') {
            values.push(self.initializer()?);
            while self.accept(',') {
                values.push(self.initializer()?);
            }
            self.expect('}')?;
        }
        Ok(Initializer::List(values))
    }
}

/// The length that `v2`, `v4` or `v8` names.
pub(super) fn vector_length(name: &str) -> Option<u8> {
    match name {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    }
}
