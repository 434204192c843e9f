//! Tensor copies and matrix descriptors whose swizzles agree or differ: every pair of modes, operand, majorness and
//! unit.

mod common;

use common::Case;
use program::{BufferId, ElementType, L2Promotion, OobFill, Swizzle, TensorMap};

/// Reads operands through descriptors.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Wgmma,
    Tcgen05,
    /// `tcgen05` on a pair of CTAs.
    Pair,
    /// `tcgen05.mma` of tf32, which M/N-major operands of 32-byte units are for.
    Tf32,
    /// `tcgen05.cp` of operand A.
    Copy,
}

/// The modes that descriptors have.
const MODES: [Swizzle; 5] =
    [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128, Swizzle::B128Atom32];

impl Unit {
    /// A mode in a descriptor's top bits, if the unit has it.
    fn bits(self, mode: Swizzle) -> Option<u64> {
        let (sm90, sm100) = match mode {
            Swizzle::None => (Some(0), 0),
            Swizzle::B32 => (Some(3 << 62), 6 << 61),
            Swizzle::B64 => (Some(2 << 62), 4 << 61),
            Swizzle::B128 => (Some(1 << 62), 2 << 61),
            Swizzle::B128Atom32 => (None, 1 << 61),
            _ => return None,
        };
        if self == Unit::Wgmma { sm90 } else { Some(sm100 | 1 << 46) }
    }

    fn multiply(self, mn_major: bool) -> String {
        let t = u32::from(mn_major);
        let tcgen05 = |kind: &str, group: u32, descriptor: u32| {
            format!(
                "@!leads bra ISSUED;
                 tcgen05.mma.cta_group::{group}.kind::{kind} [taddr], da, db, {}, p;
                 tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], {};
                 ISSUED:",
                descriptor | t << 15 | t << 16,
                if group == 2 { 3 } else { 1 }
            )
        };
        match self {
            Unit::Wgmma => format!(
                "wgmma.fence.sync.aligned;
                 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{f0, f1, f2, f3}}, da, db, p, 1, 1, {t}, {t};
                 wgmma.commit_group.sync.aligned;
                 wgmma.wait_group.sync.aligned 0;
                 @first mbarrier.arrive.shared.b64 _, [done];"
            ),
            Unit::Tcgen05 => tcgen05("f16", 1, 4 << 24 | 1 << 17 | 0x490),
            Unit::Pair => tcgen05("f16", 2, 8 << 24 | 2 << 17 | 0x490),
            Unit::Tf32 => tcgen05("tf32", 1, 4 << 24 | 1 << 17 | 2 << 10 | 2 << 7 | 1 << 4),
            Unit::Copy => "@!leads bra ISSUED;
                 tcgen05.cp.cta_group::1.128x128b [taddr], da;
                 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
                 ISSUED:"
                .into(),
        }
    }
}

/// A multiply of what two tensor maps brought.
#[derive(Clone, Copy, Debug)]
struct Multiply {
    unit: Unit,
    mn_major: bool,
    /// Swizzles of the maps of A, of B, and of B in the second CTA of a pair.
    maps: [Swizzle; 3],
    /// Swizzles of the descriptors.
    modes: [Swizzle; 2],
    base_offset: u64,
    /// Whether threads overwrite the tiles before they are read.
    rewritten: bool,
}

/// Bytes of a row of a box.
fn span(swizzle: Swizzle) -> u32 {
    swizzle.span().map_or(16, |span| span as u32)
}

impl Multiply {
    fn of(unit: Unit, mn_major: bool, map: Swizzle, mode: Swizzle) -> Multiply {
        let (maps, modes) = ([map; 3], [mode; 2]);
        Multiply { unit, mn_major, maps, modes, base_offset: 0, rewritten: false }
    }

    fn map(&self, buffer: usize, swizzle: Swizzle) -> TensorMap {
        let (columns, rows) = (span(swizzle) / 2, 8192 / span(swizzle));
        TensorMap {
            buffer: BufferId(buffer),
            offset: 0,
            element: ElementType::Bf16,
            dims: vec![columns.into(), rows.into()],
            strides: vec![span(swizzle).into()],
            box_dims: vec![columns, rows / 2],
            element_strides: vec![1; 2],
            im2col: None,
            swizzle,
            l2_promotion: L2Promotion::None,
            oob_fill: OobFill::Zero,
        }
    }

