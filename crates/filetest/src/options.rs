//! The options of a `run:` line.

use crate::buffer::{BufferSpec, Init};
use crate::element::ElementKind;
use program::{
    Argument, BufferId, ElementType, L2Promotion, OobFill, PixelBox, Swizzle, TensorMap,
};

/// No buffer has more bytes.
const MOST_BYTES: u64 = 1 << 56;

/// A `run:` line, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub kernel: Option<String>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared_bytes: u32,
    pub buffers: Vec<BufferSpec>,
    pub args: Vec<Argument>,
}

impl Options {
    /// Parses the text behind `run:`.
    pub fn parse(line: &str) -> Result<Options, String> {
        let mut options = Options {
            kernel: None,
            grid: [1; 3],
            block: [1; 3],
            cluster: [1; 3],
            shared_bytes: 0,
            buffers: Vec::new(),
            args: Vec::new(),
        };
        let mut words = line.split_whitespace();
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option {
                "--kernel" => options.kernel = Some(value.to_owned()),
                "--grid" => options.grid = extents(value)?,
                "--block" => options.block = extents(value)?,
                "--cluster" => options.cluster = extents(value)?,
                "--smem" => options.shared_bytes = whole(value)?,
                "--arg" => options.argument(value)?,
                "--buffer" => {
                    options.buffer(value)?;
                }
                "--map" => options.tensor_map(value)?,
                _ => return Err(format!("there is no option {option}")),
            }
        }
        Ok(options)
    }

    fn argument(&mut self, text: &str) -> Result<(), String> {
        if text.contains('[') {
            let id = self.buffer(text)?;
            self.args.push(Argument::Buffer(id, 0));
            return Ok(());
        }
        let (_, rest) = text.split_once(':').ok_or_else(|| format!("{text}: no type"))?;
        let (ty, value) = rest.split_once('=').ok_or_else(|| format!("{text}: no value"))?;
        self.args.push(match ty {
            "u32" => Argument::U32(word(value, 32)? as u32),
            "u64" => Argument::U64(word(value, 64)?),
            "f32" => Argument::F32(value.parse().map_err(|_| format!("{value} is no f32"))?),
            _ => return Err(format!("{text}: numbers are u32, u64 or f32")),
        });
        Ok(())
    }

    fn buffer(&mut self, text: &str) -> Result<BufferId, String> {
        let wrong = || format!("{text}: expected name:type[extents]=init");
        let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
        // Recordings of outputs are files of this name.
        if name.contains(['/', '\\']) {
            return Err(format!("{text}: a buffer's name has no slash"));
        }
        let (ty, rest) = rest.split_once('[').ok_or_else(wrong)?;
        let (dims, init) = rest.split_once("]=").ok_or_else(wrong)?;
        let (init, read_write) = match init.strip_suffix("+rw") {
            Some(init) => (init, true),
            None => (init, false),
        };
        let element = ElementKind::from_name(ty).ok_or_else(|| format!("{text}: no type {ty}"))?;
        let elements = list::<u64>(dims)?.into_iter().try_fold(1, u64::checked_mul);
        let elements = elements.filter(|elements| *elements <= MOST_BYTES / element.bytes() as u64);
        self.buffers.push(BufferSpec {
            name: name.to_owned(),
            element,
            elements: elements.ok_or_else(|| format!("{text}: more than 2^56 bytes"))? as usize,
            init: parse_init(init)?,
            read_write,
        });
        Ok(BufferId(self.buffers.len() - 1))
    }

    fn tensor_map(&mut self, text: &str) -> Result<(), String> {
        let (_, rest) =
            text.split_once('=').ok_or_else(|| format!("{text}: expected name=buffer;…"))?;
        let mut fields = rest.split(';');
        let buffer = fields.next().unwrap_or_default();
        let index = self.buffers.iter().position(|b| b.name == buffer);
        let index = index.ok_or_else(|| format!("{text}: no buffer {buffer} so far"))?;
        let mut map = TensorMap {
            buffer: BufferId(index),
            offset: 0,
            element: element_type(self.buffers[index].element)?,
            dims: Vec::new(),
            strides: Vec::new(),
            box_dims: Vec::new(),
            element_strides: Vec::new(),
            im2col: None,
            swizzle: Swizzle::None,
            oob_fill: OobFill::Zero,
            l2_promotion: L2Promotion::None,
        };
        for field in fields {
            let (key, value) = field.split_once('=').ok_or_else(|| format!("{field}: no value"))?;
            set_field(&mut map, key, value)?;
        }
        if map.element_strides.is_empty() {
            map.element_strides = vec![1; map.dims.len()];
        }
        if map.strides.is_empty() {
            map.strides = packed_strides(&map);
        }
        self.args.push(Argument::TensorMap(map));
        Ok(())
    }
}

