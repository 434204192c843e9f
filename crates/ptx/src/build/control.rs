//! Structured control flow.

use super::arith::Cmp;
use super::builder::Builder;
use super::value::{Arg, Reg};
use crate::Symbol;
use crate::ast::{Guard, Operand, Statement};

impl Builder {
    /// Runs `then` in threads where `p` holds.
    #[track_caller]
    pub fn if_(&mut self, p: Reg<bool>, then: impl FnOnce(&mut Self)) {
        let end = self.label();
        self.branch_unless(p, end);
        then(self);
        self.place(end);
    }

    /// Runs `then` where `p` holds and `otherwise` where it does not.
    #[track_caller]
    pub fn if_else(
        &mut self,
        p: Reg<bool>,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let (other, end) = (self.label(), self.label());
        self.branch_unless(p, other);
        then(self);
        self.branch(end);
        self.place(other);
        otherwise(self);
        self.place(end);
    }

    /// Repeats `body` while the predicate that `condition` computes holds.
    #[track_caller]
    pub fn while_(
        &mut self,
        condition: impl Fn(&mut Self) -> Reg<bool>,
        body: impl FnOnce(&mut Self),
    ) {
        let enter = condition(self);
        self.if_(enter, |b| {
            b.loop_(|b| {
                body(b);
                condition(b)
            });
        });
    }

    /// Runs `body`, and again as long as the predicate it returns holds.
    #[track_caller]
    pub fn loop_(&mut self, body: impl FnOnce(&mut Self) -> Reg<bool>) {
        let again = self.label();
        self.place(again);
        let stay = body(self);
        self.branch_if(stay, again);
    }

    /// Runs `body` for `i` from `start` up to, not including, `end`. The assembler does not unroll it.
    #[track_caller]
    pub fn range(
        &mut self,
        start: impl Into<Arg<u32>>,
        end: impl Into<Arg<u32>>,
        body: impl FnOnce(&mut Self, Reg<u32>),
    ) {
        let end = self.operand(end);
        let i = self.value::<u32>(start);
        self.while_(
            |b| b.setp(Cmp::Lt, i, Arg::leaf(end.clone())),
            |b| {
                b.body.push(Statement::Pragma(vec!["nounroll".into()]));
                body(b, i);
                b.emit("add.u32", vec![i.operand(), i.operand(), Operand::int(1)]);
            },
        );
    }

    /// Jumps.
    #[track_caller]
    pub fn branch(&mut self, to: Symbol) {
        self.emit("bra", vec![Operand::Name(to)]);
    }

    /// Jumps where `p` holds.
    #[track_caller]
    pub fn branch_if(&mut self, p: Reg<bool>, to: Symbol) {
        self.emit_if(p, "bra", vec![Operand::Name(to)]);
    }

    /// Jumps where `p` does not hold.
    #[track_caller]
    pub fn branch_unless(&mut self, p: Reg<bool>, to: Symbol) {
        let guard = Guard { register: p.symbol(), negated: true };
        self.emit_guarded(Some(guard), "bra", vec![Operand::Name(to)]);
    }

    /// Ends the thread.
    #[track_caller]
    pub fn exit(&mut self) {
        self.emit("exit", vec![]);
    }
}
