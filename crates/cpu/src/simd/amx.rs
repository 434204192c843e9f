//! Intel's AMX: eight registers that each hold a tile of 16 rows of 64 bytes, and one instruction
//! that multiplies two of bf16 into a third of f32.
//!
//! `D[m][n] += Σ_k A[m][2k] · B[k][2n] + A[m][2k+1] · B[k][2n+1]`: `A` is 16 rows of 32 bf16, `B` is 16
//! pairs of rows of 16 columns, interleaved pairwise.

use super::avx512::Avx512;
use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Rows of a tile register, and pairs or columns of its 64-byte rows.
pub(crate) const ROWS: usize = 16;
/// bf16 of a tile register's row.
pub(crate) const DEPTH: usize = 32;

/// AMX with bf16, and the AVX-512 BF16 that comes with it.
#[derive(Clone, Copy)]
pub(crate) struct Amx {
    /// The AVX-512 of the same machine.
    pub avx512: Avx512,
}

impl Amx {
    pub(crate) fn detect() -> Option<Self> {
        static USABLE: OnceLock<bool> = OnceLock::new();
        let usable = *USABLE.get_or_init(|| has_tiles() && may_use_tiles());
        let bf16 = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vl");
        Avx512::detect().filter(|_| usable && bf16).map(|avx512| Self { avx512 })
    }
}

/// Whether the processor has bf16 tiles and the system saves them.
fn has_tiles() -> bool {
    const TILES_AND_BF16: u32 = 1 << 24 | 1 << 22;
    const TILE_STATE: u64 = 0b11 << 17;
    // Miri knows neither CPUID nor the system call.
    if cfg!(miri) || !is_x86_feature_detected!("xsave") {
        return false;
    }
    let found = __cpuid_count(7, 0).edx & TILES_AND_BF16 == TILES_AND_BF16;
    // SAFETY: the processor has XGETBV.
    found && unsafe { enabled_state() } & TILE_STATE == TILE_STATE
}

#[target_feature(enable = "xsave")]
fn enabled_state() -> u64 {
    // SAFETY: register 0 always exists.
    unsafe { _xgetbv(0) }
}

/// Asks Linux for the tile registers, which a process must before it first touches them.
fn may_use_tiles() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let result: i64;
    // SAFETY: this system call changes nothing but the permission.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
        );
    }
    result == 0
}

/// Loads a tile register with rows that are so many bytes apart, or stores one.
macro_rules! tile {
    (store $register:literal, $at:expr, $stride:expr) => {
        asm!(
            concat!("tilestored [{at} + {stride}*1], ", $register),
            at = in(reg) $at,
            stride = in(reg) $stride,
            options(nostack),
        )
    };
    ($load:literal, $at:expr, $stride:expr) => {
        asm!(
            concat!($load, ", [{at} + {stride}*1]"),
            at = in(reg) $at,
            stride = in(reg) $stride,
            options(nostack, readonly),
        )
    };
}

/// All eight tile registers at their full size; given back when dropped, so that a thread switch
/// need not save them.
pub(crate) struct Tiles(());

impl Tiles {
    pub(crate) fn configure(_: Amx) -> Self {
        #[repr(C, align(64))]
        struct Config([u8; 64]);
        let mut config = Config([0; 64]);
        config.0[0] = 1;
        for tile in 0..8 {
            config.0[16 + 2 * tile] = 64;
            config.0[48 + tile] = ROWS as u8;
        }
        // SAFETY: the token proves that tiles may be used; the configuration is palette 1 at its
        // largest.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) };
        Self(())
    }

