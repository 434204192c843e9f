//! `sixwarp layout`: layouts, fragments and transforms as tables and pictures.

mod algebra;
mod json;
mod subject;

use crate::{Outcome, output};
use algebra::{Operation, compute};
use layout::draw::{Grid, png, svg, terminal};
use layout::{Arrangement, ComposedLayout, Swizzle, transform};
use std::io::IsTerminal;
use std::path::PathBuf;
use subject::Subject;

const EXAMPLES: &str = "\
Layouts are written as CuTe prints them: shape:stride, with an optional swizzle in front. Each
element of the domain is a cell; the first mode runs down, the others to the right.

  sixwarp layout '(4,8):(8,1)'                     a row-major 4 x 8 tile
  sixwarp layout '((2,2),8):((1,16),2)' --at '(3,5)'   one coordinate only
  sixwarp layout 'S<3,3,3> o 0 o (8,64):(64,1)'    bf16 with the 128-byte swizzle
  sixwarp layout '(8,64):(64,1)' --banks           which bank each bf16 is in
  sixwarp layout --tv '((4,8),(2,2)):((32,1),(16,8))' --tile 16x8

The hardware's own layouts have names:

  sixwarp layout wgmma-d:n64                       accumulator of wgmma m64n64
  sixwarp layout wgmma-a:bf16                      its A operand in registers
  sixwarp layout mma-a:bf16 | mma-b:bf16 | mma-c   operands of mma.sync m16n8
  sixwarp layout ldmatrix:x4,trans                 ldmatrix and stmatrix
  sixwarp layout tmem-ld:16x256b.x2                tcgen05.ld and st; also ,pack ,warpgroup
  sixwarp layout tmem-d:m64,n32                    accumulator in tensor memory; also ,cta2 ,ws
  sixwarp layout smem:64x64,bf16,k,128b            an MMA operand in shared memory
  sixwarp layout tma:64x8,bf16,128b                a TMA box in shared memory

From one arrangement to another: the coordinate map, the widest store, bank conflicts:

  sixwarp layout transform tmem-ld:32x32b.x64,warpgroup smem:128x64,bf16
  sixwarp layout transform wgmma-d:n64 smem:64x64,bf16 --banks --svg store.svg

And the algebra, as a calculator:

  sixwarp layout compute compose '(6,2):(8,2)' '(4,3):(3,1)'
  sixwarp layout compute zipped-divide '(8,16):(16,1)' '<4:1,8:1>'
  sixwarp layout compute complement '(2,2):(1,6)' 24";

/// Shows layouts, register fragments and transforms as tables and pictures
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A layout in CuTe's notation, or the name of a hardware layout
    #[arg(required_unless_present = "hw")]
    layout: Option<String>,
    /// A hardware layout by name
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    hw: Option<String>,
    /// Reads the layout as (thread, value) to an element of the tile given by --tile
    #[arg(long, requires = "tile")]
    tv: bool,
    /// The tile of a (thread, value) layout, rows x columns
    #[arg(long, value_name = "MxN")]
    tile: Option<String>,
    /// Puts this swizzle, counted in elements, behind the layout
    #[arg(long, value_name = "S<B,M,S>")]
    swizzle: Option<Swizzle>,
    /// Keeps the modes marked _ and fixes the others, such as (_,3)
    #[arg(long)]
    slice: Option<String>,
    /// Prints only where this coordinate goes
    #[arg(long, value_name = "COORD")]
    at: Option<String>,
    #[command(flatten)]
    show: Show,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Computes with layouts: composition, complement, inverses, divisions, products
    Compute {
        /// What to compute
        operation: Operation,
        /// Layouts, tilers such as <2:1,_,4:1>, and numbers
        #[arg(required = true)]
        operands: Vec<String>,
    },
    /// Moves a tile from one arrangement to another: where it goes, how wide, with which conflicts
    Transform {
        /// Where the tile is: a layout, or the name of a hardware layout
        from: String,
        /// Where it goes: a layout, or the name of a shared-memory layout
        to: String,
        #[command(flatten)]
        show: Show,
    },
}

/// What to show and where to put it.
#[derive(clap::Args)]
struct Show {
    /// Bits per element
    #[arg(long, value_name = "N")]
    bits: Option<u64>,
    /// Shows shared-memory banks instead of indices
    #[arg(long)]
    banks: bool,
    /// Shows all rows and columns in the terminal
    #[arg(long)]
    all: bool,
    /// Writes the picture as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Writes the picture as PNG
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Prints the facts as JSON
    #[arg(long)]
    json: bool,
    /// Colours in the terminal
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "always", "never"])]
    color: String,
}

