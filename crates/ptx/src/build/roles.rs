//! Roles: which warps of a CTA do what, and with how many registers.
//!
//! ```
//! use sixwarp_ptx::build::{Budget, Builder, Target};
//!
//! let mut b = Builder::new("kernel", Target::Sm90a);
//! b.launch_bounds(3 * 128, 1);
//! let warp = b.warp();
//! b.roles(warp, |roles| {
//!     roles.split_warpgroup(0, Budget::Shrunk(24), |roles| {
//!         roles.warp(0, |b| b.nanosleep(1));                       // loads
//!     });
//!     roles.warpgroups(1..3, Budget::Grown(240), |b, _number| b.barrier_sync(1, 256));
//! });
//! ```
//!
//! Whole warps branch: the index they branch on is a [`Warp`], which is the same in all lanes by
//! construction. Roles are disjoint, warps without one go straight to the end, and the last test is
//! left out where nobody else is left. Registers move between whole warpgroups only, and all roles
//! together have no more than the CTA got at launch: a thread would wait for the rest forever.

use super::arith::Cmp;
use super::builder::Builder;
use super::value::Reg;
use crate::Symbol;
use crate::ast::Operand;
use crate::registers::registers_at_launch;
use std::ops::Range;

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;
/// Threads of a warp.
const LANES: u32 = 32;

/// The index of a warp in its CTA, in a form the assembler knows to be the same in all lanes.
#[derive(Clone, Copy, Debug)]
pub struct Warp(Reg<u32>);

impl Warp {
    /// The index.
    pub fn index(self) -> Reg<u32> {
        self.0
    }
}

/// Registers of each thread of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// What every thread has at launch.
    Launch,
    /// Fewer: the others are given back for roles that take more.
    Shrunk(u32),
    /// More: waits until enough were given back.
    Grown(u32),
}

impl Budget {
    fn registers(self) -> Option<u32> {
        match self {
            Budget::Launch => None,
            Budget::Shrunk(count) | Budget::Grown(count) => Some(count),
        }
    }
}

/// Roles being declared; each method emits the code of one.
pub struct Roles<'b> {
    b: &'b mut Builder,
    warp: Warp,
    /// Index of the warpgroup, once it is asked for.
    warpgroup: Option<Reg<u32>>,
    /// Warps that have not got a role yet, by index.
    left: Vec<u32>,
    /// Registers that the roles declared so far gave back and did not take, per lane.
    spare: i32,
    end: Symbol,
}

impl Builder {
    /// The thread's warp.
    #[track_caller]
    pub fn warp(&mut self) -> Warp {
        let thread = self.thread();
        let warp = self.shr(thread, 5);
        Warp(self.lane_value(warp, 0))
    }

