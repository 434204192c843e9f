//! Into how many parts keys are split, by a simple model of time.
//!
//! With `s` parts a launch takes `⌈units·s / processors⌉` rounds of `key tiles / s` steps and the ends
//! of a unit; a step takes as long as its arithmetic, its bytes, or its chain of dependent latencies,
//! whichever is longest. More than one part also costs a second launch and the way of f32 partial
//! results to memory and back; a few parts can be merged by the cluster that computes them instead. The
//! rates are rounded from an H200; only their ratios matter.

/// Microseconds a step takes at least.
const STEP: f64 = 0.6;
/// Steps that the start and the end of a unit cost.
const ENDS: f64 = 1.5;
/// FLOP per microsecond and processor.
const FLOPS: f64 = 4.5e6;
/// Bytes per microsecond of the whole device.
const MEMORY: f64 = 4.2e6;
/// Bytes per microsecond that one processor can draw.
const MEMORY_OF_ONE: f64 = 8e4;
/// Microseconds of the combining launch.
const COMBINE: f64 = 2.5;
/// Microseconds in which a cluster merges its parts.
const MERGE: f64 = 2.0;
/// Parts at most.
const MOST: u32 = 128;

/// What a launch has to do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Tiles of queries.
    pub units: u32,
    /// Tiles of keys.
    pub key_tiles: u32,
    /// CTAs or clusters that run at once.
    pub processors: u32,
    /// FLOP of one step of a unit.
    pub step_flops: f64,
    /// Bytes of keys and values of one step of a unit.
    pub step_bytes: f64,
    /// Bytes of f32 results of one part.
    pub partial_bytes: f64,
}

impl Work {
    /// The number of parts that takes the least time.
    pub fn best_splits(&self) -> u32 {
        let most = self.key_tiles.min(MOST);
        let time = |splits: u32| self.time(splits);
        (1..=most).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(1)
    }

    /// Microseconds with `parts` parts that clusters of that many units merge, if all run at once.
    pub fn merge_time(&self, parts: u32) -> Option<f64> {
        let steps = self.key_tiles.div_ceil(parts) as f64 + ENDS;
        let fits = self.units <= self.processors && parts <= self.key_tiles;
        fits.then(|| steps * self.step(self.units * parts) + MERGE)
    }

    /// Microseconds of one step when `units` are at work.
    fn step(&self, units: u32) -> f64 {
        let bandwidth = (MEMORY / units as f64).min(MEMORY_OF_ONE);
        STEP.max(self.step_flops / FLOPS).max(self.step_bytes / bandwidth)
    }

    /// Microseconds with `splits` parts that another launch combines.
    pub fn time(&self, splits: u32) -> f64 {
        let ctas = self.units * splits;
        let rounds = ctas.div_ceil(self.processors) as f64;
        let step = self.step(ctas.min(self.processors));
        let main = rounds * (self.key_tiles.div_ceil(splits) as f64 + ENDS) * step;
        match splits {
            1 => main,
            _ => main + COMBINE + 2.0 * splits as f64 * self.partial_bytes / MEMORY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Work;

    const DECODE: Work = Work {
        units: 8,
        key_tiles: 64,
        processors: 132,
        step_flops: 4.2e6,
        step_bytes: 65536.0,
        partial_bytes: 16384.0,
    };

    #[test]
    fn a_lonely_long_decode_is_split() {
        assert!((8..=32).contains(&DECODE.best_splits()), "{}", DECODE.best_splits());
    }

    #[test]
    fn a_full_device_is_not_split() {
        let full = Work { units: 1000, ..DECODE };
        assert_eq!(full.best_splits(), 1);
    }

    #[test]
    fn many_rows_and_few_keys_are_not_split() {
        let rows = Work { units: 32, key_tiles: 8, partial_bytes: 8e6, ..DECODE };
        assert_eq!(rows.best_splits(), 1);
    }
}