    /// Offsets and modes of the descriptor of operand `i`; the offsets keep every mode in 8 KiB.
    fn descriptor(&self, i: usize) -> Option<u64> {
        let bits = self.unit.bits(self.modes[i])?;
        let stride = if self.unit == Unit::Copy { 512 } else { 1024 };
        Some(bits | self.base_offset << 49 | (stride >> 4) << 32 | (128 >> 4) << 16)
    }

    fn allocation(&self) -> (String, String) {
        let group = if self.unit == Unit::Pair { 2 } else { 1 };
        match self.unit {
            Unit::Wgmma => (String::new(), String::new()),
            _ => (
                format!(
                    "@warp0 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 32;"
                ),
                format!("@warp0 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 taddr, 32;"),
            ),
        }
    }

    /// One instruction brings all tiles, four of 4 KiB, through both maps.
    fn body(&self) -> Option<String> {
        let [a, b] = [self.descriptor(0)? as i64, self.descriptor(1)? as i64 + (8192 >> 4)];
        let rows = self.maps.map(|swizzle| 4096 / span(swizzle));
        let (alloc, free) = self.allocation();
        let rewrite = match self.rewritten {
            false => "",
            true => {
                "mad.lo.u32 r, i, 128, base; mov.b32 n, 0;
                 STORE: st.shared.v4.b32 [r], {0, 0, 0, 0}; add.u32 r, r, 16;
                 add.u32 n, n, 1; setp.lt.u32 p, n, 8; @p bra STORE;
                 fence.proxy.async.shared::cta;"
            }
        };
        Some(format!(
            "
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 out, .param .align 64 .b8 map_a[128],
                  .param .align 64 .b8 map_b[128], .param .align 64 .b8 map_c[128]) {{
  .reg .pred p, first, warp0, leads, is_b, peer; .reg .b32 i, n, r, row, full, done, slot, base, rank, taddr;
  .reg .b64 at, ma, mb, mc, m, da, db; .reg .f32 f<4>;
  .shared .align 1024 .b8 buf[16384]; .shared .align 8 .b64 bars[2]; .shared .align 4 .b32 word;
  mov.u32 i, %tid.x; setp.eq.u32 first, i, 0; setp.lt.u32 warp0, i, 32;
  mov.u32 rank, %cluster_ctarank; setp.eq.u32 peer, rank, 1;
  or.b32 r, i, rank; setp.eq.u32 leads, r, 0;
  mov.b32 base, buf; mov.b32 full, bars; add.u32 done, full, 8; mov.b32 slot, word;
  @first mbarrier.init.shared.b64 [full], 1;
  @first mbarrier.init.shared.b64 [done], 1;
  @first fence.mbarrier_init.release.cluster;
  @first st.shared.b32 [slot], 0;
  {alloc}
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  ld.shared.b32 taddr, [slot];
  @!first bra LOADED;
  mov.b64 ma, map_a; cvta.param.u64 ma, ma; mov.b64 mb, map_b; cvta.param.u64 mb, mb;
  mov.b64 mc, map_c; cvta.param.u64 mc, mc;
  mbarrier.arrive.expect_tx.shared.b64 _, [full], 16384;
  mov.b32 n, 0;
LOAD:
  setp.ge.u32 is_b, n, 2; selp.b64 m, mc, mb, peer; selp.b64 m, m, ma, is_b;
  selp.b32 row, {row_c}, {row_b}, peer; selp.b32 row, row, {row_a}, is_b;
  and.b32 r, n, 1; mul.lo.u32 row, row, r;
  mad.lo.u32 r, n, 4096, base;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [r], [m, {{0, row}}], [full];
  add.u32 n, n, 1; setp.lt.u32 p, n, 4; @p bra LOAD;
LOADED:
  mbarrier.try_wait.parity.shared.b64 p, [full], 0; @!p bra LOADED;
  {rewrite}
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  and.b32 r, base, 0x3FFFF; shr.u32 r, r, 4; cvt.u64.u32 at, r;
  add.s64 da, at, {a}; add.s64 db, at, {b};
  mov.f32 f0, 0f00000000; mov.f32 f1, f0; mov.f32 f2, f0; mov.f32 f3, f0;
  setp.ne.u32 p, 0, 0;
  {multiply}
DONE:
  mbarrier.try_wait.parity.shared.b64 p, [done], 0; @!p bra DONE;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  {free}
  ld.param.u64 at, [out];
  @leads st.global.b32 [at], 7;
  ret;
}}",
            row_a = rows[0],
            row_b = rows[1],
            row_c = rows[2],
            multiply = self.unit.multiply(self.mn_major),
        ))
    }

    /// The rule it breaks, if any, and the report; nothing where the unit lacks a mode.
    fn objection(&self) -> Option<Result<(), (String, String)>> {
        let target = if self.unit == Unit::Wgmma { "sm_90a" } else { "sm_100a" };
        let header = format!(".version 8.7\n.target {target}\n.address_size 64\n");
        let ctas = if self.unit == Unit::Pair { 2 } else { 1 };
        let zeros = [0; 2048];
        let case = Case::with_header(&header, &self.body()?, 128)
            .input(&zeros)
            .input(&zeros)
            .output(1)
            .map(self.map(0, self.maps[0]))
            .map(self.map(1, self.maps[1]))
            .map(self.map(1, self.maps[2]))
            .geometry(ctas, ctas, 0);
        Some(case.run().map(|_| ()).map_err(|error| (error.rule().to_owned(), error.to_string())))
    }

    #[track_caller]
    fn is_right(&self) {
        if let Some(Err((_, report))) = self.objection() {
            panic!("{self:?}: {report}");
        }
    }

    /// It is reported for `operand`.
    #[track_caller]
    fn is_wrong(&self, operand: &str) {
        let Some(Err((rule, report))) = self.objection() else { panic!("{self:?} passed") };
        assert_eq!(rule, "operand-layout", "{self:?}: {report}");
        let starts = format!("hazard[operand-layout]: {operand} is read with ");
        assert!(report.starts_with(&starts), "{self:?}: {report}");
    }
}

