//! Which keys a row sees: per tile (which tiles to visit, which need no mask) and per element.
//!
//! Query `t` of `q_len` sits on the diagonal at key `t + k_len - q_len`. It sees keys from `first` up
//! to, not including, `end`; both are clamped to the sequence.

use crate::call::index::{KvTile, QueryToken, SequenceIndex, SplitIndex};
use crate::call::memory::Memory;
use crate::call::sequence::{Sequence, element};
use problem::{Mask, Problem, Slot};
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg};

#[derive(Clone, Copy, Debug)]
enum Right {
    /// All keys.
    Open,
    /// Up to this many keys after the diagonal.
    Diagonal(Reg<i32>),
    /// Compressed keys that are complete at the query's position.
    Compressed { ratio: Reg<i32>, positions: GlobalPtr },
}

/// The mask of a segment, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Visible {
    left: Option<Reg<i32>>,
    right: Right,
    tile: u32,
}

/// The mask for one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    left: Option<Reg<i32>>,
    right: Right,
    tile: u32,
    k_len: Reg<i32>,
    diagonal: Reg<i32>,
    position: Option<Reg<i32>>,
}

/// A half-open range of tiles.
#[derive(Clone, Copy, Debug)]
pub struct TileRange {
    /// First tile.
    pub begin: KvTile,
    /// One past the last tile.
    pub end: KvTile,
}

impl TileRange {
    /// The tiles of these numbers.
    pub fn new(begin: Reg<i32>, end: Reg<i32>) -> Self {
        TileRange { begin: KvTile::new(begin), end: KvTile::new(end) }
    }

    /// How many tiles there are; negative or 0 if none.
    #[track_caller]
    pub fn count(&self, b: &mut Builder) -> Reg<i32> {
        b.eval(self.end.reg() - self.begin.reg())
    }

    /// Whether there is any tile.
    #[track_caller]
    pub fn any(&self, b: &mut Builder) -> Reg<bool> {
        b.setp(Cmp::Gt, self.end.reg(), self.begin.reg())
    }

    /// Whether there are tiles before `n`.
    #[track_caller]
    pub fn has_before(&self, b: &mut Builder, n: KvTile) -> Reg<bool> {
        b.setp(Cmp::Gt, n.reg(), self.begin.reg())
    }

    /// Whether `n`, which is below the end, is one of the tiles.
    #[track_caller]
    pub fn reaches(&self, b: &mut Builder, n: KvTile) -> Reg<bool> {
        b.setp(Cmp::Ge, n.reg(), self.begin.reg())
    }

    /// Runs `body` with the last tile, if there is any.
    #[track_caller]
    pub fn if_any(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, KvTile)) {
        let n = self.end.before(b, 1);
        let any = self.reaches(b, n);
        b.if_(any, |b| body(b, n));
    }

    /// Runs `body` with each tile, last to first.
    #[track_caller]
    pub fn for_each_down(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, KvTile)) {
        let n = KvTile::new(b.value(self.end.reg()));
        b.while_(
            |b| self.has_before(b, n),
            |b| {
                let next = n.before(b, 1);
                n.assign(b, next);
                body(b, n);
            },
        );
    }

    /// Takes `n` down to the first tile; `body` gets the tile before `n` each time.
    #[track_caller]
    pub fn while_more(&self, b: &mut Builder, n: KvTile, body: impl FnOnce(&mut Builder, KvTile)) {
        b.while_(
            |b| self.has_before(b, n),
            |b| {
                let next = n.before(b, 1);
                body(b, next);
                n.assign(b, next);
            },
        );
    }

    /// Takes `n` down over the tiles below it: those in which a row may not see every key, those of
    /// `clear`, and, if a mask hides keys on the left, those in which it may not again. `step` is told
    /// whether a mask is needed.
    #[track_caller]
    pub fn descend(
        &self,
        b: &mut Builder,
        n: KvTile,
        clear: TileRange,
        visible: &Visible,
        step: impl Fn(&mut Builder, bool),
    ) {
        let mut down_to = |end: KvTile, masked| {
            b.while_(
                |b| b.setp(Cmp::Gt, n.reg(), end.reg()),
                |b| {
                    let next = n.before(b, 1);
                    n.assign(b, next);
                    step(b, masked);
                },
            );
        };
        down_to(clear.end, true);
        down_to(clear.begin, false);
        if visible.has_left() {
            down_to(self.begin, true);
        }
    }
}

