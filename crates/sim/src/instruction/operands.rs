//! How families tell which registers their instructions read and write.

use super::memory::Addr;
use crate::register::{P, R32, Reg};

/// How an instruction uses a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

use Use::{Read, Write};

/// Takes register operands, reads before writes.
pub type Visit<'a> = &'a mut dyn FnMut(Reg, Use);

pub(super) fn addr(visit: Visit<'_>, addr: Addr) {
    visit(addr.base, Read);
}

pub(super) fn all(visit: Visit<'_>, rows: &[R32], how: Use) {
    rows.iter().for_each(|r| visit(Reg::R32(*r), how));
}

pub(super) fn regs(visit: Visit<'_>, rows: &[Reg]) {
    rows.iter().for_each(|r| visit(*r, Read));
}

pub(super) fn outs(visit: Visit<'_>, rows: &[Option<Reg>]) {
    rows.iter().flatten().for_each(|r| visit(*r, Write));
}

pub(super) fn reads32(visit: Visit<'_>, rows: impl IntoIterator<Item = R32>) {
    rows.into_iter().for_each(|r| visit(Reg::R32(r), Read));
}

pub(super) fn predicate_out(visit: Visit<'_>, p: Option<P>) {
    if let Some(p) = p {
        visit(Reg::P(p), Write);
    }
}
