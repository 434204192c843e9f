//! The rules a tensor map keeps.
//!
//! Refused, because `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` refuses it
//! (`CUDA_ERROR_INVALID_VALUE`, without saying why):
//!
//! - **T1** 1 to 5 dimensions.
//! - **T2** one stride fewer than dimensions (dimension 0 has none: it is contiguous); as many box
//!   sizes and element strides as dimensions. An im2col map has two box sizes.
//! - **T3** element 0 lies on a multiple of 16 bytes.
//! - **T4** each dimension has 1 to 2³² elements.
//! - **T5** strides are multiples of 16 bytes.
//! - **T6** strides are below 2⁴⁰ bytes.
//! - **T7** the box has 1 to 256 elements per dimension. An im2col map has 1 to 1024 pixels.
//! - **T8** a row of the box is a multiple of 16 bytes.
//! - **T9** a row of the box is no longer than the swizzle's span.
//! - **T10** the box has at most 128 KiB.
//! - **T11** element strides are 1 to 8.
//! - **T12** NaN fill is for floating-point elements.
//! - **T13** of the types with padding, rows are multiples of 128 elements and a row of the box has 128.
//! - **T14** an im2col map has 3 to 5 dimensions.
//! - **T15** corners of an im2col map have 16 bits with 3 dimensions, 8 with 4, and 5 with 5.
//! - **T16** the pixel box of an im2col map has at least one pixel.
//!
//! Warned about, because it is accepted and means something else than most people intend:
//!
//! - **W1** neighbours overlap: a stride is smaller than what it steps over (strides in elements
//!   rather than bytes look like this, so does a stride smaller than a row).
//! - **W2** a stride of 0 over more than one element (a missing stride): all are the same memory.
//! - **W3** strides that fall from dimension to dimension (dimensions given outermost first look
//!   like this; a permuted view does too, and is fine).
//! - **W4** the box reaches beyond the tensor in some dimension wherever it is placed.
//!
//! The atom variants of the 128-byte swizzle depend on the architecture; see
//! [`Program::check`](crate::Program::check).

use super::{MAX_RANK, OobFill, PixelBox, TensorMap};
use crate::report::{Rule, Violation, Warning};

/// The largest box the driver was seen to take.
const MAX_BOX_BYTES: u64 = 128 << 10;

impl TensorMap {
    /// Checks the rules listed at the head of this module: warnings, or every violation.
    pub fn check(&self) -> Result<Vec<Warning>, Vec<Violation>> {
        let mut found = self.wrong_ranks();
        if found.is_empty() {
            found.extend(self.wrong_memory());
            found.extend(self.wrong_box());
            found.extend(self.im2col.iter().flat_map(|pixels| self.wrong_pixels(pixels)));
        }
        if found.is_empty() { Ok(self.warnings()) } else { Err(found) }
    }

    /// T1, T2, T14.
    fn wrong_ranks(&self) -> Vec<Violation> {
        let rank = self.dims.len();
        let mut found = Vec::new();
        if !(1..=MAX_RANK).contains(&rank) {
            found.push(Rule::T(1).broken(format!("{rank} dimensions: there can be 1 to 5")));
        }
        if self.im2col.is_some() && rank < 3 {
            let text = format!("an im2col map of {rank} dimensions: there can be 3 to 5");
            found.push(Rule::T(14).broken(text));
        }
        let boxes = if self.im2col.is_some() { 2 } else { rank };
        let lengths = [
            ("strides", self.strides.len(), rank.saturating_sub(1)),
            ("box sizes", self.box_dims.len(), boxes),
            ("element strides", self.element_strides.len(), rank),
        ];
        for (what, is, should) in lengths.into_iter().filter(|(_, is, should)| is != should) {
            found.push(
                Rule::T(2).broken(format!("{is} {what} for {rank} dimensions: give {should}")),
            );
        }
        found
    }

    /// T3 to T6.
    fn wrong_memory(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        if !self.offset.is_multiple_of(16) {
            let text = format!("element 0 at byte {}: must be a multiple of 16", self.offset);
            found.push(Rule::T(3).broken(text));
        }
        for (i, &dim) in self.dims.iter().enumerate().filter(|&(_, &d)| d == 0 || d > 1 << 32) {
            found.push(Rule::T(4).broken(format!("dimension {i} has {dim} elements: 1 to 2^32")));
        }
        for (i, &stride) in self.strides.iter().enumerate() {
            let what = format!("the stride of dimension {} is {stride} bytes", i + 1);
            if !stride.is_multiple_of(16) {
                found.push(Rule::T(5).broken(format!("{what}: must be a multiple of 16")));
            }
            if stride >= 1 << 40 {
                found.push(Rule::T(6).broken(format!("{what}: must be below 2^40")));
            }
        }
        found
    }

