//! Launch directives, parameters and shared memory (rules 6, 7 and 10).

use super::Findings;
use super::address::alignment;
use super::feature::lacks_clusters;
use super::target::Target;
use crate::ast::{Function, FunctionDirective, Item, Module, Space, Statement, Variable};

/// Most threads of a CTA.
const MOST_THREADS: u64 = 1024;
/// Most CTAs of a cluster; more than 8 ask the driver's leave.
const MOST_CTAS: u64 = 16;

pub(super) fn check(
    module: &Module,
    function: &Function,
    target: Option<Target>,
    found: &mut Findings,
) {
    for directive in &function.directives {
        check_directive(directive, found);
        if is_cluster(directive)
            && let Some(text) = target.and_then(lacks_clusters)
        {
            found.add(10, directive, text);
        }
    }
    let has = |name: &str| function.directives.iter().any(|d| d.name == name);
    if has("reqntid") && has("maxntid") {
        found.add(6, ".reqntid", "stands beside .maxntid; a kernel has one of them".into());
    }
    if let Some(target) = target
        && function.entry
    {
        check_parameters(function, target, found);
        check_shared(module, function, target, found);
    }
}

fn is_cluster(directive: &FunctionDirective) -> bool {
    let cluster = ["reqnctapercluster", "maxclusterrank", "explicitcluster", "blocksareclusters"];
    cluster.contains(&directive.name.as_str())
}

fn check_directive(directive: &FunctionDirective, found: &mut Findings) {
    let most = match directive.name.as_str() {
        "maxntid" | "reqntid" => MOST_THREADS,
        "reqnctapercluster" | "maxclusterrank" => MOST_CTAS,
        _ => return,
    };
    let product = directive.values.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
    if !(1..=3).contains(&directive.values.len()) || product == Some(0) {
        found.add(6, directive, "takes one to three positive numbers".into());
    } else if product.is_none_or(|product| product > most) {
        found.add(6, directive, format!("the product may be {most} at most"));
    }
}

fn check_parameters(function: &Function, target: Target, found: &mut Findings) {
    let most = if target.sm >= 70 && target.version >= (8, 1) { 32764 } else { 4352 };
    let bytes = total_bytes(function.params.iter());
    if bytes > most {
        let message = format!("parameters of {bytes} bytes, {most} fit");
        found.add(7, function.name, message);
    }
}

/// Shared memory that the kernel declares, and the module's if the kernel is alone.
fn check_shared(module: &Module, function: &Function, target: Target, found: &mut Findings) {
    let most: u64 = if target.sm >= 90 && target.sm < 120 { 227 << 10 } else { 48 << 10 };
    let mut variables = Vec::new();
    collect_shared(function.body.as_deref().unwrap_or_default(), &mut variables);
    if module.functions().filter(|f| f.body.is_some()).count() == 1 {
        variables.extend(module.items.iter().filter_map(|item| match item {
            Item::Variable(variable) if variable.space == Space::Shared => Some(variable),
            _ => None,
        }));
    }
    let bytes = total_bytes(variables.into_iter());
    if bytes > most {
        let message = format!("static shared memory of {bytes} bytes, {most} fit");
        found.add(7, function.name, message);
    }
}

fn collect_shared<'m>(statements: &'m [Statement], into: &mut Vec<&'m Variable>) {
    for statement in statements {
        match statement {
            Statement::Variable(variable) if variable.space == Space::Shared => into.push(variable),
            Statement::Block(inner) => collect_shared(inner, into),
            _ => {}
        }
    }
}

/// Bytes of the variables laid out one behind the other; an open array counts as none.
fn total_bytes<'m>(variables: impl Iterator<Item = &'m Variable>) -> u64 {
    variables.fold(0, |end: u64, variable| {
        let align = u64::from(alignment(variable).max(1));
        let element = u64::from(variable.ty.bits().div_ceil(8));
        let count = variable.extents.iter().fold(1, |n: u64, e| n.saturating_mul(e.unwrap_or(0)));
        let bytes = element.saturating_mul(u64::from(variable.vector.unwrap_or(1)));
        let start = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        start.saturating_add(bytes.saturating_mul(count))
    })
}
