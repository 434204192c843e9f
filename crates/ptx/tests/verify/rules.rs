//! One table of mistakes, each with its rule and its cure.

use crate::{kernel, ptxas_accepts, rejected_by_ptxas, rules_broken, violations};

/// How `ptxas` takes the mistake.
#[derive(Clone, Copy, PartialEq)]
enum Ptxas {
    Rejects,
    /// It rejects the whole module, without naming a line.
    RejectsAll,
    /// It assembles; the fault comes when it runs, or the text is merely misleading.
    Accepts,
}
use Ptxas::*;

/// Rule, verdict of `ptxas`, mistake, cure.
const HOPPER: &[(u8, Ptxas, &str, &str)] = &[
    (4, Rejects, ".reg .bf16 x;", ".reg .b16 x;"),
    (4, Rejects, ".reg .f32x2 x;", ".reg .b64 x;"),
    (4, Rejects, ".reg .v4 .b64 x;", ".reg .v2 .b64 x;"),
    (5, Rejects, ".shared .align 3 .b32 x;", ".shared .align 8 .b32 x;"),
    (5, Rejects, ".shared .pred x;", ".shared .b8 x;"),
    (5, Rejects, ".shared .bf16 x;", ".shared .b16 x;"),
    (5, Rejects, ".shared .align 0 .b32 x;", ".shared .align 1 .b32 x;"),
    (5, Rejects, ".shared .v4 .b64 x;", ".shared .v2 .b64 x;"),
    (5, Rejects, ".shared .b8 x[0];", ".shared .b8 x[1];"),
    (5, Rejects, ".shared .b8 x[];", ".shared .b8 x[2][2];"),
    (5, Rejects, ".local .b32 x = 1;", ".global .b32 x = 1;"),
    (5, Rejects, ".shared .b32 x = 1;", ".const .b32 x = 1;"),
    (8, Rejects, "mov.b32 nowhere, 0;", "mov.b32 %r1, 0;"),
    (8, Rejects, ".reg .b32 x; .reg .b32 x;", ".reg .b32 x; { .reg .b32 x; }"),
    (8, Rejects, ".reg .b32 x<3>; .reg .b64 x<2>;", ".reg .b32 x<3>; { .reg .b64 x<2>; }"),
    (8, Rejects, ".reg .b32 x<3>; .reg .b64 x2;", ".reg .b32 x<3>; .reg .b64 x3;"),
    (8, Rejects, ".reg .b64 x2; .reg .b32 x<3>;", ".reg .b64 x3; .reg .b32 x<3>;"),
    (8, Rejects, "bra nowhere;", "L: bra L;"),
    (9, Rejects, "mvo.b32 %r1, 0;", "mov.b32 %r1, 0;"),
    (10, Rejects, "tcgen05.wait::ld.sync.aligned;", "wgmma.fence.sync.aligned;"),
    (10, Rejects, "add.f32x2 %rd1, %rd2, %rd3;", "add.f32 %f1, %f2, %f3;"),
    // Counts and kinds.
    (11, Rejects, "add.s32 %r1, %r2;", "add.s32 %r1, %r2, 1;"),
    (11, Rejects, "add.s32 %r1, %r2, %r3, %r4;", "mad.lo.s32 %r1, %r2, %r3, %r4;"),
    (11, Rejects, "min.s32 %r1, %r2, %r3, %r4;", "min.s32 %r1, %r2, %r3;"),
    (11, Rejects, "add.s32 5, %r1, %r2;", "add.s32 %r5, %r1, %r2;"),
    (11, Rejects, "add.s32 _, %r1, %r2;", "atom.global.add.u32 _, [%rd1], %r2;"),
    (11, Rejects, "add.s32 %r1, %r2, %tid.x;", "mov.u32 %r1, %tid.x;"),
    (11, Rejects, "add.u32 %r1, %r2, smem;", "mov.u32 %r1, smem;"),
    (11, Rejects, "bra %r1;", "L: bra.uni L;"),
    (11, Rejects, "ld.shared.b32 %r1, %r2;", "ld.shared.b32 %r1, [%r2];"),
    (11, Rejects, "bar.arrive 1;", "bar.arrive 1, 64;"),
    (11, Rejects, "elect.sync %p1, -1;", "elect.sync _|%p1, -1;"),
    (11, Rejects, "setp.lt.and.s32 %p1, %r1, %r2;", "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;"),
    (11, Rejects, "ld.global.v2.b32 {%r1}, [%rd1];", "ld.global.v2.b32 {%r1, _}, [%rd1];"),
    (11, Rejects, "ld.global.v2.b32 %rd1, [%rd1];", "ld.global.b64 %rd1, [%rd1];"),
    (11, Rejects, "mov.b64 %rd1, {%r1, %r2, %r3};", "mov.b64 %rd1, {%r1, %r2};"),
    (11, Rejects, "mov.u32 %r1, {%h1, %h2};", "mov.b32 %r1, {%h1, %h2};"),
    (11, Rejects, "wgmma.wait_group.sync.aligned %r1;", "wgmma.wait_group.sync.aligned 1;"),
    (11, Rejects, "setmaxnreg.inc.sync.aligned.u32 %r1;", "setmaxnreg.inc.sync.aligned.u32 240;"),
    (
        11,
        Rejects,
        "mbarrier.arrive.expect_tx.shared::cta.b64 [%r1], 16;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;",
    ),
    (
        11,
        Rejects,
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2}, %rd1, %rd2, %p1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %p1, 1, 1, 0, 0;",
    ),
    (
        11,
        Rejects,
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %p1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %p1, 1, 1;",
    ),
    (
        11,
        Rejects,
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0,%r1}, {%r1,%r2,%r3,%r4}, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0,%r1}, {%r1,%r2,%r3,%r4}, %rd2, 1, 1, 1, 0;",
    ),
    (
        11,
        Rejects,
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2}, {%r1,%r2}, {%f0,%f1,%f2,%f3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%f0,%f1,%f2,%f3};",
    ),
    (
        11,
        Rejects,
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r3];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];",
    ),
    (
        11,
        Rejects,
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r2};",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};",
    ),
    (
        11,
        Rejects,
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r4];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, 0}], [%r4];",
    ),
    (
        11,
        Rejects,
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4], %rd2;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1, {%r2, %r3}], [%r4], %rd2;",
    ),
    (
        11,
        Rejects,
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r2, %r3}], [%r4], {%h1};",
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r2, %r3}], [%r4], {%h1, %h2};",
    ),
    (
        11,
        Rejects,
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r2, %r3}], [%r4];",
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r2, %r3}], [%r4], {0, 1};",
    ),
    (
        11,
        Rejects,
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];",
    ),
    // Types and widths.
    (12, Rejects, "add.f32 %u1, %f2, %f3;", "add.f32 %r1, %f2, %f3;"),
    (12, Rejects, "add.s32 %f1, %r2, %r3;", "add.s32 %u1, %r2, %r3;"),
    (12, Rejects, "add.s64 %rd1, %r2, %rd3;", "add.s64 %rd1, %rd2, %rd3;"),
    (12, Rejects, "add.f16 %us1, %h1, %h2;", "add.f16 %hf1, %h1, %h2;"),
    (12, Rejects, "add.bf16 %hf1, %h1, %h2;", "add.bf16 %h3, %h1, %h2;"),
    (12, Rejects, "mov.u32 %f1, %r1;", "mov.b32 %f1, %r1;"),
    (12, Rejects, "mov.b32 %rd1, 0;", "mov.b64 %rd1, 0;"),
    (12, Rejects, "mov.u32 %r1, %clock64;", "mov.u64 %rd1, %clock64;"),
    (12, Rejects, "mov.b64 %rd1, %tid.x;", "mov.b32 %r1, %tid.x;"),
    (12, RejectsAll, "mov.u32 %r1, global_bytes;", "mov.u64 %rd1, global_bytes;"),
    (12, Rejects, "mov.b64 {%r1, %rd2}, %rd1;", "mov.b64 {%r1, %r2}, %rd1;"),
    (12, Rejects, "mul.wide.u16 %rd1, %h1, %h2;", "mul.wide.u16 %r1, %h1, %h2;"),
    (12, Rejects, "mad.wide.s32 %rd1, %r1, %r2, %r3;", "mad.wide.s32 %rd1, %r1, %r2, %rd3;"),
    (12, Rejects, "shl.b64 %rd1, %rd2, %rd3;", "shl.b64 %rd1, %rd2, %r3;"),
    (12, Rejects, "selp.b32 %r1, %r2, %r3, %r4;", "selp.b32 %r1, %r2, %r3, !%p4;"),
    (12, Rejects, "setp.lt.s32 %r1, %r2, %r3;", "setp.lt.s32 %p1, %r2, %r3;"),
    (12, Rejects, "ld.global.b64 %r1, [%rd1];", "ld.global.b32 %rd2, [%rd1];"),
    (12, Rejects, "st.shared.b32 [%r1], %h1;", "st.shared.b16 [%r1], %r2;"),
    (12, Rejects, "ld.global.u32 %f1, [%rd1];", "ld.global.b32 %f1, [%rd1];"),
    (12, RejectsAll, "ld.global.b32 %r1, [%r2];", "ld.shared.b32 %r1, [%r2];"),
    (12, Rejects, "ld.shared.b32 %r1, [%f2];", "ld.shared.b32 %r1, [%rd2];"),
    (12, Rejects, "cvt.u32.u64 %r1, %r2;", "cvt.u32.u64 %r1, %rd2;"),
    (12, Rejects, "cvt.rn.bf16x2.f32 %u1, %f1, %f2;", "cvt.rn.bf16x2.f32 %r1, %f1, %f2;"),
    (12, Rejects, "popc.b64 %rd1, %rd2;", "popc.b64 %r1, %rd2;"),
    (
        12,
        Rejects,
        "mbarrier.init.shared::cta.b64 [%r1], %rd1;",
        "mbarrier.init.shared::cta.b64 [%r1], %r2;",
    ),
    (
        12,
        Rejects,
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %rd2;",
        "mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd2;",
    ),
    (
        12,
        Rejects,
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 16, [%r2], %r3;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 16, [%r2], %h3;",
    ),
    (
        12,
        Accepts,
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%r1, {%r2, %r3}], [%r4];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r4];",
    ),
    // Immediates.
    (13, Rejects, "add.f32 %f1, %f2, 5;", "add.f32 %f1, %f2, 5.0;"),
    (13, Rejects, "add.s32 %r1, %r2, 0f3F800000;", "and.b32 %r1, %r2, 0f3F800000;"),
    (13, Rejects, "mov.b64 %rd1, 0f3F800000;", "mov.b32 %r1, 0f3F800000;"),
    (13, Rejects, "bar.sync 16;", "bar.sync 15;"),
    (13, Rejects, "bar.sync 1, 33;", "bar.sync 1, 64;"),
    (13, Rejects, "setmaxnreg.dec.sync.aligned.u32 100;", "setmaxnreg.dec.sync.aligned.u32 104;"),
    (13, Rejects, "setmaxnreg.dec.sync.aligned.u32 16;", "setmaxnreg.dec.sync.aligned.u32 24;"),
    (
        13,
        Rejects,
        "mbarrier.init.shared::cta.b64 [%r1], 0;",
        "mbarrier.init.shared::cta.b64 [%r1], 1;",
    ),
    (
        13,
        Rejects,
        "cp.async.cg.shared.global [%r1], [%rd1], 8;",
        "cp.async.ca.shared.global [%r1], [%rd1], 8;",
    ),
    (
        13,
        Rejects,
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 8;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 32;",
    ),
    (13, Accepts, "lop3.b32 %r1, %r2, %r3, %r4, 256;", "lop3.b32 %r1, %r2, %r3, %r4, 0xEA;"),
    (
        13,
        Rejects,
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0,%r1}, %rd1, %rd2, 1, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0,%r1}, %rd1, %rd2, 1, -1, 1, 0, 1;",
    ),
    // State spaces and alignment.
    (14, Rejects, "ld.shared.b32 %r1, [global_bytes];", "ld.global.b32 %r1, [global_bytes];"),
    (14, Rejects, "st.param.b32 [pointer], %r1;", "{ .param .b32 x; st.param.b32 [x], %r1; }"),
    (14, Rejects, "st.const.b32 [constant_bytes], %r1;", "ld.const.b32 %r1, [constant_bytes];"),
    (15, Accepts, "ld.shared.b32 %r1, [smem+2];", "ld.shared.b32 %r1, [smem+4];"),
    (
        15,
        Accepts,
        "ld.shared.v4.b32 {%r1,%r2,%r3,%r4}, [smem+8];",
        "ld.shared.v2.b32 {%r1,%r2}, [smem+8];",
    ),
    (15, Accepts, "ld.global.b64 %rd1, [global_bytes];", "ld.global.b32 %r1, [global_bytes];"),
    (
        15,
        Accepts,
        "mbarrier.init.shared::cta.b64 [smem+4], 1;",
        "mbarrier.init.shared::cta.b64 [smem+8], 1;",
    ),
    (
        15,
        Accepts,
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [smem+8], 16;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [smem+16], 16;",
    ),
    // Modifiers.
    (16, Rejects, "fma.f32 %f1, %f2, %f3, %f4;", "fma.rn.f32 %f1, %f2, %f3, %f4;"),
    (16, Rejects, "ex2.f32 %f1, %f2;", "ex2.approx.f32 %f1, %f2;"),
    (16, Rejects, "div.f32 %f1, %f2, %f3;", "div.full.f32 %f1, %f2, %f3;"),
    (16, Rejects, "mul.s32 %r1, %r2, %r3;", "mul.lo.s32 %r1, %r2, %r3;"),
    (16, Rejects, "cvt.f32.u32 %f1, %r2;", "cvt.rn.f32.u32 %f1, %r2;"),
    (16, Rejects, "cvt.u32.f32 %r1, %f2;", "cvt.rzi.u32.f32 %r1, %f2;"),
    (16, Rejects, "cvt.f16.f32 %h1, %f2;", "cvt.f32.f16 %f1, %h2;"),
    (16, Rejects, "wgmma.fence;", "wgmma.fence.sync.aligned;"),
    (16, Rejects, "shf.l.b32 %r1, %r2, %r3, %r4;", "shf.l.wrap.b32 %r1, %r2, %r3, %r4;"),
    (16, Rejects, "ld.shared.nc.b32 %r1, [%r2];", "ld.global.nc.b32 %r1, [%rd2];"),
    (16, Rejects, "ld.global.f16 %h1, [%rd1];", "ld.global.b16 %h1, [%rd1];"),
    (
        16,
        Rejects,
        "wgmma.mma_async.sync.aligned.m64n8k32.f16.f16.f16 {%r0,%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0,%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;",
    ),
    (
        16,
        Rejects,
        "wgmma.mma_async.sync.aligned.m64n12k16.f16.f16.f16 {%r0,%r1,%r2}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%r0,%r1,%r2,%r3}, %rd1, %rd2, 1, 1, 1, 0, 0;",
    ),
    (17, Rejects, "@%r1 ret;", "@!%p1 ret;"),
];

