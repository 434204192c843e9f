//! What an instruction takes at each place.

use super::operation::Operation;
use super::types::Want;
use crate::ast::Space;

/// One operand place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    /// Whether the instruction writes it.
    pub(super) result: bool,
    /// Whether it may be left out.
    pub(super) optional: bool,
}

/// The kinds of operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A register or immediate.
    Value(Value),
    /// `{…}` of so many values.
    Vector(Value, usize),
    /// `d|p`: a value and a predicate, the second maybe left out.
    Pair {
        value: Value,
        both: bool,
    },
    /// The source of `mov` and its like: also a special register, an address or a vector.
    Movable(Want),
    /// A predicate, its negation or a truth value.
    Condition,
    Address(Place),
    /// `[map, {coordinates}]` of so many coordinates.
    TensorAddress(usize),
    /// A shared-memory descriptor in a register, or an address in tensor memory.
    DescriptorOrTensorMemory,
    Label,
    /// An integer constant.
    Constant,
    Anything,
    /// Any number of any operands; the last slot.
    Rest,
}

/// A scalar place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) want: Want,
    /// Whether a wider register fits.
    pub(super) wide: bool,
    /// Whether `_` may take a result.
    pub(super) sink: bool,
}

/// Where an address points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) space: Memory,
    /// The alignment the access needs, in bytes.
    pub(super) align: u32,
}

/// The memories an address can be in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Memory {
    Generic,
    Space(Space),
    Tensor,
}

impl Slot {
    pub(super) const fn new(kind: Kind) -> Slot {
        Slot { kind, result: false, optional: false }
    }

    pub(super) const fn result(kind: Kind) -> Slot {
        Slot { kind, result: true, optional: false }
    }

    pub(super) const fn optional(self) -> Slot {
        Slot { optional: true, ..self }
    }
}

impl Value {
    pub(super) const fn of(want: Want) -> Value {
        Value { want, wide: false, sink: false }
    }
}

/// A register or immediate of the type called `name`.
pub(super) fn value(name: &str) -> Slot {
    Slot::new(Kind::Value(Value::of(named(name))))
}

/// `{…}` of `length` values of the type called `name`.
pub(super) fn vector(name: &str, length: usize) -> Slot {
    Slot::new(Kind::Vector(Value::of(named(name)), length))
}

/// An address in shared memory, aligned to `align` bytes.
pub(super) const fn shared(align: u32) -> Slot {
    Slot::new(Kind::Address(Place { space: Memory::Space(Space::Shared), align }))
}

/// An address in tensor memory.
pub(super) const fn tensor_memory() -> Slot {
    Slot::new(Kind::Address(Place { space: Memory::Tensor, align: 1 }))
}

/// The type called `name`; only names of this crate's own tables come here.
pub(super) fn named(name: &str) -> Want {
    Want::named(name).unwrap_or_else(|| panic!("the form table names no type `{name}`"))
}

impl Place {
    /// The instruction's own address, aligned for its access.
    pub(super) fn of_access(operation: &Operation<'_>) -> Place {
        let element = operation.ty().map_or(1, |ty| ty.bits.div_ceil(8));
        let elements = operation.vector().unwrap_or(1) as u32;
        let space = operation.space().map_or(Memory::Generic, Memory::Space);
        Place { space, align: element * elements }
    }
}
