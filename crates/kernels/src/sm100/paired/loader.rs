//! The loading warp: queries of both blocks, then keys and values alternating.

use super::kernel::Shared;
use crate::copies::Tail;
use crate::sm100::fill::Filler;
use crate::sm100::frame::Frame;
use crate::task::OpenTile;
use ptx::build::{Builder, Cmp};

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame, shared: &Shared) {
    let lead = b.elect();
    let filler = Filler {
        frame,
        lead,
        queries: (shared.q, shared.q_ring.producer(b)),
        kv: (shared.kv, shared.kv_ring.producer(b)),
        tail: Tail::new(b, lead, &shared.tail),
    };
    frame.params.for_each_tile(b, |b, open| load_tile(b, &filler, &open));
}

fn load_tile(b: &mut Builder, filler: &Filler<'_>, open: &OpenTile) {
    let begin = open.range.begin;
    let n = b.sub(open.range.end, 1);
    let any = b.setp(Cmp::Ge, n, begin);
    b.if_(any, |b| {
        filler.load_queries(b, open);
        filler.load_keys(b, open, n);
        b.while_(
            |b| b.setp(Cmp::Gt, n, begin),
            |b| {
                filler.load_values(b, open, n);
                let next = b.sub(n, 1);
                filler.load_keys(b, open, next);
                b.assign(n, next);
            },
        );
        filler.load_values(b, open, n);
    });
}