/// Elements are bf16 where nothing says otherwise.
const DEFAULT_BITS: u64 = 16;

/// Reads, draws and prints.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Some(Command::Transform { from, to, show }) => return run_transform(&from, &to, &show),
        Some(Command::Compute { operation, operands }) => {
            return output::print(&format!("{}\n", compute(operation, &operands)?));
        }
        None => {}
    }
    let text = args.layout.or(args.hw).unwrap_or_default();
    let subject = if args.tv {
        Subject::registers(&text, args.tile.as_deref().unwrap_or_default())?
    } else {
        Subject::read(&text)?
    };
    let subject = subject.swizzled(args.swizzle)?.sliced(args.slice.as_deref())?;
    if let Some(coord) = &args.at {
        return output::print(&format!("{}\n", subject.at(coord)?));
    }
    let bits = args.show.bits.or(subject.element_bits());
    if args.show.json {
        return output::print_json(&json::subject(&subject)?);
    }
    let grid = match (&subject, args.show.banks) {
        (Subject::Memory { layout, .. }, true) => {
            Grid::of_banks(layout, bits.unwrap_or(DEFAULT_BITS))?
        }
        (Subject::Memory { layout, .. }, false) => Grid::of_layout(layout, ring(layout, bits))?,
        (_, true) => return Err("--banks needs a layout of shared memory, or a transform".into()),
        (Subject::Registers { tv, .. }, false) => Grid::of_tv(tv)?,
        (Subject::Tensor { layout }, false) => Grid::of_tmem(layout)?,
    };
    let grid = if subject::is_name(&text) { grid.titled(text) } else { grid };
    show(&grid, &args.show)
}

/// After how many elements colours repeat: a line of all banks, or what a small layout reaches.
fn ring(layout: &ComposedLayout, bits: Option<u64>) -> u64 {
    match bits {
        Some(bits) => 1024 / bits.clamp(1, 1024),
        None => layout.layout().cosize().min(64),
    }
}

fn run_transform(from: &str, to: &str, options: &Show) -> Outcome {
    let (source, destination) = (Subject::read(from)?, Subject::read(to)?);
    let bits = options.bits.or(destination.element_bits()).or(source.element_bits());
    let Subject::Memory { layout, .. } = destination else {
        return Err(format!("{to} is not a memory layout: a transform ends in memory").into());
    };
    let moved = transform(arrangement(source), layout, bits.unwrap_or(DEFAULT_BITS))?;
    if options.json {
        return output::print_json(&json::transform(&moved)?);
    }
    let grid =
        if options.banks { Grid::of_conflicts(&moved)? } else { Grid::of_transform(&moved)? };
    let kind = if options.banks { "banks" } else { "byte of each element" };
    show(&grid.titled(format!("{from} -> {to}, {kind}")), options)
}

fn arrangement(subject: Subject) -> Arrangement {
    match subject {
        Subject::Memory { layout, .. } => layout.into(),
        Subject::Registers { tv, .. } => tv.into(),
        Subject::Tensor { layout } => layout.into(),
    }
}

/// Writes the files that were asked for; prints the table when there are none.
fn show(grid: &Grid, options: &Show) -> Outcome {
    if let Some(path) = &options.svg {
        write(path, svg(grid).as_bytes())?;
    }
    if let Some(path) = &options.png {
        write(path, &png(grid)?)?;
    }
    if options.svg.is_some() || options.png.is_some() {
        return Ok(());
    }
    let colour = match options.color.as_str() {
        "always" => true,
        "never" => false,
        _ => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let grid = if options.all {
        grid.clone()
    } else {
        grid.window(0..MAX_ROWS, 0..columns_that_fit(grid))
    };
    output::print(&terminal(&grid, colour))
}

fn write(path: &std::path::Path, bytes: &[u8]) -> Outcome {
    files::write(path, bytes)?;
    output::print(&format!("wrote {}\n", path.display()))
}

/// Rows of a table that are printed without `--all`.
const MAX_ROWS: usize = 64;
/// The width of a terminal that does not say.
const DEFAULT_WIDTH: usize = 120;

fn columns_that_fit(grid: &Grid) -> usize {
    let width =
        std::env::var("COLUMNS").ok().and_then(|width| width.parse().ok()).unwrap_or(DEFAULT_WIDTH);
    let label = grid.cells.iter().flatten().map(|cell| cell.label.len()).max().unwrap_or(1);
    (width / (label + 2)).max(8)
}
