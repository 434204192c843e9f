//! Reading no more of a module than one kernel needs.

use super::lex::Lexer;
use super::{Parsed, Parser};
use crate::Symbol;
use crate::ast::*;
use std::collections::HashMap;

/// Reads a PTX module for the sake of one kernel, or of all where none is named.
///
/// Bodies of functions that it does not refer to, directly or not, are left out unread: those functions are as
/// if declared only. Libraries hold hundreds of kernels in one module, and reading one takes a hundredth of
/// the time.
///
/// ```
/// let text = ".version 8.7 .target sm_90a .address_size 64
///     .func f() { ret; } .entry a() { call f; } .entry b() { and whatever; }";
/// let module = sixwarp_ptx::parse_kernel(text, Some("a"))?;
/// assert!(module.entry("a").is_some() && module.entry("b").is_none());
/// # Ok::<(), sixwarp_ptx::ParseError>(())
/// ```
pub fn parse_kernel(text: &str, kernel: Option<&str>) -> Parsed<Module> {
    let mut parser = Parser::new(text);
    parser.unread = Some(HashMap::new());
    let mut module = parser.module()?;
    let mut unread = parser.unread.take().unwrap_or_default();
    let mut wanted = roots(&module, kernel);
    while let Some(name) = wanted.pop() {
        let Some(lexer) = unread.remove(&name) else { continue };
        let body = Parser::from(lexer, text).block()?;
        names_in(&body, &mut wanted);
        let functions = module.items.iter_mut().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        });
        // Of several definitions, which the verifier reports, the last one was kept.
        if let Some(function) = { functions }.rfind(|function| function.name == name) {
            function.body = Some(body);
        }
    }
    Ok(module)
}

/// The functions to start from: kernels, and whatever variables and aliases refer to.
fn roots(module: &Module, kernel: Option<&str>) -> Vec<Symbol> {
    let mut names = Vec::new();
    for item in &module.items {
        match item {
            Item::Function(function) if function.entry => {
                names.extend(kernel.is_none_or(|k| function.name == *k).then_some(function.name));
            }
            Item::Variable(Variable { init: Some(init), .. }) => names_of(init, &mut names),
            Item::Alias(_, aliasee) => names.push(*aliasee),
            _ => {}
        }
    }
    names
}

/// The names that an initial value holds.
fn names_of(init: &Initializer, found: &mut Vec<Symbol>) {
    match init {
        Initializer::List(values) => values.iter().for_each(|value| names_of(value, found)),
        Initializer::Masked(_, inner) => names_of(inner, found),
        Initializer::Generic(name, _) => found.push(*name),
        Initializer::Value(operand) => operand_names(operand, found),
    }
}

/// The names that a body's instructions and directives have among their operands.
fn names_in(body: &[Statement], found: &mut Vec<Symbol>) {
    for statement in body {
        match statement {
            Statement::Block(inner) => names_in(inner, found),
            Statement::Instruction(Instruction { operands, .. }) => {
                operands.iter().for_each(|operand| operand_names(operand, found));
            }
            Statement::Directive(text) => {
                found.extend(
                    text.split([' ', ',']).filter(|word| !word.is_empty()).map(Symbol::new),
                );
            }
            _ => {}
        }
    }
}

fn operand_names(operand: &Operand, found: &mut Vec<Symbol>) {
    match operand {
        Operand::Name(name) | Operand::NameOffset(name, _) => found.push(*name),
        Operand::List(inner) | Operand::Vector(inner) => {
            inner.iter().for_each(|operand| operand_names(operand, found));
        }
        _ => {}
    }
}

impl<'a> Parser<'a> {
    /// A parser that goes on where a lexer stands.
    fn from(lexer: Lexer<'a>, source: &'a str) -> Self {
        let mut parser = Parser { lexer, ..Parser::new(source) };
        parser.bump();
        parser
    }

    /// Leaves the body out that the current token, a brace, opens.
    pub(super) fn skip_body(&mut self, name: Symbol) -> Parsed<()> {
        let lexer = Lexer::at(self.source, self.start, self.line);
        if let Err(found) = self.lexer.skip_block() {
            return Err(self.error_at(self.start, "`}` for this brace", found));
        }
        self.bump();
        if let Some(unread) = &mut self.unread {
            unread.insert(name, lexer);
        }
        Ok(())
    }
}