impl Visible {
    /// Declares the mask parameters of segment `n` for tiles of `tile` keys.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        memory: &Memory,
        problem: &Problem,
        n: u8,
        tile: u32,
    ) -> Self {
        let mut bound = |b: &mut Builder, name: &str, keys: u64| {
            args.u32(b, name, keys.min(i32::MAX as u64 / 2) as u32).reinterpret::<i32>()
        };
        let (left, right) = match problem.segments[n as usize].mask {
            Mask::Full => (None, Right::Open),
            Mask::Causal => (None, Right::Diagonal(bound(b, "right", 0))),
            Mask::Window { left, right } => (
                left.map(|keys| bound(b, "left", keys)),
                right.map_or(Right::Open, |keys| Right::Diagonal(bound(b, "right", keys))),
            ),
            Mask::Compressed { ratio } => {
                let ratio = bound(b, "ratio", ratio);
                let positions = args.pointer(b, "positions", memory.slot(Slot::Positions));
                (None, Right::Compressed { ratio, positions })
            }
        };
        Visible { left, right, tile }
    }

    /// Whether tiles at the low end can need a mask.
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Binds the mask to a sequence.
    #[track_caller]
    pub fn bounds(&self, b: &mut Builder, sequence: &Sequence, number: SequenceIndex) -> Bounds {
        let k_len = sequence.k_len.reinterpret::<i32>();
        let diagonal = b.eval(k_len - sequence.q_len.reinterpret::<i32>());
        let position = match self.right {
            Right::Compressed { positions, .. } => {
                let at = element(b, positions, number.reg());
                Some(b.ld_global::<i32>(at))
            }
            _ => None,
        };
        Bounds { left: self.left, right: self.right, tile: self.tile, k_len, diagonal, position }
    }
}

impl Bounds {
    /// One past the last key that query `token` sees.
    #[track_caller]
    pub fn end(&self, b: &mut Builder, token: QueryToken) -> Reg<i32> {
        let token = token.reg().reinterpret::<i32>();
        let end = match (self.right, self.position) {
            (Right::Diagonal(right), _) => b.eval(token + self.diagonal + right + 1),
            (Right::Compressed { ratio, .. }, Some(position)) => {
                b.eval((token + position + 1) / ratio)
            }
            _ => return self.k_len,
        };
        b.eval(end.min(self.k_len).max(0))
    }

    /// The first key that query `token` sees, `None` if it is always key 0.
    #[track_caller]
    pub fn first(&self, b: &mut Builder, token: QueryToken) -> Option<Reg<i32>> {
        let left = self.left?;
        Some(b.eval((token.reg().reinterpret::<i32>() + self.diagonal - left).max(0)))
    }

    /// The keys that query `token` alone sees: from the first up to, not including, the end; and bounds for a sequence of
    /// just these.
    #[track_caller]
    pub fn of_one(&self, b: &mut Builder, token: QueryToken) -> (Reg<i32>, Reg<i32>, Bounds) {
        let end = self.end(b, token);
        let first = self.first(b, token).unwrap_or_else(|| b.value(0));
        let first = b.eval(first.min(end));
        let k_len = b.eval(end - first);
        (first, end, Bounds { left: None, right: Right::Open, k_len, ..*self })
    }