fn set_field(map: &mut TensorMap, key: &str, value: &str) -> Result<(), String> {
    match key {
        "dims" => map.dims = list(value)?,
        "strides" => map.strides = list(value)?,
        "box" => map.box_dims = list(value)?,
        "steps" => map.element_strides = list(value)?,
        "lower" => pixels(map).lower = corners(value)?,
        "upper" => pixels(map).upper = corners(value)?,
        "offset" => map.offset = whole(value)?,
        "swizzle" => {
            map.swizzle = match value {
                "none" => Swizzle::None,
                "32" => Swizzle::B32,
                "64" => Swizzle::B64,
                "128" => Swizzle::B128,
                "128a32" => Swizzle::B128Atom32,
                "128a32f8" => Swizzle::B128Atom32Flip8,
                "128a64" => Swizzle::B128Atom64,
                _ => return Err(format!("no swizzle {value}")),
            }
        }
        "fill" => {
            map.oob_fill = match value {
                "zero" => OobFill::Zero,
                "nan" => OobFill::Nan,
                _ => return Err(format!("no fill {value}")),
            }
        }
        "type" => {
            let wanted = |e: &ElementType| format!("{e:?}").eq_ignore_ascii_case(value);
            let found = ElementType::ALL.into_iter().find(wanted);
            map.element = found.ok_or_else(|| format!("no tensor-map type {value}"))?;
        }
        _ => return Err(format!("tensor maps have no field {key}")),
    }
    Ok(())
}

/// The pixel box, which makes a map an im2col one.
fn pixels(map: &mut TensorMap) -> &mut PixelBox {
    map.im2col.get_or_insert(PixelBox { lower: [0; 3], upper: [0; 3] })
}

fn corners(text: &str) -> Result<[i32; 3], String> {
    let given = list::<i32>(text)?;
    if given.len() > 3 {
        return Err(format!("{text}: at most 3 corners"));
    }
    Ok(std::array::from_fn(|i| given.get(i).copied().unwrap_or(0)))
}

fn packed_strides(map: &TensorMap) -> Vec<u64> {
    let mut strides = Vec::new();
    let mut elements = 1u64;
    for dim in map.dims.iter().take(map.dims.len().saturating_sub(1)) {
        // What is too large for a tensor map stays too large.
        elements = elements.saturating_mul(*dim).min(MOST_BYTES);
        strides.push(map.element.bytes_of(elements));
    }
    strides
}

fn element_type(kind: ElementKind) -> Result<ElementType, String> {
    Ok(match kind {
        ElementKind::U8 | ElementKind::S8 | ElementKind::E4m3 | ElementKind::E5m2 => {
            ElementType::U8
        }
        ElementKind::U16 => ElementType::U16,
        ElementKind::U32 => ElementType::U32,
        ElementKind::S32 => ElementType::S32,
        ElementKind::U64 => ElementType::U64,
        ElementKind::F16 => ElementType::F16,
        ElementKind::Bf16 => ElementType::Bf16,
        ElementKind::F32 => ElementType::F32,
        ElementKind::F64 => ElementType::F64,
    })
}

fn parse_init(text: &str) -> Result<Init, String> {
    Ok(match text {
        "zero" => Init::Zero,
        "poison" => Init::Poison,
        "iota" => Init::Iota,
        "random" => Init::Random,
        "ints" => Init::Ints,
        "bits" => Init::Bits,
        _ => Init::Number(text.parse().map_err(|_| format!("no contents {text}"))?),
    })
}

