use super::swizzle::{granule, permute};
use crate::matrix::OperandError;
use crate::numeric::{Overflow, Rounding, f32_to_tf32};
use program::{ElementType, MAX_RANK, OobFill, TensorDescriptor};

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

    /// `.tile::gather4` and `.tile::scatter4`: four rows of a 2-D tensor, packed one after the
    /// other. `coordinates` are the column and the four rows.
    pub fn four_rows(
        map: &TensorDescriptor,
        coordinates: &[i32],
        shared: u32,
        direction: Direction,
    ) -> Result<CopyPlan, OperandError> {
        check_rank(map, 2, map.rank)?;
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
