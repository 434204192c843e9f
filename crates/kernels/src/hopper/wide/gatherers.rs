//! Four warps in the loaders' place, where keys and values are gathered: two bring keys, two bring queries
//! (one thread, by TMA) and values, where those are not the keys. Where rows are packed (they are keys and values
//! in one) eight warps unpack them.

use super::kernel::Frame;
use super::loaders::Queries;
use crate::moves::gather::{Stream, Unpack, WARPS};
use ptx::build::{Builder, Cmp, Reg, Roles};

/// Emits the four warps.
pub fn emit(roles: &mut Roles<'_>, frame: &Frame) {
    roles.warps(0..WARPS, |b, warp| {
        let keys = keys(b, frame, warp);
        frame.params.lead_tiles(b, |b, open| keys.bring(b, &open));
    });
    if frame.config.shared_kv {
        return roles.warp(WARPS, |b| emit_queries(b, frame));
    }
    roles.warps(WARPS..2 * WARPS, |b, warp| emit_queries_and_values(b, frame, warp));
}

fn keys<'f>(b: &mut Builder, frame: &'f Frame, warp: Reg<u32>) -> Stream<'f> {
    let (params, shared) = (&frame.params, &frame.shared);
    let keys = params.segments.iter().map(|keys| (keys, keys.k));
    let pieces = frame.config.key_pieces().into_iter().zip(shared.k_rings.iter().copied());
    Stream::new(b, params, keys, shared.k, pieces, warp)
        .marking(shared.marks.as_ref())
        .prefetching(frame.config.prefetches)
}

/// Emits one of the warps that unpack rows; the first one loads queries, too.
pub fn emit_unpacking(b: &mut Builder, frame: &Frame, warp: Reg<u32>) {
    let (params, shared) = (&frame.params, &frame.shared);
    let (loads, elected) = (b.setp(Cmp::Eq, warp, 0), b.elect());
    let queries = Queries::new(b, frame, elected);
    let pieces = frame.config.key_pieces().into_iter().zip(shared.k_rings.iter().copied());
    let (marks, waiting) = (shared.marks.as_ref(), shared.waiting.as_ref());
    let rows = Unpack::new(b, params, shared.k, pieces, marks, waiting, warp);
    params.for_each_tile(b, |b, open| {
        // Nobody waits for the other warps: behind, they would take one phase for another.
        b.if_(loads, |b| queries.load(b, &open));
        rows.bring(b, &open);
    });
}

fn emit_queries(b: &mut Builder, frame: &Frame) {
    let elected = b.elect();
    let queries = Queries::new(b, frame, elected);
    frame.params.for_each_tile(b, |b, open| queries.load(b, &open));
}

fn emit_queries_and_values(b: &mut Builder, frame: &Frame, warp: Reg<u32>) {
    let (params, shared) = (&frame.params, &frame.shared);
    let (loads, elected) = (b.setp(Cmp::Eq, warp, 0), b.elect());
    let (queries, loaded) = (Queries::new(b, frame, elected), shared.q_ring.consumer(b));
    let values = params.segments.iter().filter_map(|keys| Some((keys, keys.v?)));
    let pieces = frame.config.value_pieces().into_iter().zip(shared.v_rings);
    let pieces = pieces.filter(|(panels, _)| *panels > 0);
    let values =
        Stream::new(b, params, values, shared.v, pieces, warp).prefetching(frame.config.prefetches);
    params.for_each_tile(b, |b, open| {
        // Nobody waits for the other warp: behind, it would take one phase for another.
        b.if_(loads, |b| queries.load(b, &open));
        // Queries and keys are needed first: values do not compete with them.
        let slot = loaded.take(b);
        slot.wait(b);
        slot.release_if(b, elected);
        values.bring(b, &open);
    });
}
