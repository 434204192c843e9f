//! More clusters than fit the chip: each takes the place of the first one that ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles until the last of `clusters` ends, `resident` at a time, in the order of their numbers. `samples` are
/// the cycles of a few of them, in that order; the others lie on the lines between.
pub(super) fn schedule(samples: &[(u32, f64)], clusters: u32, resident: u32) -> f64 {
    // Bits of numbers that are not negative are in the order of the numbers.
    let mut ends: BinaryHeap<Reverse<u64>> =
        (0..resident.max(1)).map(|_| Reverse(0f64.to_bits())).collect();
    let mut last = 0f64;
    for cluster in 0..clusters {
        let start = ends.pop().map_or(0.0, |Reverse(bits)| f64::from_bits(bits));
        let end = start + interpolate(samples, cluster).max(0.0);
        last = last.max(end);
        ends.push(Reverse(end.to_bits()));
    }
    last
}

/// The cycles of a cluster.
fn interpolate(samples: &[(u32, f64)], cluster: u32) -> f64 {
    let behind = samples.partition_point(|(number, _)| *number <= cluster);
    let before = behind.checked_sub(1).and_then(|index| samples.get(index));
    match (before, samples.get(behind)) {
        (Some(&(left, a)), Some(&(right, b))) => {
            a + (b - a) * f64::from(cluster - left) / f64::from(right - left)
        }
        (Some(&(_, cycles)), None) | (None, Some(&(_, cycles))) => cycles,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::schedule;

    #[test]
    fn equal_clusters_come_in_whole_waves() {
        assert_eq!(schedule(&[(0, 10.0)], 7, 3), 30.0);
        assert_eq!(schedule(&[(0, 10.0), (6, 10.0)], 6, 3), 20.0);
    }

    #[test]
    fn the_longest_first_leave_no_gap() {
        // 6, 5, 4, 3, 2, 1 on two: 6 + 3 + 2 and 5 + 4 + 1.
        assert_eq!(schedule(&[(0, 6.0), (5, 1.0)], 6, 2), 11.0);
        // The shortest first: 1 + 3 + 5 and 2 + 4 + 6.
        assert_eq!(schedule(&[(0, 1.0), (5, 6.0)], 6, 2), 12.0);
    }
}