    /// Gives the warps of the CTA, whose size [`Builder::launch_bounds`] said, their roles. Warps meet
    /// again behind it.
    #[track_caller]
    pub fn roles(&mut self, warp: Warp, declare: impl FnOnce(&mut Roles<'_>)) {
        let threads = self.threads.expect("roles need launch bounds");
        let left = (0..threads.div_ceil(LANES)).collect();
        self.roles_among(warp, left, declare);
    }

    fn roles_among(&mut self, warp: Warp, left: Vec<u32>, declare: impl FnOnce(&mut Roles<'_>)) {
        let end = self.label();
        let mut roles = Roles { b: self, warp, warpgroup: None, left, spare: 0, end };
        declare(&mut roles);
        let spare = roles.spare;
        assert!(
            spare >= 0,
            "the roles take {} registers of each lane more than the CTA got at launch",
            -spare
        );
        self.place(end);
    }
}

impl Roles<'_> {
    /// The role of warp `index`.
    #[track_caller]
    pub fn warp(&mut self, index: u32, body: impl FnOnce(&mut Builder)) {
        self.enter(self.warp.0, index..index + 1, 1, body);
    }

    /// The role of the warps of `range`; each is given its number among them.
    #[track_caller]
    pub fn warps(&mut self, range: Range<u32>, body: impl FnOnce(&mut Builder, Reg<u32>)) {
        let (warp, start) = (self.warp.0, range.start);
        self.enter(warp, range, 1, |b| {
            let number = number_from(b, warp, start);
            body(b, number);
        });
    }

    /// The role of the warpgroups of `range`; each is given its number among them.
    #[track_caller]
    pub fn warpgroups(
        &mut self,
        range: Range<u32>,
        budget: Budget,
        body: impl FnOnce(&mut Builder, Reg<u32>),
    ) {
        let start = range.start;
        self.enter_warpgroups(range, budget, |b, warpgroup| {
            let number = number_from(b, warpgroup, start);
            body(b, number);
        });
    }

    /// The role of warpgroup `index`.
    #[track_caller]
    pub fn warpgroup(&mut self, index: u32, budget: Budget, body: impl FnOnce(&mut Builder)) {
        self.enter_warpgroups(index..index + 1, budget, |b, _| body(b));
    }

    /// A warpgroup whose warps have roles of their own under one budget.
    #[track_caller]
    pub fn split_warpgroup(
        &mut self,
        index: u32,
        budget: Budget,
        declare: impl FnOnce(&mut Roles<'_>),
    ) {
        let warp = self.warp;
        let warps = (index * WARPGROUP..(index + 1) * WARPGROUP).collect();
        self.enter_warpgroups(index..index + 1, budget, |b, _| {
            b.roles_among(warp, warps, declare);
        });
    }

    #[track_caller]
    fn enter_warpgroups(
        &mut self,
        range: Range<u32>,
        budget: Budget,
        body: impl FnOnce(&mut Builder, Reg<u32>),
    ) {
        self.account(range.len() as u32 * WARPGROUP, budget);
        let (b, warp) = (&mut *self.b, self.warp.0);
        let shift = WARPGROUP.trailing_zeros();
        let warpgroup = *self.warpgroup.get_or_insert_with(|| b.shr(warp, shift));
        self.enter(warpgroup, range, WARPGROUP, |b| {
            b.set_registers(budget);
            body(b, warpgroup);
        });
    }

    /// Budgets are legal counts.
    fn account(&mut self, warps: u32, budget: Budget) {
        let Some(registers) = budget.registers() else { return };
        let legal = (24..=256).contains(&registers) && registers.is_multiple_of(8);
        assert!(legal, "{registers} registers: budgets are multiples of 8 from 24 to 256");
        let launch = registers_at_launch(&self.b.directives).expect("roles have launch bounds");
        self.spare += warps as i32 * (launch as i32 - registers as i32);
    }

    /// Runs `body` in the warps whose `index`, in units of `size` warps, is in `range`, and takes them
    /// out of what follows.
    #[track_caller]
    fn enter(
        &mut self,
        index: Reg<u32>,
        range: Range<u32>,
        size: u32,
        body: impl FnOnce(&mut Builder),
    ) {
        let warps = range.start * size..range.end * size;
        let missing = warps.clone().find(|warp| !self.left.contains(warp));
        assert_eq!(missing, None, "a warp has one role, and belongs to the CTA");
        let others = self.b.label();
        let below = self.left.iter().any(|warp| *warp < warps.start);
        let above = self.left.iter().any(|warp| *warp >= warps.end);
        if let Some(p) = self.b.is_in(index, &range, below, above) {
            self.b.branch_unless(p, others);
        }
        body(self.b);
        self.left.retain(|warp| !warps.contains(warp));
        if !self.left.is_empty() {
            self.b.branch(self.end);
        }
        self.b.place(others);
    }
}

#[track_caller]
fn number_from(b: &mut Builder, index: Reg<u32>, start: u32) -> Reg<u32> {
    if start == 0 { index } else { b.sub(index, start) }
}

impl Builder {
    /// Whether `index` is in `range`, given whether it can be `below` or `above`; `None` where it must.
    #[track_caller]
    fn is_in(
        &mut self,
        index: Reg<u32>,
        range: &Range<u32>,
        below: bool,
        above: bool,
    ) -> Option<Reg<bool>> {
        match (below, above) {
            (false, false) => None,
            _ if range.len() == 1 => Some(self.setp(Cmp::Eq, index, range.start)),
            (false, true) => Some(self.setp(Cmp::Lt, index, range.end)),
            (true, false) => Some(self.setp(Cmp::Ge, index, range.start)),
            (true, true) => {
                let number = self.sub(index, range.start);
                Some(self.setp(Cmp::Lt, number, range.len() as u32))
            }
        }
    }

    /// Moves a warpgroup's threads to `budget`.
    #[track_caller]
    fn set_registers(&mut self, budget: Budget) {
        let (opcode, count) = match budget {
            Budget::Launch => return,
            Budget::Shrunk(count) => ("setmaxnreg.dec.sync.aligned.u32", count),
            Budget::Grown(count) => ("setmaxnreg.inc.sync.aligned.u32", count),
        };
        self.emit(opcode, vec![Operand::int(count)]);
    }
}
