//! Packed formats: what of a row is where.
//!
//! A panel is 64 numbers of a row, all of one kind. The four lanes that unpack a row have a quarter of each panel.

use crate::call::tensors::CHUNK;
use problem::{Scales, Storage};
use ptx::build::VECTOR_BYTES;

/// Numbers of a lane's quarter of a panel.
const QUARTER: u32 = CHUNK / 4;
/// Leading panels of a row that wait in shared memory, if they are as many of bytes: what L1 leaves for loads to
/// registers is little.
const WAITING: u32 = 6;

/// A packed format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    storage: Storage,
    /// Bytes from one row to the next.
    row_bytes: u32,
    /// Numbers in a row.
    dim: u32,
}

/// The numbers of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A byte each.
    E4m3,
    /// Half a byte each, the one of even index in the low half.
    E2m1,
    /// Two bytes each.
    Bf16,
}

/// The scales of a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    /// A byte for each panel, a power of two biased by 127.
    PowerPerPanel,
    /// A byte for each half of a panel, a power of two biased by 127.
    PowerPerHalf,
    /// A byte of e4m3 for each quarter of a panel.
    E4m3PerQuarter,
    /// A f32 number for two panels.
    FloatPerTwo,
}

/// Where the scales of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalePlace {
    /// In the page's footer, so few that the lane which looks a row up loads them: two words.
    LookedUp,
    /// In the page's footer.
    Footer,
    /// In the row, behind so many bytes.
    Row(u32),
}

impl Numbers {
    /// Bytes of a lane's quarter of a panel.
    pub fn quarter_bytes(self) -> u32 {
        match self {
            Numbers::E2m1 => QUARTER / 2,
            Numbers::E4m3 => QUARTER,
            Numbers::Bf16 => QUARTER * 2,
        }
    }
}

impl Format {
    /// The format of packed rows.
    ///
    /// # Panics
    /// If rows are not packed.
    pub fn of(storage: Storage) -> Self {
        let sizes = storage.packed().expect("packed rows");
        Format { storage, row_bytes: sizes.row_bytes as u32, dim: sizes.dim as u32 }
    }

    /// Numbers in a row.
    pub fn dim(self) -> u32 {
        self.dim
    }

    /// Units of 16 bytes from one row to the next.
    pub fn row_vectors(self) -> u32 {
        self.row_bytes / VECTOR_BYTES
    }

    /// Panels of a row.
    pub fn panels(self) -> u32 {
        self.dim / CHUNK
    }

    /// Leading columns that have scales.
    pub fn scaled(self) -> u32 {
        match self.storage {
            Storage::Model1 => Storage::MODEL1_FP8 as u32,
            _ => 512,
        }
    }

    /// The numbers of the columns that have scales.
    pub fn scaled_numbers(self) -> Numbers {
        match self.storage {
            Storage::V41Fp4(_) => Numbers::E2m1,
            _ => Numbers::E4m3,
        }
    }

    /// The numbers of a panel.
    pub fn numbers(self, panel: u32) -> Numbers {
        if panel * CHUNK < self.scaled() { self.scaled_numbers() } else { Numbers::Bf16 }
    }

    /// Bytes of a row before its numbers without scales.
    pub fn tail_at(self) -> u32 {
        match self.storage {
            Storage::V32 => self.scaled() + self.scale_bytes(),
            _ => self.scaled(),
        }
    }

    /// Bytes of a row before a panel.
    pub fn panel_at(self, panel: u32) -> u32 {
        let first = panel * CHUNK;
        match self.numbers(panel) {
            Numbers::Bf16 => self.tail_at() + (first - self.scaled()) * 2,
            numbers => panel * 4 * numbers.quarter_bytes(),
        }
    }

    /// Words of a panel that a lane holds.
    pub fn words_of(self, panel: u32) -> usize {
        self.numbers(panel).quarter_bytes() as usize / 4
    }

    /// What scales are.
    pub fn scales(self) -> ScaleKind {
        match self.storage {
            Storage::Model1 | Storage::Elements => ScaleKind::PowerPerPanel,
            Storage::V32 => ScaleKind::FloatPerTwo,
            Storage::V41Fp8(_) => ScaleKind::PowerPerHalf,
            Storage::V41Fp4(_) => ScaleKind::E4m3PerQuarter,
        }
    }

    /// Where scales are.
    pub fn scale_place(self) -> ScalePlace {
        match self.storage {
            Storage::V41Fp8(Scales::Footer) | Storage::V41Fp4(Scales::Footer) => ScalePlace::Footer,
            Storage::V41Fp4(Scales::Row) => ScalePlace::Row(256),
            Storage::V32 | Storage::V41Fp8(Scales::Row) => ScalePlace::Row(512),
            Storage::Model1 | Storage::Elements => ScalePlace::LookedUp,
        }
    }

    /// Bytes of a row's scales.
    pub fn scale_bytes(self) -> u32 {
        match self.scales() {
            ScaleKind::PowerPerPanel => Storage::MODEL1_SCALE_BYTES as u32,
            ScaleKind::PowerPerHalf | ScaleKind::FloatPerTwo => 16,
            ScaleKind::E4m3PerQuarter => 32,
        }
    }

    /// Words of scales that a lane holds: all of them, or its quarter.
    pub fn scale_words(self) -> usize {
        match self.scale_place() {
            ScalePlace::LookedUp => 2,
            _ => self.scale_bytes() as usize / 16,
        }
    }

    /// Words that are known of a row beside its place.
    pub fn aside(self) -> usize {
        match self.scale_place() {
            ScalePlace::LookedUp => 2,
            ScalePlace::Footer => 1,
            ScalePlace::Row(_) => 0,
        }
    }

    /// Leading panels of a row that wait in shared memory until they are unpacked; the others do in registers.
    pub fn waiting(self) -> u32 {
        match self.storage {
            // A row of half bytes is as few words as the last panels of others.
            Storage::V41Fp4(_) => 0,
            // There is one tile of these wider rows, and room.
            Storage::V32 => 8,
            _ => WAITING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (Storage, Format)> {
        let packed = Storage::ALL.into_iter().filter(|storage| storage.packed().is_some());
        packed.map(|storage| (storage, Format::of(storage)))
    }

    #[test]
    fn panels_and_scales_fill_a_row() {
        for (storage, format) in all() {
            let bytes = |panel| 4 * format.numbers(panel).quarter_bytes();
            let panels: u32 = (0..format.panels()).map(bytes).sum();
            let sizes = storage.packed().unwrap();
            let whole = (sizes.row_bytes + sizes.footer_bytes) as u32;
            assert_eq!(panels + format.scale_bytes(), whole, "{storage}");
        }
    }

    #[test]
    fn units_lie_at_multiples_of_16_bytes() {
        for (storage, format) in all() {
            for panel in 0..format.panels() {
                assert_eq!(format.panel_at(panel) % 16, 0, "{storage} panel {panel}");
            }
            assert_eq!(format.row_bytes % 16, 0, "{storage}");
        }
    }

    #[test]
    fn what_waits_is_of_bytes() {
        for (storage, format) in all() {
            let numbers = (0..format.waiting()).map(|panel| format.numbers(panel));
            assert!(numbers.into_iter().all(|n| n == Numbers::E4m3), "{storage}");
        }
    }
}
