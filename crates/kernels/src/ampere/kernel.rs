//! The kernel's frame: parameters and shared memory.

use super::config::{Coming, Config, QueryPlace};
use super::marks::Marks;
use super::narrow::Staging;
use super::packed::Waiting;
use super::parked::Parked;
use super::warp;
use crate::call::task::Params;
use crate::hopper::tile::TileShape;
use crate::math::exact::Rows;
use layout::Layout;
use ptx::build::{Builder, SharedArray, SharedTiles, SmemPtr};

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    /// Queries, a tile per row block.
    pub q: SharedTiles,
    /// Keys, a tile per stage.
    pub k: SharedTiles,
    /// Values: the keys' tiles where they are the same.
    pub v: SharedTiles,
    /// Bytes of e4m3 keys, and of values that are not the keys', where they are staged.
    pub staging: Option<(Staging, Option<Staging>)>,
    /// Bytes of packed rows, where they are staged.
    pub packed: Option<Waiting>,
    /// Which keys of a tile exist, where they are listed.
    pub marks: Option<Marks>,
    /// The work tiles of warps, where registers have no room for them.
    pub parked: Option<Parked>,
    /// Partial scores, `[4 words, lane, vector, warp]`, where two warps share rows.
    pub exchange: Option<SharedArray<f32>>,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, mut params: Params) {
    let base = b.shared_base();
    let [q, k, v] = tiles(b, base, &config);
    let staging = (config.e4m3 == Some(Coming::Staged)).then(|| {
        let mut reserve = |shape: TileShape| Staging::reserve(b, base, &config, shape.chunks);
        (reserve(config.keys()), (!config.shared_kv).then(|| reserve(config.values())))
    });
    let packed = match params.keys().exact {
        Rows::Packed(rows) if config.packed == Some(Coming::Staged) => {
            Some(Waiting::reserve(b, base, rows.format, config.threads(), config.turns()))
        }
        _ => None,
    };
    let marks = config.listed.then(|| Marks::reserve(b, base, config.shape.tile, config.stages));
    let exchange = (config.shape.halves > 1).then(|| {
        let vectors = u64::from(config.exchanged_words() / 4);
        let layout = Layout::column_major((4, 32, vectors, u64::from(config.shape.warps)));
        SharedArray::reserve(b, base, &layout.expect("a small layout"))
    });
    let parked = config.parks().then(|| Parked::reserve(b, base, config.shape.warps));
    params.reserve_watch(b);
    let frame = Frame { config, params, q, k, v, staging, packed, marks, parked, exchange };
    frame.params.share_out(b);
    warp::emit(b, &frame);
}

/// The tiles of queries, keys and values. Queries that pass through the ring lie in its later buffers, so that the keys
/// and values of a buffer are neighbours there.
fn tiles(b: &mut Builder, base: SmemPtr, config: &Config) -> [SharedTiles; 3] {
    let [q, k, v] = [config.queries(), config.keys(), config.values()].map(TileShape::layout);
    let QueryPlace::Passed(behind) = config.query_place else {
        let mut reserve = |tile, n| SharedTiles::reserve(b, base, tile, n);
        let q = reserve(q, config.query_tiles());
        let k = reserve(k, config.tiles());
        return [q, k, if config.shared_kv { k } else { reserve(v, config.tiles()) }];
    };
    let ring = SharedTiles::reserve_region(b, base, config.ring_bytes());
    let first = ring.plus(config.first_bytes(behind));
    let values = ring.plus(config.keys().bytes());
    let (stages, stride) = (config.stages, config.stage_bytes());
    [
        SharedTiles::over(first, q, config.query_tiles(), config.queries().bytes()),
        SharedTiles::over(ring, k, stages, stride),
        SharedTiles::over(values, v, stages, stride),
    ]
}
