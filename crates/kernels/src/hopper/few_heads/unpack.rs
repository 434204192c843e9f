//! e4m3 numbers as pairs of bf16, by shifts and one multiplication.

use ptx::build::{Builder, Cmp, HalfType, Reg};

/// Bits of two bf16 that an e4m3 number's sign, exponent and mantissa take.
const NUMBER_BITS: u32 = 0x87f0_87f0;
/// Numbers 0 and 1 of a word with their signs spread: `prmt`'s selector.
const LOWER: u32 = 0x9180;
/// Numbers 2 and 3 likewise.
const UPPER: u32 = 0xb3a2;
/// Number 0 of each of two words likewise; that of number `i` is `i` times [`NEXT`] more.
const FIRST_OF_TWO: u32 = 0xc480;
/// One more in every half byte.
const NEXT: u32 = 0x1111;
/// The largest exponent of a scale whose product with 2^120 is a bf16 number.
const LARGEST_SCALE: u32 = 134;
/// bf16's NaN.
const NAN: u32 = 0x7fc0;

/// The bf16 factor on e4m3 bits that the scale of byte `n` of a row's eight bytes is.
#[track_caller]
pub fn factor(b: &mut Builder, scales: &[Reg<u32>], n: u32) -> Reg<u32> {
    let exponent = b.eval((scales[n as usize / 4] >> (n % 4 * 8)) & 0xff);
    let bits = b.eval((exponent + 120) << 7);
    let large = b.setp(Cmp::Gt, exponent, LARGEST_SCALE);
    b.select::<u32>(large, NAN, bits)
}

/// The four numbers of a word times a pair of factors.
#[track_caller]
pub fn numbers_of_key(b: &mut Builder, word: Reg<u32>, factors: Reg<u32>) -> [Reg<u32>; 2] {
    [LOWER, UPPER].map(|selector| {
        let pair = b.permute_bytes(word, word, selector);
        scaled(b, pair, factors)
    })
}

/// Number `i` of the words of two keys, times their factors.
#[track_caller]
pub fn number_of_two_keys(
    b: &mut Builder,
    words: [Reg<u32>; 2],
    i: u32,
    factors: Reg<u32>,
) -> Reg<u32> {
    let pair = b.permute_bytes(words[0], words[1], FIRST_OF_TWO + i * NEXT);
    scaled(b, pair, factors)
}

/// bf16 number `i` of two of the words of two keys.
#[track_caller]
pub fn half_of_two_keys(b: &mut Builder, words: [Reg<u32>; 2], i: u32) -> Reg<u32> {
    b.permute_bytes(words[0], words[1], if i == 0 { 0x5410 } else { 0x7632 })
}

/// Two bytes with their signs spread over 16 bits each, as numbers times their factors.
#[track_caller]
fn scaled(b: &mut Builder, pair: Reg<u32>, factors: Reg<u32>) -> Reg<u32> {
    let bits = b.eval((pair << 4) & NUMBER_BITS);
    b.mul_halves(HalfType::Bf16, bits, factors)
}

/// Whether one of many words holds a byte that is NaN.
pub struct NanBytes(Reg<u32>);

impl NanBytes {
    /// There are none yet.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        NanBytes(b.value(0))
    }

    /// Looks at a word: a byte whose seven low bits are set carries into its eighth.
    #[track_caller]
    pub fn look(&self, b: &mut Builder, word: Reg<u32>) {
        b.assign(self.0, self.0 | ((word & 0x7f7f_7f7f) + 0x0101_0101));
    }

    /// `pair`, or two NaN if there was one.
    #[track_caller]
    pub fn spoil(&self, b: &mut Builder, pair: Reg<u32>) -> Reg<u32> {
        let carried = b.eval(self.0 & 0x8080_8080u32);
        let any = b.setp(Cmp::Ne, carried, 0);
        b.select::<u32>(any, NAN * 0x1_0001, pair)
    }
}
