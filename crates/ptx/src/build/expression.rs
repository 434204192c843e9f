//! Arithmetic on integer registers as expressions: `b.eval(warp * 16 + lane / 4)`.
//!
//! An operator only builds a tree; instructions are emitted when a method of the builder takes the tree as an
//! operand, or when it is [evaluated](Builder::eval). Operands come before the operation, left before right, so
//! that text reads in the order of the instructions. A product that something is added to is one `mad`.
//! Floats have no such expressions: whether a product is rounded before it is added to is for a kernel to say.
//!
//! ```
//! use sixwarp_ptx::build::{Builder, Target};
//!
//! let mut b = Builder::new("kernel", Target::Sm90a);
//! let thread = b.thread();
//! let row = b.eval(thread / 32 * 16 + thread % 32 / 4);   // shr, and, shr, mad
//! let table = b.param_ptr("table");
//! let at = b.global_add(table, row.widening_mul(4));      // mul.wide, add
//! # let _ = at;
//! ```
//!
//! Registers of different types do not mix:
//!
//! ```compile_fail
//! # use sixwarp_ptx::build::{Builder, Target};
//! # let mut b = Builder::new("kernel", Target::Sm90a);
//! let (narrow, wide) = (b.reg::<u32>(), b.reg::<u64>());
//! let sum = b.eval(narrow + wide);
//! ```

use super::builder::Builder;
use super::value::{Arg, Integer, Reg, Scalar};
use crate::ast::Operand;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Rem, Shl, Shr, Sub};

/// What an operand is before it is emitted.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A register or an immediate.
    Leaf(Operand),
    /// Arithmetic on others.
    Operation(Box<Operation>),
}

/// One operation of an expression.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    operator: Operator,
    /// Suffix of the result's type.
    suffix: &'static str,
    left: Node,
    right: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Sub,
    Mul,
    /// The 64-bit product of 32-bit numbers.
    WideningMul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Min,
    Max,
}

impl Operation {
    fn is_product(&self) -> bool {
        matches!(self.operator, Operator::Mul | Operator::WideningMul)
    }
}

fn operation<T: Scalar>(operator: Operator, left: Node, right: Node) -> Arg<T> {
    let suffix = T::SUFFIX;
    Arg::new(Node::Operation(Box::new(Operation { operator, suffix, left, right })))
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl<T: Integer, R: Into<Arg<T>>> $trait<R> for Reg<T> {
            type Output = Arg<T>;
            fn $method(self, right: R) -> Arg<T> {
                operation(Operator::$trait, Arg::from(self).node, right.into().node)
            }
        }
        impl<T: Integer, R: Into<Arg<T>>> $trait<R> for Arg<T> {
            type Output = Arg<T>;
            fn $method(self, right: R) -> Arg<T> {
                operation(Operator::$trait, self.node, right.into().node)
            }
        }
    )*};
}
operators! { Add add; Sub sub; Mul mul; Div div; Rem rem; }

macro_rules! bit_operators {
    ($($trait:ident $method:ident $operator:ident $right:ty;)*) => {$(
        impl<T: Integer, R: Into<Arg<$right>>> $trait<R> for Reg<T> {
            type Output = Arg<T>;
            fn $method(self, right: R) -> Arg<T> {
                operation(Operator::$operator, Arg::from(self).node, right.into().node)
            }
        }
        impl<T: Integer, R: Into<Arg<$right>>> $trait<R> for Arg<T> {
            type Output = Arg<T>;
            fn $method(self, right: R) -> Arg<T> {
                operation(Operator::$operator, self.node, right.into().node)
            }
        }
    )*};
}
bit_operators! {
    BitAnd bitand And T; BitOr bitor Or T; BitXor bitxor Xor T;
    Shl shl Shl u32; Shr shr Shr u32;
}

impl<T: Integer> Arg<T> {
    /// The smaller one.
    pub fn min(self, other: impl Into<Arg<T>>) -> Arg<T> {
        operation(Operator::Min, self.node, other.into().node)
    }

    /// The larger one.
    pub fn max(self, other: impl Into<Arg<T>>) -> Arg<T> {
        operation(Operator::Max, self.node, other.into().node)
    }
}

impl<T: Integer> Reg<T> {
    /// The smaller one.
    pub fn min(self, other: impl Into<Arg<T>>) -> Arg<T> {
        Arg::from(self).min(other)
    }

    /// The larger one.
    pub fn max(self, other: impl Into<Arg<T>>) -> Arg<T> {
        Arg::from(self).max(other)
    }
}

impl Arg<u32> {
    /// The product as 64 bits.
    pub fn widening_mul(self, other: impl Into<Arg<u32>>) -> Arg<u64> {
        operation(Operator::WideningMul, self.node, other.into().node)
    }
}

impl Reg<u32> {
    /// The product as 64 bits.
    pub fn widening_mul(self, other: impl Into<Arg<u32>>) -> Arg<u64> {
        Arg::from(self).widening_mul(other)
    }
}

impl Builder {
    /// The value of an expression in a register: a new one, unless the expression is a register.
    #[track_caller]
    pub fn eval<T: Integer>(&mut self, expression: impl Into<Arg<T>>) -> Reg<T> {
        let operand = self.operand(expression);
        self.in_register(operand)
    }

