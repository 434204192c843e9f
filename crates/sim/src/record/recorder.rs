//! Recording while a cluster runs.

use super::{
    BarrierKind, Event, Mix, Operation, OperationId, Phase, PhaseId, Recording, WarpEvents,
};
use crate::engine::{Group, Stream};
use crate::exec::Work;
use crate::instruction::{BarrierId, Inst, MemoryAccess, Op, WgmmaWork};
use crate::machine::{CtaRank, Machine};
use crate::record::Unit;
use crate::register::Reg;
use crate::report::Counters;
use crate::warp::WarpId;
use std::collections::HashMap;

/// Which phase of which barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PhaseKey {
    /// CTA, offset, how often it was initialised before, phase.
    Mbarrier(usize, u32, u32, u64),
    /// CTA, number, how often it was complete before.
    Named(usize, u32, u32),
    /// Phase.
    Cluster(u64),
}

/// Groups whose operations are remembered.
const REMEMBERED: usize = 1024;

/// A recording under way.
#[derive(Default)]
pub(crate) struct Recorder {
    recording: Recording,
    phases: HashMap<PhaseKey, PhaseId>,
    /// How often each mbarrier was initialised.
    initialised: HashMap<BarrierId, u32>,
    /// How often each named barrier was complete.
    completed: HashMap<(usize, u32), u32>,
    groups: Vec<(Group, OperationId)>,
    /// Registers of loads that nobody has used, by warp.
    loads: Vec<Vec<(Reg, u32)>>,
    /// Loads so far, by warp.
    loaded: Vec<u32>,
}

impl Recorder {
    pub(crate) fn new(machine: &Machine<'_>) -> Recorder {
        let of_warp = |warp: &crate::warp::Warp| WarpEvents {
            cta: warp.cta.0 as u32,
            index: warp.index,
            events: Vec::new(),
        };
        let recording = Recording {
            cluster: machine.number,
            ctas: machine.ctas.len() as u32,
            warps: machine.warps.iter().map(of_warp).collect(),
            ..Recording::default()
        };
        let warps = machine.warps.len();
        Recorder {
            recording,
            loads: vec![Vec::new(); warps],
            loaded: vec![0; warps],
            ..Recorder::default()
        }
    }

    pub(crate) fn into_recording(self) -> Recording {
        self.recording
    }

    /// Adds an event behind the instructions before it; an arrival that repeats the last one is left out.
    fn push(&mut self, w: WarpId, mix: Mix, event: Event) {
        let events = &mut self.recording.warps[w.0].events;
        if !mix.is_empty() {
            events.push(Event::Run(mix));
        }
        if let Event::Arrive(phase) = event {
            if events.last() == Some(&event) {
                return;
            }
            self.recording.phases[phase as usize].arrivals += 1;
        }
        self.recording.warps[w.0].events.push(event);
    }

    fn phase(&mut self, key: PhaseKey) -> PhaseId {
        let phases = &mut self.recording.phases;
        *self.phases.entry(key).or_insert_with(|| {
            let barrier = match key {
                PhaseKey::Mbarrier(..) => BarrierKind::Mbarrier,
                PhaseKey::Named(..) => BarrierKind::Named,
                PhaseKey::Cluster(_) => BarrierKind::Cluster,
            };
            phases.push(Phase { arrivals: 0, barrier });
            phases.len() as PhaseId - 1
        })
    }

    fn mbarrier_phase(&mut self, id: BarrierId, phase: u64) -> PhaseId {
        let times = self.initialised.get(&id).copied().unwrap_or(0);
        self.phase(PhaseKey::Mbarrier(id.0.0, id.1, times, phase))
    }

    fn named_phase(&mut self, cta: CtaRank, id: u32) -> PhaseId {
        let times = self.completed.get(&(cta.0, id)).copied().unwrap_or(0);
        self.phase(PhaseKey::Named(cta.0, id, times))
    }

    fn operation(&mut self, operation: Operation) -> OperationId {
        self.recording.operations.push(operation);
        self.recording.operations.len() as OperationId - 1
    }
}