fn number(text: &str) -> Result<i128, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no integer"))
}

/// A number from 0 to the largest of its type.
fn whole<T: TryFrom<i128>>(text: &str) -> Result<T, String> {
    let most = 8 * size_of::<T>();
    T::try_from(number(text)?).map_err(|_| format!("{text} is not between 0 and 2^{most} - 1"))
}

/// The bits of an argument, which may be signed.
fn word(text: &str, bits: u32) -> Result<u64, String> {
    let value = number(text)?;
    let range = -(1i128 << (bits - 1))..1i128 << bits;
    range
        .contains(&value)
        .then_some(value as u64)
        .ok_or(format!("{text} has more than {bits} bits"))
}

fn list<T: TryFrom<i128>>(text: &str) -> Result<Vec<T>, String> {
    text.split(',').map(whole).collect()
}

fn extents(text: &str) -> Result<[u32; 3], String> {
    let values = list(text)?;
    if values.is_empty() || values.len() > 3 {
        return Err(format!("{text}: one to three extents"));
    }
    Ok(std::array::from_fn(|i| values.get(i).copied().unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_arguments_in_order() {
        let line = "--grid 2,3 --block 64 --smem 0x100 --buffer a:f16[8,64]=iota \
                    --map t=a;dims=64,8;box=64,4;swizzle=128;fill=nan --arg n:u32=7 \
                    --arg out:f32[16]=poison --arg acc:f32[4]=1.5+rw";
        let options = Options::parse(line).unwrap();
        assert_eq!((options.grid, options.block), ([2, 3, 1], [64, 1, 1]));
        assert_eq!(options.shared_bytes, 256);
        assert_eq!(options.buffers.len(), 3);
        assert_eq!(options.args.len(), 4);
        let Argument::TensorMap(map) = &options.args[0] else { panic!("{:?}", options.args[0]) };
        assert_eq!((map.strides.as_slice(), map.swizzle), (&[128][..], Swizzle::B128));
        assert_eq!(options.args[2], Argument::Buffer(BufferId(1), 0));
        assert_eq!(options.buffers[2].access(), program::Access::ReadWrite);
        assert_eq!(options.buffers[2].contents()[..4], 1.5f32.to_le_bytes());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |line: &str| Options::parse(line).unwrap_err();
        assert_eq!(error("--arg out:f12[4]=zero"), "out:f12[4]=zero: no type f12");
        assert_eq!(error("--map t=a;dims=1"), "t=a;dims=1: no buffer a so far");
        assert_eq!(error("--blok 1"), "there is no option --blok");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let error = |line: &str| Options::parse(line).unwrap_err();
        assert_eq!(error("--grid 4294967297"), "4294967297 is not between 0 and 2^32 - 1");
        assert_eq!(error("--block -1"), "-1 is not between 0 and 2^32 - 1");
        assert_eq!(error("--smem 0x100000000"), "0x100000000 is not between 0 and 2^32 - 1");
        assert_eq!(error("--arg n:u32=4294967296"), "4294967296 has more than 32 bits");
        assert_eq!(
            error("--arg n:u64=-9223372036854775809"),
            "-9223372036854775809 has more than 64 bits"
        );
        assert_eq!(
            error("--arg a:u8[4294967296,4294967296]=zero"),
            "a:u8[4294967296,4294967296]=zero: more than 2^56 bytes"
        );
        assert_eq!(
            error("--arg a:f64[72057594037927935]=zero"),
            "a:f64[72057594037927935]=zero: more than 2^56 bytes"
        );
        let map = "--buffer a:u8[16]=zero --map t=a;box=4294967297";
        assert_eq!(error(map), "4294967297 is not between 0 and 2^32 - 1");
        let signed = Options::parse("--arg n:u32=-1 --arg m:u64=-1").unwrap();
        assert_eq!(signed.args, [Argument::U32(u32::MAX), Argument::U64(u64::MAX)]);
    }
}
