//! A warp's registers: one row of 32 lanes per virtual register.
//!
//! Registers of up to 32 bits share one file, 64-bit ones another; a predicate is one bit per lane.
//! Constants, special registers and variable addresses are rows too, filled once when a warp
//! starts, so that every operand of every instruction is simply a row.

use std::fmt;
use std::ops::{Index, IndexMut};

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Every lane.
pub const FULL: u32 = u32::MAX;

/// A lane of a warp. Lanes of tensor memory, of which there are 128, are other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub usize);

impl Lane {
    /// The lowest lane of a mask, which has one.
    #[inline(always)]
    pub fn first(mask: u32) -> Lane {
        Lane(mask.trailing_zeros() as usize)
    }

    /// The mask of this lane alone.
    #[inline(always)]
    pub fn mask(self) -> u32 {
        1 << self.0
    }

    /// Whether the lane is one of `mask`.
    #[inline(always)]
    pub fn is_in(self, mask: u32) -> bool {
        mask >> self.0 & 1 != 0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 32 lanes of at most 32 bits.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Row32(pub [u32; LANES]);

/// 32 lanes of 64 bits.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Row64(pub [u64; LANES]);

macro_rules! by_lane {
    ($row:ident, $word:ty) => {
        impl Index<Lane> for $row {
            type Output = $word;

            #[inline(always)]
            fn index(&self, lane: Lane) -> &$word {
                &self.0[lane.0]
            }
        }

        impl IndexMut<Lane> for $row {
            #[inline(always)]
            fn index_mut(&mut self, lane: Lane) -> &mut $word {
                &mut self.0[lane.0]
            }
        }
    };
}
by_lane!(Row32, u32);
by_lane!(Row64, u64);

impl Row32 {
    /// The same value in every lane.
    pub const fn splat(value: u32) -> Row32 {
        Row32([value; LANES])
    }
}

impl Row64 {
    /// The same value in every lane.
    pub const fn splat(value: u64) -> Row64 {
        Row64([value; LANES])
    }
}

macro_rules! slot {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
    };
}

slot!(
    /// A row of the 32-bit file.
    R32
);
slot!(
    /// A row of the 64-bit file.
    R64
);
slot!(
    /// A predicate.
    P
);

/// A register of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reg {
    /// Predicate.
    P(P),
    /// 8 to 32 bits.
    R32(R32),
    /// 64 bits.
    R64(R64),
    /// 128 bits: two neighbouring rows, the low one first.
    R128(R64),
}

/// The register files of one warp.
pub struct Registers {
    r32: Vec<Row32>,
    r64: Vec<Row64>,
    p: Vec<u32>,
}

impl Registers {
    /// Files of the given sizes, all zero.
    pub fn new(r32: usize, r64: usize, p: usize) -> Registers {
        Registers {
            r32: vec![Row32::splat(0); r32],
            r64: vec![Row64::splat(0); r64],
            p: vec![0; p],
        }
    }

    /// A 32-bit row.
    #[inline(always)]
    pub fn r32(&self, r: R32) -> &Row32 {
        &self.r32[r.0 as usize]
    }

    /// A 64-bit row.
    #[inline(always)]
    pub fn r64(&self, r: R64) -> &Row64 {
        &self.r64[r.0 as usize]
    }

    /// A predicate's lanes.
    #[inline(always)]
    pub fn p(&self, p: P) -> u32 {
        self.p[p.0 as usize]
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub fn set32(&mut self, r: R32, mask: u32, value: &Row32) {
        let row = &mut self.r32[r.0 as usize];
        if mask == FULL {
            *row = *value;
            return;
        }
        for lane in 0..LANES {
            if mask >> lane & 1 != 0 {
                row.0[lane] = value.0[lane];
            }
        }
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub fn set64(&mut self, r: R64, mask: u32, value: &Row64) {
        let row = &mut self.r64[r.0 as usize];
        if mask == FULL {
            *row = *value;
            return;
        }
        for lane in 0..LANES {
            if mask >> lane & 1 != 0 {
                row.0[lane] = value.0[lane];
            }
        }
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub fn set_p(&mut self, p: P, mask: u32, value: u32) {
        let bits = &mut self.p[p.0 as usize];
        *bits = (*bits & !mask) | (value & mask);
    }

    /// One lane of a register of at most 64 bits.
    pub fn lane(&self, reg: Reg, lane: Lane) -> u64 {
        match reg {
            Reg::P(p) => u64::from(lane.is_in(self.p(p))),
            Reg::R32(r) => u64::from(self.r32(r)[lane]),
            Reg::R64(r) | Reg::R128(r) => self.r64(r)[lane],
        }
    }

    /// Writes one lane of a register of at most 64 bits.
    pub fn set_lane(&mut self, reg: Reg, lane: Lane, value: u64) {
        match reg {
            Reg::P(p) => self.set_p(p, lane.mask(), (value as u32 & 1) << lane.0),
            Reg::R32(r) => self.r32[r.0 as usize][lane] = value as u32,
            Reg::R64(r) | Reg::R128(r) => self.r64[r.0 as usize][lane] = value,
        }
    }

    /// All lanes of a register of at most 64 bits.
    pub fn row(&self, reg: Reg) -> [u64; LANES] {
        match reg {
            Reg::P(p) => std::array::from_fn(|lane| u64::from(self.p(p) >> lane & 1)),
            Reg::R32(r) => self.r32(r).0.map(u64::from),
            Reg::R64(r) | Reg::R128(r) => self.r64(r).0,
        }
    }

    /// Writes all lanes of a register of at most 64 bits.
    pub fn set_row(&mut self, reg: Reg, row: &[u64; LANES]) {
        match reg {
            Reg::P(p) => {
                self.p[p.0 as usize] =
                    (0..LANES).fold(0, |bits, i| bits | (row[i] as u32 & 1) << i);
            }
            Reg::R32(r) => self.r32[r.0 as usize].0 = row.map(|value| value as u32),
            Reg::R64(r) | Reg::R128(r) => self.r64[r.0 as usize].0 = *row,
        }
    }

    /// The two halves of a 128-bit register.
    pub fn lane128(&self, r: R64, lane: Lane) -> u128 {
        let low = u128::from(self.r64(r)[lane]);
        low | u128::from(self.r64(R64(r.0 + 1))[lane]) << 64
    }

    /// Writes one lane of a 128-bit register.
    pub fn set_lane128(&mut self, r: R64, lane: Lane, value: u128) {
        self.r64[r.0 as usize][lane] = value as u64;
        self.r64[r.0 as usize + 1][lane] = (value >> 64) as u64;
    }
}

/// The lanes of `mask`.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = Lane> + Clone {
    bits(mask).map(Lane)
}

/// The numbers of the bits that are set, from the lowest on.
#[inline(always)]
pub(crate) fn bits(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            bit
        })
    })
}