    /// Tiles with a key that some query from `token` to `last_token` sees.
    #[track_caller]
    pub fn tiles(&self, b: &mut Builder, token: QueryToken, last_token: QueryToken) -> TileRange {
        let end = self.end(b, last_token);
        let end = self.tiles_up_to(b, end);
        let begin = match self.first(b, token) {
            Some(first) => self.tile_of(b, first),
            None => b.value::<i32>(0),
        };
        TileRange::new(begin, b.eval(end.max(begin)))
    }

    /// Tiles within `range` whose every key is seen by every query from `token` to `last_token`.
    #[track_caller]
    pub fn clear_tiles(
        &self,
        b: &mut Builder,
        range: TileRange,
        token: QueryToken,
        last_token: QueryToken,
    ) -> TileRange {
        let end = self.end(b, token);
        let end = self.tile_of(b, end);
        let begin = match self.first(b, last_token) {
            Some(first) => self.tiles_up_to(b, first),
            None => range.begin.reg(),
        };
        let begin = b.eval(begin.max(range.begin.reg()));
        let begin = b.eval(begin.min(range.end.reg()));
        TileRange::new(begin, b.eval(end.max(begin).min(range.end.reg())))
    }

    /// How many KV tiles the work tiles of `tokens` queries visit, roughly: the line of their ends, and that
    /// of their beginnings where a mask hides keys on the left.
    #[track_caller]
    pub fn ramps(&self, b: &mut Builder, tokens: f32) -> (Ramp, Option<Ramp>) {
        let half_tile = self.tile as f32 / 2.0;
        let keys = b.to_f32(self.k_len);
        let diagonal = b.to_f32(self.diagonal);
        // The last work tile visits whole KV tiles.
        let top = self.tiles_up_to(b, self.k_len);
        let top = b.eval(top * self.tile as i32);
        let top = b.to_f32(top);
        let end = match (self.right, self.position) {
            (Right::Diagonal(right), _) => {
                let last = b.eval(self.diagonal + right);
                let last = b.to_f32(last);
                // And so does the first one, if it sees a key.
                let sees = b.setp(Cmp::Ge, last, 0.0);
                let bottom = b.select::<f32>(sees, self.tile as f32, 0.0);
                let bottom = b.min(bottom, top);
                let first = b.add(last, tokens / 2.0 + half_tile);
                let (first, top) = (b.sub(first, bottom), b.sub(top, bottom));
                let (slope, run) = (b.value(tokens), b.value(1.0 / tokens));
                Ramp { first, slope, run, top, bottom: Some(bottom) }
            }
            (Right::Compressed { ratio, .. }, Some(position)) => {
                let ratio = b.to_f32(ratio);
                let position = b.to_f32(position);
                let inverse = b.rcp(ratio);
                let first = b.add(position, tokens / 2.0 + 1.0);
                let half_tile = b.value(half_tile);
                let first = b.fma(first, inverse, half_tile);
                let (slope, run) = (b.mul(inverse, tokens), b.mul(ratio, 1.0 / tokens));
                Ramp { first, slope, run, top, bottom: None }
            }
            // All keys, for all.
            _ => {
                let (slope, run) = (b.value(0.0), b.value(0.0));
                Ramp { first: top, slope, run, top, bottom: None }
            }
        };
        let begin = self.left.map(|left| {
            let left = b.to_f32(left);
            let first = b.sub(diagonal, left);
            let first = b.sub(first, tokens / 2.0 + half_tile);
            let (slope, run) = (b.value(tokens), b.value(1.0 / tokens));
            Ramp { first, slope, run, top: keys, bottom: None }
        });
        (end, begin)
    }

    /// Keys of a tile.
    pub fn tile(&self) -> u32 {
        self.tile
    }

    #[track_caller]
    fn tiles_up_to(&self, b: &mut Builder, keys: Reg<i32>) -> Reg<i32> {
        let padded = b.eval(keys + (self.tile as i32 - 1));
        self.tile_of(b, padded)
    }

    /// The tile of key `key`, which is not negative.
    #[track_caller]
    fn tile_of(&self, b: &mut Builder, key: Reg<i32>) -> Reg<i32> {
        b.eval(key.reinterpret::<u32>() / self.tile).reinterpret()
    }
}