    /// Computes `M` by `N` tiles, at most two by two: `C[i][j] (+)= Σ_s A[i][s] · B[j][s]` over `steps`
    /// tiles. `A` is expected to stream by: it is loaded with a hint that spares the first cache for
    /// `B` and `C`. Calls `between` at every step.
    ///
    /// # Safety
    /// Every tile in use of `a`, `b` and `c` must be 16 readable (`c`: writable) rows of 64 bytes.
    #[inline(always)]
    pub(crate) unsafe fn multiply<const M: usize, const N: usize>(
        &self,
        a: Operand,
        b: Operand,
        steps: usize,
        c: Result,
        mut between: impl FnMut(),
    ) {
        const { assert!(1 <= M && M <= 2 && 1 <= N && N <= 2) };
        // SAFETY: the caller vouches for the memory; the compiler uses no tile register itself, and
        // keeps the order of these instructions.
        unsafe {
            if c.accumulate {
                tile!("tileloadd tmm0", c.tiles[0][0], c.stride);
                if N == 2 {
                    tile!("tileloadd tmm1", c.tiles[0][1], c.stride);
                }
                if M == 2 {
                    tile!("tileloadd tmm2", c.tiles[1][0], c.stride);
                }
                if M == 2 && N == 2 {
                    tile!("tileloadd tmm3", c.tiles[1][1], c.stride);
                }
            } else {
                asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3");
            }
            for step in 0..steps {
                between();
                let a_tiles = a.tiles.map(|tile| tile.wrapping_add(step * a.step));
                let b_tiles = b.tiles.map(|tile| tile.wrapping_add(step * b.step));
                tile!("tileloaddt1 tmm4", a_tiles[0], a.stride);
                tile!("tileloadd tmm6", b_tiles[0], b.stride);
                asm!("tdpbf16ps tmm0, tmm4, tmm6");
                if N == 2 {
                    tile!("tileloadd tmm7", b_tiles[1], b.stride);
                    asm!("tdpbf16ps tmm1, tmm4, tmm7");
                }
                if M == 2 {
                    tile!("tileloaddt1 tmm5", a_tiles[1], a.stride);
                    asm!("tdpbf16ps tmm2, tmm5, tmm6");
                }
                if M == 2 && N == 2 {
                    asm!("tdpbf16ps tmm3, tmm5, tmm7");
                }
            }
            tile!(store "tmm0", c.tiles[0][0], c.stride);
            if N == 2 {
                tile!(store "tmm1", c.tiles[0][1], c.stride);
            }
            if M == 2 {
                tile!(store "tmm2", c.tiles[1][0], c.stride);
            }
            if M == 2 && N == 2 {
                tile!(store "tmm3", c.tiles[1][1], c.stride);
            }
        }
    }
}

/// Two tiles of `B`, two steps of each, that stay in registers.
pub(crate) struct Held<'t>(PhantomData<&'t Tiles>);

impl Tiles {
    /// Loads two steps of `B`: half of the loads of a product so short are for them.
    ///
    /// # Safety
    /// Every tile of `b` must be 16 readable rows of 64 bytes.
    #[inline(always)]
    pub(crate) unsafe fn hold(&self, b: Operand) -> Held<'_> {
        // SAFETY: the caller vouches for the memory.
        unsafe {
            tile!("tileloadd tmm4", b.tiles[0], b.stride);
            tile!("tileloadd tmm5", b.tiles[1], b.stride);
            tile!("tileloadd tmm6", b.tiles[0].wrapping_add(b.step), b.stride);
            tile!("tileloadd tmm7", b.tiles[1].wrapping_add(b.step), b.stride);
        }
        Held(PhantomData)
    }
}

impl Held<'_> {
    /// As [`Tiles::multiply`], two by two tiles, two steps.
    ///
    /// # Safety
    /// As there, and no other product since the tiles were held.
    #[inline(always)]
    pub(crate) unsafe fn multiply(&self, a: Operand, c: Result, mut between: impl FnMut()) {
        for i in 0..2 {
            between();
            // SAFETY: as in `Tiles::multiply`.
            unsafe {
                asm!("tilezero tmm0", "tilezero tmm1");
                tile!("tileloaddt1 tmm2", a.tiles[i], a.stride);
                asm!("tdpbf16ps tmm0, tmm2, tmm4", "tdpbf16ps tmm1, tmm2, tmm5");
                tile!("tileloaddt1 tmm3", a.tiles[i].wrapping_add(a.step), a.stride);
                asm!("tdpbf16ps tmm0, tmm3, tmm6", "tdpbf16ps tmm1, tmm3, tmm7");
                tile!(store "tmm0", c.tiles[i][0], c.stride);
                tile!(store "tmm1", c.tiles[i][1], c.stride);
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: tiles are configured, and nothing reads them hereafter.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Two tiles of an operand, how far apart their rows are, and how far the next step's tiles are.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    tiles: [*const u8; 2],
    stride: usize,
    step: usize,
}

impl Operand {
    /// The tile at `first` and the one `apart` bytes on, with rows `stride` bytes apart; those of the
    /// next step lie `step` bytes on.
    pub(crate) fn pair(first: *const u8, stride: usize, apart: usize, step: usize) -> Self {
        Self { tiles: [first, first.wrapping_add(apart)], stride, step }
    }
}

/// Two by two tiles of a result, how far apart their rows are, and whether to add to what is there.
#[derive(Clone, Copy)]
pub(crate) struct Result {
    pub tiles: [[*mut u8; 2]; 2],
    pub stride: usize,
    pub accumulate: bool,
}
