//! `tcgen05.ld` and `tcgen05.st`: tensor memory and a warp's registers.
//!
//! Lane and column offsets of register `r` in thread `t`:
//!
//! | shape | lane | column | registers of `.xN` |
//! |---|---|---|---|
//! | 32x32b | t | r | N |
//! | 16x64b | t/4 + 8*(t%2) | 2r + (t/2)%2 | N |
//! | 16x128b | t/4 + 8*(r%2) | t%4 + 4*(r/2) | 2N |
//! | 16x256b | t/4 + 8*((r/2)%2) | 8*(r/4) + 2*(t%4) + r%2 | 4N |
//! | 16x32bx2 | t%16 | r, plus the immediate for t >= 16 | N |
//!
//! With `.pack::16b` or `.unpack::16b` a register holds the low halves of two neighbouring columns,
//! the even one in its low half, and every column offset doubles.

use super::error::OperandError;
use super::fragment::Lanes;
use super::tensor_memory::{TensorMemory, TmemAddress, TmemRect};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    S32x32b,
    S16x64b,
    S16x128b,
    S16x256b,
    S16x32bx2,
}

/// A `tcgen05.ld` or `tcgen05.st` as its modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmemTransfer {
    shape: Shape,
    repeat: usize,
    packed: bool,
}

