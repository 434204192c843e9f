use super::swizzle::{granule, permute};
use crate::matrix::OperandError;
use crate::numeric::{Overflow, Rounding, f32_to_tf32};
use program::{ElementType, MAX_RANK, OobFill, PixelBox, TensorDescriptor};

/// A contiguous part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// `bytes` bytes between global and shared memory.
    Copy {
        /// Global address.
        global: u64,
        /// Shared-memory address.
        shared: u32,
        /// Length.
        bytes: u32,
    },
    /// Shared memory a load fills with [`fill_bytes`]: outside the tensor.
    Fill {
        /// Shared-memory address.
        shared: u32,
        /// Length.
        bytes: u32,
    },
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Global to shared: elements outside the tensor are filled.
    Load,
    /// Shared to global: elements outside the tensor are dropped.
    Store,
}

/// All parts of one tensor copy, in the order of the box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    /// The parts.
    pub pieces: Vec<Piece>,
    /// Bytes the copy completes on its mbarrier: the full box, wherever it lies.
    pub transaction_bytes: u32,
}

impl CopyPlan {
    /// A box of `map` at `coordinates` (dimension 0 first) and shared-memory address `shared`.
    pub fn tile(
        map: &TensorDescriptor,
        coordinates: &[i32],
        shared: u32,
        direction: Direction,
    ) -> Result<CopyPlan, OperandError> {
        check_rank(map, map.rank, coordinates.len())?;
        check_tiled(map)?;
        let mut at = [0i64; MAX_RANK];
        at.iter_mut().zip(coordinates).for_each(|(to, &from)| *to = i64::from(from));
        let mut builder = Builder::new(map, shared, direction);
        let taken = taken(map);
        for outer in indices(&taken) {
            let row: [i64; MAX_RANK] = std::array::from_fn(|d| match d {
                0 => at[0],
                _ => at[d] + i64::from(outer[d] * map.element_strides[d]),
            });
            builder.row(&row);
        }
        Ok(builder.finish(map.transaction_bytes() as u32))
    }

    /// `.im2col`: pixels of `map` from the one at `coordinates` on (dimension 0 first), each moved by
    /// `offsets` (width first). A load: `shared` is where the first pixel goes.
    pub fn im2col(
        map: &TensorDescriptor,
        coordinates: &[i32],
        offsets: &[u16],
        shared: u32,
    ) -> Result<CopyPlan, OperandError> {
        check_rank(map, map.rank, coordinates.len())?;
        let walk = PixelWalk::new(map, coordinates, offsets)?;
        let mut builder = Builder::new(map, shared, Direction::Load);
        walk.take(map.box_dims[1] as usize).for_each(|pixel| builder.row(&pixel));
        Ok(builder.finish(map.transaction_bytes() as u32))
    }

    /// `.tile::gather4` and `.tile::scatter4`: four rows of a 2-D tensor, packed one after the
    /// other. `coordinates` are the column and the four rows.
    pub fn four_rows(
        map: &TensorDescriptor,
        coordinates: &[i32],
        shared: u32,
        direction: Direction,
    ) -> Result<CopyPlan, OperandError> {
        check_rank(map, 2, map.rank)?;
        check_tiled(map)?;
        let &[column, ref rows @ ..] = coordinates else {
            return OperandError::illegal("gather4 without coordinates");
        };
        if rows.len() != 4 || map.box_dims[1] != 1 {
            return OperandError::illegal(format!(
                "gather4/scatter4 takes a column and four rows of a map with box {{w, 1}}; got {} \
                 coordinates and box {{{}, {}}}",
                coordinates.len(),
                map.box_dims[0],
                map.box_dims[1]
            ));
        }
        let mut builder = Builder::new(map, shared, direction);
        for &row in rows {
            builder.row(&[i64::from(column), i64::from(row), 0, 0, 0]);
        }
        Ok(builder.finish(4 * map.transaction_bytes() as u32))
    }
}

fn check_rank(map: &TensorDescriptor, want: usize, got: usize) -> Result<(), OperandError> {
    if want == got {
        return Ok(());
    }
    OperandError::illegal(format!(
        "tensor copy of {got} dimensions through a tensor map of rank {}",
        map.rank
    ))
}

