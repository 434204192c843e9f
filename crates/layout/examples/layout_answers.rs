//! Answers questions about layouts, one per line: `operation<TAB>argument<TAB>...` on standard
//! input, the answer or `error: why` on standard output.
//!
//! `tests/oracles/layout_oracle.py` drives it to compare this crate with other implementations.

use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use layout::hw::HardwareLayout;
use layout::{
    ComposedLayout, IntTuple, Layout, LayoutError, Result, Slice, Swizzle, Tiler, WarpAccess,
};

fn main() -> std::io::Result<()> {
    let mut output = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let line = line?;
        let question: Vec<&str> = line.split('\t').collect();
        match answer(&question) {
            Ok(answer) => writeln!(output, "{answer}")?,
            Err(error) => writeln!(output, "error: {}", error.to_string().replace('\n', " "))?,
        }
    }
    output.flush()
}

fn answer(question: &[&str]) -> Result<String> {
    match *question {
        ["facts", a] => facts(&layout(a)?),
        ["indices", a] => Ok(joined(composed(a)?.indices())),
        ["coord", shape, index] => {
            Ok(shape.parse::<IntTuple>()?.coord_of(number(index)?)?.to_string())
        }
        ["coalesce", a] => Ok(layout(a)?.coalesce().to_string()),
        ["compose", a, b] => show(layout(a)?.compose(&layout(b)?)),
        ["compose-by", a, b] => show(layout(a)?.compose_by(&tiler(b)?)),
        ["complement", a, bound] => show(layout(a)?.complement(number(bound)?)),
        ["left-inverse", a] => show(layout(a)?.left_inverse()),
        ["right-inverse", a] => show(layout(a)?.right_inverse()),
        ["logical-divide", a, b] => show(layout(a)?.logical_divide(&tiler(b)?)),
        ["zipped-divide", a, b] => show(layout(a)?.zipped_divide(&tiler(b)?)),
        ["tiled-divide", a, b] => show(layout(a)?.tiled_divide(&tiler(b)?)),
        ["flat-divide", a, b] => show(layout(a)?.flat_divide(&tiler(b)?)),
        ["logical-product", a, b] => show(layout(a)?.logical_product(&tiler(b)?)),
        ["blocked-product", a, b] => show(layout(a)?.blocked_product(&layout(b)?)),
        ["raked-product", a, b] => show(layout(a)?.raked_product(&layout(b)?)),
        ["upcast", a, factor] => show(layout(a)?.upcast(number(factor)?)),
        ["downcast", a, factor] => show(layout(a)?.downcast(number(factor)?)),
        ["common-vector", a, b] => Ok(layout(a)?.max_common_vector(&layout(b)?)?.to_string()),
        ["slice", a, slice] => sliced(&layout(a)?, slice),
        ["swizzle", swizzle, index] => {
            Ok(swizzle.parse::<Swizzle>()?.apply(number(index)?).to_string())
        }
        ["bank-passes", a, bytes] => bank_passes(&layout(a)?, number(bytes)?),
        ["hardware", name] => hardware(name),
        _ => Err(LayoutError::Hardware { rule: "no such question", found: question.join(" ") }),
    }
}

fn layout(text: &str) -> Result<Layout> {
    text.parse()
}

fn composed(text: &str) -> Result<ComposedLayout> {
    text.parse()
}

fn tiler(text: &str) -> Result<Tiler> {
    text.parse()
}

fn number(text: &str) -> Result<u64> {
    let tuple: IntTuple = text.parse()?;
    tuple.product()
}

fn show(layout: Result<Layout>) -> Result<String> {
    layout.map(|layout| layout.to_string())
}

fn joined(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

fn facts(layout: &Layout) -> Result<String> {
    Ok(format!("{},{},{},{}", layout.size(), layout.cosize(), layout.rank(), layout.depth()))
}

fn sliced(layout: &Layout, slice: &str) -> Result<String> {
    let (kept, offset) = layout.slice(&slice.parse::<Slice>()?)?;
    Ok(format!("{offset}+{kept}"))
}

/// Passes of one warp whose lane `t` accesses `bytes` bytes at element `layout(t)` of that size.
fn bank_passes(layout: &Layout, bytes: u64) -> Result<String> {
    let addresses = layout.indices().take(32).map(|index| index * bytes).collect();
    Ok(WarpAccess::new(addresses, bytes).passes.to_string())
}

fn hardware(name: &str) -> Result<String> {
    Ok(match name.parse()? {
        HardwareLayout::Registers { tv, .. } => tv.to_string(),
        HardwareLayout::Shared { layout, .. } => layout.to_string(),
        HardwareLayout::Tensor { layout } => layout.to_string(),
    })
}