const BLACKWELL: &[(u8, Ptxas, &str, &str)] = &[
    (10, Rejects, "wgmma.fence.sync.aligned;", "tcgen05.wait::st.sync.aligned;"),
    (
        11,
        Rejects,
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%r2];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%f1, %f2}, [%r2];",
    ),
    (
        11,
        Rejects,
        "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2}, [%r2];",
        "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2, %r3, %r4}, [%r2];",
    ),
    (
        11,
        Rejects,
        "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r1, %r3}, [%r2];",
        "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r1, %r3}, [%r2], 2;",
    ),
    (
        11,
        Rejects,
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, [%r3], %r2, %p1;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r3], %rd1, %r2, %p1;",
    ),
    (
        11,
        Rejects,
        "tcgen05.mma.cta_group::2.kind::f16 [%r1], %rd1, %rd2, %r2, {%r1, %r2, %r3, %r4}, %p1;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r1, %r2, %r3, %r4}, %p1;",
    ),
    (
        12,
        Rejects,
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %rd3, %p1;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %p1;",
    ),
    (
        12,
        Rejects,
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%rd2];",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};",
    ),
    (12, Rejects, "add.f32x2 %fd1, %rd2, %rd3;", "add.f32x2 %rd1, %rd2, %rd3;"),
    (
        13,
        Rejects,
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;",
    ),
    (
        13,
        Rejects,
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 1024;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 512;",
    ),
    (
        14,
        Rejects,
        "tcgen05.cp.cta_group::1.128x256b [smem], %rd1;",
        "tcgen05.cp.cta_group::1.128x256b [%r1], %rd1;",
    ),
];

