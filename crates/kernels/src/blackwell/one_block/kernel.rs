//! The kernel: parameters, shared memory, barriers, roles.

use super::{gatherers, issuer, softmax};
use crate::blackwell::allocation::Allocation;
use crate::blackwell::config::Config;
use crate::blackwell::fill::{self, Buffers};
use crate::blackwell::frame::Frame;
use crate::blackwell::gatherers::Gathered;
use crate::blackwell::rows::ROW_WARPS;
use crate::blackwell::tensor_memory::{SCORE_TILES, TensorMemory};
use crate::call::task::Params;
use crate::plan::options::Probabilities;
use crate::roles::loader::Order;
use ptx::build::{Builder, CtaGroup, SharedTile, Signals};

/// The warp that owns tensor memory and issues multiplies.
const ISSUING_WARP: u32 = 4;
/// The warp that loads.
const LOADING_WARP: u32 = 5;
/// The first of the warps that gather, where there are some.
const GATHERING_WARPS: u32 = 6;

/// Threads of a CTA.
pub fn threads(config: &Config) -> u32 {
    32 * (GATHERING_WARPS + config.gathering_warps())
}

/// Shared memory and barriers.
pub struct Shared {
    /// Queries (also where finished rows are staged), keys and values.
    pub buffers: Buffers,
    /// Probabilities, where they do not stay in tensor memory.
    pub p: Option<SharedTile>,
    /// Scores are in tensor memory.
    pub scores: Signals,
    /// Probabilities are where the second product reads them, and the output is rescaled for it.
    pub probabilities: Signals,
    /// The output has everything up to this tile.
    pub output: Signals,
    /// What gathering takes.
    pub gathered: Option<Gathered>,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, params: Params) {
    let mut frame = Frame { config, params, map: TensorMemory::of(&config) };
    let (shared, memory) = reserve(b, &frame);
    frame.params.reserve_shares(b);
    let (frame, shared) = (&frame, &shared);
    memory.around(
        b,
        &frame.params,
        |b| init(b, &config, shared),
        |b, warp, tmem| {
            b.roles(warp, |roles| {
                roles.warps(0..ROW_WARPS, |b, warp| softmax::emit(b, frame, shared, tmem, warp));
                roles.warp(ISSUING_WARP, |b| issuer::emit(b, frame, shared, tmem));
                let Some(gathered) = &shared.gathered else {
                    return roles.warp(LOADING_WARP, |b| {
                        fill::emit(b, frame, &shared.buffers, Order::KeysFirst);
                    });
                };
                let buffers = &shared.buffers;
                roles.warp(LOADING_WARP, |b| {
                    gatherers::emit_publisher(b, frame, buffers, gathered);
                });
                let warps = GATHERING_WARPS..GATHERING_WARPS + config.gathering_warps();
                roles.warps(warps, |b, warp| gatherers::emit(b, frame, buffers, gathered, warp));
            });
        },
    );
}

fn reserve(b: &mut Builder, frame: &Frame) -> (Shared, Allocation) {
    let (base, config) = (b.shared_base(), &frame.config);
    let columns = frame.map.allocation;
    let shared = Shared {
        p: match config.probabilities {
            Probabilities::TensorMemory => None,
            Probabilities::SharedMemory => {
                Some(SharedTile::reserve(b, base, config.probability_tile()))
            }
        },
        buffers: Buffers::reserve(b, base, config),
        scores: Signals::reserve(b, base, SCORE_TILES),
        probabilities: Signals::reserve(b, base, SCORE_TILES),
        output: Signals::reserve(b, base, 1),
        gathered: config.gathering.map(|how| Gathered::reserve(b, base, how, config.slots)),
    };
    (shared, Allocation::reserve(b, base, CtaGroup::One, ISSUING_WARP, columns))
}

/// Initialises the barriers (one thread).
fn init(b: &mut Builder, config: &Config, shared: &Shared) {
    let fills = config.gathering.map_or(1, |how| how.arrivals(CtaGroup::One));
    shared.buffers.init(b, 1 + ROW_WARPS, fills);
    shared.scores.init(b, 1);
    shared.probabilities.init(b, ROW_WARPS);
    shared.output.init(b, 1);
    if let Some(gathered) = &shared.gathered {
        gathered.init(b);
    }
}
