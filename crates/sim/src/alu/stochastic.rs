//! `cvt.rs`: conversions of two or four f32 that random bits round.
//!
//! The manual's pictures of which random bits go with which number are not at hand, and no GPU was asked. The
//! bits are shared out evenly, the highest to the number that is packed highest: 16 bits each for pairs, 8 each
//! for quads, as software does that stands in for the instruction. A GPU may take the other neighbour.

use crate::numeric::{Conversion, Format, Overflow, Rounding};

/// One such conversion.
#[derive(Clone, Copy, Debug)]
pub struct StochasticCvt {
    format: Format,
    /// Numbers: 2 or 4.
    pub count: usize,
    overflow: Overflow,
    relu: bool,
}

impl StochasticCvt {
    /// The conversion that modifiers describe.
    pub fn parse(modifiers: &[&str]) -> Option<StochasticCvt> {
        let [options @ .., to, "f32"] = modifiers else { return None };
        let (format, count) = match *to {
            "f16x2" => (Format::F16, 2),
            "bf16x2" => (Format::BF16, 2),
            "e4m3x4" => (Format::E4M3, 4),
            "e5m2x4" => (Format::E5M2, 4),
            "e2m3x4" => (Format::E2M3, 4),
            "e3m2x4" => (Format::E3M2, 4),
            "e2m1x4" => (Format::E2M1, 4),
            _ => return None,
        };
        let known = options.iter().all(|option| ["rs", "relu", "satfinite"].contains(option));
        let saturate = options.contains(&"satfinite");
        known.then_some(StochasticCvt {
            format,
            count,
            overflow: if saturate { Overflow::Saturate } else { Overflow::Format },
            relu: options.contains(&"relu"),
        })
    }

    /// One lane: the patterns of the numbers, the first of which comes to lie highest.
    pub fn apply(&self, numbers: impl IntoIterator<Item = u32>, random: u32) -> u32 {
        // Formats of six bits fill a byte each.
        let width =
            if self.format.bits() == 4 { 4 } else { self.format.bits().next_power_of_two() };
        let bits = 32 / self.count as u32;
        let one = |(i, number): (usize, u32)| {
            let random = random << (bits * i as u32) >> (32 - bits);
            let rounding = Rounding::Stochastic { random, bits };
            let Self { format, overflow, relu, .. } = *self;
            let conversion = Conversion { format, rounding, overflow, relu };
            conversion.apply(f32::from_bits(number).into())
        };
        let patterns = numbers.into_iter().enumerate().map(one);
        patterns.fold(0, |packed, pattern| packed << width | pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::StochasticCvt;

    fn cvt(modifiers: &str) -> StochasticCvt {
        let modifiers: Vec<&str> = modifiers.split('.').collect();
        StochasticCvt::parse(&modifiers).expect("known modifiers")
    }

    #[test]
    fn as_many_go_up_as_the_fraction_says() {
        let quarter = (1.0f32 + 0.25 / 1024.0).to_bits();
        let up = |random: u32| cvt("rs.f16x2.f32").apply([0, quarter], random) - 0x3C00;
        let all = (0..1 << 16).map(up);
        assert_eq!(all.sum::<u32>(), 1 << 14);
        assert_eq!([up(0xBFFF), up(0xC000), up(0xFFFF_0000)], [0, 1, 0]);
    }

    #[test]
    fn numbers_have_their_own_bits_and_places() {
        let quads = cvt("rs.satfinite.e2m1x4.f32");
        let numbers = [2.5f32, 1.25, -5.0, 100.0].map(f32::to_bits);
        // 2 or 3, 1 or 1.5, -4 or -6, and 6.
        assert_eq!(quads.apply(numbers, 0), 0x42E7);
        assert_eq!(quads.apply(numbers, 0xFF00_0000), 0x52E7);
        assert_eq!(quads.apply(numbers, 0x0080_0000), 0x43E7);
        assert_eq!(quads.apply(numbers, 0x0000_80FF), 0x42F7);
        let relu = cvt("rs.relu.satfinite.e4m3x4.f32");
        assert_eq!(relu.apply([1.0f32, -1.0, 448.0, 1e9].map(f32::to_bits), 0), 0x3800_7E7E);
    }
}
