//! The warpgroups that multiply and store.

use super::config::{COLUMNS, STORE_BOX, WARPGROUP_ROWS};
use super::kernel::Frame;
use super::order::Tile;
use ptx::build::{Accumulator, Builder, Cmp, Consumer, HalfType, Reg, Slot};

/// Threads of a warpgroup.
const THREADS: u32 = 128;
/// Type of the matrices.
const HALF: HalfType = HalfType::Bf16;

/// One of the warpgroups.
struct Warpgroup<'a> {
    frame: &'a Frame,
    /// Its number among those that multiply.
    number: Reg<u32>,
    /// The thread's number in it.
    thread: Reg<u32>,
    sums: Accumulator,
}

/// Emits warpgroup `number`.
pub fn emit(b: &mut Builder, frame: &Frame, number: Reg<u32>) {
    let thread = b.thread();
    let thread = b.and(thread, THREADS - 1);
    let warpgroup = Warpgroup { frame, number, thread, sums: Accumulator::new(b, COLUMNS) };
    let ring = frame.ring.consumer(b);
    frame.work.for_each_tile(b, |b, tile| {
        let last = ring.take(b);
        let nothing = b.predicate(false);
        warpgroup.multiply(b, &last, nothing);
        let always = b.predicate(true);
        b.range(1, frame.steps, |b, _| {
            let slot = ring.take(b);
            warpgroup.multiply(b, &slot, always);
            b.wgmma_wait(1);
            warpgroup.release(b, &last);
            last.assign(b, &slot);
        });
        b.wgmma_wait(0);
        warpgroup.release(b, &last);
        let own = frame.own(b, tile);
        warpgroup.store(b, own);
    });
    warpgroup.finish(b);
}

impl Warpgroup<'_> {
    /// Waits for a stage and issues its product.
    #[track_caller]
    fn multiply(&self, b: &mut Builder, slot: &Slot<Consumer>, accumulate: Reg<bool>) {
        slot.wait(b);
        let [left, right] = self.frame.halves(b, slot);
        let left = left.select(b, self.number);
        let right = self.frame.whole(right, COLUMNS);
        self.sums.multiply(b, HALF, left, right, accumulate);
    }

    /// Says, once per warp and in every CTA that fills it, that a stage has been read.
    #[track_caller]
    fn release(&self, b: &mut Builder, slot: &Slot<Consumer>) {
        let lane = b.and(self.thread, 31);
        let tells = b.setp(Cmp::Lt, lane, self.frame.config.cluster());
        let empty = slot.empty(b);
        match self.frame.config.cluster() {
            1 => empty.arrive_if(b, tells),
            _ => empty.in_cta(b, lane).arrive_if(b, tells),
        }
    }

    /// Stores the tile, a block of columns at a time.
    #[track_caller]
    fn store(&self, b: &mut Builder, own: Tile) {
        let stages = self.frame.config.store_stages;
        let row = b.mad(self.number, WARPGROUP_ROWS, own.row);
        let leads = b.setp(Cmp::Eq, self.thread, 0);
        let [_, _, map] = self.frame.maps;
        for (block, first) in (0..COLUMNS).step_by(STORE_BOX[1] as usize).enumerate() {
            let pairs = self.sums.rounded(b, HALF, first..first + STORE_BOX[1]);
            let place = b.mul(self.number, stages);
            let place = b.add(place, block as u32 % stages);
            let buffer = self.frame.stores.select(b, place);
            // What is there has been read when all but the stores since then have.
            b.if_(leads, |b| b.bulk_wait_read(stages - 1));
            self.meet(b);
            b.store_fragment(self.thread, &pairs, buffer);
            b.fence_proxy_async();
            self.meet(b);
            b.if_(leads, |b| {
                let column = b.add(own.column, first);
                let at = [Builder::coordinate(column), Builder::coordinate(row)];
                b.tma_store(map, &at, buffer.at());
                b.bulk_commit();
            });
        }
    }

    /// Waits for the threads of the warpgroup.
    #[track_caller]
    fn meet(&self, b: &mut Builder) {
        let barrier = b.add(self.number, 1);
        b.barrier_sync(barrier, THREADS);
    }

    /// Waits for the stores.
    #[track_caller]
    fn finish(&self, b: &mut Builder) {
        let leads = b.setp(Cmp::Eq, self.thread, 0);
        b.if_(leads, |b| b.bulk_wait(0));
    }
}
