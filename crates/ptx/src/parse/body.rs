//! Function bodies: blocks, declarations, labels, instructions.

use super::lex::Token;
use super::variable::vector_length;
use super::{Parsed, Parser};
use crate::Symbol;
use crate::ast::*;

impl<'a> Parser<'a> {
    /// `{ … }`, the current token being the brace.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.bump();
        let mut statements = Vec::new();
        while !self.accept('}') {
            self.statement(&mut statements)?;
        }
        Ok(statements)
    }

    fn statement(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        match self.token {
            Token::Punct('{') => out.push(Statement::Block(self.nested(|p| p.block())?)),
            // Inline assembly leaves empty statements behind.
            Token::Punct(';') => self.bump(),
            Token::Punct('@') => {
                let line = Line(self.line);
                let guard = Some(self.guard()?);
                let Token::Word(word) = self.token else { return self.fail("an instruction") };
                self.bump();
                out.push(Statement::Instruction(self.instruction(guard, word, line)?));
            }
            Token::Word(word) => {
                let line = Line(self.line);
                self.bump();
                out.push(match self.accept(':') {
                    true => Statement::Label(Symbol::new(word)),
                    false => Statement::Instruction(self.instruction(None, word, line)?),
                });
            }
            Token::Dot(name) => self.body_directive(name, out)?,
            _ => return self.fail("an instruction, a label, a directive or `}`"),
        }
        Ok(())
    }

    fn body_directive(&mut self, name: &str, out: &mut Vec<Statement>) -> Parsed<()> {
        match name {
            "reg" => out.push(Statement::Registers(self.registers()?)),
            "loc" => out.push(Statement::Loc(self.loc()?)),
            "pragma" => out.push(Statement::Pragma(self.pragma()?)),
            "branchtargets" | "calltargets" | "callprototype" => {
                out.push(Statement::Directive(self.verbatim()?));
            }
            _ => {
                let linkage = self.linkage();
                if self.space().is_none() {
                    return self.fail("a declaration such as `.reg` or `.shared`");
                }
                out.extend(self.variables(linkage)?.into_iter().map(Statement::Variable));
            }
        }
        Ok(())
    }

    /// The tokens up to `;`, with one blank between each two.
    fn verbatim(&mut self) -> Parsed<String> {
        let mut text = String::new();
        while !self.accept(';') {
            if matches!(self.token, Token::End | Token::Bad(_) | Token::Punct('{' | '}')) {
                return self.fail("`;`");
            }
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&self.source[self.start..self.lexer.offset()]);
            self.bump();
        }
        Ok(text)
    }

    fn registers(&mut self) -> Parsed<Registers> {
        self.bump();
        let mut vector = None;
        if let Token::Dot(name) = self.token
            && let Some(n) = vector_length(name)
        {
            vector = Some(n);
            self.bump();
        }
        let ty = match self.token {
            Token::Dot(name) => Type::from_name(name),
            _ => None,
        };
        let Some(ty) = ty else { return self.fail("a register type such as `.b32`") };
        self.bump();
        let mut names = vec![self.register_range()?];
        while self.accept(',') {
            names.push(self.register_range()?);
        }
        self.expect(';')?;
        Ok(Registers { vector, ty, names })
    }

    /// `name` or `name<count>`.
    fn register_range(&mut self) -> Parsed<(Symbol, Option<u32>)> {
        let name = self.name("a register name")?;
        if !self.accept('<') {
            return Ok((name, None));
        }
        let count = self.u32("a register count")?;
        self.expect('>')?;
        Ok((name, Some(count)))
    }

    fn loc(&mut self) -> Parsed<Loc> {
        self.bump();
        let (file, line, column) = self.position()?;
        let inlined_at = match self.accept(',') {
            true => Some(self.inlined_at()?),
            false => None,
        };
        Ok(Loc { file, line, column, inlined_at })
    }

    fn position(&mut self) -> Parsed<(u32, u32, u32)> {
        Ok((self.u32("a file number")?, self.u32("a line")?, self.u32("a column")?))
    }

    fn inlined_at(&mut self) -> Parsed<InlinedAt> {
        self.keyword("function_name")?;
        let function = self.name("the label of a function name")?;
        let offset = self.offset()?;
        self.expect(',')?;
        self.keyword("inlined_at")?;
        Ok(InlinedAt { function, offset, at: self.position()? })
    }

    fn keyword(&mut self, keyword: &str) -> Parsed<()> {
        if self.token != Token::Word(keyword) {
            return self.fail(&format!("`{keyword}`"));
        }
        self.bump();
        Ok(())
    }

    /// `@name` or `@!name`.
    fn guard(&mut self) -> Parsed<Guard> {
        self.bump();
        let negated = self.accept('!');
        Ok(Guard { register: self.name("a predicate register")?, negated })
    }

    /// The rest of an instruction behind its first word.
    fn instruction(
        &mut self,
        guard: Option<Guard>,
        word: &'a str,
        line: Line,
    ) -> Parsed<Instruction> {
        let mut parts = word.split('.');
        let opcode = Symbol::new(parts.next().unwrap_or_default());
        let mut modifiers: Vec<Symbol> = parts.map(Symbol::new).collect();
        while let Token::Dot(part) = self.token {
            modifiers.push(Symbol::new(part));
            self.bump();
        }
        let mut operands = Vec::new();
        if !self.accept(';') {
            operands.push(self.operand()?);
            while self.accept(',') {
                operands.push(self.operand()?);
            }
            if !self.accept(';') {
                return self.fail("`,` or `;`");
            }
        }
        Ok(Instruction { guard, opcode, modifiers, operands, line })
    }
}
