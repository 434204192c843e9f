//! What the user named: a layout in notation, or one of the hardware's by name.

use layout::hw::HardwareLayout;
use layout::{ComposedLayout, IntTuple, Layout, LayoutError, Slice, Swizzle, TvLayout};

/// Something that can be shown.
pub enum Subject {
    /// Where elements are in memory.
    Memory {
        /// Coordinate to element index.
        layout: ComposedLayout,
        /// Bits per element, where known.
        bits: Option<u64>,
    },
    /// Which thread holds what.
    Registers {
        /// Thread and value to coordinate.
        tv: TvLayout,
        /// Bits per value, where known.
        bits: Option<u64>,
    },
    /// Where elements are in tensor memory.
    Tensor {
        /// Coordinate to TMEM address.
        layout: Layout,
    },
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Whether a text is a name (`wgmma-d:n64`) rather than notation.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
}

impl Subject {
    /// Reads notation or a name.
    pub fn read(text: &str) -> Result<Subject> {
        if !is_name(text) {
            return Ok(Subject::Memory { layout: text.parse()?, bits: None });
        }
        Ok(match text.parse()? {
            HardwareLayout::Registers { tv, element_bits } => {
                Subject::Registers { tv, bits: Some(element_bits) }
            }
            HardwareLayout::Shared { layout, element_bits } => {
                Subject::Memory { layout, bits: Some(element_bits) }
            }
            HardwareLayout::Tensor { layout } => Subject::Tensor { layout },
        })
    }

    /// Reads a (thread, value) layout over a tile written `16x8`.
    pub fn registers(text: &str, tile: &str) -> Result<Subject> {
        let extents: std::result::Result<Vec<u64>, _> = tile.split('x').map(str::parse).collect();
        let extents =
            extents.map_err(|_| format!("--tile {tile}: extents such as 16x8 are needed"))?;
        Ok(Subject::Registers { tv: TvLayout::new(text.parse()?, extents)?, bits: None })
    }

    /// Bits per element, where the name says so.
    pub fn element_bits(&self) -> Option<u64> {
        match self {
            Subject::Memory { bits, .. } | Subject::Registers { bits, .. } => *bits,
            Subject::Tensor { .. } => None,
        }
    }

    /// The same memory layout with a swizzle behind it.
    pub fn swizzled(self, swizzle: Option<Swizzle>) -> Result<Subject> {
        match (self, swizzle) {
            (subject, None) => Ok(subject),
            (Subject::Memory { layout, bits }, Some(swizzle)) if layout.swizzle().is_identity() => {
                let layout =
                    ComposedLayout::new(swizzle, layout.offset(), layout.layout().clone())?;
                Ok(Subject::Memory { layout, bits })
            }
            _ => Err("--swizzle needs a memory layout that has none".into()),
        }
    }

    /// The open modes of a slice.
    pub fn sliced(self, slice: Option<&str>) -> Result<Subject> {
        let Some(slice) = slice else { return Ok(self) };
        let slice: Slice = slice.parse()?;
        match self {
            Subject::Memory { layout, bits } => {
                Ok(Subject::Memory { layout: layout.slice(&slice)?, bits })
            }
            _ => Err("--slice needs a memory layout".into()),
        }
    }

    /// Where one coordinate goes, in words.
    pub fn at(&self, coord: &str) -> Result<String> {
        let coord: IntTuple = coord.parse()?;
        Ok(match self {
            Subject::Memory { layout, .. } => layout.at(coord)?.to_string(),
            Subject::Registers { tv, .. } => tv.coords().at(coord)?.to_string(),
            Subject::Tensor { layout } => tmem_place(layout.at(coord)?)?,
        })
    }
}

fn tmem_place(place: u64) -> std::result::Result<String, LayoutError> {
    let address = layout::hw::TmemAddress::decode(place as u32)?;
    Ok(format!("{address} of CTA {}", place >> 32))
}
