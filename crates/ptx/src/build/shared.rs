//! Shared memory by layout: what is reserved is a tile or an array whose layout is known, so that
//! sizes, alignments and addresses come from the layout and nobody computes a byte.
//!
//! ```
//! use layout::hw::{Major, SmemSwizzle, SmemTile};
//! use sixwarp_ptx::build::{Builder, SharedTiles, Target};
//!
//! let mut b = Builder::new("kernel", Target::Sm90a);
//! let shared = b.shared_base();
//! let keys = SmemTile::new(128, 64, 16, Major::K, SmemSwizzle::B128)?;
//! let ring = SharedTiles::reserve(&mut b, shared, keys, 3);
//! assert_eq!(ring.tile(1).at().offset, 128 * 64 * 2);
//! let descriptor = ring.tile(1).descriptor(&mut b);   // what wgmma reads
//! let second_step = ring.tile(1).step(&mut b, descriptor, 1);
//! # let _ = second_step;
//! # Ok::<(), layout::LayoutError>(())
//! ```

use super::builder::Builder;
use super::memory::SmemPtr;
use super::operand::{MatrixOperand, RowVectors};
use super::value::{Reg, Scalar};
use layout::Layout;
use layout::hw::SmemTile;
use std::marker::PhantomData;
use std::ops::Range;

/// An operand tile at its place in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedTile {
    at: SmemPtr,
    tile: SmemTile,
}

/// Tiles of one layout at equal distances, one behind the other unless said: the buffers of a ring, or the parts of one
/// buffer.
#[derive(Clone, Copy, Debug)]
pub struct SharedTiles {
    first: SharedTile,
    count: u32,
    /// Bytes from a tile to the next.
    stride: u32,
}

impl SharedTile {
    /// Reserves one tile; its size and alignment are the layout's.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, tile: SmemTile) -> Self {
        SharedTiles::reserve(b, shared, tile, 1).first
    }

    /// The tile that lies at `at`, which must be aligned as the swizzle asks.
    pub fn new(at: SmemPtr, tile: SmemTile) -> Self {
        SharedTile { at, tile }
    }

    /// Where it begins.
    pub fn at(self) -> SmemPtr {
        self.at
    }

    /// How its elements lie.
    pub fn layout(self) -> SmemTile {
        self.tile
    }

    /// Its size.
    pub fn bytes(self) -> u32 {
        bytes(&self.tile)
    }

    /// The same bytes read with the other dimension as K: keys that are values, too.
    pub fn transposed(self) -> Self {
        SharedTile { tile: self.tile.transposed(), ..self }
    }

    /// Where block `n`, one swizzle span wide, begins: the destination of one TMA box.
    pub fn block(self, n: u32) -> SmemPtr {
        assert!(u64::from(n) < self.tile.blocks(), "block {n} of {}", self.tile);
        self.at.plus(n * self.tile.block_bytes() as u32)
    }

    /// The blocks of `range` as a tile of their own.
    pub fn blocks(self, range: Range<u32>) -> Self {
        let at = self.block(range.start);
        let tile = self.tile.with_blocks(range.len() as u64).expect("blocks of a legal tile");
        assert!(u64::from(range.end) <= self.tile.blocks(), "blocks {range:?} of {}", self.tile);
        SharedTile { at, tile }
    }

    /// The matrix descriptor of the tile, as the target's tensor cores read it.
    #[track_caller]
    pub fn descriptor(self, b: &mut Builder) -> Reg<u64> {
        MatrixOperand::new(b.target(), self.tile).at(b, self.at)
    }

    /// The descriptor of step `step` along K, from the tile's.
    #[track_caller]
    pub fn step(self, b: &mut Builder, descriptor: Reg<u64>, step: u32) -> Reg<u64> {
        MatrixOperand::new(b.target(), self.tile).step(b, descriptor, step)
    }

    /// Where the 16-byte vectors of row `row` are.
    #[track_caller]
    pub fn row(self, b: &mut Builder, row: Reg<u32>) -> RowVectors {
        RowVectors::new(b, self.tile, self.at, row)
    }
}

