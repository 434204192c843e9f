//! The pictures in `docs/layouts` are what this crate draws today.
//!
//! `UPDATE_PICTURES=1 cargo test -p sixwarp-layout --test pictures` writes them anew.

use std::path::Path;

use layout::draw::{Grid, svg};
use layout::hw::HardwareLayout;
use layout::{ComposedLayout, Result, transform};

fn hardware(name: &str) -> Result<HardwareLayout> {
    name.parse()
}

fn fragment(name: &str) -> Result<Grid> {
    let HardwareLayout::Registers { tv, .. } = hardware(name)? else {
        panic!("{name} is a fragment")
    };
    Ok(Grid::of_tv(&tv)?.titled(name))
}

/// A layout in notation or by name, of bf16.
fn memory(text: &str) -> Result<ComposedLayout> {
    match text.parse::<HardwareLayout>() {
        Ok(HardwareLayout::Shared { layout, .. }) => Ok(layout),
        _ => text.parse(),
    }
}

fn banks(text: &str) -> Result<Grid> {
    Ok(Grid::of_banks(&memory(text)?, 16)?.titled(format!("{text}, banks")))
}

/// The first accesses of a store of one row per thread.
fn store(to: &str) -> Result<Grid> {
    let from = "tmem-ld:32x32b.x64,warpgroup";
    let HardwareLayout::Registers { tv, .. } = hardware(from)? else {
        panic!("{from} is a fragment")
    };
    let grid = Grid::of_conflicts(&transform(tv, memory(to)?, 16)?)?;
    Ok(grid.window(0..8, 0..32).titled(format!("{from} -> {to}, banks")))
}

fn accumulator(name: &str) -> Result<Grid> {
    let HardwareLayout::Tensor { layout } = hardware(name)? else {
        panic!("{name} is in tensor memory")
    };
    Ok(Grid::of_tmem(&layout)?.titled(name))
}

#[test]
fn the_pictures_in_the_documentation_are_current() {
    check("mma-c", fragment("mma-c"));
    check("wgmma-d", fragment("wgmma-d:n16"));
    check("tmem-ld-16x256b", fragment("tmem-ld:16x256b.x1"));
    check("tmem-d-m64", accumulator("tmem-d:m64,n8"));
    check("banks-row-major", banks("(8,64):(64,1)"));
    check("banks-128b", banks("smem:8x64,bf16,k,128b"));
    check("store-row-major", store("(128,64):(64,1)"));
    check("store-128b", store("smem:128x64,bf16,k,128b"));
}

fn check(name: &str, grid: Result<Grid>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/layouts/{name}.svg"));
    let drawn = svg(&grid.unwrap_or_else(|error| panic!("{name}: {error}")));
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        std::fs::write(&path, drawn).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == drawn, "{} is out of date; UPDATE_PICTURES=1 redraws it", path.display());
}
