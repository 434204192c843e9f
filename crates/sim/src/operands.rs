//! Which registers an instruction reads and writes.

use crate::alu::{Compare, RowFn};
use crate::op::{Addr, MatrixSource, MbarrierOp, Op, Tcgen05};
use crate::register::{P, R32, R64, Reg};

/// How an instruction uses a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

use Use::{Read, Write};

type Visit<'a> = &'a mut dyn FnMut(Reg, Use);

fn addr(visit: Visit<'_>, addr: Addr) {
    visit(addr.base, Read);
}

fn all(visit: Visit<'_>, rows: &[R32], how: Use) {
    rows.iter().for_each(|r| visit(Reg::R32(*r), how));
}

fn regs(visit: Visit<'_>, rows: &[Reg]) {
    rows.iter().for_each(|r| visit(*r, Read));
}

fn outs(visit: Visit<'_>, rows: &[Option<Reg>]) {
    rows.iter().flatten().for_each(|r| visit(*r, Write));
}

fn reads32(visit: Visit<'_>, rows: impl IntoIterator<Item = R32>) {
    rows.into_iter().for_each(|r| visit(Reg::R32(r), Read));
}

impl Op {
    /// Tells `visit` every register operand; the guard is not among them.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            Op::Row { f, d, s } => row(visit, *f, *d, s),
            Op::Lop3 { d, s, with, .. } => {
                reads32(visit, *s);
                visit(Reg::R32(*d), Write);
                if let Some((_, p, q)) = with {
                    visit(Reg::P(*q), Read);
                    visit(Reg::P(*p), Write);
                }
            }
            Op::Prmt { d, s, .. } | Op::Lane3 { d, s, .. } | Op::Video { d, s, .. } => {
                reads32(visit, *s);
                visit(Reg::R32(*d), Write);
            }
            Op::Bfi { d, s, at } => {
                regs(visit, s);
                reads32(visit, *at);
                visit(*d, Write);
            }
            Op::Bfe64 { d, a, at, .. } => {
                visit(Reg::R64(*a), Read);
                reads32(visit, *at);
                visit(Reg::R64(*d), Write);
            }
            Op::Carry { d, a, b, .. } => {
                regs(visit, &[*a, *b]);
                visit(*d, Write);
            }
            Op::Compare { f, d, q, s, with } => {
                compare(visit, *f, s);
                if let Some((_, p, _)) = with {
                    visit(Reg::P(*p), Read);
                }
                visit(Reg::P(*d), Write);
                if let Some(q) = q {
                    visit(Reg::P(*q), Write);
                }
            }
            Op::Select32 { d, s, p } => {
                reads32(visit, *s);
                visit(Reg::P(p.0), Read);
                visit(Reg::R32(*d), Write);
            }
            Op::Select64 { d, s, p } => {
                s.iter().for_each(|r| visit(Reg::R64(*r), Read));
                visit(Reg::P(p.0), Read);
                visit(Reg::R64(*d), Write);
            }
            Op::Logic { d, s, .. } => {
                s.iter().for_each(|(p, _)| visit(Reg::P(*p), Read));
                visit(Reg::P(*d), Write);
            }
            Op::Mov32 { d, a } => {
                visit(Reg::R32(*a), Read);
                visit(Reg::R32(*d), Write);
            }
            Op::Mov64 { d, a } => {
                visit(Reg::R64(*a), Read);
                visit(Reg::R64(*d), Write);
            }
            Op::Pack { d, s, .. } => {
                regs(visit, s);
                visit(*d, Write);
            }
            Op::Unpack { d, a, .. } => {
                visit(*a, Read);
                outs(visit, d);
            }
            Op::StochasticCvt { d, s, .. } => {
                all(visit, s, Read);
                visit(*d, Write);
            }
            Op::Cvt { d, s, .. } => {
                regs(visit, s);
                visit(*d, Write);
            }
            _ => self.more_registers(visit),
        }
    }

    fn more_registers(&self, visit: Visit<'_>) {
        match self {
            Op::Offset { d, a, .. } => {
                visit(*a, Read);
                visit(*d, Write);
            }
            Op::IsSpace { d, a, .. } => {
                visit(Reg::R64(*a), Read);
                visit(Reg::P(*d), Write);
            }
            Op::Mapa { d, a, rank } => {
                regs(visit, &[*a, Reg::R32(*rank)]);
                visit(*d, Write);
            }
            Op::CtaRank { d, a } => {
                visit(*a, Read);
                visit(Reg::R32(*d), Write);
            }
            Op::Clock { d, .. } => visit(*d, Write),
            Op::ActiveMask { d } => visit(Reg::R32(*d), Write),
            Op::BranchIndex { index, .. } => visit(Reg::R32(*index), Read),
            Op::Load(load) => {
                addr(visit, load.addr);
                outs(visit, &load.dst);
            }
            Op::StoreZeros { addr: at, bytes, .. } => {
                addr(visit, *at);
                visit(*bytes, Read);
            }
            Op::Store(store) => {
                addr(visit, store.addr);
                regs(visit, &store.src);
            }
            Op::Atomic(atomic) => {
                addr(visit, atomic.addr);
                regs(visit, &atomic.src);
                regs(visit, atomic.swap.as_slice());
                outs(visit, &atomic.dst);
            }
            Op::Shfl { d, p, s, .. } => {
                reads32(visit, **s);
                visit(Reg::R32(*d), Write);
                predicate_out(visit, *p);
            }
            Op::Vote { d, a, mask, .. } => {
                visit(Reg::P(a.0), Read);
                visit(Reg::R32(*mask), Read);
                visit(*d, Write);
            }
            Op::Match { d, p, a, mask, .. } => {
                regs(visit, &[*a, Reg::R32(*mask)]);
                visit(Reg::R32(*d), Write);
                predicate_out(visit, *p);
            }
            Op::Redux { d, a, mask, .. } => {
                reads32(visit, [*a, *mask]);
                visit(Reg::R32(*d), Write);
            }
            Op::Elect { d, p, mask } => {
                visit(Reg::R32(*mask), Read);
                outs(visit, &[d.map(Reg::R32)]);
                visit(Reg::P(*p), Write);
            }
            Op::WarpSync { mask } => visit(Reg::R32(*mask), Read),
            Op::Bar { id, count, reduce, .. } => {
                visit(Reg::R32(*id), Read);
                reads32(visit, *count);
                if let Some(reduce) = reduce {
                    visit(Reg::P(reduce.1), Read);
                    visit(reduce.0, Write);
                }
            }
            _ => self.asynchronous_registers(visit),
        }
    }

    fn asynchronous_registers(&self, visit: Visit<'_>) {
        match self {
            Op::Mbarrier(op) => {
                addr(visit, op.addr);
                mbarrier(visit, op.op);
            }
            Op::CpAsync { dst, src, source_bytes, ignore, .. } => {
                addr(visit, *dst);
                addr(visit, *src);
                reads32(visit, *source_bytes);
                if let Some(p) = ignore {
                    visit(Reg::P(*p), Read);
                }
            }
            Op::CpAsyncArrive { addr: at, .. } => addr(visit, *at),
            Op::Bulk(copy) => {
                addr(visit, copy.dst);
                addr(visit, copy.src);
                visit(Reg::R32(copy.size), Read);
                copy.mbar.iter().for_each(|a| addr(visit, *a));
                reads32(visit, copy.multicast);
                reads32(visit, copy.byte_mask);
            }
            Op::Tensor(copy) => {
                addr(visit, copy.map);
                copy.shared.iter().chain(&copy.mbar).for_each(|a| addr(visit, *a));
                all(visit, &copy.coords, Read);
                reads32(visit, copy.multicast);
            }
            Op::StoreAsync { addr: at, src, mbar, .. } => {
                addr(visit, *at);
                addr(visit, *mbar);
                regs(visit, src);
            }
            Op::TensormapReplace { map, value, .. } => {
                addr(visit, *map);
                visit(*value, Read);
            }
            Op::TensormapCopy { dst, src, .. } => {
                addr(visit, *dst);
                addr(visit, *src);
            }
            Op::TryCancel { dst, mbar, .. } => {
                addr(visit, *dst);
                addr(visit, *mbar);
            }
            Op::IsCanceled { d, response } => {
                visit(Reg::R128(*response), Read);
                visit(Reg::P(*d), Write);
            }
            Op::FirstCta { d, response } => {
                visit(Reg::R128(*response), Read);
                d.iter().flatten().for_each(|d| visit(Reg::R32(*d), Write));
            }
            _ => self.matrix_registers(visit),
        }
    }

    fn matrix_registers(&self, visit: Visit<'_>) {
        match self {
            Op::Wgmma(op) => {
                source(visit, &op.a);
                visit(Reg::R64(op.b), Read);
                visit(Reg::P(op.accumulate.0), Read);
                all(visit, &op.d, Read);
                all(visit, &op.d, Write);
            }
            Op::MmaSync(parts) => {
                parts.iter().flat_map(|op| &op.s).for_each(|s| all(visit, s, Read));
                parts.iter().for_each(|op| all(visit, &op.d, Write));
            }
            Op::WmmaLoad(op) => {
                addr(visit, op.addr);
                visit(Reg::R32(op.stride), Read);
                op.registers.iter().for_each(|r| visit(*r, Write));
            }
            Op::WmmaStore(op) => {
                addr(visit, op.addr);
                visit(Reg::R32(op.stride), Read);
                regs(visit, &op.registers);
            }
            Op::MmaF64 { d, s } => {
                s.iter().flatten().for_each(|r: &R64| visit(Reg::R64(*r), Read));
                d.iter().for_each(|r| visit(Reg::R64(*r), Write));
            }
            Op::Ldmatrix { d, addr: at, .. } => {
                addr(visit, *at);
                all(visit, d, Write);
            }
            Op::Stmatrix { s, addr: at, .. } => {
                addr(visit, *at);
                all(visit, s, Read);
            }
            Op::Movmatrix { d, a } => {
                visit(Reg::R32(*a), Read);
                visit(Reg::R32(*d), Write);
            }
            Op::Tcgen05(op) => tcgen05(visit, op),
            _ => {}
        }
    }
}

