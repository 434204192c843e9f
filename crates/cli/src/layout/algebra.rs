//! `sixwarp layout compute`: the layout algebra as a calculator.

use layout::{Layout, Result, Tiler};

/// An operation of the algebra.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Operation {
    /// The same function with as few modes as possible: L
    Coalesce,
    /// One layout after another, A(B(i)): A B
    Compose,
    /// What a layout leaves out, up to a bound: L BOUND
    Complement,
    /// From indices to coordinates, L(r(i)) = i: L
    RightInverse,
    /// From indices to coordinates, l(L(i)) = i: L
    LeftInverse,
    /// Tiles and the rest, mode by mode: L TILER
    LogicalDivide,
    /// All tile modes first: L TILER
    ZippedDivide,
    /// All tile modes first, rest modes side by side: L TILER
    TiledDivide,
    /// A tile and its repetitions: TILE LAYOUT
    LogicalProduct,
    /// Repetitions of contiguous blocks: TILE LAYOUT
    BlockedProduct,
    /// Repetitions interleaved: TILE LAYOUT
    RakedProduct,
    /// The same bytes in other elements: L FROM_BITS TO_BITS
    Recast,
    /// Elements that both layouts hold contiguously: A B
    CommonVector,
}

/// Computes and prints as text; the number of operands is the operation's.
pub fn compute(operation: Operation, operands: &[String]) -> std::result::Result<String, String> {
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let result = match (operation, operands.as_slice()) {
        (Operation::Coalesce, [a]) => layout(a).map(|a| a.coalesce()),
        (Operation::Compose, [a, b]) => both(a, b, Layout::compose),
        (Operation::Complement, [a, bound]) => {
            let bound = number(bound)?;
            layout(a).and_then(|a| a.complement(bound))
        }
        (Operation::RightInverse, [a]) => layout(a).and_then(|a| a.right_inverse()),
        (Operation::LeftInverse, [a]) => layout(a).and_then(|a| a.left_inverse()),
        (Operation::LogicalDivide, [a, b]) => tiled(a, b, Layout::logical_divide),
        (Operation::ZippedDivide, [a, b]) => tiled(a, b, Layout::zipped_divide),
        (Operation::TiledDivide, [a, b]) => tiled(a, b, Layout::tiled_divide),
        (Operation::LogicalProduct, [a, b]) => tiled(a, b, Layout::logical_product),
        (Operation::BlockedProduct, [a, b]) => both(a, b, Layout::blocked_product),
        (Operation::RakedProduct, [a, b]) => both(a, b, Layout::raked_product),
        (Operation::Recast, [a, from, to]) => {
            let (from, to) = (number(from)?, number(to)?);
            layout(a).and_then(|a| a.recast(from, to))
        }
        (Operation::CommonVector, [a, b]) => {
            let elements = layout(a).and_then(|a| a.max_common_vector(&layout(b)?));
            return elements
                .map(|elements| elements.to_string())
                .map_err(|error| error.to_string());
        }
        _ => {
            return Err(format!(
                "{} operands are not what this operation takes; see --help",
                operands.len()
            ));
        }
    };
    result.map(|layout| layout.to_string()).map_err(|error| error.to_string())
}

fn layout(text: &str) -> Result<Layout> {
    text.parse()
}

fn both(a: &str, b: &str, f: impl Fn(&Layout, &Layout) -> Result<Layout>) -> Result<Layout> {
    f(&layout(a)?, &layout(b)?)
}

fn tiled(a: &str, b: &str, f: impl Fn(&Layout, &Tiler) -> Result<Layout>) -> Result<Layout> {
    f(&layout(a)?, &b.parse()?)
}

fn number(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
