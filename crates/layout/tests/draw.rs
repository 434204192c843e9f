//! Pictures: what they say, and that the files are what other programs can read.

use layout::draw::{Grid, png, svg, terminal};
use layout::hw::fragment::{mma_c, wgmma_d};
use layout::hw::{DataPath, Major, SmemSwizzle, SmemTile, TmemAccess, TmemShape};
use layout::{ComposedLayout, transform};

fn composed(text: &str) -> ComposedLayout {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The rows that four warps hold, and the operand tile they go to.
fn store(swizzle: SmemSwizzle) -> layout::Transform {
    let rows = TmemAccess::new(TmemShape::S32x32b, 64).unwrap().warpgroup_tv().unwrap();
    let tile = SmemTile::new(128, 64, 16, Major::K, swizzle).unwrap();
    transform(rows, tile.layout().unwrap(), 16).unwrap()
}

#[test]
fn a_terminal_table_has_names_and_indices() {
    let grid = Grid::of_layout(&composed("(2,3):(3,1)"), 64).unwrap();
    let expected =
        "(2,3):(3,1)\n  size 6, cosize 6, injective\n   0  1  2\n0  0  1  2 \n1  3  4  5 \n";
    assert_eq!(terminal(&grid, false), expected);
    let coloured = terminal(&grid, true);
    assert_eq!(coloured.matches("\x1b[48;2;").count(), 6);
    assert_eq!(coloured.matches("\x1b[0m").count(), 7, "every colour is ended");
}

#[test]
fn threads_have_colours_of_their_own() {
    let grid = Grid::of_tv(&mma_c(32).unwrap().tv).unwrap();
    assert_eq!(grid.cells[9][3].label, "T5:3");
    assert_eq!(grid.cells[1][2].colour, grid.cells[9][3].colour, "both are thread 5");
    let colours: std::collections::HashSet<_> =
        grid.cells.iter().flatten().map(|cell| cell.colour).collect();
    assert_eq!(colours.len(), 32);
}

#[test]
fn a_tmem_accumulator_shows_lanes_and_columns() {
    let grid = Grid::of_tmem(&DataPath::F.layout(8).unwrap()).unwrap();
    assert_eq!(grid.cells[17][3].label, "33,3");
}

#[test]
fn the_conflict_view_counts_lanes_that_wait() {
    let plain = Grid::of_conflicts(
        &transform(
            TmemAccess::new(TmemShape::S32x32b, 8).unwrap().tv().unwrap(),
            composed("(32,8):(64,1)"),
            16,
        )
        .unwrap(),
    )
    .unwrap();
    assert_eq!(plain.rows[..2], ["0.0", "0.1"]);
    assert_eq!(plain.cells[1][0].label, "L8 x8");
    assert_eq!(plain.cells[0][4].label, "", "the other banks idle");
    let swizzled = Grid::of_conflicts(&store(SmemSwizzle::B128)).unwrap();
    assert!(swizzled.cells.iter().flatten().all(|cell| !cell.label.contains('x')));
    assert!(
        swizzled.notes[0].contains("widest store 128 bits; no bank conflicts"),
        "{:?}",
        swizzled.notes
    );
}

#[test]
fn a_transform_shows_destination_bytes() {
    let grid = Grid::of_transform(&store(SmemSwizzle::B128)).unwrap();
    assert_eq!(grid.cells[1][0].label, (128 + 16).to_string());
}

#[test]
fn windows_say_what_they_leave_out() {
    let grid = Grid::of_tv(&wgmma_d(64, 32).unwrap().tv).unwrap();
    let window = grid.window(0..8, 60..100);
    assert_eq!((window.rows.len(), window.columns.len()), (8, 4));
    assert_eq!(window.cells[0][0].label, grid.cells[0][60].label);
    assert_eq!(window.notes.last().unwrap(), "showing 8 of 64 rows, 4 of 64 columns");
    assert!(grid.window(100..200, 0..2).cells.is_empty());
    let nothing = Grid::of_layout(&composed("()"), 64).unwrap();
    assert_eq!(nothing.cells.len(), 1, "the empty shape has one element");
}

#[test]
fn pictures_that_nobody_could_look_at_are_refused() {
    let error = Grid::of_layout(&composed("(1024,1024):(1,1024)"), 64).unwrap_err();
    assert!(error.to_string().contains("at most 65536 cells"), "{error}");
    assert!(Grid::of_layout(&composed("1099511627776:1"), 64).is_err());
}

#[test]
fn svg_is_well_formed() {
    let grid =
        Grid::of_layout(&composed("S<1,1,1> o 0 o (4,4):(4,1)"), 16).unwrap().titled("a < b & c");
    let text = svg(&grid);
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert!(text.contains("a &lt; b &amp; c") && text.contains("S&lt;1,1,1&gt; o 0 o"));
    assert_eq!(text.matches("<rect ").count(), 17);
    assert_eq!(text.matches("<text ").count(), text.matches("</text>").count());
}

#[test]
fn png_holds_the_pixels_of_its_cells() {
    let grid = Grid::of_tv(&mma_c(32).unwrap().tv).unwrap();
    let file = png(&grid).unwrap();
    let (width, height, pixels) = decode(&file);
    assert_eq!(pixels.len(), 3 * width * height);
    assert_eq!(pixels[..3], [255, 255, 255], "paper in the corner");
    let colours: std::collections::HashSet<[u8; 3]> =
        pixels.chunks(3).map(|p| [p[0], p[1], p[2]]).collect();
    assert!(grid.cells.iter().flatten().all(|cell| colours.contains(&cell.colour.rgb)));
}

/// Width, height and RGB bytes of a PNG with one fixed-code block and filter 2 on every line.
fn decode(file: &[u8]) -> (usize, usize, Vec<u8>) {
    assert_eq!(&file[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (width, height) = (number(16), number(20));
    let data = 8 + 12 + number(8);
    assert_eq!(&file[data + 4..data + 8], b"IDAT");
    let lines = inflate(&file[data + 10..data + 8 + number(data)]);
    let mut pixels = vec![0u8; 3 * width];
    for line in lines.chunks(3 * width + 1) {
        assert_eq!(line[0], 2);
        let above = pixels.len() - 3 * width;
        for x in 0..3 * width {
            pixels.push(line[1 + x].wrapping_add(pixels[above + x]));
        }
    }
    (width, height, pixels.split_off(3 * width))
}

/// A reader of one fixed-code DEFLATE block, by the book.
fn inflate(data: &[u8]) -> Vec<u8> {
    let mut at = 0;
    let mut bit = || {
        at += 1;
        u32::from(data[(at - 1) / 8] >> ((at - 1) % 8) & 1)
    };
    let mut bits = |count: u32| (0..count).fold(0, |value, i| value | bit() << i);
    assert_eq!(bits(3), 0b011);
    let mut out = Vec::new();
    loop {
        let mut code = (0..7).fold(0, |code, _| code << 1 | bits(1));
        let symbol = if code < 24 {
            256 + code
        } else {
            code = code << 1 | bits(1);
            match code {
                0x30..=0xbf => code - 0x30,
                0xc0..=0xc7 => 280 + code - 0xc0,
                _ => 144 + (code << 1 | bits(1)) - 0x190,
            }
        };
        match symbol {
            0..=255 => out.push(symbol as u8),
            256 => return out,
            _ => {
                let length = match symbol {
                    257..=264 => symbol - 254,
                    285 => 258,
                    _ => {
                        let extra = (symbol - 261) / 4;
                        3 + ((4 + (symbol - 261) % 4) << extra) + bits(extra)
                    }
                };
                let code = (0..5).fold(0, |code, _| code << 1 | bits(1));
                let distance = if code < 4 {
                    1 + code
                } else {
                    let extra = code / 2 - 1;
                    1 + ((2 + code % 2) << extra) + bits(extra)
                };
                for _ in 0..length {
                    out.push(out[out.len() - distance as usize]);
                }
            }
        }
    }
}