fn predicate_out(visit: Visit<'_>, p: Option<P>) {
    if let Some(p) = p {
        visit(Reg::P(p), Write);
    }
}

fn row(visit: Visit<'_>, f: RowFn, d: u32, s: &[u32; 3]) {
    let narrow = |i: usize| Reg::R32(R32(s[i]));
    let wide = |i: usize| Reg::R64(R64(s[i]));
    let (sources, destination): (Vec<Reg>, Reg) = match f {
        RowFn::A1(_) => (vec![narrow(0)], Reg::R32(R32(d))),
        RowFn::A2(_) => (vec![narrow(0), narrow(1)], Reg::R32(R32(d))),
        RowFn::A3(_) => (vec![narrow(0), narrow(1), narrow(2)], Reg::R32(R32(d))),
        RowFn::Narrow(_) => (vec![wide(0)], Reg::R32(R32(d))),
        RowFn::B1(_) => (vec![wide(0)], Reg::R64(R64(d))),
        RowFn::B2(_) => (vec![wide(0), wide(1)], Reg::R64(R64(d))),
        RowFn::B3(_) => (vec![wide(0), wide(1), wide(2)], Reg::R64(R64(d))),
        RowFn::Wide2(_) => (vec![narrow(0), narrow(1)], Reg::R64(R64(d))),
        RowFn::Wide3(_) => (vec![narrow(0), narrow(1), wide(2)], Reg::R64(R64(d))),
        RowFn::Shift64(_) => (vec![wide(0), narrow(1)], Reg::R64(R64(d))),
    };
    regs(visit, &sources);
    visit(destination, Write);
}

