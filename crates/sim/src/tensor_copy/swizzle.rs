use program::Swizzle;

/// Where the byte of shared-memory address `address` of an unswizzled box really is.
pub const fn permute(swizzle: Swizzle, address: u32) -> u32 {
    let line = address >> 7;
    address
        ^ match swizzle {
            Swizzle::None => 0,
            Swizzle::B32 => (line & 1) << 4,
            Swizzle::B64 => (line & 3) << 4,
            Swizzle::B128 => (line & 7) << 4,
            Swizzle::B128Atom32 => (line & 3) << 5,
            Swizzle::B128Atom32Flip8 => (line & 3) << 5 | (line & 1) << 3,
            Swizzle::B128Atom64 => (line & 1) << 6,
        }
}

/// The name of a swizzle in messages.
pub const fn name(swizzle: Swizzle) -> &'static str {
    match swizzle {
        Swizzle::None => "no swizzle",
        Swizzle::B32 => "a 32-byte swizzle",
        Swizzle::B64 => "a 64-byte swizzle",
        Swizzle::B128 => "a 128-byte swizzle",
        Swizzle::B128Atom32 => "a 128-byte swizzle of 32-byte units",
        Swizzle::B128Atom32Flip8 => "a 128-byte swizzle of 32-byte units that swaps 8-byte halves",
        Swizzle::B128Atom64 => "a 128-byte swizzle of 64-byte units",
    }
}

/// Bytes that stay together; `None` for rows left as they are.
pub(super) const fn granule(swizzle: Swizzle) -> Option<u32> {
    match swizzle {
        Swizzle::None => None,
        Swizzle::B32 | Swizzle::B64 | Swizzle::B128 => Some(16),
        Swizzle::B128Atom32 => Some(32),
        Swizzle::B128Atom32Flip8 => Some(8),
        Swizzle::B128Atom64 => Some(64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_stay_together_and_lines_keep_their_bytes() {
        for swizzle in Swizzle::ALL {
            for address in 0..4096 {
                let to = permute(swizzle, address);
                assert_eq!(to >> 7, address >> 7, "{swizzle:?}");
                assert_eq!(permute(swizzle, to), address, "{swizzle:?}");
                let unit = granule(swizzle).unwrap_or(4096);
                assert_eq!(to % unit, address % unit, "{swizzle:?}");
            }
        }
    }

    #[test]
    fn patterns_repeat_where_the_manual_says() {
        let repeat = |s| {
            (1..64u32)
                .find(|n| (0..4096).all(|a| permute(s, a + n * 128) == permute(s, a) + n * 128))
        };
        assert_eq!(repeat(Swizzle::B32), Some(2));
        assert_eq!(repeat(Swizzle::B64), Some(4));
        assert_eq!(repeat(Swizzle::B128), Some(8));
        assert_eq!(repeat(Swizzle::B128Atom32), Some(4));
        assert_eq!(repeat(Swizzle::B128Atom64), Some(2));
    }
}
