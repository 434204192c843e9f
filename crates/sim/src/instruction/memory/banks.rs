//! Shared-memory banks: how many cycles beyond the first an access needs.

use crate::register::lanes;

/// Bytes all banks together move in a cycle.
const ROW: u32 = 128;

/// Cycles beyond the first for lanes that each access `bytes` aligned bytes at `at`: 32 banks of 4
/// bytes, wide accesses in groups of lanes that together move 128 bytes.
pub(crate) fn bank_conflicts(at: &[u32; 32], mask: u32, bytes: u32) -> u64 {
    let granule = bytes.clamp(4, 16);
    let group = ROW / granule;
    let lanes_of = |first: u32| mask & (((1u64 << group) - 1) << first) as u32;
    (0..32).step_by(group as usize).map(|first| in_group(at, lanes_of(first), granule)).sum()
}

fn in_group(at: &[u32; 32], mask: u32, granule: u32) -> u64 {
    let (shift, banks) = (granule.trailing_zeros(), ROW / granule);
    let mut first = [u32::MAX; 32];
    let mut clash = false;
    for lane in lanes(mask) {
        let number = at[lane.0] >> shift;
        let bank = &mut first[(number & (banks - 1)) as usize];
        clash |= *bank != u32::MAX && *bank != number;
        *bank = number;
    }
    if !clash {
        return 0;
    }
    let mut asked: Vec<u32> = lanes(mask).map(|lane| at[lane.0] >> shift).collect();
    asked.sort_unstable();
    asked.dedup();
    let mut per_bank = [0u64; 32];
    asked.iter().for_each(|number| per_bank[(number & (banks - 1)) as usize] += 1);
    per_bank.iter().max().map_or(0, |most| most - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(f: impl Fn(u32) -> u32) -> [u32; 32] {
        std::array::from_fn(|i| f(i as u32))
    }

    #[test]
    fn neighbours_and_broadcasts_are_free() {
        for bytes in [4, 8, 16] {
            assert_eq!(bank_conflicts(&at(|i| bytes * i), u32::MAX, bytes), 0);
            assert_eq!(bank_conflicts(&at(|_| 64), u32::MAX, bytes), 0);
        }
        assert_eq!(bank_conflicts(&at(|i| 2 * i), u32::MAX, 2), 0);
    }

    #[test]
    fn a_column_is_served_row_by_row() {
        assert_eq!(bank_conflicts(&at(|i| 128 * i), u32::MAX, 4), 31);
        assert_eq!(bank_conflicts(&at(|i| 128 * i), 0xF, 4), 3);
        // Four groups of eight lanes, each eight rows deep.
        assert_eq!(bank_conflicts(&at(|i| 128 * i), u32::MAX, 16), 28);
        assert_eq!(bank_conflicts(&at(|i| 8 * i), u32::MAX, 4), 1);
    }
}
