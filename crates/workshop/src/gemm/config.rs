//! Tiles, stages and clusters.

use layout::hw::{Major, SmemSwizzle, SmemTile};
use program::L2Promotion;

/// Rows of a CTA's tile.
pub const ROWS: u32 = 128;
/// Columns of a CTA's tile.
pub const COLUMNS: u32 = 256;
/// Elements of a row per step: the span of the 128-byte swizzle.
pub const DEPTH: u32 = 64;
/// Rows of a warpgroup.
pub const WARPGROUP_ROWS: u32 = 64;
/// Warpgroups that multiply.
pub const WARPGROUPS: u32 = ROWS / WARPGROUP_ROWS;
/// Rows and columns that are stored at once.
pub const STORE_BOX: [u32; 2] = [WARPGROUP_ROWS, 64];
/// Shared memory of a CTA on Hopper.
const SHARED_BYTES: u32 = 227 << 10;
/// What barriers may take of it.
const BARRIER_BYTES: u32 = 1 << 10;

/// The operand that two CTAs of a cluster share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// None: every CTA is a cluster.
    Nothing,
    /// `A`: the CTAs' tiles lie side by side.
    Left,
    /// `B`: the CTAs' tiles lie one above the other.
    Right,
}

/// What a kernel may be built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Steps in flight.
    pub stages: u32,
    /// Blocks of 64 × 64 that a warpgroup may have on their way to memory.
    pub store_stages: u32,
    /// Clusters' tiles from one column of tiles to the next, in the order of work.
    pub group: u32,
    /// The operand that two CTAs share.
    pub share: Share,
    /// How much of a row L2 fetches at once.
    pub promotion: L2Promotion,
    /// Whether there are only as many clusters as take no more turns than all of them would.
    pub even: bool,
}

impl Default for Config {
    fn default() -> Self {
        let (share, promotion) = (Share::Right, L2Promotion::B128);
        Config { stages: 4, store_stages: 2, group: 8, share, promotion, even: true }
    }
}

impl Config {
    /// CTAs of a cluster.
    pub fn cluster(&self) -> u32 {
        if self.share == Share::Nothing { 1 } else { 2 }
    }

    /// Rows and columns of a cluster's tile.
    pub fn cluster_tile(&self) -> [u32; 2] {
        match self.share {
            Share::Nothing => [ROWS, COLUMNS],
            Share::Left => [ROWS, 2 * COLUMNS],
            Share::Right => [2 * ROWS, COLUMNS],
        }
    }

    /// Rows and columns of the boxes of `A` and `B`: half of an operand that is shared.
    pub fn boxes(&self) -> [[u32; 2]; 2] {
        let of = |shared: bool, rows: u32| [if shared { rows / 2 } else { rows }, DEPTH];
        // A box has at most 256 rows.
        [of(self.share == Share::Left, ROWS), of(self.share == Share::Right, COLUMNS)]
    }

    /// Bytes that arrive for one step.
    pub fn step_bytes(&self) -> u32 {
        (ROWS + COLUMNS) * DEPTH * 2
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let [rows, columns] = STORE_BOX;
        let stores = WARPGROUPS * self.store_stages * rows * columns * 2;
        let bytes = self.stages * self.step_bytes() + stores + BARRIER_BYTES;
        if self.stages < 2 || self.store_stages < 1 || self.group < 1 {
            return Err(format!(
                "{self:?}: at least 2 stages, 1 store stage and 1 tile are needed"
            ));
        }
        if bytes > SHARED_BYTES {
            return Err(format!("{self:?} takes {bytes} bytes of {SHARED_BYTES} of shared memory"));
        }
        Ok(())
    }
}

/// A K-major operand of one step, as TMA writes it and `wgmma` reads it.
pub fn operand(rows: u32) -> SmemTile {
    SmemTile::new(rows.into(), DEPTH.into(), 16, Major::K, SmemSwizzle::B128)
        .expect("whole swizzle atoms")
}