impl TmemTransfer {
    /// Reads the modifiers of a `tcgen05.ld` or `tcgen05.st`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<TmemTransfer, OperandError> {
        let (mut shape, mut repeat, mut packed) = (None, 1, false);
        for name in modifiers {
            match name {
                "ld" | "st" | "sync" | "aligned" | "b32" => {}
                "32x32b" => shape = Some(Shape::S32x32b),
                "16x64b" => shape = Some(Shape::S16x64b),
                "16x128b" => shape = Some(Shape::S16x128b),
                "16x256b" => shape = Some(Shape::S16x256b),
                "16x32bx2" => shape = Some(Shape::S16x32bx2),
                "pack::16b" | "unpack::16b" => packed = true,
                _ => match name.strip_prefix('x').and_then(|n| n.parse().ok()) {
                    Some(n @ (1 | 2 | 4 | 8 | 16 | 32 | 64 | 128)) => repeat = n,
                    _ => return OperandError::unsupported(format!("tcgen05.ld/st with .{name}")),
                },
            }
        }
        let Some(shape) = shape else {
            return OperandError::illegal("tcgen05.ld/st without a shape");
        };
        let transfer = TmemTransfer { shape, repeat, packed };
        if transfer.registers() > 128 {
            return OperandError::illegal(format!(
                "tcgen05.ld/st .x{repeat} of {shape:?} would need {} registers; the most is 128",
                transfer.registers()
            ));
        }
        Ok(transfer)
    }

    /// Registers of a thread.
    pub const fn registers(&self) -> usize {
        self.repeat
            * match self.shape {
                Shape::S32x32b | Shape::S16x64b | Shape::S16x32bx2 => 1,
                Shape::S16x128b => 2,
                Shape::S16x256b => 4,
            }
    }

    const fn lanes(&self) -> usize {
        if matches!(self.shape, Shape::S32x32b) { 32 } else { 16 }
    }

    /// Lane and column offset of a register, in units of whole registers.
    const fn place(&self, r: usize, t: usize, split: usize) -> (usize, usize) {
        match self.shape {
            Shape::S32x32b => (t, r),
            Shape::S16x64b => (t / 4 + 8 * (t % 2), 2 * r + t / 2 % 2),
            Shape::S16x128b => (t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2)),
            Shape::S16x256b => (t / 4 + 8 * (r / 2 % 2), 8 * (r / 4) + 2 * (t % 4) + r % 2),
            Shape::S16x32bx2 => (t % 16, if t < 16 { r } else { split + r }),
        }
    }

    /// Columns between the two halves of a `.16x32bx2`, in units of whole registers.
    fn split(&self, immediate: u32) -> usize {
        if self.packed { immediate as usize / 2 } else { immediate as usize }
    }

    /// The rectangles touched; `immediate` is the second half's column offset of `.16x32bx2`.
    pub fn rects(&self, address: TmemAddress, immediate: u32) -> Vec<TmemRect> {
        let width = if self.packed { 2 } else { 1 };
        let lanes = address.lane..address.lane + self.lanes();
        let columns = match self.shape {
            Shape::S32x32b | Shape::S16x32bx2 => self.repeat,
            Shape::S16x64b => 2 * self.repeat,
            Shape::S16x128b => 4 * self.repeat,
            Shape::S16x256b => 8 * self.repeat,
        } * width;
        let rect =
            |start: usize| TmemRect { lanes: lanes.clone(), columns: start..start + columns };
        match self.shape {
            Shape::S16x32bx2 => {
                vec![rect(address.column), rect(address.column + self.split(immediate) * width)]
            }
            _ => vec![rect(address.column)],
        }
    }

    fn check(&self, address: TmemAddress, immediate: u32) -> Result<(), OperandError> {
        if !address.lane.is_multiple_of(self.lanes()) {
            return OperandError::illegal(format!(
                "tcgen05.ld/st of {:?} at lane {}: it must be a multiple of {}",
                self.shape,
                address.lane,
                self.lanes()
            ));
        }
        self.rects(address, immediate).iter().try_for_each(TmemRect::check)
    }

    /// The registers a load gives.
    pub fn load(
        &self,
        tensor: &TensorMemory,
        address: TmemAddress,
        immediate: u32,
    ) -> Result<Vec<Lanes>, OperandError> {
        self.check(address, immediate)?;
        let split = self.split(immediate);
        let cell = |r: usize, t: usize| {
            let (lane, column) = self.place(r, t, split);
            let cells = tensor.lane(address.lane + lane);
            if self.packed {
                let at = address.column + 2 * column;
                return cells[at] & 0xFFFF | cells[at + 1] << 16;
            }
            cells[address.column + column]
        };
        Ok((0..self.registers()).map(|r| std::array::from_fn(|t| cell(r, t))).collect())
    }

    /// Writes the registers of a store.
    pub fn store(
        &self,
        tensor: &mut TensorMemory,
        address: TmemAddress,
        immediate: u32,
        registers: &[Lanes],
    ) -> Result<(), OperandError> {
        self.check(address, immediate)?;
        let split = self.split(immediate);
        for (r, lanes) in registers.iter().enumerate() {
            for (t, &word) in lanes.iter().enumerate() {
                let (lane, column) = self.place(r, t, split);
                let cells = tensor.lane_mut(address.lane + lane);
                if self.packed {
                    let at = address.column + 2 * column;
                    cells[at] = word & 0xFFFF;
                    cells[at + 1] = word >> 16;
                } else {
                    cells[address.column + column] = word;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [&str; 5] = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"];

    fn numbered() -> TensorMemory {
        let mut tensor = TensorMemory::default();
        for lane in 0..128 {
            for (column, cell) in tensor.lane_mut(lane).iter_mut().enumerate() {
                *cell = (lane * 512 + column) as u32;
            }
        }
        tensor
    }

    #[test]
    fn each_cell_of_the_rectangle_is_read_once() {
        let tensor = numbered();
        for shape in SHAPES {
            for repeat in [1, 4, 16] {
                let modifiers = format!("ld.sync.aligned.{shape}.x{repeat}.b32");
                let transfer = TmemTransfer::from_modifiers(modifiers.split('.')).unwrap();
                let address = TmemAddress { lane: 64, column: 24 };
                let registers = transfer.load(&tensor, address, 40).unwrap();
                let mut seen: Vec<u32> = registers.iter().flatten().copied().collect();
                seen.sort_unstable();
                let mut expected: Vec<u32> = transfer
                    .rects(address, 40)
                    .into_iter()
                    .flat_map(|r| {
                        r.lanes
                            .flat_map(move |l| r.columns.clone().map(move |c| (l * 512 + c) as u32))
                    })
                    .collect();
                expected.sort_unstable();
                assert_eq!(seen, expected, "{modifiers}");
            }
        }
    }

    #[test]
    fn store_then_load_is_the_identity() {
        for shape in SHAPES {
            for pack in ["", "pack::16b."] {
                let name = format!("ld.{shape}.x8.{pack}b32");
                let transfer = TmemTransfer::from_modifiers(name.split('.')).unwrap();
                let registers: Vec<Lanes> = (0..transfer.registers())
                    .map(|r| std::array::from_fn(|t| (r * 1000 + t) as u32 * 65_537))
                    .collect();
                let mut tensor = TensorMemory::default();
                let address = TmemAddress { lane: 32, column: 0 };
                transfer.store(&mut tensor, address, 64, &registers).unwrap();
                assert_eq!(transfer.load(&tensor, address, 64).unwrap(), registers, "{name}");
            }
        }
    }

    #[test]
    fn shapes_by_hand() {
        let tensor = numbered();
        let at = |name: &str, r: usize, t: usize| {
            let transfer = TmemTransfer::from_modifiers(name.split('.')).unwrap();
            let cell = transfer.load(&tensor, TmemAddress { lane: 0, column: 0 }, 0).unwrap()[r][t];
            (cell / 512, cell % 512)
        };
        assert_eq!(at("ld.32x32b.x4", 3, 9), (9, 3));
        // 16x256b is the accumulator fragment of mma: thread 9 is row 2, columns 2 and 3.
        assert_eq!(at("ld.16x256b.x2", 1, 9), (2, 3));
        assert_eq!(at("ld.16x256b.x2", 6, 9), (10, 10));
        assert_eq!(at("ld.16x128b.x2", 3, 9), (10, 5));
        assert_eq!(at("ld.16x64b.x2", 1, 11), (10, 3));
    }

    #[test]
    fn packing_takes_low_halves() {
        let mut tensor = TensorMemory::default();
        tensor.lane_mut(5)[6] = 0xAAAA_1111;
        tensor.lane_mut(5)[7] = 0xBBBB_2222;
        let load = TmemTransfer::from_modifiers("ld.32x32b.x4.pack::16b".split('.')).unwrap();
        let got = load.load(&tensor, TmemAddress { lane: 0, column: 0 }, 0).unwrap();
        assert_eq!(got[3][5], 0x2222_1111);
    }

    #[test]
    fn too_many_registers_or_columns_are_refused() {
        let error = TmemTransfer::from_modifiers("ld.16x256b.x64".split('.')).unwrap_err();
        assert!(error.to_string().contains("would need 256 registers"), "{error}");
        let load = TmemTransfer::from_modifiers("ld.32x32b.x64".split('.')).unwrap();
        let address = TmemAddress { lane: 0, column: 480 };
        let error = load.load(&TensorMemory::default(), address, 0).unwrap_err();
        assert!(error.to_string().contains("columns 480..544"), "{error}");
    }
}
