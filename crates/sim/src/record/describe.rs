//! Instructions and operations in the words of a recording.

use super::{OperationKind, Unit};
use crate::engine::Stream;
use crate::exec::{End, Work};
use crate::instruction::{MatrixSource, MmaWork, Op, RESPONSE_BYTES, Tcgen05, WgmmaWork};
use std::ops::Range;

/// The unit an instruction occupies, and the issue slots it takes.
pub(crate) fn unit(op: &Op, instruction: Option<&ptx::ast::Instruction>, mufu: bool) -> (Unit, u8) {
    match op {
        _ if mufu => (Unit::Mufu, 1),
        Op::Arithmetic(_) => instruction.map_or((Unit::Alu, 1), arithmetic),
        Op::Exchange(_) => (Unit::Shuffle, 1),
        Op::Tcgen05(op) => match &**op {
            Tcgen05::Load { d, .. } => (Unit::Tensor, d.len().min(128) as u8),
            Tcgen05::Store { s, .. } => (Unit::Tensor, s.len().min(128) as u8),
            _ => (Unit::Issue, 1),
        },
        Op::Nop
        | Op::Control(_)
        | Op::MemoryAccess(_)
        | Op::Barrier(_)
        | Op::Mbarrier(_)
        | Op::AsyncCopy(_)
        | Op::LaunchControl(_)
        | Op::WarpMatrix(_)
        | Op::WarpgroupMma(_) => (Unit::Issue, 1),
    }
}

/// The same for arithmetic. A move takes nothing: the assembler lets both registers be one.
fn arithmetic(i: &ptx::ast::Instruction) -> (Unit, u8) {
    let has = |names: &[&str]| names.iter().any(|name| i.has(name));
    let wide = u8::from(has(&["s64", "u64", "b64"]));
    match i.opcode.as_str() {
        "mov" => (Unit::Issue, 0),
        "cvt" if has(&["s64", "u64"]) => (Unit::Alu, 1),
        "cvt" => (Unit::Convert, 1),
        "cvta" => (Unit::Issue, 0),
        "add" | "sub" | "mul" | "fma" | "mad" if has(&["f32x2"]) => (Unit::FmaPair, 1),
        "add" | "sub" | "mul" | "fma" if has(&["f32", "f16", "f16x2", "bf16", "bf16x2", "f64"]) => {
            (Unit::Fma, 1)
        }
        "mul" | "mad" => (Unit::Fma, 1 + wide),
        _ => (Unit::Alu, 1 + wide),
    }
}

/// What an operation is.
pub(super) fn kind(work: &Work) -> OperationKind {
    match work {
        Work::Wgmma(work) => wgmma(work),
        Work::Mma(work) => mma(work),
        Work::TmemCopy { .. } | Work::Shift { .. } => OperationKind::Tensor,
        Work::Arrive(_) => OperationKind::Signal,
        Work::TensorLoad { plan, ends, .. } => load(plan.transaction_bytes, ends, true),
        Work::Bulk { from, ends, bytes, .. } => match ends.first() {
            Some(End::Global(_)) => OperationKind::Store { bytes: *bytes },
            _ => load(*bytes, ends, matches!(from, End::Global(_))),
        },
        Work::CancelResponse { ends, .. } => load(RESPONSE_BYTES, ends, true),
        Work::TensorStore { plan, .. } => OperationKind::Store { bytes: plan.transaction_bytes },
        Work::StoreAsync { to, data, .. } => load(data.len() as u32, &[*to], false),
        Work::CpAsync(parts) => {
            let bytes = parts.iter().map(|part| part.bytes).sum();
            let to = parts.iter().fold(0, |to, part| to | 1u16 << (part.cta.0 & 15));
            OperationKind::Load { bytes, to, global: true, lanes: true }
        }
    }
}

fn load(bytes: u32, ends: &[End], global: bool) -> OperationKind {
    let bit = |end: &End| match end {
        End::Shared(cta, _) => 1u16 << (cta.0 & 15),
        End::Global(_) => 0,
    };
    let to = ends.iter().fold(0, |to, end| to | bit(end));
    OperationKind::Load { bytes, to, global, lanes: false }
}

pub(super) fn wgmma(work: &WgmmaWork) -> OperationKind {
    let mma = &work.op.mma;
    let depth = mma.depth();
    let bits = 32 / mma.a.per_register();
    let registers = matches!(work.op.a, MatrixSource::Registers(_));
    let rows = mma.columns + if registers { 0 } else { 64 };
    OperationKind::Product {
        flops: (2 * 64 * mma.columns * depth) as u64,
        bits: bits as u8,
        shared: (rows * depth * bits / 8) as u32,
        registers,
        ctas: 1,
    }
}

fn mma(work: &MmaWork) -> OperationKind {
    let bytes = |ranges: &[Range<u32>]| ranges.iter().map(|r| r.end - r.start).sum::<u32>();
    let shared = work.footprints.first().map_or(0, |f| bytes(&f.shared_a) + bytes(&f.shared_b));
    let registers = work.footprints.first().is_some_and(|f| f.shared_a.is_empty());
    OperationKind::Product {
        flops: work.mma.flops() / work.ctas.len() as u64,
        bits: work.mma.element_bits() as u8,
        shared,
        registers,
        ctas: work.ctas.len() as u8,
    }
}

/// The number of a stream.
pub(super) fn stream(stream: Stream) -> Option<u32> {
    match stream {
        Stream::Free => None,
        Stream::CpAsync(w) => Some(3 * w.0 as u32),
        Stream::Wgmma(w) => Some(3 * w.0 as u32 + 1),
        Stream::Tcgen05(w) => Some(3 * w.0 as u32 + 2),
    }
}