    /// The operand of an instruction, behind the instructions that compute it.
    #[track_caller]
    pub(super) fn operand<T: Scalar>(&mut self, argument: impl Into<Arg<T>>) -> Operand {
        self.emit_node(argument.into().node)
    }

    #[track_caller]
    fn emit_node(&mut self, node: Node) -> Operand {
        let operation = match node {
            Node::Leaf(operand) => return operand,
            Node::Operation(operation) => *operation,
        };
        match operation.suffix {
            "u16" => self.emit_operation::<u16>(operation),
            "u32" => self.emit_operation::<u32>(operation),
            "s32" => self.emit_operation::<i32>(operation),
            "u64" => self.emit_operation::<u64>(operation),
            _ => self.emit_operation::<i64>(operation),
        }
    }

    // No closure emits: lines of source would be those of the closure, not of the kernel.
    #[track_caller]
    fn emit_operation<T: Integer>(&mut self, operation: Operation) -> Operand {
        let Operation { operator, left, right, .. } = operation;
        match (operator, left) {
            (Operator::Add, Node::Operation(product)) if product.is_product() => {
                self.emit_sum::<T>(*product, right)
            }
            (Operator::WideningMul, left) => {
                let (a, b) = (self.emit_node(left), self.emit_node(right));
                let a = self.in_register(a);
                self.mul_wide(a, Arg::leaf(b)).operand()
            }
            (_, left) => {
                let (a, b) = (self.emit_node(left), self.emit_node(right));
                let a: Reg<T> = self.in_register(a);
                self.emit_binary(operator, a, b).operand()
            }
        }
    }

    /// A product and what is added to it, in one instruction.
    #[track_caller]
    fn emit_sum<T: Integer>(&mut self, product: Operation, added: Node) -> Operand {
        let (a, b) = (self.emit_node(product.left), self.emit_node(product.right));
        let c = self.emit_node(added);
        if product.operator == Operator::WideningMul {
            let a = self.in_register(a);
            return self.mad_wide(a, Arg::leaf(b), Arg::leaf(c)).operand();
        }
        let a: Reg<T> = self.in_register(a);
        self.mad::<T>(a, Arg::leaf(b), Arg::leaf(c)).operand()
    }

    #[track_caller]
    fn emit_binary<T: Integer>(&mut self, operator: Operator, a: Reg<T>, b: Operand) -> Reg<T> {
        let shift = || Arg::<u32>::leaf(b.clone());
        let other = || Arg::<T>::leaf(b.clone());
        match operator {
            Operator::Add => self.add(a, other()),
            Operator::Sub => self.sub(a, other()),
            Operator::Mul | Operator::WideningMul => self.mul(a, other()),
            Operator::Div => self.div(a, other()),
            Operator::Rem => self.rem(a, other()),
            Operator::And => self.and(a, other()),
            Operator::Or => self.or(a, other()),
            Operator::Xor => self.xor(a, other()),
            Operator::Shl => self.shl(a, shift()),
            Operator::Shr => self.shr(a, shift()),
            Operator::Min => self.min(a, other()),
            Operator::Max => self.max(a, other()),
        }
    }

    #[track_caller]
    fn in_register<T: Integer>(&mut self, operand: Operand) -> Reg<T> {
        match operand {
            Operand::Name(symbol) => Reg::from_symbol(symbol),
            immediate => self.value(Arg::<T>::leaf(immediate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::builder::{Target, module};
    use super::*;

    fn text(emit: impl FnOnce(&mut Builder, Reg<u32>, Reg<u32>)) -> Vec<String> {
        let mut b = Builder::new("kernel", Target::Sm90a);
        let (x, y) = (b.reg::<u32>(), b.reg::<u32>());
        emit(&mut b, x, y);
        let text = module(Target::Sm90a, vec![b.finish()]).to_string();
        let is_code = |line: &&str| line.ends_with(';') && !line.starts_with('.');
        let lines = text.lines().map(str::trim).filter(is_code);
        lines.filter(|line| *line != "ret;").map(str::to_owned).collect()
    }

    #[test]
    fn operands_come_first_from_left_to_right() {
        let lines = text(|b, x, y| {
            b.eval((x - 1) * (y / 4));
        });
        let wanted = ["sub.u32 %r2, %r0, 1;", "shr.u32 %r3, %r1, 2;", "mul.lo.u32 %r4, %r2, %r3;"];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_product_that_is_added_to_is_one_instruction() {
        let lines = text(|b, x, y| {
            b.eval(x * 16 + y % 8);
            b.eval(x.widening_mul(4) + 8);
        });
        let wanted = [
            "and.b32 %r2, %r1, 7;",
            "mad.lo.u32 %r3, %r0, 16, %r2;",
            "mad.wide.u32 %rd0, %r0, 4, 8;",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn an_expression_is_an_operand_like_any_other() {
        let lines = text(|b, x, y| b.assign(x, y.min(7) << 1));
        let wanted = ["min.u32 %r2, %r1, 7;", "shl.b32 %r3, %r2, 1;", "mov.b32 %r0, %r3;"];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_register_is_its_own_value() {
        assert!(text(|b, x, _| assert_eq!(b.eval(x), x)).is_empty());
    }
}
