//! A simple cost model, for timelines in which overlap (or the lack of it) can be seen.
//!
//! Every warp has a clock in cycles of one multiprocessor. An instruction costs its issue slots (a move
//! from register to register costs none: the assembler lets both be one):
//! 32 lanes at 32 lanes per cycle and partition, special functions 4 lanes per cycle, shared memory
//! 128 bytes and global memory 64 bytes per cycle and multiprocessor. A wait moves the clock to the
//! time of what it waited for. Each multiprocessor has one copy engine (64 bytes per cycle after
//! 500 cycles) and one tensor unit (8192 dense 16-bit FLOP per cycle on sm_100, 4096 on sm_90, twice
//! that for 8-bit and half for tf32). Warps do not compete for issue slots or memory: the model
//! shows who waits for whom, not how long a kernel takes.

use crate::engine::{Group, Pending};
use crate::exec::Work;
use crate::instruction::{MmaWork, RESPONSE_BYTES, WgmmaOp};
use crate::machine::Machine;
use crate::trace::Track;
use crate::warp::WarpId;

/// Kinds of instructions, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Integer, floating-point and predicate arithmetic, moves.
    Arithmetic,
    /// Special functions.
    Mufu,
    /// Branches.
    Control,
    /// Loads, stores, atomics.
    Memory,
    /// Barriers, fences, exchanges within a warp.
    Synchronisation,
    /// Issue of asynchronous copies.
    Copy,
    /// Matrix instructions.
    Matrix,
}

/// Number of classes.
pub const CLASSES: usize = 7;

/// Issue cycles and class of an instruction.
pub type Cost = (u8, Class);

/// The cost of a special function.
pub const MUFU: Cost = (8, Class::Mufu);

/// When the engines of a multiprocessor are free.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineTimes {
    copy: u64,
    tensor: u64,
}

const COPY_LATENCY: u64 = 500;
const COPY_BYTES_PER_CYCLE: u64 = 64;
const TENSOR_LATENCY: u64 = 32;

impl Machine<'_> {
    /// Simulated time at which an operation is done; its engine is busy until shortly before.
    pub(crate) fn finish_time(&mut self, pending: &Pending) -> u64 {
        let cta = self.warps[pending.warp].cta;
        let (name, tensor, busy) = match &pending.work {
            Work::Wgmma(work) => ("mma", true, wgmma_cycles(&work.op)),
            Work::Mma(work) => ("mma", true, mma_cycles(work)),
            Work::TmemCopy { .. } | Work::Shift { .. } => ("tcgen05.cp", true, 32),
            Work::Arrive(_) => return pending.time.max(self.engine_times[cta].tensor),
            Work::TensorLoad { plan, .. } => {
                ("tensor load", false, copy_cycles(plan.transaction_bytes))
            }
            Work::TensorStore { plan, .. } => {
                ("tensor store", false, copy_cycles(plan.transaction_bytes))
            }
            Work::Bulk { bytes, .. } => ("bulk copy", false, copy_cycles(*bytes)),
            Work::CancelResponse { .. } => ("try_cancel", false, copy_cycles(RESPONSE_BYTES)),
            Work::CpAsync(parts) => {
                ("cp.async", false, copy_cycles(parts.iter().map(|p| p.bytes).sum()))
            }
            Work::StoreAsync { data, .. } => ("st.async", false, copy_cycles(data.len() as u32)),
        };
        let times = &mut self.engine_times[cta];
        let free = if tensor { &mut times.tensor } else { &mut times.copy };
        let start = pending.time.max(*free);
        *free = start + busy;
        if tensor {
            self.counters.tensor_busy += busy;
        }
        let track = if tensor { Track::Tensor(cta) } else { Track::Copy(cta) };
        self.trace_slice(track, name, start, start + busy);
        let done = start + busy + if tensor { TENSOR_LATENCY } else { COPY_LATENCY };
        if pending.group != Group::None {
            self.group_times.push((pending.group, done));
            let excess = self.group_times.len().saturating_sub(256);
            self.group_times.drain(..excess);
        }
        done
    }

    /// A warp waited for groups: its clock moves to their end.
    pub(crate) fn wait_time(&mut self, w: WarpId, wanted: &dyn Fn(Group) -> bool) {
        let done = self.group_times.iter().filter(|(g, _)| wanted(*g)).map(|(_, t)| *t).max();
        let start = self.warps[w].time;
        if let Some(done) = done.filter(|done| *done > start) {
            self.trace_wait(w, "wait for group", start, done);
            self.warps[w].time = done;
        }
    }
}

/// Cycles of a tensor unit. The rate is for 16-bit operands; narrower ones go faster, wider ones slower.
fn tensor_cycles(flops: u64, bits: u64, rate: u64) -> u64 {
    (flops * bits / (16 * rate)).max(1)
}

/// FLOP of 16-bit operands per cycle.
const WGMMA_RATE: u64 = 4096;
const TCGEN05_RATE: u64 = 8192;

fn wgmma_cycles(op: &WgmmaOp) -> u64 {
    let flops = 2 * 64 * (op.mma.columns * op.mma.depth()) as u64;
    tensor_cycles(flops, 32 / op.mma.a.per_register() as u64, WGMMA_RATE)
}

fn mma_cycles(work: &MmaWork) -> u64 {
    let flops = work.mma.flops() / work.ctas.len() as u64;
    tensor_cycles(flops, work.mma.element_bits(), TCGEN05_RATE)
}

fn copy_cycles(bytes: u32) -> u64 {
    (u64::from(bytes) / COPY_BYTES_PER_CYCLE).max(1)
}
