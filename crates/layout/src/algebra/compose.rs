//! Composition: one layout after another.

use super::tiler::Tiler;
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result, checked_add, checked_mul, exact_div};
use crate::layout::Layout;

impl Layout {
    /// The layout `i -> self(inner(i))`, with the domain of `inner`.
    ///
    /// Indices of `inner` past the end of `self` run on along the last mode of the coalesced
    /// `self`, as in CuTe. It is an error when the result is not a layout: because a mode of
    /// `inner` steps unevenly over the modes of `self`, or because modes of `inner` add up to a
    /// carry from one mode of `self` into the next.
    ///
    /// ```
    /// use layout::Layout;
    /// let rows: Layout = "(6,2):(8,2)".parse()?;
    /// assert_eq!(rows.compose(&"(4,3):(3,1)".parse()?)?.to_string(), "((2,2),3):((24,2),8)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn compose(&self, inner: &Layout) -> Result<Layout> {
        let outer = self.coalesce().leaves();
        let composed = compose_tree(&outer, inner)?;
        if carries(&outer, &inner.leaves())? {
            return Err(LayoutError::Carry { outer: self.to_string(), inner: inner.to_string() });
        }
        Ok(composed)
    }

    /// Composition mode by mode; modes without a tiler stay as they are.
    pub fn compose_by(&self, tiler: &Tiler) -> Result<Layout> {
        tiler.apply(self, &|mode, layout| mode.compose(layout))
    }
}

impl ComposedLayout {
    /// The function `i -> self(inner(i))`: only the layout before the swizzle changes.
    pub fn compose(&self, inner: &Layout) -> Result<ComposedLayout> {
        self.map_layout(|layout| layout.compose(inner))
    }
}

/// Whether two modes of `inner` can add up past the end of a mode of `outer`. Composing mode by
/// mode would then miss the carry into the next mode.
fn carries(outer: &[(u64, u64)], inner: &[(u64, u64)]) -> Result<bool> {
    let mut boundary = 1;
    for (extent, _) in outer.iter().take(outer.len().saturating_sub(1)) {
        boundary *= extent;
        let reach = inner.iter().try_fold(0, |sum, &(steps, stride)| {
            checked_add("composition", sum, largest_remainder(steps, stride, boundary))
        })?;
        if reach >= boundary {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The largest `step * stride % boundary`, for strides that divide or are divided by `boundary`
/// unless all steps stay below it; composing the mode alone has made sure of that.
fn largest_remainder(steps: u64, stride: u64, boundary: u64) -> u64 {
    match (steps - 1).checked_mul(stride) {
        Some(last) if last < boundary => last,
        _ if stride.is_multiple_of(boundary) => 0,
        _ => boundary - stride,
    }
}

fn compose_tree(outer: &[(u64, u64)], inner: &Layout) -> Result<Layout> {
    if inner.shape().is_int() {
        let (extent, stride) = inner.leaves()[0];
        return Layout::from_leaves(&compose_leaf(outer, extent, stride)?);
    }
    let modes: Result<Vec<Layout>> =
        inner.modes().iter().map(|mode| compose_tree(outer, mode)).collect();
    Layout::from_modes(modes?)
}

/// The leaves of `outer` visited by `extent` steps of `stride`.
fn compose_leaf(outer: &[(u64, u64)], extent: u64, stride: u64) -> Result<Vec<(u64, u64)>> {
    if stride == 0 || extent == 1 {
        return Ok(vec![(extent, 0)]);
    }
    let Some(((_, last_stride), before)) = outer.split_last() else {
        return Ok(vec![(extent, 0)]);
    };
    let mut result = Vec::new();
    let (mut extent, mut stride) = (extent, stride);
    for &(outer_extent, outer_stride) in before {
        if extent == 1 {
            break;
        }
        // All steps stay inside this mode: it need not be divided evenly.
        let inside = (extent - 1).checked_mul(stride).is_some_and(|last| last < outer_extent);
        let taken = if inside { extent } else { steps_inside(outer_extent, stride)?.min(extent) };
        if taken != 1 {
            result.push((taken, checked_mul("composition stride", stride, outer_stride)?));
        }
        extent = exact_div("composition", extent, taken)?;
        stride = stride.div_ceil(outer_extent);
    }
    if extent != 1 || result.is_empty() {
        result.push((extent, checked_mul("composition stride", stride, *last_stride)?));
    }
    Ok(result)
}

/// How many steps of `stride` fit in a mode before the walk leaves it.
fn steps_inside(extent: u64, stride: u64) -> Result<u64> {
    if !extent.is_multiple_of(stride) && !stride.is_multiple_of(extent) {
        return Err(LayoutError::NotDivisible {
            operation: "composition",
            dividend: extent,
            divisor: stride,
        });
    }
    Ok((extent / stride).max(1))
}