fn check_tiled(map: &TensorDescriptor) -> Result<(), OperandError> {
    match map.im2col {
        None => Ok(()),
        Some(_) => OperandError::illegal("a tiled copy through an im2col tensor map"),
    }
}

/// The pixels of an im2col copy, each as the coordinates of its first channel.
struct PixelWalk {
    /// Where the filter's first element lies: inside the pixel box, before offsets.
    base: [i64; MAX_RANK],
    offsets: [i64; MAX_RANK],
    /// First and last pixel of each dimension of the box, and the step between pixels.
    dimensions: Vec<(i64, i64, i64)>,
    /// The step between images.
    images: i64,
}

impl PixelWalk {
    fn new(
        map: &TensorDescriptor,
        coordinates: &[i32],
        offsets: &[u16],
    ) -> Result<Self, OperandError> {
        let Some(pixels) = map.im2col else {
            return OperandError::illegal("an im2col copy through a tiled tensor map");
        };
        let spatial = map.rank - 2;
        if offsets.len() != spatial {
            let got = offsets.len();
            return OperandError::illegal(format!("{got} im2col offsets: {spatial} are due"));
        }
        let most = PixelBox::largest_offset(map.rank);
        if let Some(offset) = offsets.iter().find(|offset| u32::from(**offset) > most) {
            return OperandError::illegal(format!("an im2col offset of {offset}: at most {most}"));
        }
        let mut walk = PixelWalk {
            base: [0; MAX_RANK],
            offsets: [0; MAX_RANK],
            dimensions: Vec::with_capacity(spatial),
            images: map.element_strides[map.rank - 1].into(),
        };
        walk.base.iter_mut().zip(coordinates).for_each(|(to, &from)| *to = from.into());
        for d in 1..=spatial {
            walk.offsets[d] = offsets[d - 1].into();
            let first = i64::from(pixels.lower[d - 1]);
            let last = map.dims[d] as i64 - 1 + i64::from(pixels.upper[d - 1]);
            if !(first..=last).contains(&walk.base[d]) {
                let at = walk.base[d];
                return OperandError::illegal(format!(
                    "an im2col copy at coordinate {d} = {at}: the pixel box has {first} to {last}"
                ));
            }
            walk.dimensions.push((first, last, map.element_strides[d].into()));
        }
        Ok(walk)
    }
}

impl Iterator for PixelWalk {
    type Item = [i64; MAX_RANK];

    fn next(&mut self) -> Option<Self::Item> {
        let pixel = std::array::from_fn(|d| self.base[d] + self.offsets[d]);
        for (d, &(first, last, step)) in (1..).zip(&self.dimensions) {
            self.base[d] += step;
            if self.base[d] <= last {
                return Some(pixel);
            }
            self.base[d] = first;
        }
        // Behind the last pixel of an image comes the next image.
        self.base[self.dimensions.len() + 1] += self.images;
        Some(pixel)
    }
}

/// Elements a box takes of each dimension.
fn taken(map: &TensorDescriptor) -> [u32; MAX_RANK] {
    std::array::from_fn(|d| match d {
        0 => map.box_dims[0],
        _ => map.box_dims[d].div_ceil(map.element_strides[d]),
    })
}

/// Indices of the dimensions above 0, dimension 1 fastest.
fn indices(taken: &[u32; MAX_RANK]) -> impl Iterator<Item = [u32; MAX_RANK]> {
    let [_, n1, n2, n3, n4] = *taken;
    (0..n1 * n2 * n3 * n4)
        .map(move |i| [0, i % n1, i / n1 % n2, i / (n1 * n2) % n3, i / (n1 * n2 * n3)])
}

struct Builder<'a> {
    map: &'a TensorDescriptor,
    direction: Direction,
    pieces: Vec<Piece>,
    /// Unpermuted shared-memory address of the next row.
    next: u32,
}

impl<'a> Builder<'a> {
    fn new(map: &'a TensorDescriptor, shared: u32, direction: Direction) -> Self {
        Builder { map, direction, pieces: Vec::new(), next: shared }
    }

