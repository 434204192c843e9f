//! Tensor copies by the TMA engine.

use super::builder::Builder;
use super::memory::{GlobalPtr, SmemPtr, TensorMapParam};
use super::sync::{Mbarrier, RemoteMbarrier};
use super::value::{Arg, Reg};
use crate::ast::{Address, AddressBase, Operand};

#[track_caller]
fn tensor(b: &mut Builder, map: TensorMapParam, coordinates: &[Arg<i32>]) -> Operand {
    let base = AddressBase::Name(map.0.symbol());
    let mut list = Vec::new();
    // Not in a closure, whose line of source would be this one.
    for coordinate in coordinates {
        list.push(b.operand(coordinate.clone()));
    }
    Operand::TensorAddress(Address { base, offset: 0 }, vec![Operand::Vector(list)])
}

/// A load of four rows.
const GATHER: &str =
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes";

/// The coordinates of four rows from a column on.
fn gathered(column: Arg<i32>, rows: [Reg<u32>; 4]) -> Vec<Arg<i32>> {
    std::iter::once(column).chain(rows.map(Builder::coordinate)).collect()
}

impl Builder {
    /// Prefetches a tensor map into its cache.
    #[track_caller]
    pub fn prefetch_tensor_map(&mut self, map: TensorMapParam) {
        self.emit("prefetch.tensormap", vec![super::memory::address(map.0, 0)]);
    }

    /// Brings the box at `coordinates` to L2.
    #[track_caller]
    pub fn tma_prefetch(&mut self, map: TensorMapParam, coordinates: &[Arg<i32>]) {
        let rank = coordinates.len();
        let text = format!("cp.async.bulk.prefetch.tensor.{rank}d.L2.global");
        let tensor = tensor(self, map, coordinates);
        self.emit(&text, vec![tensor]);
    }

    /// Copies `bytes` neighbouring bytes, a multiple of 16 at multiples of 16, to shared memory; they are counted on
    /// `barrier`.
    #[track_caller]
    pub fn bulk_load(&mut self, to: SmemPtr, from: GlobalPtr, bytes: u32, barrier: Mbarrier) {
        let operands = vec![to.operand(), from.operand(), Operand::int(bytes), barrier.0.operand()];
        self.emit("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", operands);
    }

    /// Copies the box at `coordinates` (innermost first) to shared memory; its bytes are counted on
    /// `barrier`.
    #[track_caller]
    pub fn tma_load(
        &mut self,
        to: SmemPtr,
        map: TensorMapParam,
        coordinates: &[Arg<i32>],
        barrier: Mbarrier,
    ) {
        let rank = coordinates.len();
        let text = format!(
            "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
        );
        let tensor = tensor(self, map, coordinates);
        self.emit(&text, vec![to.operand(), tensor, barrier.0.operand()]);
    }

    /// As [`Builder::tma_load`], into the same place of every CTA of the cluster named by `ctas`.
    #[track_caller]
    pub fn tma_load_multicast(
        &mut self,
        to: SmemPtr,
        map: TensorMapParam,
        coordinates: &[Arg<i32>],
        barrier: Mbarrier,
        ctas: impl Into<Arg<u16>>,
    ) {
        let ctas = self.operand(ctas);
        let rank = coordinates.len();
        let text = format!(
            "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        );
        let tensor = tensor(self, map, coordinates);
        let operands = vec![to.operand(), tensor, barrier.0.operand(), ctas];
        self.emit(&text, operands);
    }

    /// As [`Builder::tma_load`], counted on a barrier of either CTA of a pair (sm_100a).
    #[track_caller]
    pub fn tma_load_cta_pair(
        &mut self,
        to: SmemPtr,
        map: TensorMapParam,
        coordinates: &[Arg<i32>],
        barrier: RemoteMbarrier,
    ) {
        let rank = coordinates.len();
        let text = format!(
            "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2"
        );
        let tensor = tensor(self, map, coordinates);
        self.emit(&text, vec![to.operand(), tensor, barrier.operand()]);
    }

    /// Copies four rows of a tensor of two dimensions from `column` on, one behind the other (sm_100a). The map's box has
    /// one row. A row outside the tensor becomes what the map fills with.
    #[track_caller]
    pub fn tma_gather(
        &mut self,
        to: SmemPtr,
        map: TensorMapParam,
        column: Arg<i32>,
        rows: [Reg<u32>; 4],
        barrier: Mbarrier,
    ) {
        let tensor = tensor(self, map, &gathered(column, rows));
        let operands = vec![to.operand(), tensor, barrier.0.operand()];
        self.emit(GATHER, operands);
    }

    /// As [`Builder::tma_gather`], counted on a barrier of either CTA of a pair.
    #[track_caller]
    pub fn tma_gather_cta_pair(
        &mut self,
        to: SmemPtr,
        map: TensorMapParam,
        column: Arg<i32>,
        rows: [Reg<u32>; 4],
        barrier: RemoteMbarrier,
    ) {
        let tensor = tensor(self, map, &gathered(column, rows));
        let operands = vec![to.operand(), tensor, barrier.operand()];
        self.emit(&format!("{GATHER}.cta_group::2"), operands);
    }

    /// Copies a box from shared memory to the tensor (part of the current bulk group).
    #[track_caller]
    pub fn tma_store(&mut self, map: TensorMapParam, coordinates: &[Arg<i32>], from: SmemPtr) {
        let rank = coordinates.len();
        let text = format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group");
        let tensor = tensor(self, map, coordinates);
        self.emit(&text, vec![tensor, from.operand()]);
    }

    /// Closes the current bulk group.
    #[track_caller]
    pub fn bulk_commit(&mut self) {
        self.emit("cp.async.bulk.commit_group", vec![]);
    }

    /// Waits until at most `pending` bulk groups still read shared memory.
    #[track_caller]
    pub fn bulk_wait_read(&mut self, pending: u32) {
        self.emit("cp.async.bulk.wait_group.read", vec![Operand::int(pending)]);
    }

    /// Waits until at most `pending` bulk groups are unfinished.
    #[track_caller]
    pub fn bulk_wait(&mut self, pending: u32) {
        self.emit("cp.async.bulk.wait_group", vec![Operand::int(pending)]);
    }

    /// A coordinate from an unsigned register.
    pub fn coordinate(value: Reg<u32>) -> Arg<i32> {
        value.reinterpret::<i32>().into()
    }
}
