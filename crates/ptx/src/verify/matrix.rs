//! Forms that follow from an instruction's modifiers: matrix instructions, conversions, copies.

use super::operation::Operation;
use super::slot::{Kind, Memory, Place, Slot, Value, named, shared, tensor_memory, value, vector};
use super::types::{Class, Want};
use crate::ast::Space;
use crate::resolve::Arg;

/// The slots of an instruction whose form has to be computed; `None` for all others.
pub(super) fn slots(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    match operation.opcode {
        "mov" => mov(operation),
        "cvt" => cvt(operation),
        "wgmma" if operation.has("mma_async") => wgmma(operation),
        "mma" => mma(operation),
        "ldmatrix" => ldmatrix(operation),
        "stmatrix" => Some(vec![shared_or_generic(operation), vector("b32", matrices(operation)?)]),
        "tcgen05" if operation.has("mma") => tcgen05_mma(operation),
        "tcgen05" if operation.has("ld") && !operation.has("red") => {
            let registers = tcgen05_registers(operation)?;
            let result = Slot { result: true, ..vector("b32", registers) };
            Some(with_split_offset(operation, vec![result, tensor_memory()]))
        }
        "tcgen05" if operation.has("st") => {
            let registers = vector("b32", tcgen05_registers(operation)?);
            let mut slots = with_split_offset(operation, vec![tensor_memory()]);
            slots.push(registers);
            Some(slots)
        }
        "cp" if operation.has_any(&["commit_group", "wait_group"]) => None,
        "cp" if operation.has("bulk") => bulk_copy(operation),
        "cp" if operation.has_any(&["ca", "cg"]) => Some(async_copy(operation)),
        _ => None,
    }
}

fn mov(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let ty = operation.ty()?;
    let result = match operation.args().first() {
        Some(Arg::Vector(_)) => Kind::Movable(ty),
        _ => Kind::Value(Value::of(ty)),
    };
    Some(vec![Slot::result(result), Slot::new(Kind::Movable(ty))])
}

/// `cvt.to.from`; a packed target takes one source per lane.
fn cvt(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let types = &operation.types;
    let (&to, &from) = (types.first()?, types.get(1)?);
    if operation.has("pack") || types.len() > 2 {
        return None;
    }
    // Packed values live in registers of just their width, at both ends.
    let wide = from.class != Class::Packed;
    let wide = |want| Kind::Value(Value { want, wide, sink: false });
    let mut slots = vec![Slot::result(wide(to))];
    match (to.name.ends_with("x4"), to.name.ends_with("x2") && from.name == "f32") {
        (true, _) => slots.push(vector("f32", 4)),
        (_, true) => slots.extend([Slot::new(wide(from)), Slot::new(wide(from))]),
        _ => slots.push(Slot::new(wide(from))),
    }
    if operation.has("rs") || operation.has("scaled::n2::ue8m0") {
        slots.push(value("b32").optional());
    }
    Some(slots)
}

/// M, N and K of a modifier such as `m64n128k16`.
pub(super) fn shape(operation: &Operation<'_>) -> Option<(usize, usize, usize)> {
    operation.modifiers.iter().find_map(|modifier| {
        let (m, rest) = modifier.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
    })
}

/// Bits of a matrix element.
pub(super) fn element_bits(name: &str) -> Option<usize> {
    Some(match name {
        "tf32" | "f32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "e4m3" | "e5m2" | "s8" | "u8" => 8,
        "s4" | "u4" => 4,
        "b1" => 1,
        "f64" => 64,
        _ => return None,
    })
}

