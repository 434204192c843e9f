//! Which work tile it is, in shared memory while keys come by: the epilogue finds the rest of it anew, and the loop over
//! work tiles goes on from there. Queries and output that fill the registers leave none for what is needed only before
//! and behind the loop over keys.

use crate::call::index::{KvHead, SequenceIndex, SplitIndex, WorkTileIndex};
use crate::work::order::Tile;
use layout::Layout;
use ptx::build::{Builder, Cmp, GlobalPtr, SharedArray, SmemPtr};

/// Numbers of a work tile.
const NUMBERS: u32 = 4;
/// Words of a warp: those numbers, and what the loop over work tiles counts by.
const WORDS: u32 = 8;

/// A work tile per warp, in shared memory.
pub struct Parked {
    words: SharedArray<u32>,
    /// Where each thread's first keys and values are, `[which, thread]`.
    firsts: SharedArray<u64>,
    /// Where each lane's keys and values of the first buffer are, `[which, thread]`.
    lanes: SharedArray<u32>,
}

impl Parked {
    /// Bytes of so many warps' work tiles, and of addresses.
    pub const fn bytes(warps: u32) -> u32 {
        warps * (WORDS * 4 + 2 * (8 + 4) * 32)
    }

    /// Reserves the words of so many warps, and their threads' addresses.
    pub fn reserve(b: &mut Builder, base: SmemPtr, warps: u32) -> Self {
        let of = |extents: (u64, u64)| Layout::column_major(extents).expect("a small layout");
        let threads = 32 * u64::from(warps);
        Parked {
            words: SharedArray::reserve(b, base, &of((WORDS.into(), warps.into()))),
            firsts: SharedArray::reserve(b, base, &of((2, threads))),
            lanes: SharedArray::reserve(b, base, &of((2, threads))),
        }
    }

    /// Leaves where the lane's keys and values are.
    #[track_caller]
    pub fn leave_lanes(&self, b: &mut Builder, places: [SmemPtr; 2]) {
        let (zero, thread) = (b.value::<u32>(0), b.thread());
        let at = self.lanes.element(b, &[zero, thread]);
        b.st_shared_vector(at, &places.map(|place| place.base));
    }

    /// Where the lane's keys, or values, are: `place`, from there.
    #[track_caller]
    pub fn lane(&self, b: &mut Builder, which: usize, place: SmemPtr) -> SmemPtr {
        let (which, thread) = (b.value::<u32>(which as u32), b.thread());
        let at = self.lanes.element(b, &[which, thread]);
        SmemPtr { base: b.ld_shared(at), ..place }
    }

    /// Leaves where the thread's first keys and values are.
    #[track_caller]
    pub fn leave_firsts(&self, b: &mut Builder, firsts: [GlobalPtr; 2]) {
        let (zero, thread) = (b.value::<u32>(0), b.thread());
        let at = self.firsts.element(b, &[zero, thread]);
        b.st_shared_vector(at, &firsts.map(|first| first.base));
    }

    /// Where the thread's first keys, or values, are: `first`, from there.
    #[track_caller]
    pub fn first(&self, b: &mut Builder, which: usize, first: GlobalPtr) -> GlobalPtr {
        let (which, thread) = (b.value::<u32>(which as u32), b.thread());
        let at = self.firsts.element(b, &[which, thread]);
        GlobalPtr { base: b.ld_shared(at), ..first }
    }

    /// Leaves the warp's work tile there.
    #[track_caller]
    pub fn leave(&self, b: &mut Builder, tile: &Tile) {
        let at = self.of_warp(b);
        let lane = b.special("%laneid");
        let first = b.setp(Cmp::Eq, lane, 0);
        let numbers = [tile.sequence.reg(), tile.kv_head.reg(), tile.index.reg(), tile.split.reg()];
        b.warp_sync();
        b.if_(first, |b| {
            b.st_shared_vector(at, &numbers);
            if let Some(counter) = tile.counter {
                b.st_shared(at.plus(NUMBERS * 4), counter);
            }
        });
        b.warp_sync();
    }

    /// The work tile that the warp left; the loop goes on from it.
    #[track_caller]
    pub fn take(&self, b: &mut Builder, left: &Tile) -> Tile {
        let at = self.of_warp(b);
        if let Some(counter) = left.counter {
            let counted = b.ld_shared::<u32>(at.plus(NUMBERS * 4));
            b.assign(counter, counted);
        }
        let numbers = b.ld_shared_vector::<u32>(at, NUMBERS as usize);
        Tile {
            sequence: SequenceIndex::new(numbers[0]),
            kv_head: KvHead::new(numbers[1]),
            index: WorkTileIndex::new(numbers[2]),
            split: SplitIndex::new(numbers[3]),
            counter: left.counter,
        }
    }

    #[track_caller]
    fn of_warp(&self, b: &mut Builder) -> SmemPtr {
        let (zero, warp) = (b.value::<u32>(0), b.warp().index());
        self.words.element(b, &[zero, warp])
    }
}
