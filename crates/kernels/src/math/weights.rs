//! Weights of a row's parts when they are merged, and what the sink adds to their sum.
//!
//! With `m` the largest of the parts' log-sum-exps `lᵢ`, part `i` weighs `2^((lᵢ − m)·log2 e + h)`. The headroom `h` is
//! minus the logarithm of the number of parts, rounded up. So the sum of weights is 1 at most, and sums of rows near
//! the largest number do not overflow.

use crate::call::sequence::element;
use ptx::build::{Arg, Builder, Cmp, GlobalPtr, Reg};
use std::f32::consts::{LN_2, LOG2_E};

/// What is added to the exponents of weights.
#[derive(Clone, Copy, Debug)]
pub enum Headroom {
    /// A parameter of the kernel.
    Parameter(Reg<f32>),
    /// Known when the kernel is emitted.
    Constant(f32),
}

impl Headroom {
    /// That of so many parts.
    pub fn of(parts: u32) -> f32 {
        -(parts.next_power_of_two().ilog2() as f32)
    }

    #[track_caller]
    fn register(self, b: &mut Builder) -> Reg<f32> {
        match self {
            Headroom::Parameter(register) => register,
            Headroom::Constant(number) => b.value(number),
        }
    }

    fn operand(self) -> Arg<f32> {
        match self {
            Headroom::Parameter(register) => register.into(),
            Headroom::Constant(number) => number.into(),
        }
    }
}

/// How the parts of a row are weighed.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    pub headroom: Headroom,
    /// The largest log-sum-exp, or 0 where no part has seen a key.
    pub max: Reg<f32>,
}

impl Weights {
    /// The exponent of the weight of a part, or of the sink.
    #[track_caller]
    pub fn exponent(&self, b: &mut Builder, lse: Reg<f32>) -> Reg<f32> {
        let difference = b.sub(lse, self.max);
        let headroom = self.headroom.register(b);
        b.fma(difference, LOG2_E, headroom)
    }

    /// The log-sum-exp of all parts, whose weights add up to `total`, and whether none has seen a key.
    #[track_caller]
    pub fn lse(&self, b: &mut Builder, total: Reg<f32>) -> (Reg<f32>, Reg<bool>) {
        let empty = b.setp(Cmp::Le, total, 0.0);
        let log = b.lg2(total);
        let log = b.sub(log, self.headroom.operand());
        let lse = b.fma(log, LN_2, self.max);
        (b.select::<f32>(empty, f32::NEG_INFINITY, lse), empty)
    }

    /// The factor on the weighted sum of a row, whose denominator is `total` and the sink of its head.
    #[track_caller]
    pub fn factor(
        &self,
        b: &mut Builder,
        total: Reg<f32>,
        empty: Reg<bool>,
        sinks: Option<(GlobalPtr, Reg<u32>)>,
    ) -> Reg<f32> {
        let denominator = match sinks {
            None => total,
            Some((sinks, head)) => {
                let at = element(b, sinks, head);
                let sink = b.ld_global::<f32>(at);
                let exponent = self.exponent(b, sink);
                let power = b.ex2(exponent);
                b.add(total, power)
            }
        };
        let inverse = b.rcp(denominator);
        b.select::<f32>(empty, 0.0, inverse)
    }
}
