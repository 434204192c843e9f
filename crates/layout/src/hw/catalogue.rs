//! The hardware's layouts by name, for command lines and tests.
//!
//! | name | what |
//! |---|---|
//! | `wgmma-d:n128` (`,f16`) | accumulator of `wgmma` m64n128 |
//! | `wgmma-a:bf16` | register A operand of `wgmma` |
//! | `mma-a:bf16`, `mma-b:bf16`, `mma-c:f32` | operands of `mma.sync` m16n8 |
//! | `ldmatrix:x4` (`,trans`) | fragment of `ldmatrix`/`stmatrix` |
//! | `tmem-ld:32x32b.x32` (`,pack`, `,warpgroup`, `,split64`) | `tcgen05.ld`/`st` |
//! | `tmem-d:m128,n64` (`,cta2`, `,ws`, `,sparse`) | accumulator of `tcgen05.mma` |
//! | `smem:128x64,bf16` (`,k` or `,mn`; `,none` to `,128b`) | operand tile in shared memory |
//! | `tma:64x128,bf16` (`,none` to `,128b`) | box of a tensor map in shared memory |

use std::str::FromStr;

use super::fragment::{Fragment, matrix_fragment, mma_a, mma_b, mma_c, wgmma_a, wgmma_d};
use super::instruction::CtaGroup;
use super::smem::{Major, SmemSwizzle, SmemTile};
use super::tma::TmaBox;
use super::tmem::DataPath;
use super::tmem_access::{TmemAccess, TmemShape};
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::tv::TvLayout;

/// A named layout of the hardware.
///
/// ```
/// use layout::hw::HardwareLayout;
/// let HardwareLayout::Registers { tv, .. } = "wgmma-d:n64".parse()? else { unreachable!() };
/// assert_eq!(tv.to_string(), "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))");
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardwareLayout {
    /// Which thread holds what.
    Registers {
        /// Thread and value to coordinate.
        tv: TvLayout,
        /// Bits per value.
        element_bits: u64,
    },
    /// Where elements are in shared memory.
    Shared {
        /// Coordinate to element index.
        layout: ComposedLayout,
        /// Bits per element.
        element_bits: u64,
    },
    /// Where cells are in tensor memory.
    Tensor {
        /// Coordinate to `cta << 32 | lane << 16 | column`.
        layout: Layout,
    },
}

impl FromStr for HardwareLayout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self> {
        let (family, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut options = Options::new(text, rest);
        let found = match family {
            "wgmma-d" => fragment(wgmma_d(options.prefixed("n", 64)?, options.accumulator_bits())?),
            "wgmma-a" => fragment(wgmma_a(options.element_bits()?)?),
            "mma-a" => fragment(mma_a(options.element_bits()?)?),
            "mma-b" => fragment(mma_b(options.element_bits()?)?),
            "mma-c" => fragment(mma_c(options.accumulator_bits())?),
            "ldmatrix" | "stmatrix" => {
                fragment(matrix_fragment(options.prefixed("x", 4)?, options.flag("trans"))?)
            }
            "tmem-ld" | "tmem-st" => tmem_access(&mut options)?,
            "tmem-d" => tmem_accumulator(&mut options)?,
            "smem" => shared_tile(&mut options)?,
            "tma" => tma_box(&mut options)?,
            _ => return Err(unknown(text, "no hardware layout has this name")),
        };
        options.finish()?;
        Ok(found)
    }
}

fn unknown(text: &str, rule: &'static str) -> LayoutError {
    LayoutError::hardware(rule, format!("'{text}'"))
}

fn fragment(fragment: Fragment) -> HardwareLayout {
    HardwareLayout::Registers { tv: fragment.tv, element_bits: fragment.element_bits }
}

fn tmem_access(options: &mut Options) -> Result<HardwareLayout> {
    let name = options.take(|option| option.contains('x')).unwrap_or("32x32b.x1").to_owned();
    let (shape, repeat) = name.rsplit_once(".x").unwrap_or((&name, "1"));
    let repeat: u64 = repeat.parse().map_err(|_| unknown(&name, "a repetition is an integer"))?;
    let split = options.prefixed("split", repeat)?;
    let split = u32::try_from(split).map_err(|_| unknown(&name, "a split is a column"))?;
    let shape = TmemShape::all(split)
        .into_iter()
        .find(|known| known.to_string() == shape)
        .ok_or_else(|| unknown(&name, "shapes are 32x32b, 16x64b, 16x128b, 16x256b, 16x32bx2"))?;
    let access = TmemAccess::new(shape, repeat)?;
    let access = if options.flag("pack") { access.packed_16b() } else { access };
    let tv = if options.flag("warpgroup") { access.warpgroup_tv()? } else { access.tv()? };
    Ok(HardwareLayout::Registers { tv, element_bits: if access.is_packed() { 16 } else { 32 } })
}

