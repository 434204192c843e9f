//! Typed registers and immediates.

use super::expression::Node;
use crate::Symbol;
use crate::ast::{Operand, Type};
use std::marker::PhantomData;

/// A Rust type that stands for a register type: `f32`, `u32`, `i32`, `u64`, `i64`, `u16`, `bool`
/// (a predicate).
pub trait Scalar: Copy + 'static {
    /// Type the register is declared with.
    const DECLARED: Type;
    /// Prefix of register names.
    const PREFIX: &'static str;
    /// Type suffix of arithmetic on it (`u32`).
    const SUFFIX: &'static str;
    /// Type suffix of untyped operations on it (`b32`).
    const BITS: &'static str;
    /// Bytes it takes in memory.
    const BYTES: u32 = size_of::<Self>() as u32;
}

macro_rules! scalars {
    ($($rust:ty: $declared:ident $prefix:literal $suffix:literal $bits:literal),* $(,)?) => {$(
        impl Scalar for $rust {
            const DECLARED: Type = Type::$declared;
            const PREFIX: &'static str = $prefix;
            const SUFFIX: &'static str = $suffix;
            const BITS: &'static str = $bits;
        }
    )*};
}

scalars! {
    bool: Pred "%p" "pred" "pred",
    u16: B16 "%h" "u16" "b16",
    u32: B32 "%r" "u32" "b32",
    i32: B32 "%r" "s32" "b32",
    f32: F32 "%f" "f32" "b32",
    u64: B64 "%rd" "u64" "b64",
    i64: B64 "%rd" "s64" "b64",
}

/// A scalar with arithmetic.
pub trait Number: Scalar {
    /// Modifiers of a product that keeps the operand width (`lo` for integers).
    const MUL: &'static [&'static str];
    /// Modifiers of addition (`rn` for floats keeps ptxas from contracting across statements we order).
    const ADD: &'static [&'static str];
}
/// A scalar of bits: integers.
pub trait Integer: Number {}

macro_rules! numbers {
    ($($rust:ty: $mul:expr),*) => {$(
        impl Number for $rust {
            const MUL: &'static [&'static str] = $mul;
            const ADD: &'static [&'static str] = &[];
        }
    )*};
}
numbers!(u16: &["lo"], u32: &["lo"], i32: &["lo"], u64: &["lo"], i64: &["lo"], f32: &[]);
impl Integer for u16 {}
impl Integer for u32 {}
impl Integer for i32 {}
impl Integer for u64 {}
impl Integer for i64 {}

/// A register holding a `T`. Copying the handle does not copy the register.
#[derive(Debug)]
pub struct Reg<T> {
    symbol: Symbol,
    ty: PhantomData<fn() -> T>,
}

impl<T> Clone for Reg<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Reg<T> {}
impl<T> PartialEq for Reg<T> {
    fn eq(&self, other: &Self) -> bool {
        self.symbol == other.symbol
    }
}
impl<T> Eq for Reg<T> {}

impl<T: Scalar> Reg<T> {
    pub(super) fn from_symbol(symbol: Symbol) -> Self {
        Reg { symbol, ty: PhantomData }
    }

    /// The register's name.
    pub fn symbol(self) -> Symbol {
        self.symbol
    }

    /// The register as an operand.
    pub fn operand(self) -> Operand {
        Operand::Name(self.symbol)
    }

    /// The same register seen as another type that is declared alike (`u32` and `i32`).
    pub fn reinterpret<U: Scalar>(self) -> Reg<U> {
        assert_eq!(T::PREFIX, U::PREFIX, "registers of {} and {} differ", T::SUFFIX, U::SUFFIX);
        Reg::from_symbol(self.symbol)
    }
}

/// A source operand of type `T`: a register, an immediate, or an expression over them.
#[derive(Clone, Debug)]
pub struct Arg<T> {
    pub(super) node: Node,
    ty: PhantomData<fn() -> T>,
}

impl<T> Arg<T> {
    pub(super) fn new(node: Node) -> Self {
        Arg { node, ty: PhantomData }
    }

    /// A register or an immediate.
    pub(super) fn leaf(operand: Operand) -> Self {
        Arg::new(Node::Leaf(operand))
    }
}

impl<T: Scalar> From<Reg<T>> for Arg<T> {
    fn from(register: Reg<T>) -> Self {
        Arg::leaf(register.operand())
    }
}

macro_rules! immediates {
    ($($target:ty: $($source:ty),*;)*) => {$($(
        impl From<$source> for Arg<$target> {
            fn from(value: $source) -> Self {
                Arg::leaf(Operand::int(value as i128))
            }
        }
    )*)*};
}
// Unsuffixed literals are `i32` to the compiler, so every integer accepts them.
immediates! {
    u16: u16, i32;
    u32: u32, i32;
    i32: i32;
    u64: u64, u32, i32;
    i64: i64, i32;
}

impl From<f32> for Arg<f32> {
    fn from(value: f32) -> Self {
        Arg::leaf(Operand::f32(value))
    }
}
impl From<f64> for Arg<f32> {
    fn from(value: f64) -> Self {
        Arg::leaf(Operand::f32(value as f32))
    }
}