fn compare(visit: Visit<'_>, f: Compare, s: &[u32; 2]) {
    let reg = |slot: u32| match f {
        Compare::A(_) => Reg::R32(R32(slot)),
        Compare::B(_) => Reg::R64(R64(slot)),
    };
    regs(visit, &s.map(reg));
}

fn mbarrier(visit: Visit<'_>, op: MbarrierOp) {
    match op {
        MbarrierOp::Init(count) | MbarrierOp::ExpectTx(count) | MbarrierOp::CompleteTx(count) => {
            visit(Reg::R32(count), Read);
        }
        MbarrierOp::Invalidate => {}
        MbarrierOp::Arrive { count, expect, token, .. } => {
            reads32(visit, count.into_iter().chain(expect));
            outs(visit, &[token.map(Reg::R64)]);
        }
        MbarrierOp::Wait { done, parity, token, .. } => {
            reads32(visit, parity);
            if let Some(token) = token {
                visit(Reg::R64(token), Read);
            }
            visit(Reg::P(done), Write);
        }
        MbarrierOp::PendingCount { dst, token } => {
            visit(Reg::R64(token), Read);
            visit(Reg::R32(dst), Write);
        }
    }
}

fn source(visit: Visit<'_>, a: &MatrixSource) {
    match a {
        MatrixSource::Descriptor(r) => visit(Reg::R64(*r), Read),
        MatrixSource::Registers(rows) => all(visit, rows, Read),
        MatrixSource::Tensor(at) => addr(visit, *at),
    }
}

fn tcgen05(visit: Visit<'_>, op: &Tcgen05) {
    match op {
        Tcgen05::Alloc { dst, columns, .. } => {
            addr(visit, *dst);
            visit(Reg::R32(*columns), Read);
        }
        Tcgen05::Dealloc { address, columns } => reads32(visit, [*address, *columns]),
        Tcgen05::Load { d, address, .. } => {
            addr(visit, *address);
            all(visit, d, Write);
        }
        Tcgen05::Store { s, address, .. } => {
            addr(visit, *address);
            all(visit, s, Read);
        }
        Tcgen05::Mma(mma) => {
            addr(visit, mma.d);
            source(visit, &mma.a);
            visit(Reg::R64(mma.b), Read);
            visit(Reg::R32(mma.descriptor), Read);
            all(visit, &mma.disabled, Read);
            visit(Reg::P(mma.accumulate.0), Read);
            mma.scales.iter().flatten().for_each(|a| addr(visit, *a));
        }
        Tcgen05::Copy { address, descriptor, .. } => {
            addr(visit, *address);
            visit(Reg::R64(*descriptor), Read);
        }
        Tcgen05::Shift { address, .. } => addr(visit, *address),
        Tcgen05::Commit { mbar, multicast, .. } => {
            addr(visit, *mbar);
            reads32(visit, *multicast);
        }
        Tcgen05::Relinquish | Tcgen05::Wait { .. } | Tcgen05::Fence { .. } => {}
    }
}