/// The modifiers behind the shape: element types of D, A and B (and C).
pub(super) fn element_types(operation: &Operation<'_>) -> Vec<&'static str> {
    operation.modifiers.iter().copied().filter(|m| element_bits(m).is_some()).collect()
}

fn wgmma(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let (_, n, _) = shape(operation)?;
    let [d, a, _] = element_types(operation)[..] else { return None };
    if operation.has("sp") {
        return None;
    }
    let accumulator = match d {
        "f16" => vector("b32", n / 4),
        _ => vector(d, n / 2),
    };
    let from_registers = matches!(operation.args().get(1), Some(Arg::Vector(_)));
    let a_operand = if from_registers { vector("b32", 4) } else { value("b64") };
    let mut slots = vec![
        Slot { result: true, ..accumulator },
        a_operand,
        value("b64"),
        Slot::new(Kind::Condition),
    ];
    let constants = match (a, from_registers) {
        // The signs of A and B, then whether each descriptor's matrix is transposed.
        ("f16" | "bf16", false) => 4,
        ("f16" | "bf16", true) => 3,
        ("s8" | "u8" | "b1", _) => 0,
        _ => 2,
    };
    slots.extend(vec![Slot::new(Kind::Constant); constants]);
    Some(slots)
}

/// `mma.m16n8kK` of one element type per operand.
fn mma(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let (16, 8, k) = shape(operation)? else { return None };
    let [d, a, b, c] = element_types(operation)[..] else { return None };
    if operation.has_any(&["sp", "sp::ordered_metadata", "block_scale"]) || d == "f64" {
        return None;
    }
    let accumulator = |name: &str| match name {
        "f16" => vector("b32", 2),
        _ => vector(name, 4),
    };
    // 32 lanes share the tile's 32-bit words.
    let fragment =
        |rows: usize, name: &str| Some(vector("b32", rows * k * element_bits(name)? / 1024));
    Some(vec![
        Slot { result: true, ..accumulator(d) },
        fragment(16, a)?,
        fragment(8, b)?,
        accumulator(c),
    ])
}

/// The number behind the `x` of `.x4`.
fn matrices(operation: &Operation<'_>) -> Option<usize> {
    operation.modifiers.iter().find_map(|m| m.strip_prefix('x')?.parse().ok())
}

fn ldmatrix(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let wide = if operation.has("m16n16") { 2 } else { 1 };
    let registers = vector("b32", matrices(operation)? * wide);
    Some(vec![Slot { result: true, ..registers }, shared_or_generic(operation)])
}

fn shared_or_generic(operation: &Operation<'_>) -> Slot {
    let space = operation.space().map_or(Memory::Generic, Memory::Space);
    Slot::new(Kind::Address(Place { space, align: 16 }))
}

/// Registers per thread of `tcgen05.ld` and `.st`: 32-bit words of the shape, times the repetition.
pub(super) fn tcgen05_registers(operation: &Operation<'_>) -> Option<usize> {
    let per_repetition = if operation.has("16x256b") {
        4
    } else if operation.has("16x128b") {
        2
    } else {
        1
    };
    Some(per_repetition * matrices(operation)?)
}

/// The second half of `16x32bx2` lies at a constant offset, given behind the address.
fn with_split_offset(operation: &Operation<'_>, mut slots: Vec<Slot>) -> Vec<Slot> {
    if operation.has("16x32bx2") {
        slots.push(Slot::new(Kind::Constant));
    }
    slots
}

fn tcgen05_mma(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let mut slots = vec![tensor_memory(), Slot::new(Kind::DescriptorOrTensorMemory), value("b64")];
    if operation.has("sp") {
        slots.push(tensor_memory());
    }
    slots.push(value("u32"));
    if operation.has("block_scale") {
        slots.extend([tensor_memory(), tensor_memory()]);
    }
    // Output lanes to leave alone: a bit each, for both CTAs of a pair.
    if matches!(operation.args().get(slots.len()), Some(Arg::Vector(_))) {
        slots.push(vector("b32", if operation.has("cta_group::2") { 8 } else { 4 }));
    }
    slots.push(Slot::new(Kind::Condition));
    slots.push(match operation.has("ws") {
        true => value("b64").optional(),
        false => Slot::new(Kind::Constant).optional(),
    });
    Some(slots)
}

/// `cp.async.{ca,cg}`: destination, source, bytes, maybe source bytes or a predicate; the policy.
fn async_copy(operation: &Operation<'_>) -> Vec<Slot> {
    let source = Place { space: Memory::Space(Space::Global), align: 1 };
    let mut slots = vec![shared(1), Slot::new(Kind::Address(source)), Slot::new(Kind::Constant)];
    let hinted = operation.has("L2::cache_hint");
    if operation.args().len() > 3 + usize::from(hinted) {
        slots.push(Slot::new(Kind::Anything));
    }
    if hinted {
        slots.push(value("b64"));
    }
    slots
}

/// The asynchronous copies of the TMA unit.
fn bulk_copy(operation: &Operation<'_>) -> Option<Vec<Slot>> {
    let tensor = match operation.has("tensor") {
        true => Some(Slot::new(Kind::TensorAddress(coordinates(operation)?))),
        false => None,
    };
    let global = Slot::new(Kind::Address(Place { space: Memory::Space(Space::Global), align: 16 }));
    let far = tensor.unwrap_or(global);
    let arrives = operation.has("mbarrier::complete_tx::bytes");
    let mut slots = match (operation.has("prefetch"), arrives) {
        (true, _) => vec![far],
        (_, true) if is_shared_to_shared(operation) => vec![shared(16), shared(16)],
        (_, true) => vec![shared(16), far],
        (_, false) => vec![far, shared(16)],
    };
    if tensor.is_none() {
        slots.push(value("u32"));
    }
    if arrives && !operation.has("prefetch") {
        slots.push(shared(8));
    }
    if tensor.is_some() && (arrives || operation.has("prefetch")) {
        slots.extend(im2col_offsets(operation));
    }
    if operation.has("multicast::cluster") {
        slots.push(value("b16"));
    }
    if operation.has("L2::cache_hint") {
        slots.push(value("b64"));
    }
    if operation.has("cp_mask") {
        slots.push(Slot::new(Kind::Value(Value::of(named("b16")))));
    }
    Some(slots)
}

/// Offsets of an im2col copy: two fewer than coordinates; of one that keeps to a row, a start and a step.
fn im2col_offsets(operation: &Operation<'_>) -> Option<Slot> {
    if operation.has("im2col") {
        return Some(vector("u16", coordinates(operation)?.saturating_sub(2)));
    }
    operation.has_any(&["im2col::w", "im2col::w::128"]).then(|| Slot::new(Kind::Anything))
}

fn is_shared_to_shared(operation: &Operation<'_>) -> bool {
    operation.has("shared::cluster") && operation.has("shared::cta")
}

/// Coordinates of a tensor copy: its rank, or a column and four rows.
fn coordinates(operation: &Operation<'_>) -> Option<usize> {
    if operation.has_any(&["tile::gather4", "tile::scatter4"]) {
        return Some(5);
    }
    operation.modifiers.iter().find_map(|m| m.strip_suffix('d')?.parse().ok())
}

/// Whether the type is one that `ld` and `st` have.
pub(super) fn is_memory_type(want: Want) -> bool {
    matches!(want.class, Class::Bits | Class::Integer) || matches!(want.name, "f32" | "f64")
}