    /// Adds the row that starts at `at`.
    fn row(&mut self, at: &[i64; MAX_RANK]) {
        let map = self.map;
        let width = i64::from(map.box_dims[0]);
        let inside = (1..MAX_RANK).all(|d| (0..map.dims[d] as i64).contains(&at[d]));
        let (low, high) = match inside {
            true => ((-at[0]).clamp(0, width), (map.dims[0] as i64 - at[0]).clamp(0, width)),
            false => (width, width),
        };
        let high = high.max(low);
        let first = map.element.bytes_of((at[0] + low) as u64);
        let bytes = |elements: i64| map.element.shared_bytes_of(elements as u64) as u32;
        let (low, high, width) = (bytes(low), bytes(high), bytes(width));
        self.part(0..low, None);
        if low < high {
            let outer: u64 = (1..MAX_RANK).map(|d| at[d] as u64 * map.strides[d]).sum();
            self.part(low..high, Some(map.address.wrapping_add(outer + first)));
        }
        self.part(high..width, None);
        // A row narrower than the swizzle's span still takes the whole span (seen on an H200).
        self.next += map.swizzle.span().map_or(width, |span| width.max(span as u32));
    }

    /// Adds bytes `range` of the row: from or to `global`, or outside the tensor.
    fn part(&mut self, range: std::ops::Range<u32>, global: Option<u64>) {
        if global.is_none() && self.direction == Direction::Store {
            return;
        }
        let swizzle = self.map.swizzle;
        let (start, end) = (self.next + range.start, self.next + range.end);
        if let (Some(global), Some(data)) = (global, self.map.element.padded_unit()) {
            return self.padded(start..end, global, data as u32);
        }
        let mut address = start;
        while address < end {
            let stop = match granule(swizzle) {
                Some(unit) => end.min(address / unit * unit + unit),
                None => end,
            };
            let (shared, bytes) = (permute(swizzle, address), stop - address);
            self.pieces.push(match global {
                Some(global) => {
                    Piece::Copy { global: global + u64::from(address - start), shared, bytes }
                }
                None => Piece::Fill { shared, bytes },
            });
            address = stop;
        }
    }

    /// Adds 16-byte units of shared memory of which the first `data` bytes have a place in global
    /// memory, where they are packed.
    fn padded(&mut self, units: std::ops::Range<u32>, mut global: u64, data: u32) {
        for address in units.step_by(16) {
            let shared = permute(self.map.swizzle, address);
            self.pieces.push(Piece::Copy { global, shared, bytes: data });
            if self.direction == Direction::Load {
                self.pieces.push(Piece::Fill { shared: shared + data, bytes: 16 - data });
            }
            global += u64::from(data);
        }
    }

    fn finish(self, transaction_bytes: u32) -> CopyPlan {
        CopyPlan { pieces: self.pieces, transaction_bytes }
    }
}

/// The bytes a load writes for elements outside the tensor: `bytes` of them, starting at an
/// element boundary.
pub fn fill_bytes(map: &TensorDescriptor, bytes: usize) -> Vec<u8> {
    if map.oob_fill == OobFill::Zero {
        return vec![0; bytes];
    }
    // 0x7FF7 in every 16 bits, whatever the type (seen on an H200 with f16, bf16 and f32).
    [0xF7, 0x7F].into_iter().cycle().take(bytes).collect()
}

