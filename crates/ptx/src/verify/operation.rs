//! One instruction as the checks see it.

use super::Report;
use super::types::Want;
use crate::ast::{Space, Type};
use crate::resolve::{Arg, Body, Reg, Resolved, Var, VariableUse};

/// An instruction with its names resolved and its modifiers as text.
pub(super) struct Operation<'a> {
    body: &'a Body<'a>,
    resolved: &'a Resolved<'a>,
    pub(super) opcode: &'static str,
    pub(super) modifiers: Vec<&'static str>,
    /// The types among the modifiers, in order.
    pub(super) types: Vec<Want>,
}

impl<'a> Operation<'a> {
    pub(super) fn new(body: &'a Body<'a>, resolved: &'a Resolved<'a>) -> Self {
        let instruction = resolved.instruction;
        let modifiers: Vec<_> = instruction.modifiers.iter().map(|m| m.as_str()).collect();
        let types = modifiers.iter().filter_map(|name| Want::named(name)).collect();
        Operation { body, resolved, opcode: instruction.opcode.as_str(), modifiers, types }
    }

    pub(super) fn args(&self) -> &'a [Arg] {
        &self.resolved.args
    }

    /// Whether a modifier is present, at any place.
    pub(super) fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// Whether any of the modifiers is present.
    pub(super) fn has_any(&self, modifiers: &[&str]) -> bool {
        modifiers.iter().any(|modifier| self.has(modifier))
    }

    /// The instruction's type: the last one named.
    pub(super) fn ty(&self) -> Option<Want> {
        self.types.last().copied()
    }

    /// The length that `.v2`, `.v4` or `.v8` gives.
    pub(super) fn vector(&self) -> Option<usize> {
        [("v2", 2), ("v4", 4), ("v8", 8)].iter().find(|(name, _)| self.has(name)).map(|(_, n)| *n)
    }

    /// The state space of the instruction's address; `None` is generic.
    pub(super) fn space(&self) -> Option<Space> {
        self.modifiers.iter().find_map(|modifier| space(modifier))
    }

    pub(super) fn register(&self, reg: Reg) -> Type {
        self.body.registers[reg.0 as usize].ty
    }

    pub(super) fn register_name(&self, reg: Reg) -> &'static str {
        self.body.registers[reg.0 as usize].name.as_str()
    }

    pub(super) fn variable(&self, var: Var) -> VariableUse<'a> {
        self.body.variables[var.0 as usize]
    }

    /// The instruction, cut short where it is long.
    pub(super) fn text(&self) -> String {
        const LONGEST: usize = 120;
        let text = self.resolved.instruction.to_string();
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.trim_end_matches(';').to_owned(),
        }
    }

    pub(super) fn check_guard(&self, report: &mut Report<'_>) {
        let Some((guard, _)) = self.resolved.guard else { return };
        let ty = self.register(guard);
        if ty != Type::Pred {
            report(17, format!("the guard {} is of type .{ty}", self.register_name(guard)));
        }
    }
}

/// The state space that a modifier names.
fn space(modifier: &str) -> Option<Space> {
    Some(match modifier {
        "global" => Space::Global,
        "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
        "const" => Space::Const,
        "local" => Space::Local,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}