impl SharedTiles {
    /// Reserves `count` tiles; size and alignment are the layout's.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, tile: SmemTile, count: u32) -> Self {
        let align = u32::try_from(tile.alignment()).expect("swizzles repeat after 1 KiB at most");
        let offset = b.reserve_shared(count * bytes(&tile), align);
        let first = SharedTile { at: shared.plus(offset), tile };
        SharedTiles { first, count, stride: first.bytes() }
    }

    /// Reserves `bytes` bytes that tiles of several layouts share, aligned for every swizzle.
    pub fn reserve_region(b: &mut Builder, shared: SmemPtr, bytes: u32) -> SmemPtr {
        shared.plus(b.reserve_shared(bytes, REGION_ALIGN))
    }

    /// `count` tiles in memory that is [reserved](Self::reserve_region), `stride` bytes from one to the next; the first
    /// lies at `at`, which must be aligned as the swizzle asks.
    pub fn over(at: SmemPtr, tile: SmemTile, count: u32, stride: u32) -> Self {
        SharedTiles { first: SharedTile { at, tile }, count, stride }
    }

    /// Bytes from a tile to the next.
    pub fn stride(self) -> u32 {
        self.stride
    }

    /// Where the first one begins.
    pub fn at(self) -> SmemPtr {
        self.first.at
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// How the elements of each lie.
    pub fn layout(self) -> SmemTile {
        self.first.tile
    }

    /// Tile `n`.
    pub fn tile(self, n: u32) -> SharedTile {
        assert!(n < self.count, "tile {n} of {}", self.count);
        SharedTile { at: self.first.at.plus(n * self.stride), ..self.first }
    }

    /// Tile `n`, known at run time.
    #[track_caller]
    pub fn select(self, b: &mut Builder, n: Reg<u32>) -> SharedTile {
        if self.count == 1 {
            return self.first;
        }
        SharedTile { at: self.share(b, n, 1), ..self.first }
    }

    /// The tiles of buffer `stage` of a ring of `stages` buffers that share these tiles evenly.
    #[track_caller]
    pub(super) fn of_stage(self, b: &mut Builder, stage: Reg<u32>, stages: u32) -> SharedTiles {
        assert!(self.count.is_multiple_of(stages), "{} tiles in {stages} buffers", self.count);
        let count = self.count / stages;
        if stages == 1 {
            return self;
        }
        let at = self.share(b, stage, count);
        SharedTiles { first: SharedTile { at, ..self.first }, count, ..self }
    }

    #[track_caller]
    fn share(self, b: &mut Builder, n: Reg<u32>, tiles: u32) -> SmemPtr {
        let base = b.mad(n, tiles * self.stride, self.first.at.base);
        SmemPtr { base, ..self.first.at }
    }
}

fn bytes(tile: &SmemTile) -> u32 {
    u32::try_from(tile.bytes()).expect("a tile fits the shared memory of a CTA")
}

fn number(n: u64) -> u32 {
    u32::try_from(n).expect("an array fits the shared memory of a CTA")
}

/// Numbers in shared memory, at the places a layout gives their coordinates.
#[derive(Clone, Debug)]
pub struct SharedArray<T> {
    at: SmemPtr,
    modes: Vec<(u32, u32)>,
    element: PhantomData<fn() -> T>,
}

impl<T: Scalar> SharedArray<T> {
    /// Reserves what `layout` covers. Its modes are plain: one extent and one stride each.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, layout: &Layout) -> Self {
        let offset = b.reserve_shared(number(layout.cosize()) * T::BYTES, ARRAY_ALIGN);
        Self::over(shared.plus(offset), layout)
    }

    /// An array in memory that others have left, 16-byte aligned.
    pub fn over(at: SmemPtr, layout: &Layout) -> Self {
        let plain = |mode: Layout| match (mode.shape().as_int(), mode.stride().as_int()) {
            (Some(extent), Some(stride)) => (number(extent), number(stride)),
            _ => panic!("{layout}: modes of a shared array have one extent and one stride each"),
        };
        let modes = layout.modes().into_iter().map(plain).collect();
        SharedArray { at, modes, element: PhantomData }
    }

    /// Reserves one number.
    pub fn one(b: &mut Builder, shared: SmemPtr) -> Self {
        Self::reserve(b, shared, &Layout::column_major(1).expect("one element"))
    }

    /// Where it begins.
    pub fn at(&self) -> SmemPtr {
        self.at
    }

    /// The place of the number at `coordinate`, one part per mode; missing parts are 0.
    #[track_caller]
    pub fn element(&self, b: &mut Builder, coordinate: &[Reg<u32>]) -> SmemPtr {
        assert!(coordinate.len() <= self.modes.len(), "more coordinates than modes");
        let mut index: Option<Reg<u32>> = None;
        for (&part, &(extent, stride)) in coordinate.iter().zip(&self.modes) {
            index = match (index, stride) {
                _ if extent == 1 => index,
                (None, 1) => Some(part),
                (None, _) => Some(b.mul(part, stride)),
                (Some(index), _) => Some(b.mad(part, stride, index)),
            };
        }
        match index {
            None => self.at,
            Some(index) => {
                let offset = b.mul(index, T::BYTES);
                b.smem_add(self.at, offset)
            }
        }
    }

    /// Bytes from the first number to the one at `coordinate`, known when the kernel is emitted.
    pub fn offset(&self, coordinate: &[u32]) -> u32 {
        let parts = coordinate.iter().zip(&self.modes);
        parts.map(|(part, (_, stride))| part * stride).sum::<u32>() * T::BYTES
    }
}

/// Alignment of arrays: the widest access.
const ARRAY_ALIGN: u32 = 16;
/// Bytes after which the widest swizzle repeats.
const REGION_ALIGN: u32 = 1024;