impl Machine<'_> {
    /// Ends a run of instructions with an event.
    fn record(&mut self, w: WarpId, event: Event) {
        if let Some(recorder) = &mut self.recorder {
            let mix = std::mem::take(&mut self.warps[w].mix);
            recorder.push(w, mix, event);
        }
    }

    /// A warp ends: what it executed last.
    pub(crate) fn record_end(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        for (warp, log) in self.warps.iter_mut().zip(&mut recorder.recording.warps) {
            let mix = std::mem::take(&mut warp.mix);
            if !mix.is_empty() {
                log.events.push(Event::Run(mix));
            }
        }
    }

    /// An operation that a warp issues alone.
    pub(crate) fn record_issue(
        &mut self,
        w: WarpId,
        (stream, group): (Stream, Group),
        work: &Work,
    ) -> OperationId {
        let cta = self.warps[w].cta;
        let Some(recorder) = &mut self.recorder else { return 0 };
        let (kind, stream) = (super::describe::kind(work), super::describe::stream(stream));
        let operation =
            Operation { kind, cta: cta.0 as u32, issuers: 1, stream, signals: Vec::new() };
        let id = recorder.operation(operation);
        recorder.remember(group, id);
        self.record(w, Event::Issue(id));
        id
    }

    /// A `wgmma` that the first warp of a warpgroup has come to.
    pub(crate) fn record_product(
        &mut self,
        (first, group): (WarpId, Group),
        work: &WgmmaWork,
    ) -> OperationId {
        let cta = self.warps[first].cta;
        let Some(recorder) = &mut self.recorder else { return 0 };
        let (kind, stream) =
            (super::describe::wgmma(work), super::describe::stream(Stream::Wgmma(first)));
        let operation =
            Operation { kind, cta: cta.0 as u32, issuers: 4, stream, signals: Vec::new() };
        let id = recorder.operation(operation);
        recorder.remember(group, id);
        id
    }

    /// A warp takes part in a `wgmma`.
    pub(crate) fn record_part(&mut self, w: WarpId, id: OperationId) {
        self.record(w, Event::Issue(id));
    }

    /// An operation arrives on an mbarrier.
    pub(crate) fn record_signal(&mut self, id: OperationId, barrier: BarrierId) {
        let Some(phase) = self.mbarrier_phase(barrier) else { return };
        if let Some(recorder) = &mut self.recorder {
            recorder.recording.phases[phase as usize].arrivals += 1;
            recorder.recording.operations[id as usize].signals.push(phase);
        }
    }

    /// The current phase of an mbarrier, where that is recorded.
    fn mbarrier_phase(&mut self, id: BarrierId) -> Option<PhaseId> {
        let phase = self.ctas[id.0].mbarriers.get(&id.1)?.phase;
        self.recorder.as_mut().map(|recorder| recorder.mbarrier_phase(id, phase))
    }

    /// A warp arrives on an mbarrier or tells it of bytes.
    pub(crate) fn record_arrival(&mut self, w: WarpId, id: BarrierId) {
        if let Some(phase) = self.mbarrier_phase(id) {
            self.record(w, Event::Arrive(phase));
        }
    }

    /// A warp has waited for a phase of an mbarrier.
    pub(crate) fn record_wait(&mut self, w: WarpId, id: BarrierId, phase: u64) {
        if let Some(recorder) = &mut self.recorder {
            let phase = recorder.mbarrier_phase(id, phase);
            self.record(w, Event::Wait(phase));
        }
    }

    /// An mbarrier was initialised: its phases count from zero again.
    pub(crate) fn record_init(&mut self, id: BarrierId) {
        if let Some(recorder) = &mut self.recorder {
            *recorder.initialised.entry(id).or_default() += 1;
        }
    }

    /// A warp arrives at a named barrier, and perhaps waits there.
    pub(crate) fn record_named(&mut self, w: WarpId, id: u32, waits: bool) {
        let cta = self.warps[w].cta;
        let Some(recorder) = &mut self.recorder else { return };
        let phase = recorder.named_phase(cta, id);
        self.record(w, Event::Arrive(phase));
        if waits {
            self.record(w, Event::Wait(phase));
        }
    }

    /// A named barrier is complete.
    pub(crate) fn record_named_complete(&mut self, cta: CtaRank, id: u32) {
        if let Some(recorder) = &mut self.recorder {
            *recorder.completed.entry((cta.0, id)).or_default() += 1;
        }
    }

    /// A warp arrives at the cluster's barrier, or waits for a phase of it.
    pub(crate) fn record_cluster(&mut self, w: WarpId, phase: u64, waits: bool) {
        let Some(recorder) = &mut self.recorder else { return };
        let phase = recorder.phase(PhaseKey::Cluster(phase));
        self.record(w, if waits { Event::Wait(phase) } else { Event::Arrive(phase) });
    }

    /// A warp waits for groups. Operations of a stream end in order, so the last one of it stands for all.
    pub(crate) fn record_groups(&mut self, w: WarpId, wanted: &dyn Fn(Group) -> bool) {
        let Some(recorder) = &mut self.recorder else { return };
        let mut ids: Vec<OperationId> = Vec::new();
        for (group, id) in &recorder.groups {
            if wanted(*group) {
                match group {
                    Group::Bulk(..) | Group::None => {}
                    Group::CpAsync(..) | Group::Wgmma(..) => ids.clear(),
                }
                ids.push(*id);
            }
        }
        ids.into_iter().for_each(|id| self.record(w, Event::WaitFor(id)));
    }

    /// A warp waits for tensor memory, or for earlier grids, or reads the clock.
    pub(crate) fn record_plain(&mut self, w: WarpId, event: Event) {
        self.record(w, event);
    }

    /// What an instruction that is more than arithmetic asked of memory and of the tensor cores.
    pub(crate) fn record_access(&mut self, w: WarpId, op: &Op, before: &Counters) {
        let now = self.counters;
        let mix = &mut self.warps[w].mix;
        match op {
            Op::MemoryAccess(access) => {
                let shared = now.shared_read - before.shared_read + now.shared_written
                    - before.shared_written;
                let cycles = shared.div_ceil(128) + now.bank_conflicts - before.bank_conflicts;
                mix.add(Unit::Shared, cycles);
                let read = now.global_read - before.global_read;
                mix.add(Unit::Loaded, read);
                mix.add(Unit::Global, now.global_written - before.global_written);
                if let MemoryAccess::Load(load) = access
                    && read > 0
                {
                    self.record_load(w, load.dst.iter().flatten());
                }
            }
            Op::WarpMatrix(_) => {
                let shared = now.shared_read - before.shared_read + now.shared_written
                    - before.shared_written;
                mix.add(Unit::Shared, shared.div_ceil(128));
                mix.add(Unit::Matrix, (now.mma_flops - before.mma_flops).div_ceil(1024));
            }
            _ => {}
        }
    }

    fn record_load<'r>(&mut self, w: WarpId, registers: impl Iterator<Item = &'r Reg>) {
        let Some(recorder) = &mut self.recorder else { return };
        let number = recorder.loaded[w.0];
        recorder.loaded[w.0] += 1;
        recorder.loads[w.0].extend(registers.map(|r| (*r, number)));
        self.record(w, Event::Load(number));
    }

    /// An instruction that may use what a load brought.
    #[inline(never)]
    pub(crate) fn record_use(&mut self, w: WarpId, inst: &Inst) {
        let Some(recorder) = &mut self.recorder else { return };
        let waiting = &mut recorder.loads[w.0];
        if waiting.is_empty() {
            return;
        }
        let mut used: Option<u32> = None;
        inst.op.registers(&mut |reg, _| {
            let of = waiting.iter().filter(|(r, _)| *r == reg).map(|(_, number)| *number).max();
            used = used.max(of);
        });
        if let Some(number) = used {
            // Loads of a warp return in order.
            waiting.retain(|(_, n)| *n > number);
            self.record(w, Event::Use(number));
        }
    }
}

impl Recorder {
    fn remember(&mut self, group: Group, id: OperationId) {
        if group != Group::None {
            self.groups.push((group, id));
            let excess = self.groups.len().saturating_sub(REMEMBERED);
            if excess >= REMEMBERED {
                self.groups.drain(..excess);
            }
        }
    }
}
