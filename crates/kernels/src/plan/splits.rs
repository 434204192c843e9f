//! Into how many parts keys are split, by a simple model of time.
//!
//! With `s` parts a launch takes `work_tiles·s / processors` rounds, the last one perhaps not full, of
//! `key tiles / s` steps and the ends of a work tile. A step takes as long as its chain (scores, softmax and
//! output of 64 rows, which wait for each other), its arithmetic, or its bytes, whichever is longest.
//! More than one part also costs a second launch and the way of f32 partial results to memory and back;
//! a few parts can be merged by the cluster that computes them instead.
//!
//! The constants are those of an architecture ([`TimeModel`]).

use super::tuning::TimeModel;

/// What a launch has to do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The architecture's times.
    pub model: TimeModel,
    /// Tiles of queries.
    pub work_tiles: u32,
    /// KV tiles.
    pub key_tiles: u32,
    /// CTAs or clusters that run at once.
    pub processors: u32,
    /// Keys of a tile.
    pub tile: u32,
    /// Rows of queries that a processor works on at a time.
    pub rows: u32,
    /// Columns of a key and its value.
    pub columns: u32,
    /// Bytes of keys and values that memory sees of one step of a work tile.
    pub step_bytes: f64,
    /// Bytes of f32 results of one part.
    pub partial_bytes: f64,
}

impl Work {
    /// The number of parts that takes the least time.
    pub fn best_splits(&self) -> u32 {
        let most = self.key_tiles.min(self.model.most_splits);
        let time = |splits: u32| self.time(splits);
        (1..=most).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(1)
    }

    /// Microseconds with `parts` parts that clusters of that many CTAs merge, if all run at once.
    pub fn merge_time(&self, parts: u32) -> Option<f64> {
        let fits = self.work_tiles <= self.processors && parts <= self.key_tiles;
        fits.then(|| {
            self.round(self.key_tiles.div_ceil(parts), self.work_tiles * parts) + self.model.merge
        })
    }

    /// Microseconds of `steps` steps of each of `work_tiles` at once.
    fn round(&self, steps: u32, work_tiles: u32) -> f64 {
        steps as f64 * self.step(work_tiles) + self.model.ends
    }

    /// Microseconds of one step when `work_tiles` are at work.
    fn step(&self, work_tiles: u32) -> f64 {
        let row = 2.0 * self.columns as f64 * self.tile as f64;
        let chain =
            self.model.key * self.tile as f64 + self.model.chain_rows * row / self.model.chain;
        let arithmetic = self.rows as f64 * row / self.model.flops;
        chain.max(arithmetic).max(self.step_bytes * work_tiles as f64 / self.model.memory)
    }

    /// Microseconds with `splits` parts that another launch combines.
    pub fn time(&self, splits: u32) -> f64 {
        let (work_tiles, steps) = (self.work_tiles * splits, self.key_tiles.div_ceil(splits));
        let (rounds, rest) = (work_tiles / self.processors, work_tiles % self.processors);
        let mut time = rounds as f64 * self.round(steps, self.processors);
        if rest > 0 {
            time += self.round(steps, rest);
        }
        if splits > 1 {
            time +=
                self.model.combine + 2.0 * splits as f64 * self.partial_bytes / self.model.partial;
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::Work;
    use crate::plan::tuning::hopper;

    const DECODE: Work = Work {
        model: hopper::TIME,
        work_tiles: 8,
        key_tiles: 64,
        processors: 132,
        tile: 128,
        rows: 64,
        columns: 256,
        step_bytes: 65536.0,
        partial_bytes: 16384.0,
    };

    #[test]
    fn a_lonely_long_decode_is_split() {
        assert!((8..=32).contains(&DECODE.best_splits()), "{}", DECODE.best_splits());
    }

    #[test]
    fn a_full_device_is_not_split() {
        let full = Work { work_tiles: 1000, ..DECODE };
        assert_eq!(full.best_splits(), 1);
    }

    #[test]
    fn many_rows_and_few_keys_are_not_split() {
        let rows = Work { work_tiles: 32, key_tiles: 8, partial_bytes: 8e6, ..DECODE };
        assert_eq!(rows.best_splits(), 1);
    }
}
