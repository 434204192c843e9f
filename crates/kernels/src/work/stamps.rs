//! When warps that write rows begin and end: what shows whether processors finish together.

use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

/// Warps of a CTA at most.
const WARPS: u32 = 16;
/// Bytes of a warp: two times in nanoseconds.
const BYTES: u32 = 16;

/// Times that warps leave, `[CTA, warp, begin and end]`: 0 for a warp that writes no rows.
#[derive(Clone, Copy, Debug)]
pub struct Stamps(GlobalPtr);

impl Stamps {
    /// Bytes that so many CTAs need.
    pub fn bytes(ctas: u32) -> u64 {
        u64::from(ctas) * u64::from(WARPS * BYTES)
    }

    /// Declares the address.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, buffer: BufferId) -> Self {
        Stamps(args.pointer(b, "stamps", buffer))
    }

    /// Leaves the time at which a warp begins.
    #[track_caller]
    pub fn begin(&self, b: &mut Builder) {
        self.leave(b, 0);
    }

    /// Leaves the time at which a warp has written its rows.
    #[track_caller]
    pub fn end(&self, b: &mut Builder) {
        self.leave(b, 8);
    }

    #[track_caller]
    fn leave(&self, b: &mut Builder, offset: i64) {
        let thread = b.thread();
        let lane = b.eval(thread % 32);
        let leads = b.setp(Cmp::Eq, lane, 0);
        b.if_(leads, |b| {
            let cta = b.special("%ctaid.x");
            let bytes = b.eval((cta * WARPS + thread / 32).widening_mul(BYTES));
            let at = b.global_add(self.0, bytes).plus(offset);
            let now: Reg<u64> = b.global_timer();
            b.st_global(at, now);
        });
    }
}