/// What a load does to the numbers it moves: rounding to tf32. The `ftz` types keep subnormals all
/// the same, and NaNs become one NaN (both seen on an H200). `bytes` is whole elements.
pub fn convert(element: ElementType, bytes: &mut [u8]) {
    if !matches!(element, ElementType::Tf32 | ElementType::Tf32Ftz) {
        return;
    }
    for word in bytes.as_chunks_mut::<4>().0 {
        let value = f32::from_le_bytes(*word);
        *word = match value.is_nan() {
            true => 0x7FFF_E000u32.to_le_bytes(),
            false => {
                f32_to_tf32(value, Rounding::NearestAway, Overflow::Format, false).to_le_bytes()
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::{L2Promotion, Swizzle};

    fn map(
        element: ElementType,
        dims: &[u64],
        box_dims: &[u32],
        swizzle: Swizzle,
    ) -> TensorDescriptor {
        let mut strides = [0u64; MAX_RANK];
        strides[0] = element.bits() / 8;
        for d in 1..dims.len() {
            // Rows padded by 16 bytes so that a wrong stride shows.
            strides[d] = (strides[d - 1] * dims[d - 1]).next_multiple_of(16) + 16;
        }
        let pad = |values: &[u64]| std::array::from_fn(|i| values.get(i).copied().unwrap_or(1));
        TensorDescriptor {
            address: 0x10_0000,
            rank: dims.len(),
            element,
            dims: pad(dims),
            strides,
            box_dims: std::array::from_fn(|i| box_dims.get(i).copied().unwrap_or(1)),
            element_strides: [1; MAX_RANK],
            im2col: None,
            swizzle,
            oob_fill: OobFill::Zero,
            l2_promotion: L2Promotion::None,
        }
    }

    /// Element by element from the definition: (global address or fill, shared address).
    fn definition(map: &TensorDescriptor, at: &[i32], shared: u32) -> Vec<(Option<u64>, u32)> {
        let size = map.element.bits() / 8;
        let count: Vec<u32> = (0..map.rank)
            .map(|d| {
                if d == 0 {
                    map.box_dims[0]
                } else {
                    map.box_dims[d].div_ceil(map.element_strides[d])
                }
            })
            .collect();
        let total: u32 = count.iter().product();
        (0..total)
            .map(|linear| {
                let mut rest = linear;
                let mut global = Some(map.address);
                for d in 0..map.rank {
                    let index = rest % count[d];
                    rest /= count[d];
                    let step = if d == 0 { 1 } else { map.element_strides[d] };
                    let coordinate = i64::from(at[d]) + i64::from(index * step);
                    let inside = coordinate >= 0 && (coordinate as u64) < map.dims[d];
                    global =
                        global.filter(|_| inside).map(|g| g + coordinate as u64 * map.strides[d]);
                }
                let (row, column) = (linear / count[0], linear % count[0]);
                let packed = count[0] * size as u32;
                let pitch = map.swizzle.span().map_or(packed, |span| span as u32);
                let offset = row * pitch + column * size as u32;
                (global, permute(map.swizzle, shared + offset))
            })
            .collect()
    }

    fn check(map: &TensorDescriptor, at: &[i32], shared: u32) {
        let size = map.element.bits() as u32 / 8;
        let plan = CopyPlan::tile(map, at, shared, Direction::Load).unwrap();
        let mut got = Vec::new();
        for piece in &plan.pieces {
            match *piece {
                Piece::Copy { global, shared, bytes } => got.extend(
                    (0..bytes / size)
                        .map(|i| (Some(global + u64::from(i * size)), shared + i * size)),
                ),
                Piece::Fill { shared, bytes } => {
                    got.extend((0..bytes / size).map(|i| (None, shared + i * size)));
                }
            }
        }
        assert_eq!(got, definition(map, at, shared), "{map:?} at {at:?}");
        assert_eq!(plan.transaction_bytes, got.len() as u32 * size);
        let store = CopyPlan::tile(map, at, shared, Direction::Store).unwrap();
        let copies = plan.pieces.iter().filter(|p| matches!(p, Piece::Copy { .. }));
        assert!(store.pieces.iter().eq(copies));
    }

    #[test]
    fn tiles_of_every_rank_swizzle_and_edge() {
        for swizzle in Swizzle::ALL {
            let m = map(ElementType::Bf16, &[70, 9], &[16, 4], swizzle);
            for at in [[0, 0], [62, 7], [-3, -2], [80, 0], [5, 9]] {
                check(&m, &at, 0x1400);
            }
            check(&map(ElementType::F32, &[40], &[8], swizzle), &[36], 0x480);
            check(
                &map(ElementType::U8, &[33, 5, 4, 3], &[32, 2, 3, 2], swizzle),
                &[2, 4, -1, 2],
                0x800,
            );
            check(
                &map(ElementType::F16, &[16, 3, 3, 3, 3], &[8, 2, 2, 2, 2], swizzle),
                &[9, 1, -1, 2, 0],
                0x800,
            );
        }
    }

    #[test]
    fn element_strides_take_every_other_row() {
        let mut m = map(ElementType::F16, &[64, 20, 6], &[32, 8, 3], Swizzle::B64);
        m.element_strides = [1, 3, 2, 1, 1];
        check(&m, &[8, 4, -1], 0x2000);
    }

    /// Images of `dims` pixels of 16 channels, with `pixels` taken from the box.
    fn images(dims: &[u64], pixels: u32, lower: [i32; 3], upper: [i32; 3]) -> TensorDescriptor {
        let mut all = vec![16];
        all.extend_from_slice(dims);
        let mut m = map(ElementType::F16, &all, &[16, pixels], Swizzle::None);
        m.im2col = Some(PixelBox { lower, upper });
        m
    }

    /// What a copy brings: each pixel's coordinates from width to image, or `None` for a filled one.
    fn brought(plan: &CopyPlan, map: &TensorDescriptor) -> Vec<Option<Vec<u64>>> {
        let coordinates = |global: u64| {
            let mut rest = global - map.address;
            let mut of = |d: usize| {
                let at = rest / map.strides[d];
                rest %= map.strides[d];
                at
            };
            let mut found: Vec<u64> = (1..map.rank).rev().map(&mut of).collect();
            found.reverse();
            found
        };
        let piece = |(i, piece): (u32, &Piece)| match *piece {
            Piece::Copy { global, shared, bytes } => {
                assert_eq!((shared, bytes), (0x400 + 32 * i, 32));
                Some(coordinates(global))
            }
            Piece::Fill { shared, bytes } => {
                assert_eq!((shared, bytes), (0x400 + 32 * i, 32));
                None
            }
        };
        (0..).zip(&plan.pieces).map(piece).collect()
    }

    /// Rows of 4 pixels in images of 3 rows, windows of 3 × 3 with a border of one pixel: positions of
    /// the window go from −1 to 2 and from −1 to 1. All nine elements of the window, by hand.
    #[test]
    fn pixels_of_a_window_go_by_rows_and_images() {
        let m = images(&[4, 3, 2], 6, [-1, -1, 0], [-1, -1, 0]);
        // The last two positions of image 0, then the first four of image 1.
        let positions = [(1, 1, 0), (2, 1, 0), (-1, -1, 1), (0, -1, 1), (1, -1, 1), (2, -1, 1)];
        for (r, s) in (0..3).flat_map(|r| (0..3).map(move |s| (r, s))) {
            let plan = CopyPlan::im2col(&m, &[0, 1, 1, 0], &[s, r], 0x400).unwrap();
            assert_eq!(plan.transaction_bytes, 6 * 32);
            let expected = positions.map(|(w, h, n)| {
                let (w, h) = (w + i64::from(s), h + i64::from(r));
                let inside = (0..4).contains(&w) && (0..3).contains(&h);
                inside.then(|| vec![w as u64, h as u64, n])
            });
            assert_eq!(brought(&plan, &m), expected, "window element {r}, {s}");
        }
    }

    #[test]
    fn pixels_behind_the_last_image_are_filled() {
        let m = images(&[2, 2, 1], 5, [0, 0, 0], [0, 0, 0]);
        let plan = CopyPlan::im2col(&m, &[0, 1, 0, 0], &[0, 0], 0x400).unwrap();
        let at = |w, h| Some(vec![w, h, 0]);
        assert_eq!(brought(&plan, &m), [at(1, 0), at(0, 1), at(1, 1), None, None]);
    }

    /// A convolution that takes every other position: each row and each column of the box is stepped
    /// through by two, and starts again at the box's first pixel.
    #[test]
    fn steps_between_pixels() {
        let mut m = images(&[5, 4, 2], 7, [-1, -1, 0], [-1, 0, 0]);
        m.element_strides = [1, 2, 2, 1, 1];
        let plan = CopyPlan::im2col(&m, &[0, 1, -1, 0], &[1, 1], 0x400).unwrap();
        // Positions of the window: (1, −1), (3, −1), (−1, 1), (1, 1), (3, 1), (−1, 3), (1, 3).
        let at = |w, h| Some(vec![w, h, 0]);
        let expected = [at(2, 0), at(4, 0), at(0, 2), at(2, 2), at(4, 2), None, None];
        assert_eq!(brought(&plan, &m), expected);
    }

    /// As an H200 does it: a position beside the steps from the corner is where a copy may start, rows
    /// start at the corner all the same, and images are stepped through, too.
    #[test]
    fn steps_start_anywhere_and_go_over_images() {
        let mut m = images(&[3, 1, 4], 4, [0, 0, 0], [0, 0, 0]);
        m.element_strides = [1, 2, 1, 2, 1];
        let plan = CopyPlan::im2col(&m, &[0, 1, 0, 0], &[0, 0], 0x400).unwrap();
        let at = |w, n| Some(vec![w, 0, n]);
        assert_eq!(brought(&plan, &m), [at(1, 0), at(0, 2), at(2, 2), None]);
    }

    #[test]
    fn pixels_of_lines_and_of_volumes() {
        let line = images(&[5, 2], 4, [-2, 0, 0], [-1, 0, 0]);
        let plan = CopyPlan::im2col(&line, &[0, 3, 0], &[2], 0x400).unwrap();
        // Positions 3 of image 0; −2, −1, 0 of image 1.
        let at = |w, n| Some(vec![w, n]);
        assert_eq!(brought(&plan, &line), [None, at(0, 1), at(1, 1), at(2, 1)]);
        let volume = images(&[2, 2, 2, 2], 5, [0, 0, 0], [-1, 0, 0]);
        let plan = CopyPlan::im2col(&volume, &[0, 0, 1, 0, 0], &[1, 0, 0], 0x400).unwrap();
        let at = |h, d, n| Some(vec![1, h, d, n]);
        let expected = [at(1, 0, 0), at(0, 1, 0), at(1, 1, 0), at(0, 0, 1), at(1, 0, 1)];
        assert_eq!(brought(&plan, &volume), expected);
    }

    #[test]
    fn channels_beyond_the_tensor_are_filled_and_pixels_swizzled() {
        let mut m = map(ElementType::F16, &[40, 3, 3, 1], &[32, 4], Swizzle::B64);
        m.im2col = Some(PixelBox { lower: [0; 3], upper: [0; 3] });
        let plan = CopyPlan::im2col(&m, &[32, 1, 0, 0], &[0, 0], 0x400).unwrap();
        assert_eq!(plan.transaction_bytes, 4 * 64);
        let pixel = |w: u64, h: u64| m.address + 64 + w * m.strides[1] + h * m.strides[2];
        // Two pixels lie in each line of 128 bytes, so the second two have chunks swapped.
        let expected: Vec<Piece> = (0..4u32)
            .zip([pixel(1, 0), pixel(2, 0), pixel(0, 1), pixel(1, 1)])
            .flat_map(|(i, global)| {
                let chunk = move |c: u32| 0x400 + 64 * i + 16 * (c ^ (i / 2));
                let fill = (1..4).map(move |c| Piece::Fill { shared: chunk(c), bytes: 16 });
                std::iter::once(Piece::Copy { global, shared: chunk(0), bytes: 16 }).chain(fill)
            })
            .collect();
        assert_eq!(plan.pieces, expected);
    }

    #[test]
    fn what_im2col_copies_refuse() {
        let m = images(&[4, 3, 2], 6, [-1, -1, 0], [-1, -1, 0]);
        let refusal = |m: &TensorDescriptor, at: &[i32], offsets: &[u16]| {
            CopyPlan::im2col(m, at, offsets, 0x400).unwrap_err().to_string()
        };
        assert_eq!(
            refusal(&m, &[0, 3, 0, 0], &[0, 0]),
            "an im2col copy at coordinate 1 = 3: the pixel box has -1 to 2"
        );
        assert_eq!(
            refusal(&m, &[0, 0, -2, 0], &[0, 0]),
            "an im2col copy at coordinate 2 = -2: the pixel box has -1 to 1"
        );
        assert_eq!(refusal(&m, &[0, 0, 0, 0], &[0, 256]), "an im2col offset of 256: at most 255");
        assert_eq!(refusal(&m, &[0, 0, 0, 0], &[0]), "1 im2col offsets: 2 are due");
        let tiled = TensorDescriptor { im2col: None, ..m };
        assert!(refusal(&tiled, &[0, 0, 0, 0], &[0, 0]).contains("through a tiled tensor map"));
        let error = CopyPlan::tile(&m, &[0, 0, 0, 0], 0x400, Direction::Load).unwrap_err();
        assert_eq!(error.to_string(), "a tiled copy through an im2col tensor map");
    }

    #[test]
    fn four_rows_are_packed() {
        let m = map(ElementType::F16, &[64, 100], &[64, 1], Swizzle::B128);
        let plan = CopyPlan::four_rows(&m, &[0, 7, 93, -1, 20], 0x400, Direction::Load).unwrap();
        assert_eq!(plan.transaction_bytes, 512);
        assert_eq!(plan.pieces.len(), 32);
        let row = |r: u64| m.address + r * m.strides[1];
        let expect = |chunk: u32, line: u32| 0x400 + line * 128 + (chunk ^ line) * 16;
        assert_eq!(
            plan.pieces[8 + 3],
            Piece::Copy { global: row(93) + 48, shared: expect(3, 1), bytes: 16 }
        );
        assert_eq!(plan.pieces[16], Piece::Fill { shared: expect(0, 2), bytes: 16 });
    }

    #[test]
    fn numbers_of_four_and_six_bits() {
        let mut m = map(ElementType::B4x16, &[256, 9], &[128, 2], Swizzle::None);
        m.strides[1] = 160;
        let plan = CopyPlan::tile(&m, &[64, 8], 0x400, Direction::Load).unwrap();
        assert_eq!(plan.transaction_bytes, 128);
        let first = m.address + 8 * 160 + 32;
        let copied = Piece::Copy { global: first, shared: 0x400, bytes: 64 };
        assert_eq!(plan.pieces, [copied, Piece::Fill { shared: 0x440, bytes: 64 }]);
        for (element, data) in [(ElementType::B4x16P64, 8), (ElementType::B6x16P32, 12)] {
            m.element = element;
            m.swizzle = Swizzle::B128;
            let plan = CopyPlan::tile(&m, &[128, 3], 0x400, Direction::Load).unwrap();
            assert_eq!(plan.transaction_bytes, 2 * 8 * data);
            let global = m.address + 4 * 160 + u64::from(data) * 8 + u64::from(data) * 3;
            let shared = 0x480 + (3 ^ 1) * 16;
            assert_eq!(plan.pieces[22], Piece::Copy { global, shared, bytes: data });
            let padding = Piece::Fill { shared: shared + data, bytes: 16 - data };
            assert_eq!(plan.pieces[23], padding);
            let store = CopyPlan::tile(&m, &[128, 3], 0x400, Direction::Store).unwrap();
            assert_eq!(store.pieces.len(), 16);
        }
    }

    #[test]
    fn wrong_ranks_are_named() {
        let m = map(ElementType::F16, &[64, 100], &[64, 1], Swizzle::B128);
        let error = CopyPlan::tile(&m, &[0, 0, 0], 0, Direction::Load).unwrap_err().to_string();
        assert!(error.contains("3 dimensions through a tensor map of rank 2"), "{error}");
    }

    #[test]
    fn fills_and_conversions() {
        let mut m = map(ElementType::F16, &[64], &[64], Swizzle::None);
        assert_eq!(fill_bytes(&m, 4), [0; 4]);
        m.oob_fill = OobFill::Nan;
        assert_eq!(fill_bytes(&m, 4), [0xF7, 0x7F, 0xF7, 0x7F]);
        let mut bytes = f32::from_bits(0x3F80_1000).to_le_bytes();
        convert(ElementType::Tf32, &mut bytes);
        assert_eq!(u32::from_le_bytes(bytes), 0x3F80_2000);
        let mut tiny = 1e-40f32.to_le_bytes();
        convert(ElementType::F32Ftz, &mut tiny);
        assert_eq!(tiny, 1e-40f32.to_le_bytes());
        let mut nan = f32::NAN.to_le_bytes();
        convert(ElementType::Tf32, &mut nan);
        assert_eq!(u32::from_le_bytes(nan), 0x7FFF_E000);
    }
}
