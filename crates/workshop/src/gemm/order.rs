//! The order of work: which tile a cluster takes next.
//!
//! Tiles are numbered down a column of `group` tiles, then the next column to the right, then the next
//! `group` rows of tiles. The last rows may be fewer than a group: numbers without a tile are skipped.

use super::Shape;
use super::config::Config;
use program::build::{Arguments, Divisor};
use ptx::build::{Builder, Cmp, Reg};

/// How the tiles of a product are numbered, on the host.
pub struct Order {
    config: Config,
    /// Rows and columns of tiles.
    rows: u32,
    columns: u32,
    clusters: u32,
}

impl Order {
    /// The order for a device of `processors` SMs.
    pub fn new(shape: Shape, config: Config, processors: u32) -> Self {
        let [tile_rows, tile_columns] = config.cluster_tile();
        let (rows, columns) = (shape.m.div_ceil(tile_rows), shape.n.div_ceil(tile_columns));
        let most = (processors / config.cluster()).clamp(1, rows * columns);
        // Fewer clusters that all have as many tiles are done at the same time, and blocks of the
        // order stay whole.
        let turns = (rows * columns).div_ceil(most);
        let clusters = if config.even { (rows * columns).div_ceil(turns) } else { most };
        Order { config, rows, columns, clusters }
    }

    /// CTAs of the launch.
    pub fn ctas(&self) -> u32 {
        self.clusters * self.config.cluster()
    }

    /// Declares the parameters of the kernel.
    pub fn declare(&self, b: &mut Builder, args: &mut Arguments) -> Work {
        let group = self.config.group;
        let band = group * self.columns;
        Work {
            config: self.config,
            rows: args.u32(b, "tile_rows", self.rows),
            numbers: args.u32(b, "tile_numbers", self.rows.div_ceil(group) * band),
            clusters: args.u32(b, "clusters", self.clusters),
            band: Divisor::declare(b, args, "band", band),
        }
    }
}

/// The work of a cluster, in the kernel.
#[derive(Clone, Copy)]
pub struct Work {
    config: Config,
    rows: Reg<u32>,
    numbers: Reg<u32>,
    clusters: Reg<u32>,
    band: Divisor,
}

/// Where a cluster's tile begins.
#[derive(Clone, Copy)]
pub struct Tile {
    /// First row of `C`.
    pub row: Reg<u32>,
    /// First column of `C`.
    pub column: Reg<u32>,
}

impl Work {
    /// Runs `body` for each tile of this cluster.
    #[track_caller]
    pub fn for_each_tile(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, Tile)) {
        let cta = b.cta();
        let number = b.div(cta, self.config.cluster());
        b.while_(
            |b| b.setp(Cmp::Lt, number, self.numbers),
            |b| {
                let (row, column) = self.place(b, number);
                let exists = b.setp(Cmp::Lt, row, self.rows);
                b.if_(exists, |b| {
                    let [rows, columns] = self.config.cluster_tile();
                    let tile = Tile { row: b.mul(row, rows), column: b.mul(column, columns) };
                    body(b, tile);
                });
                let next = b.add(number, self.clusters);
                b.assign(number, next);
            },
        );
    }

    /// Row and column of tiles of a number.
    #[track_caller]
    fn place(&self, b: &mut Builder, number: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let (band, within) = self.band.divide(b, number);
        let column = b.div(within, self.config.group);
        let below = b.rem(within, self.config.group);
        (b.mad(band, self.config.group, below), column)
    }
}
