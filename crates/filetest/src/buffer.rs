use crate::element::ElementKind;
use program::Access;

/// What a buffer holds at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Zeros.
    Zero,
    /// Nothing: an output.
    Poison,
    /// 0, 1, 2, …
    Iota,
    /// Floats in [-1, 1), integers of any value.
    Random,
    /// Integers from -4 to 4 (0 to 8 when unsigned), exact in every type.
    Ints,
    /// Arbitrary bits.
    Bits,
    /// One number everywhere.
    Number(f64),
}

/// A buffer of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSpec {
    /// Name.
    pub name: String,
    /// Element type.
    pub element: ElementKind,
    /// Number of elements.
    pub elements: usize,
    /// Contents.
    pub init: Init,
    /// `+rw`.
    pub read_write: bool,
}

/// What outputs hold before a run on every engine: NaN in every float format.
pub(crate) const POISON: u8 = 0xFF;

impl BufferSpec {
    /// How the program uses it.
    pub fn access(&self) -> Access {
        match (self.read_write, self.init) {
            (true, _) => Access::ReadWrite,
            (false, Init::Poison) => Access::Write,
            (false, _) => Access::Read,
        }
    }

    /// Size.
    pub fn bytes(&self) -> usize {
        self.elements * self.element.bytes()
    }

    /// The contents at the start; the same for the same name on every engine.
    pub fn contents(&self) -> Vec<u8> {
        if self.init == Init::Poison {
            return vec![POISON; self.bytes()];
        }
        let size = self.element.bytes();
        let mut state =
            self.name.bytes().fold(0x5EED, |h: u64, b| h.wrapping_mul(31) + u64::from(b));
        let elements = (0..self.elements).map(|i| self.element_bits(i, &mut state));
        elements.flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect()
    }

    fn element_bits(&self, index: usize, state: &mut u64) -> u64 {
        let random = split_mix(state);
        match self.init {
            Init::Zero | Init::Poison => 0,
            Init::Iota => self.element.encode(index as f64),
            Init::Bits => random,
            Init::Random if self.element.is_float() => {
                self.element.encode((random >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
            }
            Init::Random => random,
            Init::Ints => {
                let unsigned = !self.element.is_float()
                    && !matches!(self.element, ElementKind::S8 | ElementKind::S32);
                let offset = if unsigned { 0.0 } else { 4.0 };
                self.element.encode((random % 9) as f64 - offset)
            }
            Init::Number(number) => self.element.encode(number),
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
