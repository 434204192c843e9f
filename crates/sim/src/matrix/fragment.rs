//! How warps hold matrices in registers, for `mma.sync` and `wgmma` alike.
//!
//! With P elements to a 32-bit register, lane `l` of a warp holds
//! - A (16 rows): register `r`, element `j` is row `l/4 + 8*(r%2)`, k `(l%4)*P + j + 4*P*(r/2)`;
//! - B (8 columns): register `r`, element `j` is column `l/4`, k `(l%4)*P + j + 4*P*r`;
//! - C and D: number `i` is row `l/4 + 8*(i/2%2)`, column `2*(l%4) + i%2 + 8*(i/4)`.

use super::element::{Element, f16_to_f32};
use crate::numeric::{Conversion, Format};

/// One 32-bit register of all lanes of a warp.
pub type Lanes = [u32; 32];

/// The type of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// Single precision.
    F32,
    /// Half precision, two to a register.
    F16,
    /// 32-bit integers.
    S32,
}

impl Accumulator {
    /// The accumulator type a modifier names.
    pub fn from_modifier(name: &str) -> Option<Accumulator> {
        Some(match name {
            "f32" => Accumulator::F32,
            "f16" => Accumulator::F16,
            "s32" => Accumulator::S32,
            _ => return None,
        })
    }

    /// Registers of a lane for a 16 x `columns` tile.
    pub const fn registers(self, columns: usize) -> usize {
        match self {
            Accumulator::F16 => columns / 4,
            _ => columns / 2,
        }
    }

    /// Adds `sum` (an exact integer for [`Accumulator::S32`]) to an accumulator word.
    pub(crate) fn add_integer(word: u32, sum: f32, saturate: bool) -> u32 {
        let (value, sum) = (word as i32, sum as i32);
        let total = if saturate { value.saturating_add(sum) } else { value.wrapping_add(sum) };
        total as u32
    }
}

/// Elements of the narrowest type in a register.
const MOST_PER_REGISTER: usize = 32;

/// Number `i` of a lane: row and column in the warp's 16-row tile.
pub(crate) const fn d_position(i: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + 8 * (i / 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i / 4))
}

/// Unpacks a warp's A fragment to a 16 x `depth` panel.
pub(crate) fn unpack_a(element: Element, registers: &[Lanes], depth: usize, panel: &mut [f32]) {
    let per = element.per_register();
    let mut values = [0f32; MOST_PER_REGISTER];
    for (r, lanes) in registers.iter().enumerate() {
        for (lane, &word) in lanes.iter().enumerate() {
            element.unpack_register(word, &mut values);
            let row = lane / 4 + 8 * (r % 2);
            let k = lane % 4 * per + 4 * per * (r / 2);
            panel[row * depth + k..][..per].copy_from_slice(&values[..per]);
        }
    }
}

/// Unpacks a warp's B fragment to a `depth` x 8 panel.
pub(crate) fn unpack_b(element: Element, registers: &[Lanes], panel: &mut [f32]) {
    let per = element.per_register();
    let mut values = [0f32; MOST_PER_REGISTER];
    for (r, lanes) in registers.iter().enumerate() {
        for (lane, &word) in lanes.iter().enumerate() {
            element.unpack_register(word, &mut values);
            let k = lane % 4 * per + 4 * per * r;
            for j in 0..per {
                panel[(k + j) * 8 + lane / 4] = values[j];
            }
        }
    }
}

/// Calls `f` for every eight neighbouring numbers of a row: with the panel index of the first, the
/// number of the register pair's first number, and the first of the four lanes that hold two each.
fn for_each_octet(columns: usize, mut f: impl FnMut(usize, usize, usize)) {
    for block in 0..columns / 8 {
        for half in 0..2 {
            for group in 0..8 {
                f((group + 8 * half) * columns + 8 * block, 4 * block + 2 * half, 4 * group);
            }
        }
    }
}

