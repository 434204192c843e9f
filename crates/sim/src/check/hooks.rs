//! Where execution tells the checker what happens.

use super::Clocks;
use crate::cluster::{Cluster, Run};
use crate::engine::{Group, Pending, Stream};
use crate::exec::{BarrierId, Work};
use crate::matrix::TmemRect;
use crate::op::Fence;
use crate::register::R32;

impl Cluster<'_> {
    pub(crate) fn publish_named(&mut self, _w: usize, _cta: usize, _id: u32) {}
    pub(crate) fn publish_cluster(&mut self, _w: usize) {}
    pub(crate) fn acquire(&mut self, _w: usize, _clocks: &Clocks) {}
    pub(crate) fn acquire_barrier(&mut self, _w: usize, _id: BarrierId) {}
    pub(crate) fn release_to(&mut self, _w: usize, _id: BarrierId) {}
    pub(crate) fn note_fence(&mut self, _w: usize, _fence: Fence) {}
    pub(crate) fn note_barrier_init(&mut self, _w: usize, _id: BarrierId) -> Run<()> {
        Ok(())
    }
    pub(crate) fn note_barrier_use(&mut self, _w: usize, _id: BarrierId) -> Run<()> {
        Ok(())
    }
    pub(crate) fn note_issue(
        &mut self,
        _w: usize,
        _s: Stream,
        _g: Group,
        _work: &Work,
    ) -> Run<Clocks> {
        Ok(Clocks::default())
    }
    pub(crate) fn note_complete(&mut self, _p: &Pending) {}
    pub(crate) fn publish_to(&mut self, _p: &Pending, _id: BarrierId) {}
    pub(crate) fn join_groups(&mut self, _w: usize, _wanted: &dyn Fn(Group) -> bool) {}
    pub(crate) fn finish_reads(&mut self, _w: usize, _wanted: impl Fn(Group) -> bool) {}
    pub(crate) fn finish_writes(&mut self, _w: usize, _wanted: impl Fn(Group) -> bool) {}
    pub(crate) fn finish_time(&mut self, p: &Pending) -> u64 {
        p.time
    }
    pub(crate) fn note_tmem_load(
        &mut self,
        _w: usize,
        _cta: usize,
        _r: &[TmemRect],
        _d: &[R32],
    ) -> Run<()> {
        Ok(())
    }
    pub(crate) fn note_tmem_store(&mut self, _w: usize, _cta: usize, _r: &[TmemRect]) -> Run<()> {
        Ok(())
    }
    pub(crate) fn tmem_wait(&mut self, _w: usize, _loads: bool) {}
}
