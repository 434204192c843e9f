//! Four warps in the producer's place, where keys and values are gathered: two bring keys, two bring
//! queries (one thread, by TMA) and values, where those are not the keys.

use super::kernel::Frame;
use super::producer::queries;
use crate::moves::gather::{Stream, WARPS};
use ptx::build::{Builder, Cmp, Reg, Roles};

/// Emits the four warps.
pub fn emit(roles: &mut Roles<'_>, frame: &Frame) {
    roles.warps(0..WARPS, |b, warp| emit_keys(b, frame, warp));
    roles.warps(WARPS..2 * WARPS, |b, warp| emit_queries_and_values(b, frame, warp));
}

fn emit_keys(b: &mut Builder, frame: &Frame, warp: Reg<u32>) {
    let (params, shared) = (&frame.params, &frame.shared);
    let keys = params.segments.iter().map(|keys| (keys, keys.k));
    let piece = (frame.config.keys().chunks, shared.k_ring);
    let stream = Stream::new(b, params, keys, shared.k, [piece].into_iter(), warp)
        .marking(shared.marks.as_ref());
    params.lead_tiles(b, |b, open| stream.bring(b, &open));
}

fn emit_queries_and_values(b: &mut Builder, frame: &Frame, warp: Reg<u32>) {
    let (params, shared) = (&frame.params, &frame.shared);
    let (first, elected) = (b.setp(Cmp::Eq, warp, 0), b.elect());
    let queries = queries(b, frame, elected);
    let values = (!frame.config.shared_kv).then(|| {
        let values = params.segments.iter().filter_map(|keys| Some((keys, keys.v?)));
        let piece = (frame.config.values().chunks, shared.v_ring);
        Stream::new(b, params, values, shared.v, [piece].into_iter(), warp)
    });
    params.for_each_tile(b, |b, open| {
        // Nobody waits for the other warp: behind, it would take one phase for another.
        b.if_(first, |b| queries.load(b, &open, |b, n| open.first_block.plus(b, n)));
        if let Some(values) = &values {
            values.bring(b, &open);
        }
    });
}
