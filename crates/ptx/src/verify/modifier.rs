//! Modifiers that must be there, and shapes that must exist (rule 16).

use super::Report;
use super::matrix::{element_bits, element_types, is_memory_type, shape, tcgen05_registers};
use super::operation::Operation;
use super::types::{Class, Want};

const ROUNDINGS: &[&str] = &["rn", "rz", "rm", "rp", "rna", "rs"];
const INTEGER_ROUNDINGS: &[&str] = &["rni", "rzi", "rmi", "rpi"];

pub(super) fn check(operation: &Operation<'_>, report: &mut Report<'_>) {
    let needs = |modifiers: &[&str]| (!operation.has_any(modifiers)).then(|| list(modifiers));
    let missing = match operation.opcode {
        "fma" => needs(ROUNDINGS),
        "ex2" | "lg2" | "sin" | "cos" | "rsqrt" | "tanh" => needs(&["approx"]),
        "rcp" | "sqrt" | "div" if is_float(operation) => {
            needs(&["approx", "full", "rn", "rz", "rm", "rp"])
        }
        "mul" | "mad" if is_integer(operation) => needs(&["lo", "hi", "wide"]),
        "mul24" | "mad24" => needs(&["lo", "hi"]),
        "shf" => needs(&["wrap", "clamp"]),
        "shfl" | "vote" | "match" | "redux" | "elect" => needs(&["sync"]),
        "wgmma" | "setmaxnreg" | "ldmatrix" | "stmatrix" | "mma" => {
            needs(&["sync"]).or_else(|| needs(&["aligned"]))
        }
        "tcgen05" if operation.has_any(&["alloc", "dealloc", "ld", "st"]) => {
            needs(&["sync"]).or_else(|| needs(&["aligned"]))
        }
        "cvt" => cvt(operation),
        "ld" if operation.has("nc") => needs(&["global"]),
        _ => None,
    };
    if let Some(missing) = missing {
        report(16, format!("needs {missing}"));
    }
    shapes(operation, report);
}

fn shapes(operation: &Operation<'_>, report: &mut Report<'_>) {
    match operation.opcode {
        "wgmma" if operation.has("mma_async") => wgmma_shape(operation, report),
        "tcgen05"
            if operation.has_any(&["ld", "st"])
                && tcgen05_registers(operation).is_some_and(|n| n > 128) =>
        {
            report(16, "moves more than 128 registers per thread".into());
        }
        "ld" | "st" => {
            if let Some(ty) = operation.ty()
                && !is_memory_type(ty)
            {
                report(16, format!(".{} is not a type in memory: use .b{}", ty.name, ty.bits));
            }
        }
        _ => {}
    }
}

fn wgmma_shape(operation: &Operation<'_>, report: &mut Report<'_>) {
    let Some((m, n, k)) = shape(operation) else {
        return report(16, "needs a shape such as .m64n128k16".into());
    };
    if m != 64 || n % 8 != 0 || !(8..=256).contains(&n) {
        report(16, format!("m{m}n{n} is no shape: M is 64, N a multiple of 8 up to 256"));
    }
    let [_, a, b] = element_types(operation)[..] else {
        return report(16, "needs the types of D, A and B".into());
    };
    let mixable = |t: &str| matches!(t, "e4m3" | "e5m2") || matches!(t, "s8" | "u8");
    if a != b && !(mixable(a) && mixable(b)) {
        report(16, format!("A and B are of one type, found .{a} and .{b}"));
    }
    // K is 256 bits of elements.
    let dense = element_bits(a).map(|bits| 256 / bits);
    let factor = if operation.has("sp") { 2 } else { 1 };
    if dense.is_some_and(|dense| dense * factor != k) {
        report(16, format!("k{k} does not go with .{a}"));
    }
}

/// Conversions that lose bits say how they round.
fn cvt(operation: &Operation<'_>) -> Option<String> {
    let types = &operation.types;
    let (&to, &from) = (types.first()?, types.get(1)?);
    let float = |want: Want| matches!(want.class, Class::Float(_) | Class::Packed);
    let (rounding, integer) = (operation.has_any(ROUNDINGS), operation.has_any(INTEGER_ROUNDINGS));
    match (float(to), float(from)) {
        (true, true) if to.bits < from.bits && !rounding => Some(list(ROUNDINGS)),
        (true, false) if from.class == Class::Integer && !rounding => Some(list(ROUNDINGS)),
        (false, true) if to.class == Class::Integer && !integer => Some(list(INTEGER_ROUNDINGS)),
        _ => None,
    }
}

fn is_float(operation: &Operation<'_>) -> bool {
    operation.ty().is_some_and(|ty| matches!(ty.class, Class::Float(_) | Class::Packed))
}

fn is_integer(operation: &Operation<'_>) -> bool {
    operation.ty().is_some_and(|ty| ty.class == Class::Integer)
}

fn list(modifiers: &[&str]) -> String {
    let dotted: Vec<String> = modifiers.iter().map(|m| format!(".{m}")).collect();
    match &dotted[..] {
        [only] => only.clone(),
        several => format!("one of {}", several.join(", ")),
    }
}