fn tmem_accumulator(options: &mut Options) -> Result<HardwareLayout> {
    let (m, n) = (options.prefixed("m", 128)?, options.prefixed("n", 128)?);
    let group = if options.flag("cta2") { CtaGroup::Two } else { CtaGroup::One };
    let (weight_stationary, sparse) = (options.flag("ws"), options.flag("sparse"));
    let path = DataPath::of(m, group, weight_stationary, sparse)?;
    Ok(HardwareLayout::Tensor { layout: path.layout(n)? })
}

fn shared_tile(options: &mut Options) -> Result<HardwareLayout> {
    let extents = options.extents()?;
    let &[mn, k] = extents.as_slice() else {
        return Err(unknown(options.text, "a shared-memory tile is MNxK"));
    };
    let element_bits = options.element_bits()?;
    let major = if options.flag("mn") { Major::Mn } else { Major::K };
    options.flag("k");
    let contiguous = if major == Major::K { k } else { mn };
    let bytes = contiguous.saturating_mul(element_bits) / 8;
    let swizzle = options.swizzle().unwrap_or(SmemSwizzle::widest_for(bytes));
    let tile = SmemTile::new(mn, k, element_bits, major, swizzle)?;
    Ok(HardwareLayout::Shared { layout: tile.layout()?, element_bits })
}

fn tma_box(options: &mut Options) -> Result<HardwareLayout> {
    let extents = options.extents()?;
    let element_bits = options.element_bits()?;
    let swizzle = options.swizzle().unwrap_or(SmemSwizzle::None);
    let layout = TmaBox::new(&extents, element_bits, swizzle)?.layout()?;
    Ok(HardwareLayout::Shared { layout, element_bits })
}

/// The comma-separated options behind a name; each is taken once.
struct Options<'a> {
    text: &'a str,
    left: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn new(text: &'a str, rest: &'a str) -> Self {
        Options { text, left: rest.split(',').filter(|option| !option.is_empty()).collect() }
    }

    fn take(&mut self, wanted: impl Fn(&str) -> bool) -> Option<&'a str> {
        let at = self.left.iter().position(|option| wanted(option))?;
        Some(self.left.remove(at))
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(|option| option == name).is_some()
    }

    /// An integer behind a prefix, such as 128 in `n128`.
    fn prefixed(&mut self, prefix: &str, default: u64) -> Result<u64> {
        let is_number = |option: &str| {
            option
                .strip_prefix(prefix)
                .is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
        };
        let Some(option) = self.take(is_number) else { return Ok(default) };
        option[prefix.len()..].parse().map_err(|_| unknown(option, "an integer was expected"))
    }

    fn element_bits(&mut self) -> Result<u64> {
        const TYPES: [(&str, u64); 12] = [
            ("bf16", 16),
            ("f16", 16),
            ("f32", 32),
            ("tf32", 32),
            ("e4m3", 8),
            ("e5m2", 8),
            ("fp8", 8),
            ("s8", 8),
            ("u8", 8),
            ("8", 8),
            ("16", 16),
            ("32", 32),
        ];
        let Some(option) = self.take(|option| TYPES.iter().any(|(name, _)| *name == option)) else {
            return Ok(16);
        };
        let found = TYPES.iter().find(|(name, _)| *name == option);
        found.map(|(_, bits)| *bits).ok_or_else(|| unknown(option, "not an element type"))
    }

    fn accumulator_bits(&mut self) -> u64 {
        self.flag("f32");
        if self.flag("f16") { 16 } else { 32 }
    }

    fn extents(&mut self) -> Result<Vec<u64>> {
        let text = self.text;
        let option = self
            .take(|option| option.contains('x'))
            .ok_or_else(|| unknown(text, "extents such as 128x64 are needed"))?;
        let extents = option.split('x').map(str::parse);
        extents
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| unknown(option, "extents are integers"))
    }

    fn swizzle(&mut self) -> Option<SmemSwizzle> {
        let named = [
            ("none", SmemSwizzle::None),
            ("32b", SmemSwizzle::B32),
            ("64b", SmemSwizzle::B64),
            ("128b", SmemSwizzle::B128),
            ("128b32", SmemSwizzle::B128Atom32),
        ];
        named.into_iter().find(|(name, _)| self.flag(name)).map(|(_, swizzle)| swizzle)
    }

    fn finish(self) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some(option) => Err(unknown(option, "this option means nothing here")),
        }
    }
}