/// Reads a warp's accumulator fragment of floats into a 16 x `columns` panel.
pub(crate) fn unpack_d(kind: Accumulator, registers: &[Lanes], columns: usize, panel: &mut [f32]) {
    for_each_octet(columns, |at, i, lane| {
        let octet: &mut [f32; 8] = panel[at..].first_chunk_mut().expect("eight columns");
        for t in 0..4 {
            (octet[2 * t], octet[2 * t + 1]) = match kind {
                Accumulator::F16 => {
                    let word = registers[i / 2][lane + t];
                    (f16_to_f32(word as u16), f16_to_f32((word >> 16) as u16))
                }
                _ => {
                    let (even, odd) = (registers[i][lane + t], registers[i + 1][lane + t]);
                    (f32::from_bits(even), f32::from_bits(odd))
                }
            };
        }
    });
}

/// Writes a 16 x `columns` panel of floats to a warp's accumulator fragment.
pub(crate) fn pack_d(kind: Accumulator, panel: &[f32], columns: usize, registers: &mut [Lanes]) {
    let half = Conversion::nearest(Format::F16);
    for_each_octet(columns, |at, i, lane| {
        let octet: &[f32; 8] = panel[at..].first_chunk().expect("eight columns");
        for t in 0..4 {
            let (even, odd) = (octet[2 * t], octet[2 * t + 1]);
            if kind == Accumulator::F16 {
                registers[i / 2][lane + t] = half.apply_f32(even) | half.apply_f32(odd) << 16;
            } else {
                registers[i][lane + t] = even.to_bits();
                registers[i + 1][lane + t] = odd.to_bits();
            }
        }
    });
}

/// Adds a 16 x `columns` panel of integer sums to a warp's s32 fragment.
pub(crate) fn add_d(panel: &[f32], columns: usize, saturate: bool, registers: &mut [Lanes]) {
    for (i, lanes) in registers.iter_mut().enumerate() {
        for (lane, word) in lanes.iter_mut().enumerate() {
            let (row, column) = d_position(i, lane);
            *word = Accumulator::add_integer(*word, panel[row * columns + column], saturate);
        }
    }
}

/// Applies `D = A*B + C` to a warp's fragment: `accumulate` adds the products to a panel.
pub(crate) fn update_d(
    kind: Accumulator,
    columns: usize,
    saturate: bool,
    registers: &mut [Lanes],
    accumulate: impl FnOnce(&mut [f32]),
) {
    let mut panel = vec![0f32; 16 * columns];
    if kind == Accumulator::S32 {
        accumulate(&mut panel);
        add_d(&panel, columns, saturate, registers);
    } else {
        unpack_d(kind, registers, columns, &mut panel);
        accumulate(&mut panel);
        pack_d(kind, &panel, columns, registers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accumulators_survive_a_round_trip() {
        let panel: Vec<f32> = (0..16 * 24).map(|i| i as f32 - 100.0).collect();
        for kind in [Accumulator::F32, Accumulator::F16] {
            let mut registers = vec![[0u32; 32]; kind.registers(24)];
            pack_d(kind, &panel, 24, &mut registers);
            let mut again = vec![0.0; panel.len()];
            unpack_d(kind, &registers, 24, &mut again);
            assert_eq!(again, panel, "{kind:?}");
        }
    }

    #[test]
    fn a_fragment_of_halves_matches_the_manual() {
        // a(i): row g for i < 2 or 4 <= i < 6; k = 2t + i%2, plus 8 for i >= 4.
        let mut registers = vec![[0u32; 32]; 4];
        for lane in 0..32u32 {
            for i in 0..8 {
                let (g, t) = (lane / 4, lane % 4);
                let row = if i < 2 || (4..6).contains(&i) { g } else { g + 8 };
                let k = 2 * t + i % 2 + if i >= 4 { 8 } else { 0 };
                let bits = half::f16::from_f32((row * 16 + k) as f32).to_bits();
                registers[i as usize / 2][lane as usize] |= u32::from(bits) << (16 * (i % 2));
            }
        }
        let mut panel = vec![-1.0; 256];
        unpack_a(Element::F16, &registers, 16, &mut panel);
        assert!(panel.iter().enumerate().all(|(i, &v)| v == i as f32));
    }

    #[test]
    fn integers_wrap_or_saturate() {
        let large = i32::MAX as u32;
        assert_eq!(Accumulator::add_integer(large, 1.0, false), i32::MIN as u32);
        assert_eq!(Accumulator::add_integer(large, 1.0, true), large);
    }
}