fn check(arch: &str, rows: &'static [(u8, Ptxas, &str, &str)]) {
    let mistakes: Vec<&str> = rows.iter().map(|row| row.2).collect();
    let cures: Vec<&str> = rows.iter().map(|row| row.3).collect();
    let alone = |row: &(_, Ptxas, &'static str, _)| if row.1 == RejectsAll { "" } else { row.2 };
    let rejected = rejected_by_ptxas(arch, "8.8", &rows.iter().map(alone).collect::<Vec<_>>());
    for (i, rules) in rules_broken(arch, "8.8", &mistakes).iter().enumerate() {
        let (rule, verdict, mistake, _) = rows[i];
        assert!(rules.contains(&rule), "{mistake}: rule {rule} expected, found {rules:?}");
        let accepted = match verdict {
            RejectsAll => ptxas_accepts(&kernel(arch, "8.8", mistake), arch),
            _ => !rejected.contains(&i),
        };
        assert_eq!(accepted, verdict == Accepts, "ptxas on {mistake}");
    }
    for (i, rules) in rules_broken(arch, "8.8", &cures).iter().enumerate() {
        assert!(rules.is_empty(), "{}: {rules:?}", cures[i]);
    }
    let rejected = rejected_by_ptxas(arch, "8.8", &cures);
    assert!(rejected.is_empty(), "ptxas rejects {:?}", rejected.iter().map(|i| cures[*i]).next());
}

#[test]
fn hopper_mistakes_and_their_cures() {
    check("sm_90a", HOPPER);
}

#[test]
fn blackwell_mistakes_and_their_cures() {
    check("sm_100a", BLACKWELL);
}

/// Mistakes outside of bodies.
#[test]
fn modules_and_launches() {
    let header = ".version 8.7\n.target sm_90a\n.address_size 64\n";
    let entry = |directives: &str| format!("{header}.entry k() {directives} {{ ret; }}");
    let parameters = |n: u32| format!("{header}.entry k(.param .b8 p[{n}]) {{ ret; }}");
    let shared = |n: u32| {
        format!("{header}.entry k() {{ .shared .b8 x[{n}]; .reg .b32 r; mov.u32 r, x; ret; }}")
    };
    let module = |item: &str| format!("{header}{item}\n.entry k() {{ ret; }}");
    let with = |params: &str| format!("{header}.entry k({params}) {{ ret; }}");
    let global = |rest: &str| module(&format!(".global .u32 t;\n.global {rest};"));
    let cluster = ".reqntid 32 .reqnctapercluster 2";
    for (rule, verdict, wrong, right) in [
        (1, Rejects, entry("").replace("8.7", "8.9"), entry("").replace("8.7", "8.8")),
        (1, Rejects, entry("").replace("8.7", "99.9"), entry("").replace("8.7", "9.0")),
        (1, Rejects, entry("").replace("90a", "99999999999999999999"), entry("")),
        (1, Accepts, entry("").replace("90a", "90aa"), entry("").replace("90a", "090a")),
        (1, Rejects, entry("").replace("90a", "90a, foo"), entry("").replace("90a", "90a, sm_80")),
        (
            1,
            Rejects,
            entry("").replace("90a", "90a, sm_91"),
            entry("").replace("90a", "90a, texmode_unified"),
        ),
        (
            2,
            Rejects,
            entry("").replace("size 64", "size 0"),
            entry("").replace(".address_size 64", ""),
        ),
        (
            3,
            Rejects,
            module(".file 1 \"x\"\n.file 1 \"y\""),
            module(".file 1 \"x\"\n.file 2 \"x\""),
        ),
        (
            3,
            Rejects,
            module(".func a(); .alias a, b;"),
            module(".func b() { ret; } .func a(); .alias a, b;"),
        ),
        (5, Rejects, with(".param .align 3 .b8 s[4]"), with(".param .align 4 .b8 s[4]")),
        (5, Rejects, with(".param .u64 .ptr .align 3 s"), with(".param .u64 .ptr .align 4 s")),
        (5, Rejects, with(".param .b8 s[]"), with(".param .b8 s[1]")),
        (5, Rejects, with(".param .b8 s[2][2]"), with(".param .b8 s[4]")),
        (5, Rejects, with(".param .v4 .b32 s"), with(".param .b32 s")),
        (5, Rejects, with(".reg .b32 s"), with(".param .b32 s")),
        (5, Rejects, module(".local .b32 s;"), module(".shared .b32 s;")),
        (5, Rejects, module(".global .align 3 .b8 s[4];"), module(".global .align 4 .b8 s[4];")),
        (5, Rejects, module(".global .b8 s[];"), module(".global .b8 s[] = {1};")),
        (5, Rejects, module(".common .shared .b32 s;"), module(".common .global .b32 s;")),
        (5, Rejects, module(".extern .global .b32 s = 1;"), module(".weak .global .b32 s = 1;")),
        (5, Rejects, global(".b32 s[2] = {1, 2, 3}"), global(".b32 s[2] = {1}")),
        (5, Rejects, global(".b32 s[2] = 1"), global(".b32 s = 1")),
        (5, Rejects, global(".b32 s = {1}"), global(".b32 s[1] = {1}")),
        (5, Rejects, global(".b32 s[2][2] = {1, 2}"), global(".b32 s[2][2] = {{1}, {2}}")),
        (5, Rejects, global(".v4 .b32 s = {1, 2}"), global(".v2 .b32 s = {1, 2}")),
        (5, Rejects, global(".f32 s = 1"), global(".f32 s = 1.0")),
        (5, Rejects, global(".u32 s = 1.5"), global(".b32 s = 1.5")),
        (5, Rejects, global(".f16 s = 1.0"), global(".b16 s = 0x3C00")),
        (5, Rejects, global(".b64 s = t"), global(".u64 s = t+4")),
        (5, Rejects, global(".s64 s = generic(t)"), global(".u64 s = generic(t)")),
        (5, Rejects, global(".u8 s[1] = {0xFF0(t)}"), global(".u8 s[1] = {0xFF00(t)}")),
        (6, Rejects, entry(".foo 3"), entry(".maxnreg 3")),
        (6, Rejects, entry(".maxnreg 0"), entry(".maxnreg 300")),
        (6, Rejects, entry(".maxnreg 4294967296"), entry(".maxnreg 64")),
        (
            6,
            Rejects,
            entry(".maxntid 128 .minnctapersm 0"),
            entry(".maxntid 128 .minnctapersm 100"),
        ),
        (6, Rejects, entry(".maxclusterrank 2, 2"), entry(".maxclusterrank 2")),
        (6, Rejects, entry(".explicitcluster 1"), entry(".explicitcluster")),
        (
            6,
            Rejects,
            entry(".maxclusterrank 4 .reqnctapercluster 2"),
            entry(".reqnctapercluster 2"),
        ),
        (
            6,
            Rejects,
            entry(".blocksareclusters").replace("8.7", "9.0"),
            entry(&format!(".blocksareclusters {cluster}")).replace("8.7", "9.0"),
        ),
        (
            6,
            Rejects,
            module(".func f() .maxntid 32 { ret; }"),
            module(".func f() .noreturn { ret; }"),
        ),
        (
            7,
            Rejects,
            module(".const .b8 a[40000]; .const .b8 b[40000];"),
            module(".const .b8 a[65536];"),
        ),
        (1, Rejects, entry("").replace("8.7", "7.8"), entry("").replace("8.7", "8.0")),
        (1, Rejects, entry("").replace("90a", "91"), entry("").replace("90a", "90")),
        (2, Rejects, entry("").replace("size 64", "size 32"), entry("")),
        (3, Rejects, entry("") + ".func k() { ret; }", entry("") + ".func l() { ret; }"),
        (6, Accepts, entry(".maxntid 1025"), entry(".maxntid 32, 32, 1")),
        (6, Rejects, entry(".reqntid 0"), entry(".reqntid 1")),
        (6, Rejects, entry(".reqntid 32 .maxntid 32"), entry(".reqntid 32")),
        (6, Accepts, entry(".reqnctapercluster 4, 5"), entry(".reqnctapercluster 4, 4")),
        (7, Rejects, parameters(32765), parameters(32764)),
        (7, Rejects, shared(232_449), shared(232_448)),
        (10, Rejects, entry(".explicitcluster").replace("90a", "80"), entry(".explicitcluster")),
    ] {
        let rules: Vec<u8> = violations(&wrong).iter().map(|v| v.rule.0).collect();
        assert_eq!(rules, [rule], "{wrong}");
        assert_eq!(violations(&right), [], "{right}");
        assert!(ptxas_accepts(&right, "sm_90a"), "ptxas on {right}");
        assert_eq!(ptxas_accepts(&wrong, "sm_90a"), verdict == Accepts, "ptxas on {wrong}");
    }
}

#[test]
fn a_violation_reads_as_a_sentence() {
    let found = violations(&kernel("sm_90a", "8.7", "\nadd.s64 %rd1, %r2, %rd3;"));
    let expected = "k: line 12: `add.s64 %rd1, %r2, %rd3`: operand 2: %r2 is of type .b32, which does not hold .s64 (rule 12)";
    assert_eq!(found[0].to_string(), expected);
}