impl TileRange {
    /// The part of the range that `split` covers when every `per_split` tiles are one part.
    #[track_caller]
    pub fn part(self, b: &mut Builder, split: SplitIndex, per_split: Reg<u32>) -> TileRange {
        let first = b.eval(split.reg() * per_split).reinterpret::<i32>();
        let last = b.eval(first + per_split.reinterpret::<i32>());
        let begin = b.eval(self.begin.reg().max(first));
        TileRange::new(begin, b.eval(self.end.reg().min(last).max(begin)))
    }
}

/// A line that is cut off below 0 and above `top`, over what is always there.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    /// Its height at 0.
    first: Reg<f32>,
    /// How much it rises per step to the right; not negative.
    slope: Reg<f32>,
    /// Steps to the right per unit it rises; 0 if it does not.
    run: Reg<f32>,
    top: Reg<f32>,
    /// What all of it stands on.
    bottom: Option<Reg<f32>>,
}

impl Ramp {
    /// The area below it from 0 to `x`.
    #[track_caller]
    pub fn area(&self, b: &mut Builder, x: Reg<f32>) -> Reg<f32> {
        let last = b.fma(self.slope, x, self.first);
        let [low, high] = [self.first, last].map(|y| {
            let y = b.max(y, 0.0);
            b.min(y, self.top)
        });
        let [leaves_bottom, reaches_top] = [None, Some(self.top)].map(|height| {
            let rise = match height {
                None => b.neg(self.first),
                Some(top) => b.sub(top, self.first),
            };
            let at = b.mul(rise, self.run);
            let at = b.max(at, 0.0);
            b.min(at, x)
        });
        let width = b.sub(reaches_top, leaves_bottom);
        let heights = b.add(low, high);
        let half = b.mul(width, 0.5);
        let flat = b.sub(x, reaches_top);
        let flat = b.mul(flat, self.top);
        let flat = match self.bottom {
            Some(bottom) => b.fma(bottom, x, flat),
            None => flat,
        };
        b.fma(heights, half, flat)
    }
}

/// The keys one row sees, relative to the first column of a tile that the thread holds.
#[derive(Clone, Copy, Debug)]
pub struct RowWindow {
    first: Option<Reg<i32>>,
    end: Reg<i32>,
}

impl RowWindow {
    /// The window of query `token`, in keys.
    #[track_caller]
    pub fn of(b: &mut Builder, bounds: &Bounds, token: QueryToken) -> Self {
        RowWindow { first: bounds.first(b, token), end: bounds.end(b, token) }
    }

    /// The first key of the window, and one past its last.
    #[track_caller]
    pub fn keys(&self, b: &mut Builder) -> (Reg<i32>, Reg<i32>) {
        (self.first.unwrap_or_else(|| b.value(0)), self.end)
    }

    /// The window in columns counted from key `origin`.
    #[track_caller]
    pub fn relative_to(&self, b: &mut Builder, origin: Reg<i32>) -> Self {
        RowWindow {
            first: self.first.map(|first| b.eval(first - origin)),
            end: b.eval(self.end - origin),
        }
    }

    /// One past the last key.
    pub fn end(&self) -> Reg<i32> {
        self.end
    }

    /// Replaces the scores of columns outside the window by `-inf`; `columns[i]` is the column of
    /// `scores[i]`.
    #[track_caller]
    pub fn apply(&self, b: &mut Builder, scores: &[Reg<f32>], columns: &[u32]) {
        for (&score, &column) in scores.iter().zip(columns) {
            let hidden = b.setp(Cmp::Le, self.end, column as i32);
            b.assign_if(hidden, score, f32::NEG_INFINITY);
            if let Some(first) = self.first {
                let hidden = b.setp(Cmp::Gt, first, column as i32);
                b.assign_if(hidden, score, f32::NEG_INFINITY);
            }
        }
    }
}
