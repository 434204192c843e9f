//! Four warps in the loaders' place, where keys and values are gathered: two bring keys, two bring queries
//! (one thread, by TMA) and values, where those are not the keys.

use super::kernel::Frame;
use super::loaders::load_queries;
use crate::gather::{Stream, WARPS};
use ptx::build::{Builder, Cmp, Reg, Roles};

/// Emits the four warps.
pub fn emit(roles: &mut Roles<'_>, frame: &Frame) {
    roles.warps(0..WARPS, |b, warp| emit_keys(b, frame, warp));
    roles.warps(WARPS..2 * WARPS, |b, warp| emit_queries_and_values(b, frame, warp));
}

fn emit_keys(b: &mut Builder, frame: &Frame, warp: Reg<u32>) {
    let (params, shared) = (&frame.params, &frame.shared);
    let keys = params.segments.iter().map(|keys| (keys, keys.k));
    let units = frame.config.key_units().into_iter().zip(shared.k_rings.iter().copied());
    let stream = Stream::new(b, params, keys, shared.k, units, warp)
        .marking(shared.marks.as_ref())
        .prefetching(frame.config.prefetches);
    params.for_each_tile(b, |b, open| stream.bring(b, &open));
}

fn emit_queries_and_values(b: &mut Builder, frame: &Frame, warp: Reg<u32>) {
    let (params, shared) = (&frame.params, &frame.shared);
    let (first, elected) = (b.setp(Cmp::Eq, warp, 0), b.elect());
    let (queries, loaded) = (shared.q_ring.producer(b), shared.q_ring.consumer(b));
    let values = (!frame.config.shared_kv).then(|| {
        let values = params.segments.iter().filter_map(|keys| Some((keys, keys.v?)));
        let units = frame.config.value_units().into_iter().zip(shared.v_rings);
        let units = units.filter(|(panels, _)| *panels > 0);
        Stream::new(b, params, values, shared.v, units, warp).prefetching(frame.config.prefetches)
    });
    params.for_each_tile(b, |b, open| {
        // Nobody waits for the other warp: behind, it would take one phase for another.
        b.if_(first, |b| load_queries(b, frame, elected, &queries, &open));
        let Some(values) = &values else { return };
        // Queries and keys are needed first: values do not compete with them.
        let slot = loaded.take(b);
        slot.wait(b);
        slot.release_if(b, elected);
        values.bring(b, &open);
    });
}