/// Units, with the modes that M/N-major operands of theirs may have.
fn units() -> impl Iterator<Item = (Unit, bool, &'static [Swizzle])> {
    let all = &MODES[..];
    [
        (Unit::Wgmma, false, all),
        (Unit::Wgmma, true, all),
        (Unit::Tcgen05, false, all),
        (Unit::Tcgen05, true, &MODES[..4]),
        (Unit::Tf32, true, &MODES[4..]),
        (Unit::Pair, false, &MODES[3..4]),
        (Unit::Copy, false, all),
    ]
    .into_iter()
}

#[test]
fn swizzles_that_agree_pass() {
    for (unit, mn_major, modes) in units() {
        modes.iter().for_each(|mode| Multiply::of(unit, mn_major, *mode, *mode).is_right());
    }
}

#[test]
fn a_swizzle_that_differs_is_reported_for_its_operand() {
    for (unit, mn_major, modes) in units() {
        for (mode, map) in modes.iter().flat_map(|mode| MODES.map(|map| (*mode, map))) {
            let right = Multiply::of(unit, mn_major, mode, mode);
            // Copies for Hopper have no 32-byte units: such a map is refused before anything runs.
            let no_map = unit == Unit::Wgmma && map.needs_sm100();
            if map == mode || unit.bits(mode).is_none() || no_map {
                continue;
            }
            let name = if unit == Unit::Copy { "the source" } else { "operand A" };
            Multiply { maps: [map, mode, mode], ..right }.is_wrong(name);
            match unit {
                Unit::Copy => {}
                Unit::Pair => Multiply { maps: [mode, mode, map], ..right }.is_wrong("operand B"),
                _ => Multiply { maps: [mode, map, map], ..right }.is_wrong("operand B"),
            }
        }
    }
}

/// Copies swizzle by absolute addresses: a base offset is right where it moves the pattern by whole periods.
#[test]
fn base_offsets_move_the_pattern_of_the_descriptor() {
    for unit in [Unit::Wgmma, Unit::Tcgen05] {
        for (mode, period) in [(Swizzle::B32, 2), (Swizzle::B64, 4), (Swizzle::B128, 8)] {
            for base_offset in 0..8 {
                let moved = Multiply { base_offset, ..Multiply::of(unit, false, mode, mode) };
                match base_offset % period {
                    0 => moved.is_right(),
                    _ => moved.is_wrong("operand A"),
                }
            }
        }
    }
}

#[test]
fn threads_may_store_in_any_order() {
    for unit in [Unit::Wgmma, Unit::Tcgen05] {
        let differs = Multiply::of(unit, false, Swizzle::B64, Swizzle::B128);
        Multiply { rewritten: true, ..differs }.is_right();
    }
}
