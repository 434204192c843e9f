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
        check_directive(directive, function.entry, found);
        if is_cluster(directive)
            && let Some(text) = target.and_then(lacks_clusters)
        {
            found.add(10, directive, text);
        }
    }
    let has = |name: &str| function.directives.iter().any(|d| d.name == name);
    for (one, other) in [("reqntid", "maxntid"), ("reqnctapercluster", "maxclusterrank")] {
        if has(one) && has(other) {
            let message = format!("stands beside .{other}; a kernel has one of them");
            found.add(6, format!(".{one}"), message);
        }
    }
    if has("blocksareclusters") && !(has("reqntid") && has("reqnctapercluster")) {
        let message = "needs .reqntid and .reqnctapercluster beside it".into();
        found.add(6, ".blocksareclusters", message);
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

/// How many numbers a directive takes, and the most that their product may be.
struct Form {
    counts: std::ops::RangeInclusive<usize>,
    most: u64,
}

/// The form of a directive that a kernel, or a function, can have.
fn form(name: &str, entry: bool) -> Option<Form> {
    let numbers = |counts, most| Some(Form { counts, most });
    let any = u64::from(u32::MAX);
    match (name, entry) {
        ("maxntid" | "reqntid", true) => numbers(1..=3, MOST_THREADS),
        ("reqnctapercluster", true) => numbers(1..=3, MOST_CTAS),
        ("maxclusterrank", true) => numbers(1..=1, MOST_CTAS),
        ("maxnreg" | "minnctapersm", true) => numbers(1..=1, any),
        ("abi_preserve" | "abi_preserve_control", false) => numbers(1..=1, any),
        ("explicitcluster" | "blocksareclusters" | "pragma", true) => numbers(0..=0, any),
        ("noreturn" | "attribute", false) => numbers(0..=0, any),
        _ => None,
    }
}

fn check_directive(directive: &FunctionDirective, entry: bool, found: &mut Findings) {
    let Some(Form { counts, most }) = form(directive.name.as_str(), entry) else {
        let owner = if entry { "kernels" } else { "functions" };
        found.add(6, directive, format!("{owner} have no such directive"));
        return;
    };
    let values = &directive.values;
    let product = values.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
    if !counts.contains(&values.len()) || product == Some(0) {
        let count = match (counts.start(), counts.end()) {
            (0, _) => "no number",
            (_, 1) => "one positive number",
            _ => "one to three positive numbers",
        };
        found.add(6, directive, format!("takes {count}"));
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
pub(super) fn total_bytes<'m>(variables: impl Iterator<Item = &'m Variable>) -> u64 {
    variables.fold(0, |end: u64, variable| {
        let align = u64::from(alignment(variable).max(1));
        let element = u64::from(variable.ty.bits().div_ceil(8));
        let count = variable.extents.iter().fold(1, |n: u64, e| n.saturating_mul(e.unwrap_or(0)));
        let bytes = element.saturating_mul(u64::from(variable.vector.unwrap_or(1)));
        let start = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        start.saturating_add(bytes.saturating_mul(count))
    })
}