    /// T7 to T13.
    fn wrong_box(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for (i, &size) in self.box_dims.iter().enumerate() {
            let most = if i == 1 && self.im2col.is_some() { 1024 } else { 256 };
            if !(1..=most).contains(&size) {
                let text = format!("box dimension {i} has {size} elements: 1 to {most}");
                found.push(Rule::T(7).broken(text));
            }
        }
        let row = self.box_row_bytes();
        if !row.is_multiple_of(16) {
            let text = format!("a box row has {row} bytes: must be a multiple of 16");
            found.push(Rule::T(8).broken(text));
        }
        if let Some(span) = self.swizzle.span().filter(|&span| row > span) {
            let text = format!("a box row has {row} bytes: {:?} allows {span}", self.swizzle);
            found.push(Rule::T(9).broken(text));
        }
        let rows = self.box_dims.iter().skip(1).map(|&n| u64::from(n)).product::<u64>();
        let bytes = rows.saturating_mul(row);
        if bytes > MAX_BOX_BYTES {
            let text = format!("the box has {bytes} bytes: at most {MAX_BOX_BYTES}");
            found.push(Rule::T(10).broken(text));
        }
        let strides = self.element_strides.iter().enumerate();
        for (i, &step) in strides.filter(|(_, s)| !(1..=8).contains(*s)) {
            found.push(Rule::T(11).broken(format!("element stride {i} is {step}: 1 to 8")));
        }
        if self.oob_fill == OobFill::Nan && !self.element.is_float() {
            let text = format!("NaN fill for {:?}: only floating-point elements", self.element);
            found.push(Rule::T(12).broken(text));
        }
        let (dim, size) = (self.dims[0], self.box_dims[0]);
        if self.element.padded_unit().is_some() && !(dim.is_multiple_of(128) && size == 128) {
            let text = format!(
                "{:?}: dimension 0 has {dim} elements and the box {size}: must be a multiple of 128, \
                 and 128",
                self.element
            );
            found.push(Rule::T(13).broken(text));
        }
        found
    }

    /// T15, T16.
    fn wrong_pixels(&self, pixels: &PixelBox) -> Vec<Violation> {
        let most = PixelBox::largest_corner(self.dims.len());
        let mut found = Vec::new();
        for (d, dim) in (1..).zip(&self.dims[1..self.dims.len() - 1]) {
            let (lower, upper) = (pixels.lower[d - 1], pixels.upper[d - 1]);
            for corner in [lower, upper] {
                if !(-most - 1..=most).contains(&corner) {
                    let text = format!("a corner of dimension {d} is {corner}");
                    found.push(Rule::T(15).broken(format!("{text}: {} to {most}", -most - 1)));
                }
            }
            let last = *dim as i64 - 1 + i64::from(upper);
            if i64::from(lower) > last {
                let text = format!("pixels of dimension {d} go from {lower} to {last}: none");
                found.push(Rule::T(16).broken(text));
            }
        }
        found
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut found = self.overlaps();
        for (i, _) in self.strides.iter().enumerate().filter(|&(_, &stride)| stride == 0) {
            let dim = self.dims[i + 1];
            if dim > 1 {
                let text = format!("dimension {}: stride 0 makes its {dim} elements one", i + 1);
                found.push(Rule::W(2).warns(text));
            }
        }
        if let Some(i) = self.strides.windows(2).position(|pair| pair[1] < pair[0]) {
            let (outer, inner) = (self.strides[i + 1], self.strides[i]);
            let text = format!(
                "dimension {} steps {outer} bytes, dimension {} steps {inner}: innermost comes first",
                i + 2,
                i + 1
            );
            found.push(Rule::W(3).warns(text));
        }
        let tiled = if self.im2col.is_some() { 1 } else { self.dims.len() };
        for (i, (&size, &dim)) in self.box_dims.iter().zip(&self.dims).take(tiled).enumerate() {
            if u64::from(size) > dim {
                let text = format!("box dimension {i} takes {size} elements of {dim}");
                found.push(Rule::W(4).warns(text));
            }
        }
        found
    }

    /// W1: walking the dimensions by growing stride, each steps over all that came before.
    fn overlaps(&self) -> Vec<Warning> {
        let mut outer: Vec<usize> = (1..self.dims.len()).collect();
        outer.retain(|&i| self.dims[i] > 1 && self.strides[i - 1] > 0);
        outer.sort_by_key(|&i| self.strides[i - 1]);
        let mut covered = self.element.bytes_of(self.dims[0]);
        let mut found = Vec::new();
        for i in outer {
            let stride = self.strides[i - 1];
            if stride < covered {
                let text = format!("dimension {i} steps {stride} bytes over {covered} in use");
                found.push(Rule::W(1).warns(text));
            }
            covered = stride.saturating_mul(self.dims[i] - 1).saturating_add(covered);
        }
        found
    }

    /// Bytes of the box in dimension 0, as they lie in shared memory.
    pub fn box_row_bytes(&self) -> u64 {
        self.box_dims.first().map_or(0, |&n| self.element.shared_bytes_of(u64::from(n)))
    }

    /// Bytes from element 0 to the end of the last element, saturating.
    pub fn footprint(&self) -> u64 {
        let row = self.dims.first().map_or(0, |&dim| self.element.bytes_of(dim));
        let steps = self.dims.iter().skip(1).zip(&self.strides);
        steps.fold(row, |sum, (dim, stride)| {
            sum.saturating_add(dim.saturating_sub(1).saturating_mul(*stride))
        })
    }
}
